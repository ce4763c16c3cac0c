#include "engine/given.h"

#include "cache/file_layout.h"
#include "engine/same_file.h"

lh_status lh_given_read(lh_keep_sets *out, lh_engine *engine, const char *path, const lh_tokens *prompt)
{
    lh_status st = LH_OK;
    const lh_engine_view *view = lh_engine_get(engine);
    const lh_config *c = view->config;
    const lh_keep_fit fit = {.layers = c->layers,
                             .kv_heads = c->kv_heads,
                             .sliding = c->sliding,
                             .window = c->window,
                             .tokens = prompt->ids,
                             .n = prompt->n};
    lh_h5 *h5 = NULL;
    st = lh_h5_open(&h5, path, &(lh_h5_header){.kind = "keep-sets", .schema = LH_KEEP_SETS_SCHEMA});
    LH_TRY_DONE(lh_comm_agree(view->comm, st));
    LH_TRY_DONE(lh_same_file(view->comm, h5));
    st = lh_keep_sets_read(out, h5);
    if (st == LH_OK) st = lh_keep_sets_check(out, path, &fit);
    LH_TRY_DONE(lh_comm_agree(view->comm, st));
done:
    lh_h5_close(h5);
    return st;
}

lh_status lh_given_policy(lh_policy *out)
{
    return lh_policy_resolve(out,
                             &(lh_policy_options){.policy = "recency", .budget = "1", .parts = {.evict = "never"}});
}
