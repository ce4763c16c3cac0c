/* tokens.c - a list of token ids that doubles its memory as it grows. */
#include <longhaul/longhaul.h>

#include "base/mem.h"

lh_status lh_tokens_push(lh_tokens *tokens, int32_t id)
{
    LH_TRY(lh_check_given(tokens, "tokens"));
    if (tokens->n == tokens->cap) {
        int64_t cap = tokens->cap ? 2 * tokens->cap : 64;
        LH_TRY(lh_realloc(&tokens->ids, cap, sizeof *tokens->ids));
        tokens->cap = cap;
    }
    tokens->ids[tokens->n++] = id;
    return LH_OK;
}

void lh_tokens_clear(lh_tokens *tokens)
{
    if (!tokens) return;
    lh_free(tokens->ids);
    *tokens = (lh_tokens){0};
}
