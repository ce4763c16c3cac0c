/* The bits of a row depend on its own inputs alone: not on how many rows, heads, columns, sequences or threads there
 * are in the call, nor on where the data lie. This is what makes results equal on any number of ranks. No tolerance
 * here. */
#include <omp.h>
#include <string.h>

#include "attend_case.h"
#include "cases.h"
#include "kernels/ragged.h"

/* Ranges [from, to) that cut n things in parts, odd ones and single ones among them. */
static int64_t cut(int64_t n, int64_t from, int step)
{
    const int64_t parts[] = {1, 7, 2, 64, 13};
    int64_t to = from + parts[step % 5];
    return to < n ? to : n;
}

/* Run `body` on every backend with 1, 2, 3 and 5 threads and number n of cases; what `whole` gave must come again. */
typedef void (*law)(rig *g, int n);

static void hold(law check, int cases)
{
    const int threads[] = {1, 2, 3, 5};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < cases; n++) {
            if (draw(9, (uint64_t)n, rig_step(&g)) != 0) continue;
            omp_set_num_threads(threads[n % 4]);
            check(&g, n);
        }
        rig_close(&g);
    }
}

/* A product of f32 or bf16 matrices on the device. */
typedef struct factors {
    char *x, *w;
    float *bias;
    lh_dtype type;
    int64_t in, tokens, out;
} factors;

static float *product_of(lot *m, rig *g, const factors *f, const int64_t rows[2], const int64_t cols[2])
{
    int64_t tokens = rows[1] - rows[0], out = cols[1] - cols[0], size = f->in * lh_dtype_bytes(f->type);
    float *y = rig_new(g, tokens * out * 4), *host = lot_new(m, tokens * out * 4);
    RUN(g, gemm, .y = y, .x = f->x + rows[0] * size, .w = lh_plain_matrix(f->w + cols[0] * size, f->type, f->in),
        .type = f->type, .bias = f->bias + cols[0], .tokens = tokens, .out = out, .in = f->in, .y_ld = out,
        .x_ld = f->in, .order = LH_ORDER_FIXED);
    rig_get(g, host, y, tokens * out * 4);
    return host;
}

static void gemm_law(rig *g, int n)
{
    const int64_t tokens[] = {1, 5, 64, 129}, ins[] = {3, 64, 577}, outs[] = {1, 48, 131};
    factors f = {.type = n % 2 ? LH_BF16 : LH_F32, .in = ins[n % 3], .tokens = tokens[n % 4], .out = outs[n / 3 % 3]};
    lot m = {0};
    const void *x = lot_normals(&m, f.tokens * f.in, 1.0f, 1), *w = lot_normals(&m, f.out * f.in, 1.0f, 2);
    if (f.type == LH_BF16) x = lot_bf16(&m, x, f.tokens * f.in), w = lot_bf16(&m, w, f.out * f.in);
    f.x = rig_put(g, x, f.tokens * f.in * lh_dtype_bytes(f.type));
    f.w = rig_put(g, w, f.out * f.in * lh_dtype_bytes(f.type));
    f.bias = rig_put(g, lot_normals(&m, f.out, 1.0f, 3), f.out * 4);
    const float *whole = product_of(&m, g, &f, (const int64_t[]){0, f.tokens}, (const int64_t[]){0, f.out});
    omp_set_num_threads(1 + n % 3);
    int step = n;
    for (int64_t t = 0, to; t < f.tokens; t = to) {
        to = cut(f.tokens, t, step++);
        const int64_t cols[2] = {step % 2 ? 0 : f.out / 3, step % 3 ? f.out : f.out / 2 + 1};
        const float *part = product_of(&m, g, &f, (const int64_t[]){t, to}, cols);
        for (int64_t r = t; r < to; r++)
            check_same(part + (r - t) * (cols[1] - cols[0]), whole + r * f.out + cols[0], (cols[1] - cols[0]) * 4,
                       "row %d of a fixed product, case %d, %s", (int)r, n, g->ops->name);
        if (g->count > 200) break; /* the rig's arrays */
    }
    rig_reset(g);
    lot_end(&m);
}

START_TEST(test_rows_of_a_fixed_product_stand_alone)
{
    hold(gemm_law, 72);
}
END_TEST

