#include "attend_case.h"

#include <math.h>
#include <string.h>

int64_t kv_heads_of(lh_grouping map)
{
    return map.heads ? (map.first + map.heads - 1) / map.group + 1 : 1;
}

static void choose(attend_case *c, const attend_size *size)
{
    const int64_t windows[] = {0, 0, 3, 40, 1}, gaps[] = {0, 5, 1};
    const float caps[] = {0, 0, 5, 30};
    int n = size->variant;
    c->map = size->map;
    c->logit = (lh_logit){.scale = 1.0f / sqrtf((float)size->dim), .softcap = caps[n % 4], .window = windows[n % 5]};
    c->q_ld = size->map.heads * size->dim + gaps[n % 3];
    c->o_ld = size->map.heads * size->dim + gaps[(n + 1) % 3];
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
    cache_spec spec = {.heads = heads, .head_dim = size->dim, .slack = size->variant % 4, .in_order = size->tokens};
    spec.order = (cache_order)(size->variant % CACHE_ORDERS);
    spec.type = size->variant / 2 % 2 ? LH_BF16 : LH_F32;
    spec.len = ragged(m, heads, size->variant % 7 == 0 ? 0 : size->tokens, most, seed);
    if (spec.order == CACHE_SLOTS) spec.len = ragged(m, heads, most, most, seed);
    spec.last = spec.order == CACHE_SLOTS ? most : most + size->past;
    spec.seed = seed;
    cache_make(m, &c->kv[0], &spec);
    c->q = lot_normals(m, size->tokens * c->q_ld, 2.0f, seed + 77);
    c->positions = lot_new(m, size->tokens * 4);
    for (int64_t t = 0; t < size->tokens; t++) c->positions[t] = (int32_t)(spec.last - size->tokens + t);
}

void decode_make(lot *m, attend_case *c, const attend_size *size)
{
    int64_t heads = kv_heads_of(size->map);
    *c = (attend_case){.batch = 1 + size->variant % BATCH_MOST};
    choose(c, size);
    c->q = lot_normals(m, c->batch * c->q_ld, 2.0f, (uint64_t)size->variant + 78);
    c->positions = lot_new(m, c->batch * 4);
    for (int64_t b = 0; b < c->batch; b++) {
        uint64_t seed = (uint64_t)size->variant * 1000 + (uint64_t)(size->dim + 300 * b);
        int64_t most = size->past / (b + 1);
        cache_spec spec = {.heads = heads, .head_dim = size->dim, .slack = size->variant % 3, .in_order = b % 2};
        spec.order = (cache_order)((size->variant + b) % CACHE_ORDERS);
        spec.type = size->variant / 2 % 2 ? LH_BF16 : LH_F32;
        spec.len = ragged(m, heads, 0, most, seed);
        spec.last = most + 20 * b;
        spec.seed = seed;
        cache_make(m, &c->kv[b], &spec);
        /* The row stands at the end, or where it sees about half. */
        c->positions[b] = (int32_t)((size->variant + b) % 6 == 5 ? spec.last / 2 : spec.last > 0 ? spec.last - 1 : 0);
    }
}

static attended results(lot *m, const attend_case *c, int64_t rows)
{
    attended out = {.o_count = rows * c->o_ld, .lse_count = rows * c->map.heads};
    out.o = lot_new(m, out.o_count * 4);
    out.lse = lot_new(m, out.lse_count * 4);
    return out;
}

attended block_run(lot *m, rig *g, const attend_case *c)
{
    attended out = results(m, c, c->tokens);
    float *o = rig_new(g, out.o_count * 4), *lse = rig_new(g, out.lse_count * 4);
    lh_ragged kv = rig_cache(g, &c->kv[0]);
    RUN(g, attend_block, .o = o, .lse = lse, .q = rig_put(g, c->q, c->tokens * c->q_ld * 4),
        .positions = rig_put(g, c->positions, c->tokens * 4), .kv = &kv, .map = c->map, .logit = c->logit,
        .tokens = c->tokens, .q_ld = c->q_ld, .o_ld = c->o_ld);
    rig_get(g, out.o, o, out.o_count * 4);
    rig_get(g, out.lse, lse, out.lse_count * 4);
    rig_reset(g);
    return out;
}

attended decode_run(lot *m, rig *g, const attend_case *c)
{
    attended out = results(m, c, c->batch);
    float *o = rig_new(g, out.o_count * 4), *lse = rig_new(g, out.lse_count * 4);
    lh_ragged seqs[BATCH_MOST];
    for (int64_t b = 0; b < c->batch; b++) seqs[b] = rig_cache(g, &c->kv[b]);
    RUN(g, attend_decode, .o = o, .lse = lse, .q = rig_put(g, c->q, c->batch * c->q_ld * 4),
        .positions = rig_put(g, c->positions, c->batch * 4), .seqs = rig_put(g, seqs, c->batch * (int64_t)sizeof *seqs),
        .batch = c->batch, .q_ld = c->q_ld, .o_ld = c->o_ld, .map = c->map, .logit = c->logit);
    rig_get(g, out.o, o, out.o_count * 4);
    rig_get(g, out.lse, lse, out.lse_count * 4);
    rig_reset(g);
    return out;
}

float *columns_run(lot *m, rig *g, const attend_case *c, const float *lse, const int64_t range[2])
{
    int64_t cols = range[1] - range[0], ld = cols + 3, count = c->map.heads * ld;
    float *host = lot_new(m, count * 4), *sums = rig_new(g, count * 4);
    lh_ragged kv = rig_cache(g, &c->kv[0]);
    RUN(g, column_sums, .sums = sums, .q = rig_put(g, c->q, c->tokens * c->q_ld * 4),
        .lse = rig_put(g, lse, c->tokens * c->map.heads * 4), .positions = rig_put(g, c->positions, c->tokens * 4),
        .kv = &kv, .map = c->map, .logit = c->logit, .rows = c->tokens, .first = range[0], .cols = cols,
        .q_ld = c->q_ld, .ld = ld);
    rig_get(g, host, sums, count * 4);
    rig_reset(g);
    return host;
}

double row_weights(const attend_case *c, const cache *kv, int64_t row, int64_t i, double *weights)
{
    const lh_ragged *r = &kv->host;
    int64_t h = (c->map.first + i) / c->map.group, p = c->positions[row];
    double top = -INFINITY, mass = 0;
    for (int64_t j = 0; j < r->len[h]; j++) {
        int64_t at = cache_position(r, h, j);
        double dot = 0;
        for (int64_t x = 0; x < r->head_dim; x++)
            dot +=
                c->q[row * c->q_ld + i * r->head_dim + x] * cache_number(r, r->k, (r->offset[h] + j) * r->head_dim + x);
        dot *= c->logit.scale;
        if (c->logit.softcap > 0) dot = c->logit.softcap * tanh(dot / c->logit.softcap);
        int visible = at <= p && (c->logit.window == 0 || p - at < c->logit.window);
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
