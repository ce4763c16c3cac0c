/* A cache to a file: what ranks hold is gathered on rank 0, chunk by chunk, and written there. */
#include <string.h>

#include "cache/layer_writer.h"

lh_status lh_cache_put_state(lh_h5 *h5, const lh_cache_contents *c)
{
    const lh_cache_extra *extra = c->extra;
    char model[24];
    snprintf(model, sizeof model, "%016llx", (unsigned long long)extra->model);
    LH_TRY(lh_h5_put_text(h5, "/policy", c->policy, (int64_t)strlen(c->policy)));
    LH_TRY(lh_h5_group(h5, "/state"));
    LH_TRY(lh_h5_put_string(h5, "/state", "model", model));
    LH_TRY(lh_h5_put_string(h5, "/state", "positions", c->positions));
    for (int i = 0; i < LH_CACHE_NUMBERS; i++)
        LH_TRY(lh_h5_put_i64(h5, "/state", lh_cache_number_list[i].name,
                             *(const int64_t *)((const char *)&c->numbers + lh_cache_number_list[i].at)));
    LH_TRY(lh_h5_put_i64(h5, "/state", "seed", (int64_t)extra->seed));
    if (extra->run_tokens) LH_TRY(lh_h5_put_i64(h5, "/state", "run_tokens", extra->run_tokens));
    if (extra->chat && *extra->chat) LH_TRY(lh_h5_put_text(h5, "/chat", extra->chat, (int64_t)strlen(extra->chat)));
    if (c->numbers.question) LH_TRY(lh_h5_put_i64(h5, "/state", "question_tokens", c->numbers.question));
    return lh_h5_put(h5, "/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {extra->n}}, extra->tokens);
}

static lh_status put_logits(lh_h5 *h5, const lh_cache_extra *extra)
{
    return lh_h5_put(h5, "/logits", &(lh_h5_shape){.type = LH_F32, .rank = 1, .dims = {extra->vocab}}, extra->logits);
}

lh_status lh_cache_write(const char *path, const lh_cache_contents *c)
{
    lh_status st = LH_OK;
    lh_layer_writer w;
    st = lh_layer_writer_open(&w, c->exec, c->heads, path,
                              &(lh_h5_header){.kind = "cache", .schema = LH_CACHE_SCHEMA, .run = c->extra->run});
    if (st == LH_OK && w.h5) st = lh_cache_put_state(w.h5, c);
    if (st == LH_OK && w.h5) st = put_logits(w.h5, c->extra);
    LH_TRY_DONE(lh_comm_agree(c->exec->comm, st));
    for (int64_t l = 0; l < c->numbers.layers; l++) LH_TRY_DONE(lh_write_layer(&w, l, &c->layers[l], c->numbers.seen));
    LH_TRY_DONE(lh_layer_writer_commit(&w));
done:
    lh_layer_writer_close(&w);
    return st;
}