/* The case with rows [from, to) of the block only: what follows them is not in the cache yet. */
static attend_case rows_of(lot *m, const attend_case *c, int64_t from, int64_t to)
{
    attend_case part = *c;
    const lh_ragged *host = &c->kv[0].host;
    int64_t *len = lot_copy(m, host->len, host->heads * 8);
    for (int64_t h = 0; h < host->heads; h++) {
        len[h] -= c->tokens - to;
        len[h] = len[h] < 0 ? 0 : len[h];
    }
    part.kv[0].host.len = len;
    part.tokens = to - from;
    part.q = c->q + from * c->q_ld;
    part.positions = c->positions + from;
    return part;
}

/* The case with query heads [from, to) only. */
static attend_case heads_of(lot *m, const attend_case *c, int64_t from, int64_t to)
{
    attend_case part = *c;
    int64_t d = c->kv[0].host.head_dim, rows = c->tokens ? c->tokens : c->batch;
    part.map = (lh_grouping){.heads = to - from, .group = c->map.group, .first = c->map.first + from};
    part.q_ld = (to - from) * d;
    part.q = lot_new(m, rows * part.q_ld * 4);
    for (int64_t r = 0; r < rows; r++)
        memcpy(part.q + r * part.q_ld, c->q + r * c->q_ld + from * d, (size_t)part.q_ld * 4);
    return part;
}

/* The case with the KV heads that query heads [from, to) touch in a cache of their own, as on another rank. */
static attend_case rank_of(lot *m, const attend_case *c, int64_t from, int64_t to)
{
    attend_case part = heads_of(m, c, from, to);
    int64_t low = part.map.first / part.map.group, count = kv_heads_of(part.map) - low;
    for (int64_t b = 0; b < c->batch; b++) {
        lh_ragged *r = &part.kv[b].host;
        int64_t *offset = lot_new(m, count * 8), skip = r->offset[low];
        for (int64_t h = 0; h < count; h++) offset[h] = r->offset[low + h] - skip;
        int64_t bytes = skip * r->head_dim * lh_dtype_bytes(r->type);
        r->k = (char *)r->k + bytes;
        r->v = (char *)r->v + bytes;
        r->positions = r->positions ? r->positions + skip : NULL;
        r->bias = r->bias ? r->bias + skip : NULL;
        r->offset = offset;
        r->len += low;
        r->heads = count;
        part.kv[b].slots -= skip;
    }
    part.map.first -= low * part.map.group;
    return part;
}

/* The part's rows are rows `row` and on of the whole, its heads heads `head` and on. */
static void same_rows(const attend_case *c, const attended *whole, const attend_case *part, const attended *got,
                      const int64_t at[2])
{
    int64_t d = c->kv[0].host.head_dim, rows = part->tokens ? part->tokens : part->batch;
    for (int64_t r = 0; r < rows; r++) {
        check_same(got->o + r * part->o_ld, whole->o + (at[0] + r) * c->o_ld + at[1] * d, part->map.heads * d * 4,
                   "o of row %d, heads from %d", (int)(at[0] + r), (int)at[1]);
        check_same(got->lse + r * part->map.heads, whole->lse + (at[0] + r) * c->map.heads + at[1], part->map.heads * 4,
                   "lse of row %d, heads from %d", (int)(at[0] + r), (int)at[1]);
    }
}

