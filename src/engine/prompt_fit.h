/* prompt_fit.h - truncates a prompt that is too long for the model: tokens of its text, or of the longest message of a
 * conversation, are left out, and the rest becomes text again, which is put into the chat format and encoded. So turns
 * and questions stay whole. */
#ifndef LH_ENGINE_PROMPT_FIT_H
#define LH_ENGINE_PROMPT_FIT_H

#include "engine/prompt.h"
#include "text/truncate.h"

typedef struct lh_prompt_limit {
    const char *part;   /* to leave out, one of lh_truncation_names; NULL: nothing is */
    int64_t max_tokens; /* of the prompt with its longest question */
} lh_prompt_limit;
lh_truncation lh_prompt_limit_part(const lh_prompt_limit *limit);

/* LH_EUSAGE: so many tokens are too many, and the limit leaves no room for any of them. */
lh_status lh_prompt_limit_check(const lh_prompt_limit *limit, int64_t tokens);

/* Tokens of the text that are left out, of so many; 0: none is. */
typedef struct lh_prompt_cut {
    int64_t left_out, of;
} lh_prompt_cut;

/* lh_prompt_encode of a prompt within the limit. prompt: not NULL, empty. LH_EUSAGE: it is too long without the text,
 * too. */
lh_status lh_prompt_encode_within(const lh_tokenizer *tok, const lh_prompt_text *in, const lh_prompt_limit *limit,
                                  lh_tokens *prompt, lh_tokens **questions, lh_prompt_cut *cut);

/* The same of a prompt that is given as ids; max_tokens: of these alone. */
void lh_prompt_truncate_ids(lh_tokens *ids, lh_truncation part, int64_t max_tokens, lh_prompt_cut *cut);

/* "the middle of the prompt is left out, 75010 of its 83202 tokens" */
lh_status lh_prompt_cut_text(lh_buf *out, const lh_prompt_limit *limit, const lh_prompt_cut *cut);

#endif
