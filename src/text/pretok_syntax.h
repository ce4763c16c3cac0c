/* pretok_syntax.h - regular expressions of a tokenizer.json in PCRE2's syntax. */
#ifndef LH_TEXT_PRETOK_SYNTAX_H
#define LH_TEXT_PRETOK_SYNTAX_H

#include "base/mem.h"
#include "base/status.h"

/* Append `regex`, written for Oniguruma with Ruby's syntax, as Hugging Face compiles it, in PCRE2's: to be compiled
 * with PCRE2_MULTILINE and a line feed as the newline. *longest: raised to the largest minimum of a repetition {n,m}.
 * LH_EINPUT names what of it is not known to mean the same; `name` is the file. */
lh_status lh_pretok_translate(const char *name, const char *regex, lh_buf *out, int64_t *longest);

#endif
