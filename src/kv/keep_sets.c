#include <string.h>

#include "base/h5.h"
#include "kv/cache_impl.h"

enum { PARTS = LH_KEEP_FINAL + 1 };

static const char *const part_names[PARTS] = {"kept", "final"};

struct lh_keep_sets {
    lh_kv *kv;
    lh_kv_positions *layers[PARTS]; /* [layers], complete on rank 0; NULL: not taken */
};

lh_status lh_keep_sets_open(lh_keep_sets **out, lh_kv *kv)
{
    lh_keep_sets *sets = NULL;
    LH_TRY(lh_calloc(&sets, 1, sizeof *sets));
    sets->kv = kv;
    *out = sets;
    return LH_OK;
}

static void drop(lh_keep_sets *sets, lh_keep_part part)
{
    for (int64_t l = 0; sets->layers[part] && l < sets->kv->shape.layers; l++)
        lh_kv_positions_clear(&sets->layers[part][l]);
    lh_free(sets->layers[part]);
    sets->layers[part] = NULL;
}

void lh_keep_sets_close(lh_keep_sets *sets)
{
    if (!sets) return;
    drop(sets, LH_KEEP_KEPT);
    drop(sets, LH_KEEP_FINAL);
    lh_free(sets);
}

lh_status lh_keep_sets_take(lh_keep_sets *sets, lh_keep_part part)
{
    lh_kv *kv = sets->kv;
    drop(sets, part);
    LH_TRY(lh_comm_agree(kv->exec.comm, lh_calloc(&sets->layers[part], kv->shape.layers, sizeof *sets->layers[part])));
    for (int64_t l = 0; l < kv->shape.layers; l++) LH_TRY(lh_kv_gather_positions(kv, l, &sets->layers[part][l]));
    return LH_OK;
}

static lh_status write_layer(lh_h5 *h5, int64_t layer, lh_keep_part part, const lh_kv_positions *p)
{
    lh_status st = LH_OK;
    lh_layer_name name;
    char array[32];
    int32_t *budgets = NULL;
    LH_TRY_DONE(lh_calloc(&budgets, p->heads, sizeof *budgets));
    for (int64_t g = 0; g < p->heads; g++) budgets[g] = (int32_t)(p->offsets[g + 1] - p->offsets[g]);
    snprintf(array, sizeof array, "%s/offsets", part_names[part]);
    LH_TRY_DONE(lh_h5_put(h5, lh_layer_array(&name, layer, array),
                          &(lh_h5_shape){.type = LH_I64, .rank = 1, .dims = {p->heads + 1}}, p->offsets));
    snprintf(array, sizeof array, "%s/positions", part_names[part]);
    LH_TRY_DONE(lh_h5_put(h5, lh_layer_array(&name, layer, array),
                          &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {p->offsets[p->heads]}}, p->positions));
    snprintf(array, sizeof array, "%s/budgets", part_names[part]);
    LH_TRY_DONE(lh_h5_put(h5, lh_layer_array(&name, layer, array),
                          &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {p->heads}}, budgets));
done:
    lh_free(budgets);
    return st;
}

static lh_status write_file(const lh_keep_sets *sets, const char *path, const lh_cache_extra *extra)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    LH_TRY_DONE(lh_h5_create(&h5, path,
                             &(lh_h5_header){.kind = "keep-sets", .schema = LH_KEEP_SETS_SCHEMA, .run = extra->run}));
    LH_TRY_DONE(lh_h5_put(h5, "/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {extra->n}}, extra->tokens));
    for (int part = 0; part < PARTS; part++)
        for (int64_t l = 0; sets->layers[part] && l < sets->kv->shape.layers; l++)
            LH_TRY_DONE(write_layer(h5, l, (lh_keep_part)part, &sets->layers[part][l]));
    lh_h5 *whole = h5;
    h5 = NULL;
    LH_TRY_DONE(lh_h5_commit(whole));
done:
    lh_h5_close(h5);
    return st;
}

lh_status lh_keep_sets_write(lh_keep_sets *sets, const char *path, const lh_cache_extra *extra)
{
    lh_status st = LH_OK;
    if (sets->kv->shape.heads.rank == 0) st = write_file(sets, path, extra);
    return lh_comm_agree(sets->kv->exec.comm, st);
}
