/* Pools of more than 2^32 numbers: where a head lies in them changes no bit of what operations make of it. Of the pools
 * little is ever touched, so an emulated device has room for them (LONGHAUL_SIMT_MEMORY). */
#include <string.h>

#include "attend_case.h"
#include "suite.h"

enum { HEADS = 2, GROUP = 2, TOKENS = 3, ROOM = 8, STATS = 200 };

static const int64_t lens[HEADS] = {150, 67};

/* A cache on the device, from slot `first` of pools that end after it. */
typedef struct placed {
    rig *g;
    lh_ragged kv;
    char *held[4];
    int64_t first, slots;
} placed;

static void *hold(placed *p, int n, int64_t bytes)
{
    ck_assert_msg(lh_device_alloc(p->g->device, &p->held[n], bytes, LH_MEM_WORK) == LH_OK, "%s", lh_error_message());
    return p->held[n];
}

/* What is in slots from p->first on, `each` bytes a slot. */
static void copy_slots(const placed *p, void *pool, const void *host, int64_t each)
{
    lh_status st =
        lh_stream_copy(p->g->stream, (char *)pool + p->first * each, host, p->slots * each, LH_COPY_TO_DEVICE);
    rig_done(p->g, st, "a copy");
}

static void place(placed *p, rig *g, const cache *c, int64_t first)
{
    lot m = {0};
    *p = (placed){.g = g, .kv = c->host, .first = first, .slots = c->slots};
    int64_t each = c->host.head_dim * lh_dtype_bytes(c->host.type), all = first + c->slots;
    int64_t *offset = lot_copy(&m, c->host.offset, HEADS * 8);
    for (int h = 0; h < HEADS; h++) offset[h] += first;
    p->kv.k = hold(p, 0, all * each);
    p->kv.v = hold(p, 1, all * each);
    p->kv.positions = hold(p, 2, all * 4);
    p->kv.stats = hold(p, 3, all * STATS * 4);
    p->kv.stat_count = STATS;
    p->kv.offset = rig_put(g, offset, HEADS * 8);
    p->kv.len = rig_put(g, c->host.len, HEADS * 8);
    copy_slots(p, p->kv.k, c->host.k, each);
    copy_slots(p, p->kv.v, c->host.v, each);
    copy_slots(p, p->kv.positions, c->host.positions, 4);
    copy_slots(p, p->kv.stats, lot_normals(&m, c->slots * STATS, 1.0f, 5), STATS * 4);
    lot_end(&m);
}

static void leave(placed *p)
{
    for (int n = 0; n < 4; n++) lh_device_free(p->g->device, p->held[n]);
    rig_reset(p->g);
}

/* All slots of the cache, their positions and statistics, and the lengths. */
static char *contents(lot *m, const placed *p, int64_t *bytes)
{
    int64_t each = p->kv.head_dim * lh_dtype_bytes(p->kv.type), sizes[4] = {each, each, 4, STATS * 4}, at = 0;
    const void *pools[4] = {p->kv.k, p->kv.v, p->kv.positions, p->kv.stats};
    *bytes = p->slots * (2 * each + 4 + STATS * 4) + HEADS * 8;
    char *all = lot_new(m, *bytes);
    for (int n = 0; n < 4; at += p->slots * sizes[n], n++)
        rig_get(p->g, all + at, (const char *)pools[n] + p->first * sizes[n], p->slots * sizes[n]);
    rig_get(p->g, all + at, p->kv.len, HEADS * 8);
    return all;
}

/* An operation on a placed cache, and what it gives. */
typedef char *(*operation)(lot *m, placed *p, const attend_case *c, int64_t *bytes);

static char *fetched(lot *m, rig *g, const void *device, int64_t bytes)
{
    char *host = lot_new(m, bytes);
    rig_get(g, host, device, bytes);
    return host;
}

static char *attend(lot *m, placed *p, const attend_case *c, int64_t *bytes)
{
    float *o = rig_new(p->g, *bytes = TOKENS * c->o_ld * 4);
    RUN(p->g, attend_block, .o = o, .q = rig_put(p->g, c->q, TOKENS * c->q_ld * 4),
        .positions = rig_put(p->g, c->positions, TOKENS * 4), .kv = &p->kv, .map = c->map, .logit = c->logit,
        .tokens = TOKENS, .q_ld = c->q_ld, .o_ld = c->o_ld, .most = 10000, .order = LH_ORDER_ANY);
    return fetched(m, p->g, o, *bytes);
}