enum { HEAD_DIM, ROWS, PAST, GROUP, HEADS, FIRST, KV_HEADS, FIRST_KV, PARTS, PLACE };
static const dimension kinds[] = {
    [HEAD_DIM] = {"head_dim", 10, {1, 3, 20, 24, 48, 64, 80, 96, 128, 256}},
    [ROWS] = {"rows", 6, {1, 2, 5, 17, 64, 129}},
    [PAST] = {"past", 10, {0, 13, 26, 39, 52, 64, 78, 88, 99, 900}},
    [GROUP] = {"group", 5, {1, 2, 3, 4, 5}},
    [HEADS] = {"heads", 8, {2, 3, 4, 5, 6, 7, 8, 9}},
    [FIRST] = {"first head", 5, {0, 1, 2, 3, 4}}, /* modulo group */
    [KV_HEADS] = {"KV heads", 4, {1, 2, 3, 4}},
    [FIRST_KV] = {"first KV head", 3, {0, 1, 2}},
    [PARTS] = {"parts", 2, {0, 1}, {"of each query head", "joined"}},
    [PLACE] = {"place", 3, {COLUMNS_ROWS, COLUMNS_STATS, COLUMNS_STATS}, {"rows", "statistics", "statistics"}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

static attend_size size_at(int n)
{
    int64_t group = kind(GROUP, n);
    return (attend_size){.dim = kind(HEAD_DIM, n),
                         .tokens = kind(ROWS, n),
                         .past = kind(PAST, n),
                         .map = {kind(HEADS, n), group, kind(FIRST, n) % group},
                         .variant = n};
}

static void block_rows_law(rig *g, int n)
{
    lot m = {0};
    attend_case c;
    attend_size size = size_at(n);
    block_make(&m, &c, &size);
    attended whole = block_run(&m, g, &c);
    omp_set_num_threads(1 + n % 3);
    int step = n;
    for (int64_t t = 0, to; t < c.tokens; t = to) {
        to = cut(c.tokens, t, step++);
        lot of_part = {0};
        attend_case part = rows_of(&of_part, &c, t, to);
        attended got = block_run(&of_part, g, &part);
        same_rows(&c, &whole, &part, &got, (const int64_t[]){t, 0});
        lot_end(&of_part);
    }
    lot_end(&m);
}

static void block_heads_law(rig *g, int n)
{
    lot m = {0};
    attend_case c;
    attend_size size = size_at(n);
    block_make(&m, &c, &size);
    attended whole = block_run(&m, g, &c);
    omp_set_num_threads(1 + n % 3);
    for (int64_t i = 0, to; i < c.map.heads; i = to) {
        to = i + 1 + n % 3 < c.map.heads ? i + 1 + n % 3 : c.map.heads;
        attend_case part = heads_of(&m, &c, i, to), rank = rank_of(&m, &c, i, to);
        attended got = block_run(&m, g, &part);
        same_rows(&c, &whole, &part, &got, (const int64_t[]){0, i});
        got = block_run(&m, g, &rank);
        same_rows(&c, &whole, &rank, &got, (const int64_t[]){0, i});
    }
    lot_end(&m);
}

static void decode_law(rig *g, int n)
{
    lot m = {0};
    attend_case c;
    attend_size size = size_at(n);
    decode_make(&m, &c, &size);
    attended whole = decode_run(&m, g, &c);
    omp_set_num_threads(1 + n % 3);
    for (int64_t b = 0; b < c.batch; b++) {
        attend_case alone = c;
        alone.batch = 1;
        alone.kv[0] = c.kv[b];
        alone.q = c.q + b * c.q_ld;
        alone.positions = c.positions + b;
        attended got = decode_run(&m, g, &alone);
        same_rows(&c, &whole, &alone, &got, (const int64_t[]){b, 0});
    }
    for (int64_t i = 0, to; i < c.map.heads; i = to) {
        to = i + 1 + n % 3 < c.map.heads ? i + 1 + n % 3 : c.map.heads;
        attend_case part = heads_of(&m, &c, i, to), rank = rank_of(&m, &c, i, to);
        attended got = decode_run(&m, g, &part);
        same_rows(&c, &whole, &part, &got, (const int64_t[]){0, i});
        got = decode_run(&m, g, &rank);
        same_rows(&c, &whole, &rank, &got, (const int64_t[]){0, i});
    }
    lot_end(&m);
}

START_TEST(test_rows_of_a_block_stand_alone)
{
    hold(block_rows_law, 120);
}
END_TEST

START_TEST(test_heads_of_a_block_stand_alone_also_in_a_cache_of_their_own)
{
    hold(block_heads_law, 80);
}
END_TEST

START_TEST(test_sequences_and_heads_of_a_batch_stand_alone)
{
    hold(decode_law, 160);
}
END_TEST

enum { LONG_DIM, LONG_ROWS, LONG_PAST, LONG_GROUP, LONG_HEADS };
static const dimension long_kinds[] = {
    [LONG_DIM] = {"head_dim", 6, {1, 20, 64, 80, 128, 256}},
    [LONG_ROWS] = {"rows", 4, {1, 5, 33, 90}},
    [LONG_PAST] = {"past", 7, {1, 255, 256, 300, 512, 700, 1100}},
    [LONG_GROUP] = {"group", 4, {1, 2, 3, 8}},
    [LONG_HEADS] = {"KV heads", 3, {1, 2, 3}},
};

static attend_size long_size(int n)
{
    const int64_t group = case_value(&long_kinds[LONG_GROUP], n);
    return (attend_size){.dim = case_value(&long_kinds[LONG_DIM], n),
                         .tokens = case_value(&long_kinds[LONG_ROWS], n),
                         .past = case_value(&long_kinds[LONG_PAST], n),
                         .map = {group * case_value(&long_kinds[LONG_HEADS], n), group, 0},
                         .variant = n};
}

/* Of some caches of the case the first entries lie in another cache. */
static void split_some(lot *m, attend_case *c, int n)
{
    for (int64_t b = 0; b < c->batch; b++)
        if ((n + b) % 3 || c->batch == 1) cache_split(m, &c->kv[b], (uint64_t)(n + b));
}

static void same_attended(const attended *got, const attended *want, int n, const char *name)
{
    check_same(got->o, want->o, got->o_count * 4, "outputs over a base, case %d, %s", n, name);
    check_same(got->lse, want->lse, got->lse_count * 4, "lse over a base, case %d, %s", n, name);
}

static void base_law(rig *g, int n)
{
    lot m = {0};
    attend_case c;
    const attend_size size = long_size(n);
    block_make(&m, &c, &size);
    c.any_order = n % 2;
    attended want = block_run(&m, g, &c);
    split_some(&m, &c, n);
    attended got = block_run(&m, g, &c);
    same_attended(&got, &want, n, g->ops->name);
    decode_make(&m, &c, &size);
    c.any_order = n % 2;
    want = decode_run(&m, g, &c);
    const float *logits = decode_logits_run(&m, g, &c);
    split_some(&m, &c, n);
    got = decode_run(&m, g, &c);
    same_attended(&got, &want, n, g->ops->name);
    check_same(decode_logits_run(&m, g, &c), logits, c.batch * c.map.heads * logits_ld(&c) * 4,
               "logits over a base, case %d, %s", n, g->ops->name);
    lot_end(&m);
}

START_TEST(test_entries_in_a_base_are_as_those_in_the_cache)
{
    hold(base_law, 120);
}
END_TEST

/* Whole groups, as column_stats wants them. */
static attend_size observed_size(int n)
{
    attend_size size = size_at(n);
    int64_t group = size.map.group;
    size.map = (lh_grouping){.heads = kind(KV_HEADS, n) * group, .group = group, .first = kind(FIRST_KV, n) * group};
    return size;
}

/* The numbers of slots [first, first + cols) of KV head `head` of the part are those of head at[0] of the whole. */
static void same_columns(const columns *part, const columns *whole, const columns_spec *spec, const int64_t at[2],
                         const char *what)
{
    const lh_slot_floats *got[] = {&part->sums, &part->squares, &part->counts, &part->largest};
    const lh_slot_floats *want[] = {&whole->sums, &whole->squares, &whole->counts, &whole->largest};
    for (int64_t j = spec->first; j < spec->first + spec->cols; j++) {
        for (int i = 0; i < 4; i++) {
            for (int64_t c = 0; c < (i ? 1 : spec->parts) && got[i]->at; c++)
                check_same(lh_slot_at(got[i], at[1], j, c), lh_slot_at(want[i], at[0], j, c), 4,
                           "%s: number %d of slot %d of head %d", what, i, (int)j, (int)at[0]);
        }
    }
}

static void columns_law(rig *g, int n)
{
    lot m = {0};
    attend_case c;
    attend_size size = observed_size(n);
    observed_make(&m, &c, &size);
    const float *lse = row_lse_run(&m, g, &c);
    const int64_t *len = c.kv[0].host.len, group = c.map.group;
    int64_t low = c.map.first / group, cols = longest_head(&c);
    const int joined = kind(PARTS, n) != 0, each_head = joined && n % 2;
    columns_spec all = {.lse = lse,
                        .cols = cols,
                        .parts = joined ? 1 : group,
                        .place = (columns_place)kind(PLACE, n),
                        .wanted = WANT_ALL & ~(each_head ? WANT_COUNTS : 0),
                        .each_head = each_head};
    columns whole = columns_run(&m, g, &c, &all, NULL);
    omp_set_num_threads(1 + n % 3);
    int step = n;
    for (int64_t j = 0, to; j < cols; j = to) {
        to = step % 3 ? cut(cols, j, step) : (j + cols + 1) / 2;
        step++;
        lot of_part = {0};
        columns_spec spec = all;
        spec.first = j;
        spec.cols = to - j;
        columns part = columns_run(&of_part, g, &c, &spec, NULL);
        for (int64_t h = low; h < c.kv[0].host.heads; h++) {
            spec.cols = to < len[h] ? to - j : len[h] - j;
            same_columns(&part, &whole, &spec, (const int64_t[]){h, h}, g->ops->name);
        }
        lot_end(&of_part);
    }
    for (int64_t i = 0; i < c.map.heads; i += group) {
        lot of_part = {0};
        attend_case rank = rank_of(&of_part, &c, i, i + group);
        columns_spec spec = all;
        float *own = lot_new(&of_part, c.tokens * group * 4);
        for (int64_t r = 0; r < c.tokens; r++) memcpy(own + r * group, lse + r * c.map.heads + i, (size_t)group * 4);
        spec.lse = own;
        columns part = columns_run(&of_part, g, &rank, &spec, NULL);
        spec.cols = len[low + i / group];
        same_columns(&part, &whole, &spec, (const int64_t[]){low + i / group, 0}, "a head alone");
        lot_end(&of_part);
    }
    lot_end(&m);
}

START_TEST(test_columns_and_their_heads_stand_alone)
{
    hold(columns_law, 80);
}
END_TEST

/* Also of a part of a group. */
static void row_lse_law(rig *g, int n)
{
    lot m = {0};
    attend_case c;
    attend_size size = size_at(n);
    observed_make(&m, &c, &size);
    const float *whole = row_lse_run(&m, g, &c);
    omp_set_num_threads(1 + n % 3);
    int step = n;
    for (int64_t t = 0, to; t < c.tokens; t = to) {
        to = cut(c.tokens, t, step++);
        attend_case part = c;
        part.tokens = to - t;
        part.q += t * c.q_ld;
        part.positions += t;
        if (part.until) part.until += t;
        if (part.gains) part.gains += t;
        check_same(row_lse_run(&m, g, &part), whole + t * c.map.heads, part.tokens * c.map.heads * 4,
                   "lse of rows from %d, case %d, %s", (int)t, n, g->ops->name);
    }
    for (int64_t i = 0, to; i < c.map.heads; i = to) {
        to = i + 1 + n % 3 < c.map.heads ? i + 1 + n % 3 : c.map.heads;
        attend_case rank = rank_of(&m, &c, i, to);
        const float *part = row_lse_run(&m, g, &rank);
        for (int64_t r = 0; r < c.tokens; r++)
            check_same(part + r * (to - i), whole + r * c.map.heads + i, (to - i) * 4,
                       "lse of row %d, heads from %d, case %d, %s", (int)r, (int)i, n, g->ops->name);
    }
    lot_end(&m);
}

START_TEST(test_lse_of_rows_and_heads_stand_alone)
{
    hold(row_lse_law, 120);
}
END_TEST

/* Rows [rows[0], rows[1]) and columns [cols[0], cols[1]) of the same elementwise operations: [tokens, dim]. */
typedef struct sheet {
    float *x, *up; /* device */
    int64_t tokens, dim;
    int kind;
} sheet;

static float *piece_of(lot *m, rig *g, const sheet *s, const int64_t rows[2], const int64_t cols[2])
{
    int64_t tokens = rows[1] - rows[0], dim = cols[1] - cols[0], at = rows[0] * s->dim + cols[0];
    float *y = rig_new(g, tokens * dim * 4), *host = lot_new(m, tokens * dim * 4);
    if (s->kind < 3) {
        RUN(g, gated, .y = y, .y_type = LH_F32, .gate = s->x + at, .up = s->up + at, .tokens = tokens, .dim = dim,
            .y_ld = dim, .ld = s->dim, .gate_kind = (lh_gate)s->kind);
    } else {
        RUN(g, convert, .dst = y, .src = s->x + at, .dst_type = LH_F32, .src_type = LH_F32, .rows = tokens, .cols = dim,
            .dst_ld = dim, .src_ld = s->dim);
        RUN(g, softcap, .x = y, .count = tokens * dim, .cap = 3.0f);
    }
    rig_get(g, host, y, tokens * dim * 4);
    rig_reset(g);
    return host;
}

static void sheet_put(rig *g, sheet *s, const float *x)
{
    s->x = rig_put(g, x, s->tokens * s->dim * 4);
    s->up = rig_put(g, x, s->tokens * s->dim * 4);
}

static void elements_law(rig *g, int n)
{
    lot m = {0};
    sheet s = {.tokens = 1 + n % 6, .dim = 1 + n * 37 % 200, .kind = n / 4 % 4};
    const float *x = lot_normals(&m, s.tokens * s.dim, 3.0f, (uint64_t)n);
    sheet_put(g, &s, x);
    const float *whole = piece_of(&m, g, &s, (const int64_t[]){0, s.tokens}, (const int64_t[]){0, s.dim});
    omp_set_num_threads(1 + n % 3);
    int step = n;
    for (int64_t j = 0, to; j < s.dim; j = to) {
        to = cut(s.dim, j, step++);
        const int64_t rows[2] = {step % 2 ? 0 : s.tokens / 2, s.tokens};
        sheet_put(g, &s, x);
        const float *part = piece_of(&m, g, &s, rows, (const int64_t[]){j, to});
        for (int64_t t = rows[0]; t < rows[1]; t++)
            check_same(part + (t - rows[0]) * (to - j), whole + t * s.dim + j, (to - j) * 4,
                       "elements from %d, kind %d, case %d, %s", (int)j, s.kind, n, g->ops->name);
    }
    lot_end(&m);
}

START_TEST(test_elements_of_gates_and_soft_caps_stand_alone)
{
    hold(elements_law, 120);
}
END_TEST

/* Norm and rotation of [tokens, heads, dim], of one row and head at a time. */
static void heads_law(rig *g, int n)
{
    lot m = {0};
    int64_t tokens = 1 + n % 7, heads = 1 + n % 9, dim = test_dims[1 + n % 9] / 2 * 2, ld = heads * dim,
            count = tokens * ld;
    const float *x = lot_normals(&m, count, 1.0f, (uint64_t)n), *w = lot_normals(&m, dim, 1.0f, 7);
    float *whole = lot_new(&m, count * 4), *part = lot_new(&m, dim * 4), *on = rig_put(g, x, count * 4);
    int32_t *positions = lot_new(&m, tokens * 4);
    for (int64_t t = 0; t < tokens; t++) positions[t] = (int32_t)draw(50, (uint64_t)(n * 10 + t), 100000);
    float *w_on = rig_put(g, w, dim * 4);
    int32_t *positions_on = rig_put(g, positions, tokens * 4);
    RUN(g, rmsnorm, .y = on, .y_type = LH_F32, .x = on, .w = w_on, .tokens = tokens, .heads = heads, .dim = dim,
        .x_ld = ld, .y_ld = ld, .eps = 1e-6f);
    RUN(g, rope, .x = on, .positions = positions_on, .inv_freq = w_on, .tokens = tokens, .heads = heads, .dim = dim,
        .rotary = dim, .ld = ld, .scale = 1.0f);
    rig_get(g, whole, on, count * 4);
    omp_set_num_threads(1 + n % 3);
    for (int64_t i = 0; i < tokens * heads; i++) {
        float *one = rig_put(g, x + i * dim, dim * 4);
        RUN(g, rmsnorm, .y = one, .y_type = LH_F32, .x = one, .w = w_on, .tokens = 1, .heads = 1, .dim = dim,
            .x_ld = dim, .y_ld = dim, .eps = 1e-6f);
        RUN(g, rope, .x = one, .positions = positions_on + i / heads, .inv_freq = w_on, .tokens = 1, .heads = 1,
            .dim = dim, .rotary = dim, .ld = dim, .scale = 1.0f);
        rig_get(g, part, one, dim * 4);
        check_same(part, whole + i * dim, dim * 4, "norm and rotation of head %d, case %d, %s", (int)i, n,
                   g->ops->name);
    }
    rig_reset(g);
    lot_end(&m);
}

START_TEST(test_norm_and_rotation_of_a_head_stand_alone)
{
    hold(heads_law, 70);
}
END_TEST

/* Scores of [heads * group, cols]: joined over the group and pooled, of all heads or of one, of all columns or of some.
 */
static void scores_law(rig *g, int n)
{
    lot m = {0};
    int64_t heads = 1 + n % 6, group = 1 + n % 4, cols = 1 + n * 31 % 300, rows = heads * group;
    const float *x = lot_normals(&m, rows * cols, 1.0f, (uint64_t)n);
    float *on = rig_put(g, x, rows * cols * 4), *y = rig_new(g, rows * cols * 4),
          *joined = rig_new(g, heads * cols * 4);
    float *whole = lot_new(&m, rows * cols * 4), *whole_joined = lot_new(&m, heads * cols * 4),
          *part = lot_new(&m, cols * 4);
    uint8_t *state = lot_new(&m, heads * cols), *state_on;
    int64_t *len = lot_new(&m, heads * 8), *len_on;
    for (int64_t i = 0; i < heads * cols; i++)
        state[i] = draw(60, (uint64_t)(n * 10000 + i), 4) ? LH_ENTRY_COMPETES : LH_ENTRY_KEEP;
    for (int64_t h = 0; h < heads; h++) len[h] = cols;
    state_on = rig_put(g, state, heads * cols);
    len_on = rig_put(g, len, heads * 8);
    lh_pool_kind pool = n % 2 ? LH_POOL_AVG : LH_POOL_MAX;
    lh_ragged kv = {.heads = heads, .len = len_on};
    lh_group_kind join = (lh_group_kind)(n % 3);
    RUN(g, pool, .y = y, .x = on, .state = state_on, .kv = &kv, .rows = rows, .rows_per_head = group, .ld = cols,
        .k = 1 + n % 16 * 2, .seen = cols, .kind = pool);
    RUN(g, group_reduce, .y = joined, .x = on, .heads = heads, .group = group, .cols = cols, .y_ld = cols, .x_ld = cols,
        .kind = join, .factor = 0.7f);
    rig_get(g, whole, y, rows * cols * 4);
    rig_get(g, whole_joined, joined, heads * cols * 4);
    omp_set_num_threads(1 + n % 3);
    for (int64_t r = 0; r < rows; r++) {
        RUN(g, pool, .y = y, .x = on + r * cols, .state = state_on + r / group * cols, .kv = &kv, .rows = 1,
            .rows_per_head = 1, .ld = cols, .k = 1 + n % 16 * 2, .seen = cols, .kind = pool);
        rig_get(g, part, y, cols * 4);
        check_same(part, whole + r * cols, cols * 4, "pooled row %d, case %d, %s", (int)r, n, g->ops->name);
    }
    for (int64_t h = 0; h < heads; h++) {
        int64_t from = cols / (2 + h);
        RUN(g, group_reduce, .y = joined, .x = on + h * group * cols + from, .heads = 1, .group = group,
            .cols = cols - from, .y_ld = cols, .x_ld = cols, .kind = join, .factor = 0.7f);
        rig_get(g, part, joined, (cols - from) * 4);
        check_same(part, whole_joined + h * cols + from, (cols - from) * 4, "joined head %d, case %d, %s", (int)h, n,
                   g->ops->name);
    }
    rig_reset(g);
    lot_end(&m);
}

START_TEST(test_pooled_rows_and_joined_heads_stand_alone)
{
    hold(scores_law, 96);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_rows_of_a_fixed_product_stand_alone,
                                  test_rows_of_a_block_stand_alone,
                                  test_heads_of_a_block_stand_alone_also_in_a_cache_of_their_own,
                                  test_sequences_and_heads_of_a_batch_stand_alone,
                                  test_entries_in_a_base_are_as_those_in_the_cache,
                                  test_columns_and_their_heads_stand_alone,
                                  test_lse_of_rows_and_heads_stand_alone,
                                  test_elements_of_gates_and_soft_caps_stand_alone,
                                  test_norm_and_rotation_of_a_head_stand_alone,
                                  test_pooled_rows_and_joined_heads_stand_alone,
                                  NULL};
    return rig_run("kernels/bits", tests);
}
