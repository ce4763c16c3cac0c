/* tokens.h - a growing list of token ids. All zero is empty. */
#ifndef LH_TEXT_TOKENS_H
#define LH_TEXT_TOKENS_H

#include <stdint.h>

#include "base/status.h"

typedef struct lh_tokens {
    int32_t *ids;
    int64_t n, cap;
} lh_tokens;

lh_status lh_tokens_push(lh_tokens *tokens, int32_t id);
void lh_tokens_clear(lh_tokens *tokens); /* frees */

#endif