static char *step(lot *m, placed *p, const attend_case *c, int64_t *bytes)
{
    float *o = rig_new(p->g, *bytes = c->o_ld * 4);
    RUN(p->g, attend_decode, .o = o, .q = rig_put(p->g, c->q, c->q_ld * 4), .positions = rig_put(p->g, c->positions, 4),
        .seqs = &p->kv, .batch = 1, .map = c->map, .logit = c->logit, .q_ld = c->q_ld, .o_ld = c->o_ld);
    return fetched(m, p->g, o, *bytes);
}

static lh_observed rows_of(placed *p, const attend_case *c)
{
    return (lh_observed){.q = rig_put(p->g, c->q, TOKENS * c->q_ld * 4),
                         .positions = rig_put(p->g, c->positions, TOKENS * 4),
                         .kv = &p->kv,
                         .map = c->map,
                         .logit = c->logit,
                         .rows = TOKENS,
                         .q_ld = c->q_ld};
}

static char *observe(lot *m, placed *p, const attend_case *c, int64_t *bytes)
{
    float *lse = rig_new(p->g, TOKENS * c->map.heads * 4);
    lh_slot_floats y = {.at = p->kv.stats, .starts = p->kv.offset, .step = STATS, .next = 1}, z = y, n = y;
    z.at += STATS / 2, n.at += STATS - 1;
    RUN(p->g, row_lse, .lse = lse, .rows = rows_of(p, c));
    RUN(p->g, column_stats, .sums = y, .squares = z, .counts = n, .rows = rows_of(p, c), .lse = lse,
        .lse_ld = c->map.heads, .parts = 1, .cols = lens[0]);
    return contents(m, p, bytes);
}

static char *grow(lot *m, placed *p, const attend_case *c, int64_t *bytes)
{
    int64_t ld = HEADS * p->kv.head_dim;
    float *x = lot_normals(m, 2 * TOKENS * ld, 1.0f, 8), *on = rig_put(p->g, x, 2 * TOKENS * ld * 4);
    RUN(p->g, append, .seqs = &p->kv, .batch = 1, .tokens = TOKENS, .ld = ld, .k = on, .v = on + TOKENS * ld,
        .positions = rig_put(p->g, c->positions, TOKENS * 4));
    return contents(m, p, bytes);
}

static char *shrink(lot *m, placed *p, lh_compact_kind kind, int64_t *bytes)
{
    uint8_t *state = lot_new(m, HEADS * lens[0]);
    for (int64_t s = 0; s < HEADS * lens[0]; s++) state[s] = draw(6, (uint64_t)s, 3) ? LH_ENTRY_KEEP : LH_ENTRY_DROP;
    RUN(p->g, compact, .dst = &p->kv, .src = &p->kv, .state = rig_put(p->g, state, HEADS * lens[0]), .batch = 1,
        .ld = lens[0], .kind = kind);
    return contents(m, p, bytes);
}

static char *shrink_in_order(lot *m, placed *p, const attend_case *c, int64_t *bytes)
{
    (void)c;
    return shrink(m, p, LH_COMPACT_IN_ORDER, bytes);
}

static char *fill_holes(lot *m, placed *p, const attend_case *c, int64_t *bytes)
{
    (void)c;
    return shrink(m, p, LH_COMPACT_FILL, bytes);
}

static char *norms(lot *m, placed *p, const attend_case *c, int64_t *bytes)
{
    lh_slot_floats y = {.at = p->kv.stats + 7, .starts = p->kv.offset, .step = STATS, .next = 1};
    (void)c;
    RUN(p->g, entry_norms, .y = y, .kv = &p->kv, .last = lens[0], .part = LH_PART_KEY, .kind = LH_NORM_L2);
    return contents(m, p, bytes);
}

static char *differences(lot *m, placed *p, const attend_case *c, int64_t *bytes)
{
    float *y = rig_new(p->g, *bytes = HEADS * lens[0] * 4);
    (void)c;
    RUN(p->g, key_difference, .y = y, .kv = &p->kv, .ld = lens[0]);
    return fetched(m, p->g, y, *bytes);
}

static char *lag(lot *m, placed *p, const attend_case *c, int64_t *bytes)
{
    float *y = rig_new(p->g, *bytes = HEADS * lens[0] * 4);
    (void)c;
    RUN(p->g, lag_scores, .y = y, .kv = &p->kv, .ld = lens[0], .first = 2, .lag = 16);
    return fetched(m, p->g, y, *bytes);
}

