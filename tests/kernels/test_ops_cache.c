#include <omp.h>
#include <string.h>

#include "cases.h"
#include "rig.h"

static int64_t entry_bytes(const lh_ragged *r)
{
    return r->head_dim * lh_dtype_bytes(r->type);
}

/* Numbers that go with the entries: `count` a slot, none where it is 0. */
static void stats_make(lot *m, cache *c, int64_t count)
{
    c->host.stat_count = count;
    c->host.stats = count ? lot_normals(m, c->slots * count, 1.0f, 92) : NULL;
}

/* rig_cache with the statistics. */
static lh_ragged put_cache(rig *g, const cache *c)
{
    lh_ragged on = rig_cache(g, c);
    if (on.stats) on.stats = rig_put(g, on.stats, c->slots * on.stat_count * 4);
    return on;
}

/* The caches of a batch with room for `tokens` more entries in every head, some with positions and some without. */
static void batch_make(lot *m, cache *seqs, int64_t batch, int64_t tokens, int n)
{
    int64_t heads = 1 + n % 5;
    for (int64_t b = 0; b < batch; b++) {
        int64_t *len = lot_new(m, heads * 8);
        for (int64_t h = 0; h < heads; h++) len[h] = draw(4, (uint64_t)(n * 100 + b * 10 + h), 30);
        cache_spec spec = {.heads = heads, .head_dim = test_dims[n % 10], .slack = tokens + n % 3, .last = 60};
        spec.len = len;
        spec.type = n % 2 ? LH_BF16 : LH_F32;
        spec.order = (cache_order)((n + b) % CACHE_ORDERS);
        spec.bias = n / 3 % 2 ? 1 : 0;
        spec.seed = (uint64_t)(n + 40 * b);
        cache_make(m, &seqs[b], &spec);
        stats_make(m, &seqs[b], n / 2 % 4);
    }
}

/* Put the rows from `first` on where they belong in the host's copy of one sequence. */
static void append_host(lh_ragged *r, const lh_append_args *rows, int64_t first)
{
    for (int64_t h = 0; h < r->heads; h++) {
        for (int64_t t = first; t < first + rows->tokens; t++) {
            int64_t slot = r->offset[h] + r->len[h]++, at = t * rows->ld + h * r->head_dim;
            lh_dtype_convert((char *)r->k + slot * entry_bytes(r), r->type, rows->k + at, LH_F32, r->head_dim);
            lh_dtype_convert((char *)r->v + slot * entry_bytes(r), r->type, rows->v + at, LH_F32, r->head_dim);
            if (r->positions) r->positions[slot] = rows->positions[t];
            if (r->bias) r->bias[slot] = 0;
            for (int64_t i = 0; i < r->stat_count; i++) r->stats[slot * r->stat_count + i] = 0;
        }
    }
}

