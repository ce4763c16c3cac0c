#include <stdlib.h>

#include "base/mem.h"
#include "cache/file_layout.h"
#include "cache/keep_sets.h"
#include "exec/heads.h"

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
    lh_free(sets->ids);
    sets->ids = NULL;
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

/* The positions of head g of a layer: offsets in order, ascending positions of the text. */
static lh_status check_head(const lh_keep_sets *sets, const char *where, const lh_positions *p, int64_t g,
                            int64_t count)
{
    const int64_t from = p->offsets[g], until = p->offsets[g + 1];
    if (p->offsets[0] != 0 || from < 0 || until < from || until > count || (g == p->heads - 1 && until != count))
        LH_FAIL(LH_EFILE, "%s has offsets %lld to %lld of %lld positions: offsets must ascend from 0 to their number",
                where, (long long)from, (long long)until, (long long)count);
    for (int64_t i = from; i < until; i++) {
        const int32_t at = p->positions[i];
        if (i > from && at <= p->positions[i - 1])
            LH_FAIL(LH_EFILE, "%s keeps %d after %d: positions must ascend", where, at, p->positions[i - 1]);
        if (at < 0 || at >= sets->tokens)
            LH_FAIL(LH_EFILE, "%s keeps position %d, the text has positions 0 to %lld", where, at,
                    (long long)sets->tokens - 1);
    }
    return LH_OK;
}

static lh_status head_label(char **out, const char *path, int64_t layer, int64_t head)
{
    return lh_asprintf(out, "'%s': head %lld of layer %lld", path, (long long)head, (long long)layer);
}

static lh_status read_layer(const lh_keep_sets *sets, lh_h5 *h5, int64_t layer)
{
    lh_status st = LH_OK;
    lh_layer_name name;
    lh_h5_shape shape;
    char *where = NULL;
    lh_positions *out = &sets->parts[LH_KEEP_KEPT][layer];
    LH_TRY_DONE(lh_h5_get(h5, lh_layer_array(&name, layer, "kept/offsets"),
                          &(lh_h5_shape){.type = LH_I64, .rank = 1, .dims = {-1}}, &shape, &out->offsets));
    out->heads = shape.dims[0] - 1;
    LH_TRY_DONE(lh_h5_get(h5, lh_layer_array(&name, layer, "kept/positions"),
                          &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {-1}}, &shape, &out->positions));
    for (int64_t g = 0; g < out->heads; g++) {
        lh_free(where);
        where = NULL;
        LH_TRY_DONE(head_label(&where, lh_h5_path(h5), layer, g));
        LH_TRY_DONE(check_head(sets, where, out, g, shape.dims[0]));
    }
done:
    lh_free(where);
    return st;
}

