/* lex.h - a chat template as tokens. White space is removed as Hugging Face's environment does: trim_blocks and
 * lstrip_blocks are on, the last newline of the template goes, line ends become \n. */
#ifndef LH_TEXT_TEMPLATE_LEX_H
#define LH_TEXT_TEMPLATE_LEX_H

#include "text/template/value.h"

typedef enum lh_tpl_token_kind {
    LH_TPL_DATA,        /* text outside of tags */
    LH_TPL_BLOCK_BEGIN, /* {% */
    LH_TPL_BLOCK_END,
    LH_TPL_PRINT_BEGIN, /* {{ */
    LH_TPL_PRINT_END,
    LH_TPL_NAME,
    LH_TPL_STRING, /* its escapes replaced */
    LH_TPL_INTEGER,
    LH_TPL_OPERATOR,
    LH_TPL_END,
} lh_tpl_token_kind;

typedef struct lh_tpl_token {
    lh_tpl_token_kind kind;
    int line;
    const char *text; /* NUL-terminated, but for DATA */
    int64_t bytes;
} lh_tpl_token;

/* *out: tokens up to LH_TPL_END, in the pool; they borrow `source`, which is changed (line ends). LH_EINPUT: "line N:
 * …".
 */
lh_status lh_tpl_lex(lh_tpl_pool *pool, char *source, int64_t bytes, lh_tpl_token **out, int64_t *n);

#endif
