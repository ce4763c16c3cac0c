#include "attend_case.h"

#include <math.h>
#include <string.h>

#include "cases.h"
#include "kernels/ragged.h"

int64_t kv_heads_of(lh_grouping map)
{
    return map.heads ? (map.first + map.heads - 1) / map.group + 1 : 1;
}

enum { CAP, WINDOW, GAP_Q, GAP_O, SLACK, ORDER, TYPE, SHORTEST, ENDS, GAINS, SIGHT, BATCH, STAND, BIAS };
enum { SIGHT_OWN, SIGHT_BLOCK, SIGHT_DRAWN };
static const dimension kinds[] = {
    [CAP] = {"soft cap", 4, {0, 0, 5, 30}},
    [WINDOW] = {"window", 5, {0, 0, 3, 40, 1}},
    [GAP_Q] = {"gap between queries", 3, {0, 5, 1}},
    [GAP_O] = {"gap between outputs", 3, {0, 5, 1}},
    [SLACK] = {"slack", 4, {0, 1, 2, 3}},
    [ORDER] = {"slots", 3, {CACHE_SLOTS, CACHE_GAPS, CACHE_SHUFFLED}, {"are positions", "with gaps", "shuffled"}},
    [TYPE] = {"type", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [SHORTEST] = {"shortest head", 4, {0, 1, 1, 1}, {"empty", "of the rows", "of the rows", "of the rows"}},
    [ENDS] = {"heads", 4, {1, 0, 0, 0}, {"cut anywhere", "whole", "whole", "whole"}},
    [GAINS] = {"gains", 3, {1, 0, 0}, {"drawn", "none", "none"}},
    [SIGHT] = {"sight", 4, {SIGHT_OWN, SIGHT_OWN, SIGHT_BLOCK, SIGHT_DRAWN}, {"own", "own", "all rows", "drawn"}},
    [BATCH] = {"batch", 4, {1, 2, 3, 4}},
    [STAND] = {"first row that stands in the middle", 6, {0, 1, 2, 3, 4, 5}},
    [BIAS] = {"biases", 4, {0, 0, 1, 3}, {"none", "none", "normal", "of 3"}},
};

static int64_t kind(int which, const attend_size *size)
{
    return case_value(&kinds[which], size->variant);
}

static void choose(attend_case *c, const attend_size *size)
{
    c->map = size->map;
    c->logit = (lh_logit){
        .scale = 1.0f / sqrtf((float)size->dim), .softcap = (float)kind(CAP, size), .window = kind(WINDOW, size)};
    c->q_ld = size->map.heads * size->dim + kind(GAP_Q, size);
    c->o_ld = size->map.heads * size->dim + kind(GAP_O, size);
}

/* Lengths between 0 and `most`, the last head whole. */
static int64_t *ragged(lot *m, int64_t heads, int64_t least, int64_t most, uint64_t seed)
{
    int64_t *len = lot_new(m, heads * 8);
    for (int64_t h = 0; h < heads; h++)
        len[h] = h == heads - 1 ? most : least + draw(seed, (uint64_t)h, most - least + 1);
    return len;
}

void block_make(lot *m, attend_case *c, const attend_size *size)
{
    int64_t heads = kv_heads_of(size->map), most = size->past + size->tokens;
    uint64_t seed = (uint64_t)size->variant * 1000 + (uint64_t)size->dim;
    *c = (attend_case){.batch = 1, .tokens = size->tokens};
    choose(c, size);
    cache_spec spec = {.heads = heads, .head_dim = size->dim, .slack = kind(SLACK, size), .in_order = size->tokens};
    spec.order = (cache_order)kind(ORDER, size);
    spec.type = (lh_dtype)kind(TYPE, size);
    spec.bias = (float)kind(BIAS, size);
    spec.len = ragged(m, heads, kind(SHORTEST, size) * size->tokens, most, seed);
    if (spec.order == CACHE_SLOTS) spec.len = ragged(m, heads, most, most, seed);
    spec.last = spec.order == CACHE_SLOTS ? most : most + size->past;
    spec.seed = seed;
    cache_make(m, &c->kv[0], &spec);
    c->q = lot_normals(m, size->tokens * c->q_ld, 2.0f, seed + 77);
    c->positions = lot_new(m, size->tokens * 4);
    for (int64_t t = 0; t < size->tokens; t++) c->positions[t] = (int32_t)(spec.last - size->tokens + t);
}

int64_t longest_head(const attend_case *c)
{
    int64_t most = 0;
    for (int64_t h = 0; h < c->kv[0].host.heads; h++) most = c->kv[0].host.len[h] > most ? c->kv[0].host.len[h] : most;
    return most;
}

void observed_make(lot *m, attend_case *c, const attend_size *size)
{
    uint64_t seed = (uint64_t)size->variant;
    block_make(m, c, size);
    lh_ragged *kv = &c->kv[0].host;
    for (int64_t h = 0; h < kv->heads && kind(ENDS, size); h++)
        kv->len[h] = draw(seed + 40, (uint64_t)h, kv->len[h] + 1);
    if (kind(GAINS, size)) c->gains = lot_new(m, size->tokens * 4);
    int64_t sight = kind(SIGHT, size);
    if (sight != SIGHT_OWN) c->until = lot_new(m, size->tokens * 4);
    for (int64_t t = 0; t < size->tokens; t++) {
        int64_t p = c->positions[t];
        if (c->gains) c->gains[t] = 0.25f * (float)draw(seed + 41, (uint64_t)t, 6);
        if (sight == SIGHT_BLOCK) c->until[t] = c->positions[size->tokens - 1];
        if (sight == SIGHT_DRAWN) c->until[t] = (int32_t)(p / 2 + draw(seed + 42, (uint64_t)t, p + 1));
    }
    float factor = c->logit.softcap > 0 ? c->logit.scale / c->logit.softcap : c->logit.scale;
    for (int64_t i = 0; i < size->tokens * c->q_ld && kv->type == LH_BF16; i++)
        c->q[i] = lh_bf16_to_f32(lh_f32_to_bf16(c->q[i] * factor)) / factor;
}

void decode_make(lot *m, attend_case *c, const attend_size *size)
{
    int64_t heads = kv_heads_of(size->map);
    *c = (attend_case){.batch = kind(BATCH, size)};
    choose(c, size);
    c->q = lot_normals(m, c->batch * c->q_ld, 2.0f, (uint64_t)size->variant + 78);
    c->positions = lot_new(m, c->batch * 4);
    for (int64_t b = 0; b < c->batch; b++) {
        uint64_t seed = (uint64_t)size->variant * 1000 + (uint64_t)(size->dim + 300 * b);
        int64_t most = size->past / (b + 1);
        cache_spec spec = {.heads = heads, .head_dim = size->dim, .slack = kind(SLACK, size), .in_order = b % 2};
        spec.order = (cache_order)((kind(ORDER, size) + b) % CACHE_ORDERS);
        spec.type = (lh_dtype)kind(TYPE, size);
        spec.bias = b % 2 ? 0 : (float)kind(BIAS, size);
        spec.len = ragged(m, heads, 0, most, seed);
        spec.last = most + 20 * b;
        spec.seed = seed;
        cache_make(m, &c->kv[b], &spec);
        /* The row stands at the end, or where it sees about half. */
        c->positions[b] = (int32_t)(b % 6 == kind(STAND, size) ? spec.last / 2 : spec.last > 0 ? spec.last - 1 : 0);
    }
}

static attended results(lot *m, const attend_case *c, int64_t rows)
{
    attended out = {.o_count = rows * c->o_ld, .lse_count = rows * c->map.heads};
    out.o = lot_new(m, out.o_count * 4);
    out.lse = lot_new(m, out.lse_count * 4);
    return out;
}

void check_rounded(lot *m, rig *g, const void *o_bf16, const float *o, int64_t n)
{
    uint16_t *got = lot_new(m, n * 2);
    rig_get(g, got, o_bf16, n * 2);
    for (int64_t i = 0; i < n; i++)
        if (got[i] != lh_f32_to_bf16(o[i]) && !(isnan(o[i]) && isnan(lh_bf16_to_f32(got[i]))))
            ck_abort_msg("o_bf16 of %s: element %lld is %.9g, o %.9g", g->ops->name, (long long)i,
                         (double)lh_bf16_to_f32(got[i]), (double)o[i]);
}

lh_attend_block_args block_args(rig *g, const attend_case *c, const lh_ragged *kv)
{
    return (lh_attend_block_args){.q = rig_put(g, c->q, c->tokens * c->q_ld * 4),
                                  .positions = rig_put(g, c->positions, c->tokens * 4),
                                  .kv = kv,
                                  .map = c->map,
                                  .logit = c->logit,
                                  .tokens = c->tokens,
                                  .q_ld = c->q_ld,
                                  .o_ld = c->o_ld,
                                  .most = longest_head(c),
                                  .order = c->any_order ? LH_ORDER_ANY : LH_ORDER_FIXED};
}

lh_attend_decode_args decode_args(rig *g, const attend_case *c, lh_ragged seqs[BATCH_MOST])
{
    for (int64_t b = 0; b < c->batch; b++) seqs[b] = rig_cache(g, &c->kv[b]);
    return (lh_attend_decode_args){.q = rig_put(g, c->q, c->batch * c->q_ld * 4),
                                   .positions = rig_put(g, c->positions, c->batch * 4),
                                   .seqs = seqs,
                                   .batch = c->batch,
                                   .q_ld = c->q_ld,
                                   .o_ld = c->o_ld,
                                   .map = c->map,
                                   .logit = c->logit,
                                   .order = c->any_order ? LH_ORDER_ANY : LH_ORDER_FIXED};
}

attended block_run(lot *m, rig *g, const attend_case *c)
{
    attended out = results(m, c, c->tokens);
    lh_ragged kv = rig_cache(g, &c->kv[0]);
    lh_attend_block_args args = block_args(g, c, &kv);
    args.o = rig_new(g, out.o_count * 4);
    args.o_bf16 = rig_new(g, out.o_count * 2);
    args.keeps_o = 1;
    args.lse = rig_new(g, out.lse_count * 4);
    RUN_ARGS(g, attend_block, &args);
    rig_get(g, out.o, args.o, out.o_count * 4);
    rig_get(g, out.lse, args.lse, out.lse_count * 4);
    check_rounded(m, g, args.o_bf16, out.o, out.o_count);
    rig_reset(g);
    return out;
}

attended decode_run(lot *m, rig *g, const attend_case *c)
{
    attended out = results(m, c, c->batch);
    lh_ragged seqs[BATCH_MOST];
    lh_attend_decode_args args = decode_args(g, c, seqs);
    args.o = rig_new(g, out.o_count * 4);
    args.o_bf16 = rig_new(g, out.o_count * 2);
    args.keeps_o = 1;
    args.lse = rig_new(g, out.lse_count * 4);
    RUN_ARGS(g, attend_decode, &args);
    rig_get(g, out.o, args.o, out.o_count * 4);
    rig_get(g, out.lse, args.lse, out.lse_count * 4);
    check_rounded(m, g, args.o_bf16, out.o, out.o_count);
    rig_reset(g);
    return out;
}

int64_t logits_ld(const attend_case *c)
{
    int64_t most = 0;
    for (int64_t b = 0; b < (c->batch ? c->batch : 1); b++)
        for (int64_t h = 0; h < c->kv[b].host.heads; h++)
            most = c->kv[b].host.len[h] > most ? c->kv[b].host.len[h] : most;
    return most + 2;
}

int asks_logits(const attend_case *c, int64_t b)
{
    return b == 0 || b + 1 < c->batch;
}

float *decode_logits_run(lot *m, rig *g, const attend_case *c)
{
    int64_t bytes = c->batch * c->map.heads * logits_ld(c) * 4;
    float *host = lot_new(m, bytes), *logits = rig_put(g, host, bytes);
    lh_ragged seqs[BATCH_MOST];
    lh_row_logits rows[BATCH_MOST];
    lh_attend_decode_args args = decode_args(g, c, seqs);
    for (int64_t b = 0; b < c->batch; b++)
        rows[b] = (lh_row_logits){asks_logits(c, b) ? logits + b * c->map.heads * logits_ld(c) : NULL, logits_ld(c)};
    args.o = rig_new(g, c->batch * c->o_ld * 4);
    args.logits = rows;
    RUN_ARGS(g, attend_decode, &args);
    rig_get(g, host, logits, bytes);
    rig_reset(g);
    return host;
}

/* The rows on the device. */
static lh_observed rows_put(rig *g, const attend_case *c, const lh_ragged *kv)
{
    return (lh_observed){
        .q = rig_put(g, c->q, c->tokens * c->q_ld * 4),
        .logits = {c->logits ? rig_put(g, c->logits, c->map.heads * logits_ld(c) * 4) : NULL, logits_ld(c)},
        .positions = rig_put(g, c->positions, c->tokens * 4),
        .until = c->until ? rig_put(g, c->until, c->tokens * 4) : NULL,
        .gains = c->gains ? rig_put(g, c->gains, c->tokens * 4) : NULL,
        .kv = kv,
        .map = c->map,
        .logit = c->logit,
        .rows = c->tokens,
        .q_ld = c->q_ld};
}

float *row_lse_run(lot *m, rig *g, const attend_case *c)
{
    int64_t bytes = c->tokens * c->map.heads * 4;
    float *host = lot_new(m, bytes), *lse = rig_new(g, bytes);
    lh_ragged kv = rig_cache(g, &c->kv[0]);
    RUN(g, row_lse, .lse = lse, .rows = rows_put(g, c, &kv));
    rig_get(g, host, lse, bytes);
    rig_reset(g);
    return host;
}

/* The places of what is wanted in an array that begins at `at`. */
static columns columns_at(float *at, const int64_t *offset, const attend_case *c, const columns_spec *spec)
{
    int64_t n = longest_head(c) + 3, parts = spec->parts;
    lh_slot_floats place = {.at = at, .ld = (parts + 3) * n, .step = 1, .next = n};
    if (spec->place == COLUMNS_STATS)
        place = (lh_slot_floats){.at = at, .starts = offset, .step = parts + 4, .next = 1};
    columns out = {.numbers = at, .sums = place, .squares = place, .counts = place, .largest = place};
    out.count = spec->place == COLUMNS_STATS ? c->kv[0].slots * place.step : c->kv[0].host.heads * place.ld;
    out.squares.at += parts * place.next;
    out.counts.at += (parts + 1) * place.next;
    out.largest.at += (parts + 2) * place.next;
    if (!(spec->wanted & WANT_SUMS)) out.sums.at = NULL;
    if (!(spec->wanted & WANT_SQUARES)) out.squares.at = NULL;
    if (!(spec->wanted & WANT_COUNTS)) out.counts.at = NULL;
    if (!(spec->wanted & WANT_LARGEST)) out.largest.at = NULL;
    return out;
}

columns columns_run(lot *m, rig *g, const attend_case *c, const columns_spec *spec, const columns *before)
{
    int64_t bytes = columns_at(NULL, NULL, c, spec).count * 4, lse_ld = c->map.heads + 2;
    columns host = columns_at(lot_new(m, bytes), c->kv[0].host.offset, c, spec);
    float *lse = lot_new(m, c->tokens * lse_ld * 4), *given = NULL;
    lh_ragged kv = rig_cache(g, &c->kv[0]);
    columns out = columns_at(rig_put(g, before ? before->numbers : host.numbers, bytes), kv.offset, c, spec);
    for (int64_t r = 0; r < c->tokens && spec->lse; r++)
        memcpy(lse + r * lse_ld, spec->lse + r * c->map.heads, (size_t)c->map.heads * 4);
    if (spec->lse) given = rig_put(g, lse, c->tokens * lse_ld * 4);
    RUN(g, column_stats, .sums = out.sums, .squares = out.squares, .largest = out.largest, .counts = out.counts,
        .rows = rows_put(g, c, &kv), .lse = given, .own = given ? NULL : rig_new(g, c->map.heads * 4), .lse_ld = lse_ld,
        .parts = spec->parts, .first = spec->first, .cols = spec->cols, .each_head = spec->each_head);
    rig_get(g, host.numbers, out.numbers, bytes);
    rig_reset(g);
    return host;
}

double logit_by_formula(const attend_case *c, const cache *kv, const int64_t at[3])
{
    const lh_ragged *r = &kv->host;
    const float *q = c->q + at[0] * c->q_ld + at[1] * r->head_dim;
    int64_t h = (c->map.first + at[1]) / c->map.group, key = (r->offset[h] + at[2]) * r->head_dim;
    double dot = 0;
    for (int64_t x = 0; x < r->head_dim; x++) dot += q[x] * cache_number(r, r->k, key + x);
    dot *= c->logit.scale;
    return c->logit.softcap > 0 ? c->logit.softcap * tanh(dot / c->logit.softcap) : dot;
}

double row_weights(const attend_case *c, const cache *kv, int64_t row, int64_t i, double *weights)
{
    const lh_ragged *r = &kv->host;
    int64_t h = (c->map.first + i) / c->map.group, p = c->positions[row], last = c->until ? c->until[row] : p;
    double top = -INFINITY, mass = 0;
    for (int64_t j = 0; j < r->len[h]; j++) {
        int64_t at = cache_position(r, h, j);
        double dot = logit_by_formula(c, kv, (const int64_t[]){row, i, j});
        if (c->gains) dot *= c->gains[row];
        if (r->bias) dot += r->bias[r->offset[h] + j];
        int visible = at <= last && (c->logit.window == 0 || at > p - c->logit.window);
        weights[j] = visible ? dot : -INFINITY;
        if (weights[j] > top) top = weights[j];
    }
    for (int64_t j = 0; j < r->len[h]; j++) {
        weights[j] = weights[j] == -INFINITY ? 0 : exp(weights[j] - top);
        mass += weights[j];
    }
    for (int64_t j = 0; j < r->len[h]; j++) weights[j] = mass > 0 ? weights[j] / mass : 0;
    return mass > 0 ? top + log(mass) : -INFINITY;
}

void check_attended(const attended *got, const attended *want, tolerance tol, const char *what, int case_number)
{
    check_near(got->o, want->o, want->o_count, tol, "o of %s, case %d", what, case_number);
    check_near(got->lse, want->lse, want->lse_count, tol, "lse of %s, case %d", what, case_number);
}
