#include "cache/keep_sets.h"

#include "base/mem.h"
#include "cache/file_layout.h"

static const char *const part_names[LH_KEEP_PARTS] = {"kept", "final"};

static void drop(lh_keep_sets *sets, lh_keep_part part)
{
    for (int64_t l = 0; sets->parts[part] && l < sets->layers; l++) lh_positions_clear(&sets->parts[part][l]);
    lh_free(sets->parts[part]);
    sets->parts[part] = NULL;
}

void lh_keep_sets_clear(lh_keep_sets *sets)
{
    drop(sets, LH_KEEP_KEPT);
    drop(sets, LH_KEEP_FINAL);
}

lh_status lh_keep_sets_reserve(lh_keep_sets *sets, lh_keep_part part, int64_t layers)
{
    drop(sets, part);
    sets->layers = layers;
    return lh_calloc(&sets->parts[part], layers, sizeof *sets->parts[part]);
}

static lh_status write_layer(lh_h5 *h5, int64_t layer, lh_keep_part part, const lh_positions *p)
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
    for (int part = 0; part < LH_KEEP_PARTS; part++)
        for (int64_t l = 0; sets->parts[part] && l < sets->layers; l++)
            LH_TRY_DONE(write_layer(h5, l, (lh_keep_part)part, &sets->parts[part][l]));
    lh_h5 *whole = h5;
    h5 = NULL;
    LH_TRY_DONE(lh_h5_commit(whole));
done:
    lh_h5_close(h5);
    return st;
}

lh_status lh_keep_sets_write(const lh_keep_sets *sets, lh_comm *comm, const char *path, const lh_cache_extra *extra)
{
    return lh_comm_agree(comm, lh_comm_rank(comm) == 0 ? write_file(sets, path, extra) : LH_OK);
}
