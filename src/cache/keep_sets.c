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

/* ---- reading ---- */

static lh_status check_tokens(lh_h5 *h5, const lh_keep_fit *fit)
{
    lh_status st = LH_OK;
    lh_h5_shape shape;
    int32_t *tokens = NULL;
    LH_TRY_DONE(lh_h5_get(h5, "/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {-1}}, &shape, &tokens));
    if (shape.dims[0] < fit->n)
        LH_FAIL_DONE(LH_EFILE, "'%s' holds keep sets of %lld tokens, the prompt has %lld", lh_h5_path(h5),
                     (long long)shape.dims[0], (long long)fit->n);
    for (int64_t i = 0; i < fit->n; i++)
        if (tokens[i] != fit->tokens[i])
            LH_FAIL_DONE(LH_EFILE,
                         "'%s' holds keep sets of another text: its token %lld is %d, that of the prompt is %d",
                         lh_h5_path(h5), (long long)i, tokens[i], fit->tokens[i]);
done:
    lh_free(tokens);
    return st;
}

static lh_status check_layers(lh_h5 *h5, const lh_keep_fit *fit)
{
    lh_layer_name name;
    int64_t layers = 0;
    while (lh_h5_has(h5, lh_layer_array(&name, layers, NULL))) layers++;
    if (layers != fit->layers)
        LH_FAIL(LH_EFILE, "'%s' holds keep sets of %lld layers, the model has %lld", lh_h5_path(h5), (long long)layers,
                (long long)fit->layers);
    return LH_OK;
}

/* The positions of one head: p[n]. */
static lh_status check_head(const char *where, const int32_t *p, int64_t n, const lh_keep_fit *fit, int64_t first)
{
    for (int64_t i = 0; i < n; i++) {
        if (i && p[i] <= p[i - 1])
            LH_FAIL(LH_EFILE, "%s keeps %d after %d: positions must ascend", where, p[i], p[i - 1]);
        if (p[i] < 0 || p[i] >= fit->n)
            LH_FAIL(LH_EFILE, "%s keeps position %d, the prompt has positions 0 to %lld", where, p[i],
                    (long long)fit->n - 1);
        if (p[i] < first)
            LH_FAIL(LH_EFILE, "%s keeps position %d, but its layer slides and sees positions from %lld on", where, p[i],
                    (long long)first);
    }
    return LH_OK;
}

static lh_status check_positions(lh_h5 *h5, int64_t layer, const lh_positions *p, int64_t count, const lh_keep_fit *fit)
{
    lh_status st = LH_OK;
    char *where = NULL;
    const int64_t first = fit->sliding && fit->sliding[layer] && fit->window < fit->n ? fit->n - fit->window + 1 : 0;
    for (int64_t g = 0; g < p->heads; g++) {
        const int64_t from = p->offsets[g], until = p->offsets[g + 1];
        lh_free(where);
        where = NULL;
        LH_TRY_DONE(
            lh_asprintf(&where, "'%s': head %lld of layer %lld", lh_h5_path(h5), (long long)g, (long long)layer));
        if (p->offsets[0] != 0 || from < 0 || until < from || until > count || (g == p->heads - 1 && until != count))
            LH_FAIL_DONE(LH_EFILE,
                         "%s has offsets %lld to %lld of %lld positions: offsets must ascend from 0 to their "
                         "number",
                         where, (long long)from, (long long)until, (long long)count);
        LH_TRY_DONE(check_head(where, p->positions + from, until - from, fit, first));
    }
done:
    lh_free(where);
    return st;
}

static lh_status read_layer(lh_h5 *h5, int64_t layer, lh_positions *out, const lh_keep_fit *fit)
{
    lh_layer_name name;
    lh_h5_shape shape;
    LH_TRY(lh_h5_get(h5, lh_layer_array(&name, layer, "kept/offsets"),
                     &(lh_h5_shape){.type = LH_I64, .rank = 1, .dims = {-1}}, &shape, &out->offsets));
    out->heads = shape.dims[0] - 1;
    if (out->heads != fit->kv_heads)
        LH_FAIL(LH_EFILE, "'%s' holds keep sets of %lld heads in layer %lld, the model has %lld KV heads",
                lh_h5_path(h5), (long long)out->heads, (long long)layer, (long long)fit->kv_heads);
    LH_TRY(lh_h5_get(h5, lh_layer_array(&name, layer, "kept/positions"),
                     &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {-1}}, &shape, &out->positions));
    return check_positions(h5, layer, out, shape.dims[0], fit);
}

lh_status lh_keep_sets_read(lh_keep_sets *out, lh_h5 *h5, const lh_keep_fit *fit)
{
    LH_TRY(lh_h5_compare(h5));
    LH_TRY(check_layers(h5, fit));
    LH_TRY(check_tokens(h5, fit));
    LH_TRY(lh_keep_sets_reserve(out, LH_KEEP_KEPT, fit->layers));
    for (int64_t l = 0; l < fit->layers; l++) LH_TRY(read_layer(h5, l, &out->parts[LH_KEEP_KEPT][l], fit));
    return LH_OK;
}