START_TEST(test_append_puts_rows_behind_every_head_and_touches_nothing_else)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 90; n++) {
            lot m = {0};
            cache seqs[3];
            lh_ragged on[3];
            int64_t batch = n % 4, tokens = n % 11 == 7 ? 70 : n % 7;
            batch_make(&m, seqs, batch, tokens, n);
            int64_t ld = (1 + n % 5) * test_dims[n % 10] + n % 4, count = batch * tokens * ld;
            float *k = lot_normals(&m, count, 1.0f, 90), *v = lot_normals(&m, count, 1.0f, 91);
            int32_t *positions = lot_new(&m, batch * tokens * 4);
            for (int64_t i = 0; i < batch * tokens; i++) positions[i] = (int32_t)(60 + 3 * i);
            for (int64_t s = 0; s < batch; s++) on[s] = put_cache(&g, &seqs[s]);
            RUN(&g, append, .seqs = on, .batch = batch, .tokens = tokens, .ld = ld, .k = rig_put(&g, k, count * 4),
                .v = rig_put(&g, v, count * 4), .positions = rig_put(&g, positions, batch * tokens * 4));
            for (int64_t s = 0; s < batch; s++) {
                lh_ragged *want = &seqs[s].host;
                int64_t bytes = seqs[s].slots * entry_bytes(want), stats = seqs[s].slots * want->stat_count * 4;
                char *got = lot_new(&m, bytes + stats + seqs[s].slots * 4);
                append_host(want, &(lh_append_args){.tokens = tokens, .ld = ld, .k = k, .v = v, .positions = positions},
                            s * tokens);
                rig_get(&g, got, on[s].k, bytes);
                check_same(got, want->k, bytes, "appended keys, case %d, %s", n, g.ops->name);
                rig_get(&g, got, on[s].v, bytes);
                check_same(got, want->v, bytes, "appended values, case %d, %s", n, g.ops->name);
                rig_get(&g, got, on[s].len, want->heads * 8);
                check_same(got, want->len, want->heads * 8, "lengths, case %d, %s", n, g.ops->name);
                if (want->stats) rig_get(&g, got, on[s].stats, stats);
                check_same(got, want->stats, stats, "statistics, case %d, %s", n, g.ops->name);
                if (want->bias) rig_get(&g, got, on[s].bias, seqs[s].slots * 4);
                check_same(got, want->bias, want->bias ? seqs[s].slots * 4 : 0, "biases, case %d, %s", n, g.ops->name);
                if (!want->positions) continue;
                rig_get(&g, got, on[s].positions, seqs[s].slots * 4);
                check_same(got, want->positions, seqs[s].slots * 4, "positions, case %d, %s", n, g.ops->name);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Where the kept entries of a compaction go. */
typedef enum target { TARGET_SAME, TARGET_ELSEWHERE } target;

typedef struct compaction {
    cache src;
    uint8_t *state; /* [heads, ld] */
    int64_t ld;
    lh_compact_kind kind;
    target where;
    int no_stats; /* dst has none, src may have */
    int new_bias; /* dst has biases, src has none */
} compaction;

static uint8_t state_at(int pattern, int64_t s, int64_t len, uint64_t dice)
{
    int keep[] = {0,
                  1,
                  s % 2 == 0,
                  s < len / 2,
                  s >= len / 2,
                  draw(6, dice, 2) == 0,
                  draw(6, dice, 10) == 0,
                  draw(6, dice, 10) != 0};
    return keep[pattern] ? LH_ENTRY_KEEP : draw(7, dice, 2) ? LH_ENTRY_DROP : LH_ENTRY_COMPETES;
}

enum { HEADS, HEAD_DIM, LONGEST, SLACK, TYPE, ORDER, STATS, GAP, TARGET, FILL, NO_STATS, BIAS, PATTERN };
static const dimension kinds[] = {
    [HEADS] = {"heads", 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
    [HEAD_DIM] = {"head_dim", 10, {1, 3, 20, 24, 48, 64, 80, 96, 128, 256}},
    [LONGEST] = {"longest head", 4, {300, 50, 50, 50}},
    [SLACK] = {"slack", 3, {0, 1, 2}},
    [TYPE] = {"type", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [ORDER] = {"slots", 3, {CACHE_SLOTS, CACHE_GAPS, CACHE_SHUFFLED}, {"are positions", "with gaps", "shuffled"}},
    [STATS] = {"statistics", 4, {0, 1, 2, 3}},
    [GAP] = {"gap between states", 4, {0, 1, 2, 3}},
    [TARGET] = {"target", 3, {TARGET_SAME, TARGET_SAME, TARGET_ELSEWHERE}, {"same", "same", "elsewhere"}},
    [FILL] = {"in place", 2, {LH_COMPACT_FILL, LH_COMPACT_IN_ORDER}, {"fill", "in order"}},
    [NO_STATS] = {"statistics of the target", 3, {1, 0, 0}, {"none", "the source's", "the source's"}},
    [BIAS] = {"biases", 3, {0, 1, 2}, {"none", "of both", "of the target alone"}},
    [PATTERN] = {"pattern of the first head", 8, {0, 1, 2, 3, 4, 5, 6, 7}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

/* What entries are taken from: heads as `spec` says, of fewer than `longest` entries; returns those of the longest. */
static int64_t source_make(lot *m, cache *c, cache_spec spec, int64_t longest, int n)
{
    int64_t most = 0, *len = lot_new(m, spec.heads * 8);
    for (int64_t h = 0; h < spec.heads; h++) {
        len[h] = draw(5, (uint64_t)(n * 10 + h), longest);
        most = len[h] > most ? len[h] : most;
    }
    spec.head_dim = kind(HEAD_DIM, n);
    spec.slack = kind(SLACK, n);
    spec.last = most + 30;
    spec.len = len;
    spec.type = (lh_dtype)kind(TYPE, n);
    spec.bias = kind(BIAS, n) == 1 ? 1 : 0;
    spec.seed = (uint64_t)n;
    cache_make(m, c, &spec);
    stats_make(m, c, kind(STATS, n));
    return most;
}

/* `variant`: of the states alone. */
static void compaction_make(lot *m, compaction *c, int64_t longest, int n, int variant)
{
    const int64_t heads = kind(HEADS, n);
    cache_spec spec = {.heads = heads, .order = (cache_order)kind(ORDER, n)};
    *c = (compaction){.where = (target)kind(TARGET, n), .kind = LH_COMPACT_IN_ORDER};
    if (c->where == TARGET_SAME) {
        c->kind = (lh_compact_kind)kind(FILL, n);
        if (spec.order == CACHE_SLOTS) spec.order = CACHE_GAPS; /* positions are stored */
    } else {
        c->no_stats = (int)kind(NO_STATS, n);
        c->new_bias = kind(BIAS, n) == 2;
    }
    c->ld = source_make(m, &c->src, spec, longest, n) + kind(GAP, n);
    const int64_t *len = c->src.host.len;
    c->state = lot_new(m, heads * c->ld);
    for (int64_t h = 0; h < heads; h++) {
        int pattern = (int)(kind(PATTERN, n) + h + variant) % 8;
        for (int64_t s = 0; s < c->ld; s++)
            c->state[h * c->ld + s] =
                state_at(pattern, s, len[h], (uint64_t)((n + variant) * 1000 + h) * 1000 + (uint64_t)s);
    }
}

/* The slots of head h in the order in which they stand afterwards; returns how many. */
static int64_t survivors(const compaction *c, int64_t h, int64_t *order)
{
    const uint8_t *state = c->state + h * c->ld;
    int64_t kept = 0, last = c->src.host.len[h] - 1;
    for (int64_t s = 0; s <= last; s++) {
        if (state[s] == LH_ENTRY_KEEP) order[kept++] = s;
    }
    if (c->kind == LH_COMPACT_IN_ORDER) return kept;
    for (int64_t s = 0; s < kept; s++) {
        order[s] = s;
        if (state[s] == LH_ENTRY_KEEP) continue;
        while (state[last] != LH_ENTRY_KEEP) last--;
        order[s] = last--;
    }
    return kept;
}

/* What is compacted into, on the device: the source, or another cache of as many slots as are kept. */
static lh_ragged target_make(lot *m, rig *g, const compaction *c, const lh_ragged *src)
{
    lh_ragged dst = *src;
    const lh_ragged *host = &c->src.host;
    int64_t *order = lot_new(m, c->ld * 8), *offset = lot_new(m, host->heads * 8), at = 0;
    if (c->where == TARGET_SAME) return dst;
    for (int64_t h = 0; h < host->heads; h++) {
        offset[h] = at;
        at += survivors(c, h, order);
    }
    dst.offset = rig_put(g, offset, host->heads * 8);
    dst.len = rig_new(g, host->heads * 8);
    dst.k = rig_new(g, at * entry_bytes(host));
    dst.v = rig_new(g, at * entry_bytes(host));
    dst.positions = rig_new(g, at * 4);
    dst.bias = dst.bias || c->new_bias ? rig_new(g, at * 4) : NULL;
    dst.stats = dst.stats && !c->no_stats ? rig_new(g, at * dst.stat_count * 4) : NULL;
    return dst;
}

/* What has become of a head: the slots order[0 .. kept - 1] after `from` stand from slot `to` on. */
typedef struct kept_head {
    int64_t from, to, kept, *order;
} kept_head;

/* An array of the target, of `bytes` bytes a slot, has what stood in the source's; zeros where that has none. */
static void check_slots(rig *g, const kept_head *head, const void *dst, const void *src, int64_t bytes,
                        const char *what)
{
    lot m = {0};
    char *got = lot_new(&m, head->kept * bytes), *want = lot_new(&m, head->kept * bytes);
    for (int64_t s = 0; s < head->kept && src; s++)
        memcpy(want + s * bytes, (const char *)src + (head->from + head->order[s]) * bytes, (size_t)bytes);
    rig_get(g, got, (const char *)dst + head->to * bytes, head->kept * bytes);
    check_same(got, want, head->kept * bytes, "kept %s, %s", what, g->ops->name);
    lot_end(&m);
}

/* A target after it. */
static void check_target(rig *g, const compaction *c, const lh_ragged *of)
{
    lot m = {0};
    const lh_ragged *host = &c->src.host, dst = *of;
    int64_t *len = lot_new(&m, host->heads * 8), *to = lot_new(&m, host->heads * 8), bytes = entry_bytes(host);
    int32_t *positions = lot_new(&m, c->src.slots * 4);
    kept_head head = {.order = lot_new(&m, c->ld * 8)};
    rig_get(g, len, dst.len, host->heads * 8);
    rig_get(g, to, dst.offset, host->heads * 8);
    for (int64_t h = 0; h < host->heads; h++) {
        head.from = host->offset[h];
        head.to = to[h];
        head.kept = survivors(c, h, head.order);
        check_same(&len[h], &head.kept, 8, "length of head %d, %s", (int)h, g->ops->name);
        for (int64_t s = 0; s < host->len[h]; s++) positions[head.from + s] = (int32_t)cache_position(host, h, s);
        check_slots(g, &head, dst.positions, positions, 4, "position");
        check_slots(g, &head, dst.k, host->k, bytes, "key");
        check_slots(g, &head, dst.v, host->v, bytes, "value");
        if (dst.bias) check_slots(g, &head, dst.bias, host->bias, 4, "bias");
        if (dst.stats) check_slots(g, &head, dst.stats, host->stats, dst.stat_count * 4, "statistics");
    }
    lot_end(&m);
}

enum { MOST_CACHES = 11 /* more than a kernel takes at once */ };

/* Case n, of several caches at once, whose states take ld + gap bytes a head. */
static void check_compaction(rig *g, int64_t longest, int n, int batch, int64_t gap)
{
    lot m = {0};
    compaction c[MOST_CACHES] = {0};
    lh_ragged src[MOST_CACHES] = {0}, dst[MOST_CACHES];
    for (int b = 0; b < batch; b++) {
        compaction_make(&m, &c[b], longest, n, b);
        src[b] = put_cache(g, &c[b].src);
        dst[b] = target_make(&m, g, &c[b], &src[b]);
    }
    const int64_t rows = batch * src->heads, ld = c->ld + gap;
    uint8_t *state = lot_new(&m, rows * ld);
    for (int64_t r = 0; r < rows && c->ld; r++)
        memcpy(state + r * ld, c[r / src->heads].state + r % src->heads * c->ld, (size_t)c->ld);
    RUN(g, compact, .dst = dst, .src = src, .state = rig_put(g, state, rows * ld), .batch = batch, .ld = ld,
        .kind = c->kind);
    for (int b = 0; b < batch; b++) check_target(g, &c[b], &dst[b]);
    rig_reset(g);
    lot_end(&m);
}

START_TEST(test_compact_keeps_what_is_marked_in_place_and_elsewhere)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 480; n++) {
            omp_set_num_threads(1 + n % 4);
            check_compaction(&g, kind(LONGEST, n), n, n % 3 ? 1 : 1 + n / 3 % MOST_CACHES, 0);
        }
        rig_close(&g);
    }
}
END_TEST

/* So many that a device lists some caches after the others. */
START_TEST(test_compact_keeps_what_is_marked_in_many_slots)
{
    enum { SLOTS = 20 << 20, BATCH = 4 };
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 8; n++)
            check_compaction(&g, kind(LONGEST, n), n, BATCH, SLOTS / BATCH / (kind(HEADS, n) + 1));
        rig_close(&g);
    }
}
END_TEST

/* As many entries as 512 KiB of keys. */
START_TEST(test_compact_keeps_what_is_marked_of_long_heads)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 42; n += rig_step(&g)) {
            int64_t longest = (1 << 19) / (kind(HEAD_DIM, n) * lh_dtype_bytes((lh_dtype)kind(TYPE, n)));
            omp_set_num_threads(1 + n % 4);
            check_compaction(&g, longest, n, 1, 0);
        }
        rig_close(&g);
    }
}
END_TEST