/* By one of the two ways: weights in f32 or in bf16. */
static char *project(lot *m, placed *p, const attend_case *c, lh_dtype type, int64_t *bytes)
{
    int64_t d = p->kv.head_dim, w_ld = c->map.heads * d, out = 40;
    const void *w = lot_normals(m, out * w_ld, 1.0f, 10);
    if (type == LH_BF16) w = lot_bf16(m, w, out * w_ld);
    float *y = rig_new(p->g, *bytes = c->map.heads * lens[0] * 4);
    RUN(p->g, projected_norms, .y = y, .kv = &p->kv, .map = c->map, .last = lens[0], .ld = lens[0],
        .w = rig_put(p->g, w, out * w_ld * lh_dtype_bytes(type)), .type = type, .out = out, .w_ld = w_ld);
    return fetched(m, p->g, y, *bytes);
}

static char *project_f32(lot *m, placed *p, const attend_case *c, int64_t *bytes)
{
    return project(m, p, c, LH_F32, bytes);
}

static char *project_bf16(lot *m, placed *p, const attend_case *c, int64_t *bytes)
{
    return project(m, p, c, LH_BF16, bytes);
}

static char *expect(lot *m, placed *p, const attend_case *c, int64_t *bytes)
{
    int64_t d = p->kv.head_dim, heads = c->map.heads;
    uint8_t *state = lot_new(m, HEADS * lens[0]);
    float *means = lot_normals(m, heads * d, 0.1f, 11), *forms = lot_normals(m, heads * d * d, 0.01f, 12);
    memset(state, LH_ENTRY_COMPETES, (size_t)(HEADS * lens[0]));
    float *y = rig_new(p->g, *bytes = heads * lens[0] * 4);
    RUN(p->g, expected_scores, .y = y, .means = rig_put(p->g, means, heads * d * 4),
        .covariances = rig_put(p->g, forms, heads * d * d * 4), .state = rig_put(p->g, state, HEADS * lens[0]),
        .kv = &p->kv, .map = c->map, .ld = lens[0], .scale = 0.1f);
    return fetched(m, p->g, y, *bytes);
}

static const struct {
    const char *name;
    operation run;
} operations[] = {{"attend_block", attend},
                  {"attend_decode", step},
                  {"row_lse and column_stats", observe},
                  {"append", grow},
                  {"compact in order", shrink_in_order},
                  {"compact, filling holes", fill_holes},
                  {"entry_norms", norms},
                  {"key_difference", differences},
                  {"lag_scores", lag},
                  {"projected_norms in f32", project_f32},
                  {"projected_norms in bf16", project_bf16},
                  {"expected_scores", expect}};

static void make_case(lot *m, attend_case *c, lh_dtype type, int64_t dim)
{
    cache_spec spec = {.heads = HEADS, .head_dim = dim, .slack = ROOM, .last = 400, .len = lens, .type = type};
    *c = (attend_case){.batch = 1, .tokens = TOKENS, .map = {HEADS * GROUP, GROUP, 0}, .logit = {.scale = 0.1f}};
    spec.order = CACHE_GAPS, spec.in_order = TOKENS, spec.seed = 4;
    cache_make(m, &c->kv[0], &spec);
    c->q_ld = c->o_ld = HEADS * GROUP * dim;
    c->q = lot_normals(m, TOKENS * c->q_ld, 1.0f, 6);
    c->positions = lot_new(m, TOKENS * 4);
    for (int t = 0; t < TOKENS; t++) c->positions[t] = 400 - TOKENS + t;
}

START_TEST(test_where_a_head_lies_in_a_large_pool_changes_nothing)
{
    static const struct {
        lh_dtype type;
        int64_t dim;
    } kinds[] = {{LH_BF16, 128}, {LH_F32, 128}, {LH_BF16, 60}, {LH_F32, 250}};
    for (int b = 1; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            for (size_t n = 0; n < sizeof operations / sizeof *operations; n++) {
                lot m = {0};
                attend_case c;
                placed near, far;
                int64_t bytes, dim = kinds[k].dim;
                make_case(&m, &c, kinds[k].type, dim);
                place(&near, &g, &c.kv[0], 0);
                const char *want = operations[n].run(&m, &near, &c, &bytes);
                leave(&near);
                place(&far, &g, &c.kv[0], (1ll << 32) / dim + 16);
                const char *got = operations[n].run(&m, &far, &c, &bytes);
                leave(&far);
                check_same(got, want, bytes, "%s of head_dim %d", operations[n].name, (int)dim);
                lot_end(&m);
            }
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_where_a_head_lies_in_a_large_pool_changes_nothing, NULL};
    return rig_run("simt/far", tests);
}