lh_status lh_keep_sets_read(lh_keep_sets *out, lh_h5 *h5)
{
    lh_layer_name name;
    lh_h5_shape shape;
    int64_t layers = 0;
    LH_TRY(lh_h5_compare(h5));
    while (lh_h5_has(h5, lh_layer_array(&name, layers, NULL))) layers++;
    LH_TRY(lh_keep_sets_reserve(out, LH_KEEP_KEPT, layers));
    lh_free(out->ids);
    out->ids = NULL;
    LH_TRY(lh_h5_get(h5, "/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {-1}}, &shape, &out->ids));
    out->tokens = shape.dims[0];
    for (int64_t l = 0; l < layers; l++) LH_TRY(read_layer(out, h5, l));
    return LH_OK;
}

/* ---- checked against a model and a prompt ---- */

static lh_status check_tokens(const lh_keep_sets *sets, const char *path, const lh_keep_fit *fit)
{
    if (sets->tokens < fit->n)
        LH_FAIL(LH_EFILE, "'%s' holds keep sets of %lld tokens, the prompt has %lld", path, (long long)sets->tokens,
                (long long)fit->n);
    for (int64_t i = 0; i < fit->n; i++)
        if (sets->ids[i] != fit->tokens[i])
            LH_FAIL(LH_EFILE, "'%s' holds keep sets of another text: its token %lld is %d, that of the prompt is %d",
                    path, (long long)i, sets->ids[i], fit->tokens[i]);
    return LH_OK;
}

static lh_status check_position(const lh_keep_fit *fit, const char *path, int64_t layer, int64_t head, int32_t position)
{
    lh_status st = LH_OK;
    char *where = NULL;
    const int64_t first = fit->sliding && fit->sliding[layer] && fit->window < fit->n ? fit->n - fit->window + 1 : 0;
    if (position >= first && position < fit->n) return LH_OK;
    LH_TRY_DONE(head_label(&where, path, layer, head));
    if (position >= fit->n)
        LH_FAIL_DONE(LH_EFILE, "%s keeps position %d, the prompt has positions 0 to %lld", where, position,
                     (long long)fit->n - 1);
    LH_FAIL_DONE(LH_EFILE, "%s keeps position %d, but its layer slides and sees positions from %lld on", where,
                 position, (long long)first);
done:
    lh_free(where);
    return st;
}

lh_status lh_keep_sets_check(const lh_keep_sets *sets, const char *path, const lh_keep_fit *fit)
{
    if (sets->layers != fit->layers)
        LH_FAIL(LH_EFILE, "'%s' holds keep sets of %lld layers, the model has %lld", path, (long long)sets->layers,
                (long long)fit->layers);
    LH_TRY(check_tokens(sets, path, fit));
    for (int64_t l = 0; l < fit->layers; l++) {
        const lh_positions *p = &sets->parts[LH_KEEP_KEPT][l];
        if (p->heads != fit->kv_heads)
            LH_FAIL(LH_EFILE, "'%s' holds keep sets of %lld heads in layer %lld, the model has %lld KV heads", path,
                    (long long)p->heads, (long long)l, (long long)fit->kv_heads);
        for (int64_t g = 0; g < p->heads; g++)
            for (int64_t i = p->offsets[g]; i < p->offsets[g + 1]; i++)
                LH_TRY(check_position(fit, path, l, g, p->positions[i]));
    }
    return LH_OK;
}

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

void lh_positions_sort(int32_t *positions, int64_t n)
{
    qsort(positions, (size_t)n, sizeof *positions, ascending);
}

static lh_status copy_positions(int32_t *to, const lh_exec *x, const lh_arena *arena, int64_t h)
{
    const int64_t n = arena->len[h], shared = arena->shared[h];
    const lh_ragged *own = &arena->view;
    for (int64_t s = 0; !own->positions && s < n; s++) to[s] = (int32_t)s;
    if (own->positions && shared)
        LH_TRY(lh_stream_copy(x->stream, to, arena->parent->view.positions + arena->parent->offset[h],
                              shared * (int64_t)sizeof *to, LH_COPY_TO_HOST));
    if (own->positions)
        LH_TRY(lh_stream_copy(x->stream, to + shared, own->positions + arena->offset[h] + shared,
                              (n - shared) * (int64_t)sizeof *to, LH_COPY_TO_HOST));
    return LH_OK;
}

/* Positions of this rank's counted heads, one head after the other, each ascending. */
static lh_status own_positions(int32_t **out, const lh_exec *x, const lh_heads *heads, const lh_arena *arena)
{
    int64_t first = heads->counted_first - heads->kv_first, end = first + heads->counted_count, all = 0, at = 0;
    for (int64_t h = first; h < end; h++) all += arena->len[h];
    LH_TRY(lh_calloc(out, all, sizeof **out));
    for (int64_t h = first; h < end; at += arena->len[h], h++) LH_TRY(copy_positions(*out + at, x, arena, h));
    LH_TRY(lh_stream_sync(x->stream));
    at = 0;
    for (int64_t h = first; h < end; at += arena->len[h], h++) lh_positions_sort(*out + at, arena->len[h]);
    return LH_OK;
}

lh_status lh_positions_gather(lh_positions *out, const lh_exec *x, const lh_heads *heads, const lh_arena *arena)
{
    lh_status st = LH_OK;
    lh_gather gather = {0};
    int32_t *own = NULL;
    int64_t *lens = NULL;
    int root = heads->rank == 0;
    *out = (lh_positions){0};
    st = lh_gather_init(&gather, heads->ranks);
    if (st == LH_OK) st = lh_calloc(&lens, heads->kv_heads, sizeof *lens);
    if (st == LH_OK) st = own_positions(&own, x, heads, arena);
    LH_TRY_DONE(lh_comm_agree(x->comm, st));
    LH_TRY_DONE(lh_gather_lens(&gather, heads, x->comm, arena->len, lens));
    if (root) {
        st = lh_calloc(&out->offsets, heads->kv_heads + 1, sizeof *out->offsets);
        for (int64_t g = 0; st == LH_OK && g < heads->kv_heads; g++) out->offsets[g + 1] = out->offsets[g] + lens[g];
        if (st == LH_OK) st = lh_calloc(&out->positions, out->offsets[heads->kv_heads], sizeof *out->positions);
        out->heads = heads->kv_heads;
    }
    LH_TRY_DONE(lh_comm_agree(x->comm, st));
    lh_gather_entries(&gather, heads, lens, sizeof *own);
    LH_TRY_DONE(lh_comm_gatherv(x->comm, 0, own, out->positions, gather.bytes, gather.at));
done:
    lh_gather_clear(&gather);
    lh_free(lens);
    lh_free(own);
    if (st != LH_OK) lh_positions_clear(out);
    return st;
}

lh_status lh_positions_share(lh_positions *p, lh_comm *comm)
{
    lh_status st = LH_OK;
    const int root = lh_comm_rank(comm) == 0;
    int64_t bytes;
    LH_TRY(lh_comm_bcast(comm, 0, &p->heads, sizeof p->heads));
    bytes = (p->heads + 1) * (int64_t)sizeof *p->offsets;
    if (!root) st = lh_calloc(&p->offsets, p->heads + 1, sizeof *p->offsets);
    LH_TRY(lh_comm_agree(comm, st));
    LH_TRY(lh_comm_bcast(comm, 0, p->offsets, bytes));
    if (!root) st = lh_calloc(&p->positions, p->offsets[p->heads], sizeof *p->positions);
    LH_TRY(lh_comm_agree(comm, st));
    return lh_comm_bcast(comm, 0, p->positions, p->offsets[p->heads] * (int64_t)sizeof *p->positions);
}

void lh_positions_clear(lh_positions *positions)
{
    lh_free(positions->offsets);
    lh_free(positions->positions);
    *positions = (lh_positions){0};
}