/* ---- gather_entries ---- */

/* A head of a cache, and what a gathering takes from it. */
typedef struct gathering {
    cache src;
    int64_t head, count, first; /* first: the slot of the pools in which the target begins */
    int32_t *order;
    int has_bias; /* the target */
} gathering;

static void gathering_make(lot *m, gathering *a, int n)
{
    const int64_t heads = 1 + n % 4;
    *a = (gathering){.head = draw(13, (uint64_t)n, heads), .first = n % 3, .has_bias = n % 5 != 1};
    source_make(m, &a->src, (cache_spec){.heads = heads, .order = (cache_order)kind(ORDER, n)}, kind(LONGEST, n), n);
    const int64_t *len = a->src.host.len;
    a->order = lot_new(m, (len[a->head] + 1) * 4);
    for (int64_t i = 0; i < len[a->head]; i++) { /* each slot at a place of those so far */
        int64_t at = draw(14, (uint64_t)(n * 1000 + i), i + 1);
        a->order[i] = a->order[at];
        a->order[at] = (int32_t)i;
    }
    a->count = draw(15, (uint64_t)n, 4) ? draw(16, (uint64_t)n, len[a->head] + 1) : len[a->head];
}

static void check_gathering(rig *g, lot *m, const gathering *a, int n)
{
    const lh_ragged *host = &a->src.host;
    const int64_t bytes = entry_bytes(host), end = a->first + a->count, zero = 0;
    lh_ragged src = put_cache(g, &a->src), dst = {.type = host->type, .heads = 1, .head_dim = host->head_dim};
    dst.k = rig_new(g, end * bytes);
    dst.v = rig_new(g, end * bytes);
    dst.positions = rig_new(g, end * 4);
    dst.bias = a->has_bias ? rig_new(g, end * 4) : NULL;
    dst.offset = rig_put(g, &a->first, 8);
    dst.len = rig_put(g, &zero, 8);
    RUN(g, gather_entries, .dst = &dst, .src = &src, .head = a->head, .order = rig_put(g, a->order, a->count * 4),
        .count = a->count);
    int64_t len;
    char *k = lot_new(m, end * bytes), *v = lot_new(m, end * bytes);
    int32_t *positions = lot_new(m, end * 4);
    float *bias = lot_new(m, end * 4);
    rig_get(g, &len, dst.len, 8);
    rig_get(g, k, dst.k, end * bytes);
    rig_get(g, v, dst.v, end * bytes);
    rig_get(g, positions, dst.positions, end * 4);
    if (dst.bias) rig_get(g, bias, dst.bias, end * 4);
    ck_assert_msg(len == a->count, "%s, case %d: %d entries, not %d", g->ops->name, n, (int)len, (int)a->count);
    for (int64_t s = 0; s < a->first; s++) {
        uint32_t unwritten = UINT32_MAX;
        check_same(&positions[s], &unwritten, 4, "position before the head, case %d, %s", n, g->ops->name);
    }
    for (int64_t i = 0; i < a->count; i++) {
        int64_t to = a->first + i, from = host->offset[a->head] + a->order[i];
        int32_t position = (int32_t)cache_position(host, a->head, a->order[i]);
        float own = host->bias ? host->bias[from] : 0;
        check_same(k + to * bytes, (char *)host->k + from * bytes, bytes, "gathered key, case %d, %s", n, g->ops->name);
        check_same(v + to * bytes, (char *)host->v + from * bytes, bytes, "gathered value, case %d, %s", n,
                   g->ops->name);
        check_same(&positions[to], &position, 4, "gathered position, case %d, %s", n, g->ops->name);
        if (dst.bias) check_same(&bias[to], &own, 4, "gathered bias, case %d, %s", n, g->ops->name);
    }
}

START_TEST(test_gathered_entries_stand_in_the_order_of_the_index)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 240 / rig_scale(&g); n++) {
            lot m = {0};
            gathering a;
            omp_set_num_threads(1 + n % 4);
            gathering_make(&m, &a, n);
            check_gathering(&g, &m, &a, n);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_append_puts_rows_behind_every_head_and_touches_nothing_else,
                                  test_compact_keeps_what_is_marked_in_place_and_elsewhere,
                                  test_compact_keeps_what_is_marked_of_long_heads,
                                  test_compact_keeps_what_is_marked_in_many_slots,
                                  test_gathered_entries_stand_in_the_order_of_the_index,
                                  NULL};
    return rig_run("kernels/cache", tests);
}
