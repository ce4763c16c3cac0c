/* run.h - the state of a rendering. */
#ifndef LH_TEXT_TEMPLATE_RUN_H
#define LH_TEXT_TEMPLATE_RUN_H

#include "text/template/parse.h"
#include "text/template/value.h"

/* Variables, seen from inner scopes. */
typedef struct lh_tpl_scope lh_tpl_scope;
struct lh_tpl_scope {
    lh_tpl_scope *outer;
    const char **names;
    lh_tpl_value *values;
    int64_t n, cap;
};

struct lh_tpl_macro {
    const lh_tpl_stmt *defined;
    lh_tpl_scope *scope; /* of its definition */
};

typedef enum lh_tpl_jump { LH_TPL_GO_ON, LH_TPL_NEXT_ROUND, LH_TPL_LEAVE_LOOP } lh_tpl_jump;

typedef struct lh_tpl_run {
    lh_tpl_pool *pool;
    lh_tpl_scope *scope;
    lh_tpl_builder *out;
    lh_tpl_jump jump;
    int raised; /* true: the template refused the conversation, and its message is the whole message */
} lh_tpl_run;

lh_status lh_tpl_set_name(lh_tpl_run *run, const char *name, lh_tpl_value value);

/* Executes statements and appends their output to run->out. */
lh_status lh_tpl_execute(lh_tpl_run *run, const lh_tpl_stmt *statements);

#endif
