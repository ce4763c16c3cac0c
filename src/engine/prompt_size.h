/* prompt_size.h - refuses a text that cannot fit before it is tokenized, which takes a minute for 200 MB. */
#ifndef LH_ENGINE_PROMPT_SIZE_H
#define LH_ENGINE_PROMPT_SIZE_H

#include "base/mem.h"
#include "text/tokenizer.h"

/* LH_EUSAGE if the text, called `name` in the message, has more tokens than the model has `positions`, however it is
 * tokenized. */
lh_status lh_prompt_check_size(const lh_tokenizer *tok, int64_t positions, const char *name, const lh_buf *text);

#endif
