/* tiny.h - a whole model as a Hugging Face folder, made of seeded numbers: Llama architecture, 3 layers, 4 query and 2
 * KV heads, a byte-level tokenizer of single bytes, chatml. What it says makes no sense; that it says the same twice
 * does. */
#ifndef LH_TESTS_CLI_TINY_H
#define LH_TESTS_CLI_TINY_H

#include "base/mem.h"

/* Write the folder `name` below the working folder. */
void tiny_write(const char *name);

/* Appends 150 sentences, all different. */
void tiny_sentences(lh_buf *out);

#endif
