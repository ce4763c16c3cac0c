/* Scores from statistics, keys, values and random numbers, and their shaping. */
#include "kernels/cpu/common.h"
#include "kernels/slotwise.h"

/* Slots [first, end) of a row of y, which may alias the input. */
typedef struct lh_finish {
    const lh_finish_scores_args *args;
    int64_t row, first, end;
} lh_finish;

/* In double: positions are exact, and the difference of a deviation cancels. `step` is a constant for the usual strides
 * 1 and 2: contiguous loads replace gathers. */
VEC_FN void finish_slots(const lh_finish *f, const int64_t step, const int64_t squares_step, const lh_finish_kind kind)
{
    const lh_finish_scores_args *a = f->args;
    const int64_t h = f->row / a->parts, c = f->row % a->parts, first = f->first, end = f->end;
    const float *x = lh_slot_at(&a->x, h, 0, c);
    const float *squares = kind == LH_FINISH_DEVIATION ? lh_slot_at(&a->squares, h, 0, c) : NULL;
    const int32_t *positions = lh_positions_of(a->kv, h);
    const double factor = a->factor;
    float *y = a->y + f->row * a->ld;
#pragma omp simd
    for (int64_t s = first; s < end; s++) {
        const double value = x[s * step];
        if (kind == LH_FINISH_PLAIN) {
            y[s] = (float)(factor * value);
        } else if (kind == LH_FINISH_ROOT) {
            y[s] = sqrtf((float)(factor * value));
        } else if (kind == LH_FINISH_PER_VISIT) {
            double n = lh_visits_of(a, positions ? positions[s] : (double)s), by = n > 0.0 ? n : 1.0;
            float mean = (float)(factor * value) / (float)by;
            y[s] = n > 0.0 ? mean : 0.0f;
        } else {
            double n = lh_visits_of(a, positions ? positions[s] : (double)s), share = 1.0 / (n > 1.0 ? n : 1.0),
                   mean = value * share;
            double square = squares[s * squares_step] * share - mean * mean;
            float deviation = sqrtf((float)(square > 0.0 ? square : 0.0));
            y[s] = n > 1.0 ? deviation : 0.0f;
        }
    }
}

#define FINISH(name, kind)                                                \
    static void name(const lh_finish *f)                                  \
    {                                                                     \
        const lh_finish_scores_args *a = f->args;                         \
        const int64_t step = a->x.step, squares = a->squares.step;        \
        const int alike = kind != LH_FINISH_DEVIATION || squares == step; \
        if (alike && step == 1)                                           \
            finish_slots(f, 1, 1, kind);                                  \
        else if (alike && step == 2)                                      \
            finish_slots(f, 2, 2, kind);                                  \
        else                                                              \
            finish_slots(f, step, squares, kind);                         \
    }
FINISH(finish_plain, LH_FINISH_PLAIN)
FINISH(finish_root, LH_FINISH_ROOT)
FINISH(finish_per_visit, LH_FINISH_PER_VISIT)
FINISH(finish_deviation, LH_FINISH_DEVIATION)

/* Indexed by kind. */
static void (*const finish_kinds[])(const lh_finish *) = {[LH_FINISH_PLAIN] = finish_plain,
                                                          [LH_FINISH_ROOT] = finish_root,
                                                          [LH_FINISH_PER_VISIT] = finish_per_visit,
                                                          [LH_FINISH_DEVIATION] = finish_deviation};

static void finish_block(const lh_finish_scores_args *a, int64_t row, int64_t first)
{
    int64_t end = lh_min_i64(first + COLUMNS, a->kv->len[row / a->parts]);
    finish_kinds[a->kind](&(lh_finish){.args = a, .row = row, .first = first, .end = end});
}

static lh_status op_finish_scores(lh_stream *stream, const lh_finish_scores_args *a)
{
    int64_t rows = a->kv->heads * a->parts, blocks = (a->ld + COLUMNS - 1) / COLUMNS;
    (void)stream;
    FOR_EACH(n, rows * blocks, rows * a->ld >= PARALLEL_FROM / 4, finish_block(a, n / blocks, n % blocks * COLUMNS));
    return LH_OK;
}

static void apply_prior_head(const lh_apply_prior_args *a, int64_t h)
{
    const float *prior = a->prior + h * a->ld;
    const uint8_t *state = a->state + h * a->ld;
    const int64_t len = a->len[h];
    float *y = a->y + h * a->ld, top = largest_competing(prior, state, len); /* norms are not negative */
#pragma omp simd
    for (int64_t s = 0; s < len; s++) {
        float shaped = top == 0 ? 0.0f : y[s] * (prior[s] / top);
        y[s] = state[s] == LH_ENTRY_COMPETES ? shaped : y[s];
    }
}

static lh_status op_apply_prior(lh_stream *stream, const lh_apply_prior_args *a)
{
    (void)stream;
    FOR_EACH(h, a->heads, a->heads * a->ld >= PARALLEL_FROM, apply_prior_head(a, h));
    return LH_OK;
}

static void defend_head(const lh_defend_scores_args *a, int64_t h)
{
    const uint8_t *state = a->state + h * a->ld;
    const int64_t len = a->len[h], step = a->norms.step;
    const float *norms = a->norms.at ? lh_slot_at(&a->norms, h, 0, 0) : NULL;
    float *y = a->y + h * a->ld;
    double sums[2] = {0.0, 0.0};
    int64_t count = 0;
    for (int64_t s = 0; s < len; s++) {
        const int competes = state[s] == LH_ENTRY_COMPETES;
        sums[0] += competes ? (double)y[s] : 0.0;
        sums[1] += competes && norms ? (double)norms[s * step] : 0.0;
        count += competes;
    }
    for (int64_t s = 0; s < len; s++)
        if (state[s] == LH_ENTRY_COMPETES)
            y[s] = lh_defended(y[s], norms ? norms[s * step] : -1.0f, sums, count, a->raise);
}

static lh_status op_defend_scores(lh_stream *stream, const lh_defend_scores_args *a)
{
    (void)stream;
    FOR_EACH(h, a->heads, a->heads * a->ld >= PARALLEL_FROM, defend_head(a, h));
    return LH_OK;
}

static void group_reduce_block(const lh_group_reduce_args *a, int64_t h, int64_t first)
{
    int64_t end = lh_min_i64(first + COLUMNS, a->cols);
    for (int64_t j = first; j < end; j++) a->y[h * a->y_ld + j] = lh_reduced(a, h, j);
}

/* y may be x, and then row h of y overwrites a row of an earlier or the same group: heads in order. */
static lh_status op_group_reduce(lh_stream *stream, const lh_group_reduce_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->heads; h++) {
#pragma omp parallel for if (a->cols * a->group >= PARALLEL_FROM)
        for (int64_t j = 0; j < a->cols; j += COLUMNS) group_reduce_block(a, h, j);
    }
    return LH_OK;
}

static float largest_of_cache(const lh_max_score_args *a, int64_t b)
{
    const int64_t heads = a->kv->heads;
    float top = 0.0f;
#pragma omp parallel for reduction(max : top) if (heads * a->ld >= PARALLEL_FROM)
    for (int64_t h = 0; h < heads; h++) {
        float x = largest_competing(a->scores + b * a->scores_step + h * a->ld, a->state + (b * heads + h) * a->ld,
                                    a->kv[b].len[h]);
        top = x > top ? x : top;
    }
    return top;
}

static lh_status op_max_score(lh_stream *stream, const lh_max_score_args *a)
{
    (void)stream;
    for (int64_t b = 0; b < a->batch; b++) a->y[b] = largest_of_cache(a, b);
    return LH_OK;
}

/* ---- LagKV: a part of a head at a time, which reads its entries twice and the entries of the next part once ---- */
/* A part of a head with a next part, slots [at, at + lag), and workspace of a thread. */
typedef struct lh_lag_part {
    const lh_ragged *kv;
    int64_t h, at, lag;
    float *least, *scales; /* [head_dim] of the next part: minimum, 1 / (maximum - minimum) */
    float *deviations, *e; /* [lag] */
} lh_lag_part;

/* The ranges of the channels of the next part's keys or values. */
VEC_FN void find_ranges(const lh_lag_part *p, const void *numbers)
{
    const int64_t d = p->kv->head_dim, from = (p->kv->offset[p->h] + p->at + p->lag) * d;
    for (int64_t i = 0; i < d; i += VL) {
        vf least = vf_load_any_first(numbers, p->kv->type, from + i, d - i), most = least, scale;
        for (int64_t t = 1; t < p->lag; t++) {
            vf x = vf_load_any_first(numbers, p->kv->type, from + t * d + i, d - i);
            least = vf_min(least, x);
            most = vf_max(most, x);
        }
        scale = vf_where(vf_lt(least, most), vf_set1(1.0f) / (most - least), vf_zero());
        vf_store_first(p->least + i, least, d - i);
        vf_store_first(p->scales + i, scale, d - i);
    }
}

/* The deviation of the entry whose first number is `at`. */
VEC_FN float deviation_of(const lh_lag_part *p, const void *numbers, int64_t at)
{
    const int64_t d = p->kv->head_dim;
    vf sum = vf_zero(), squares = vf_zero();
    for (int64_t i = 0; i < d; i += VL) {
        vf x = vf_load_any_first(numbers, p->kv->type, at + i, d - i) - vf_load_first(p->least + i, d - i);
        sum = vf_fma(x, vf_load_first(p->scales + i, d - i), sum);
    }
    vf mean = vf_set1(vf_sum(sum) / (float)d);
    for (int64_t i = 0; i < d; i += VL) {
        vf x = vf_load_any_first(numbers, p->kv->type, at + i, d - i) - vf_load_first(p->least + i, d - i);
        x = vf_where(vm_first(d - i), x * vf_load_first(p->scales + i, d - i) - mean, vf_zero());
        squares = vf_fma(x, x, squares);
    }
    return d > 1 ? sqrtf(vf_sum(squares) / (float)(d - 1)) : 0.0f;
}

/* e += half of the softmax of the deviations. */
static void add_lag_softmax(const lh_lag_part *p, const void *numbers)
{
    const int64_t d = p->kv->head_dim, from = (p->kv->offset[p->h] + p->at) * d;
    float top = 0.0f, sum = 0.0f;
    find_ranges(p, numbers);
    for (int64_t s = 0; s < p->lag; s++) {
        p->deviations[s] = deviation_of(p, numbers, from + s * d);
        top = fmaxf(top, p->deviations[s]);
    }
    for (int64_t s = 0; s < p->lag; s++) sum += p->deviations[s] = expf(p->deviations[s] - top);
    for (int64_t s = 0; s < p->lag; s++) p->e[s] += p->deviations[s] / sum / 2.0f;
}

static void rank_lag_part(const lh_lag_part *p, float *y)
{
    memset(p->e, 0, (size_t)p->lag * sizeof *p->e);
    add_lag_softmax(p, p->kv->k);
    add_lag_softmax(p, p->kv->v);
    for (int64_t s = 0; s < p->lag; s++) {
        int32_t below = 0;
        for (int64_t t = 0; t <= s; t++) below += p->e[t] < p->e[s];
        for (int64_t t = s + 1; t < p->lag; t++) below += p->e[t] <= p->e[s];
        y[p->at + s] = (float)below / (float)p->lag;
    }
}

static void score_rest(const lh_lag_scores_args *a, int64_t h)
{
    const int64_t len = a->kv->len[h], end = lh_lag_end(len, a->first, a->lag);
    float *y = a->y + h * a->ld;
    for (int64_t s = 0; s < lh_min_i64(a->first, len); s++) y[s] = lh_lag_rest(s, a->first, end, len);
    for (int64_t s = end; s < len; s++) y[s] = lh_lag_rest(s, a->first, end, len);
}

static lh_status op_lag_scores(lh_stream *stream, const lh_lag_scores_args *a)
{
    const lh_ragged *kv = a->kv;
    const int64_t d = kv->head_dim, blocks = blocks_of(kv, a->lag), items = kv->heads * blocks;
    const int64_t floats = 2 * (d + lh_min_i64(a->lag, a->ld)); /* longer parts have no next part */
    float *memory = NULL;
    if (items == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &memory, omp_get_max_threads() * floats * (int64_t)sizeof *memory));
#pragma omp parallel for schedule(dynamic) if (items > 1)
    for (int64_t n = 0; n < items; n++) {
        const int64_t h = n / blocks, at = a->first + n % blocks * a->lag;
        float *room = memory + omp_get_thread_num() * floats;
        const lh_lag_part p = {kv, h, at, a->lag, room, room + d, room + 2 * d, room + 2 * d + a->lag};
        if (at < lh_lag_end(kv->len[h], a->first, a->lag)) rank_lag_part(&p, a->y + h * a->ld);
    }
    for (int64_t h = 0; h < kv->heads; h++) score_rest(a, h);
    return LH_OK;
}

/* ---- expected attention: blocks of entries of a query head, four entries together against each row of its covariance
 * ---- */
enum { EXPECTED_ENTRIES = 256, EXPECTED_AT_ONCE = 4 };

/* Logits of EXPECTED_AT_ONCE entries; keys: [EXPECTED_AT_ONCE, d]. */
VEC_FN void expect(const lh_expected_scores_args *a, int64_t i, const float *keys, float *out)
{
    int64_t d = a->kv->head_dim;
    const float *mean = a->means + i * d, *covariance = a->covariances + i * d * d;
    vf sums[EXPECTED_AT_ONCE];
    for (int e = 0; e < EXPECTED_AT_ONCE; e++) sums[e] = vf_zero();
    for (int64_t y = 0; y < d; y += VL) {
        vf rows[EXPECTED_AT_ONCE], m = vf_set1(a->scale) * vf_load_first(mean + y, d - y);
        for (int e = 0; e < EXPECTED_AT_ONCE; e++) rows[e] = vf_zero();
        for (int64_t x = 0; x < d; x++) {
            vf c = vf_load_first(covariance + x * d + y, d - y);
            for (int e = 0; e < EXPECTED_AT_ONCE; e++) rows[e] = vf_fma(vf_set1(keys[e * d + x]), c, rows[e]);
        }
        for (int e = 0; e < EXPECTED_AT_ONCE; e++) {
            vf half = vf_set1(0.5f * a->scale * a->scale);
            sums[e] = vf_fma(vf_fma(half, rows[e], m), vf_load_first(keys + e * d + y, d - y), sums[e]);
        }
    }
    for (int e = 0; e < EXPECTED_AT_ONCE; e++) out[e] = vf_sum(sums[e]);
}

/* Logits of the slots [first, end) of query head i. keys: [EXPECTED_AT_ONCE, d] floats of this thread. */
static void expect_range(const lh_expected_scores_args *a, int64_t i, const int64_t range[2], float *keys)
{
    const lh_ragged *kv = a->kv;
    int64_t d = kv->head_dim, h = (a->map.first + i) / a->map.group;
    for (int64_t s = range[0]; s < range[1]; s += EXPECTED_AT_ONCE) {
        int64_t n = lh_min_i64(EXPECTED_AT_ONCE, range[1] - s);
        float out[EXPECTED_AT_ONCE];
        memset(keys, 0, (size_t)(EXPECTED_AT_ONCE * d) * sizeof *keys);
        lh_dtype_convert(keys, LH_F32, (const char *)kv->k + (kv->offset[h] + s) * d * lh_dtype_bytes(kv->type),
                         kv->type, n * d);
        expect(a, i, keys, out);
        for (int64_t e = 0; e < n && kv->bias; e++) out[e] += kv->bias[kv->offset[h] + s + e];
        memcpy(a->y + i * a->ld + s, out, (size_t)n * sizeof *out);
    }
}

/* Softmax over the competing entries, in place. */
static void normalise_expected(const lh_expected_scores_args *a, int64_t i)
{
    int64_t h = (a->map.first + i) / a->map.group, len = a->kv->len[h];
    const uint8_t *state = a->state + h * a->ld;
    float *y = a->y + i * a->ld, row_max = -INFINITY;
    double denominator = 0.0;
    for (int64_t s = 0; s < len; s++)
        if (state[s] == LH_ENTRY_COMPETES && !(y[s] <= row_max)) row_max = y[s];
    for (int64_t s = 0; s < len; s++) {
        y[s] = state[s] == LH_ENTRY_COMPETES ? expf(y[s] - row_max) : 0.0f;
        denominator += y[s];
    }
    for (int64_t s = 0; s < len; s++) y[s] = state[s] == LH_ENTRY_COMPETES ? (float)(y[s] / denominator) : 0.0f;
}

static lh_status op_expected_scores(lh_stream *stream, const lh_expected_scores_args *a)
{
    int64_t d = a->kv->head_dim, keys = EXPECTED_AT_ONCE * d;
    float *memory = NULL;
    int64_t blocks = blocks_of(a->kv, EXPECTED_ENTRIES), items = a->map.heads * blocks;
    if (items == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &memory, omp_get_max_threads() * keys * (int64_t)sizeof *memory));
#pragma omp parallel if (items > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t n = 0; n < items; n++) {
            int64_t i = n / blocks, first = n % blocks * EXPECTED_ENTRIES;
            int64_t len = a->kv->len[(a->map.first + i) / a->map.group];
            const int64_t range[2] = {first, lh_min_i64(first + EXPECTED_ENTRIES, len)};
            expect_range(a, i, range, memory + omp_get_thread_num() * keys);
        }
#pragma omp for
        for (int64_t i = 0; i < a->map.heads; i++) normalise_expected(a, i);
    }
    return LH_OK;
}

/* ---- sums of rows and of their outer products: a head is a work item ---- */
enum { MOMENT_ROWS = 128, MOMENT_AT_ONCE = 4 };

/* Adds products of head i from `count` rows, `ld` floats apart and zero after the head: MOMENT_AT_ONCE elements from x
 * on by MOMENT_AT_ONCE vectors from y on. */
VEC_FN void add_products(const lh_row_moments_args *a, int64_t i, const float *rows, int64_t count, const int64_t at[3])
{
    int64_t d = a->dim, x = at[0], y = at[1], ld = at[2];
    vf sums[MOMENT_AT_ONCE][MOMENT_AT_ONCE];
    float lanes[VL];
#pragma GCC unroll 4
    for (int m = 0; m < MOMENT_AT_ONCE; m++)
#pragma GCC unroll 4
        for (int n = 0; n < MOMENT_AT_ONCE; n++) sums[m][n] = vf_zero();
    for (int64_t r = 0; r < count; r++) {
        const float *row = rows + r * ld;
        vf v[MOMENT_AT_ONCE];
#pragma GCC unroll 4
        for (int n = 0; n < MOMENT_AT_ONCE; n++) v[n] = vf_load(row + y + n * VL);
#pragma GCC unroll 4
        for (int m = 0; m < MOMENT_AT_ONCE; m++)
#pragma GCC unroll 4
            for (int n = 0; n < MOMENT_AT_ONCE; n++) sums[m][n] = vf_fma(vf_set1(row[x + m]), v[n], sums[m][n]);
    }
    for (int64_t m = 0; m < lh_min_i64(MOMENT_AT_ONCE, d - x); m++)
        for (int64_t n = 0; n < lh_min_i64(MOMENT_AT_ONCE * VL, d - y); n++) {
            if (n % VL == 0) vf_store(lanes, sums[m][n / VL]);
            a->products[(i * d + x + m) * d + y + n] += lanes[n % VL];
        }
}

VEC_FN void widen_rows(const lh_row_moments_args *a, int64_t at, float *rows, const int64_t shape[2],
                       const lh_dtype type)
{
    for (int64_t r = 0; r < shape[0]; r++)
        for (int64_t n = 0; n < a->dim; n += VL)
            vf_store(rows + r * shape[1] + n, vf_load_any_first(a->x, type, at + r * a->x_ld + n, a->dim - n));
}

/* Head i. rows: [MOMENT_ROWS, ld] floats of this thread. */
static void add_moments(const lh_row_moments_args *a, int64_t i, float *rows, int64_t ld)
{
    int64_t d = a->dim;
    memset(rows, 0, (size_t)(MOMENT_ROWS * ld) * sizeof *rows);
    for (int64_t from = 0; from < a->rows; from += MOMENT_ROWS) {
        int64_t count = lh_min_i64(MOMENT_ROWS, a->rows - from), at = from * a->x_ld + i * d;
        const int64_t shape[2] = {count, ld};
        if (a->type == LH_F32) widen_rows(a, at, rows, shape, LH_F32);
        if (a->type == LH_BF16) widen_rows(a, at, rows, shape, LH_BF16);
        for (int64_t x = 0; x < d && a->sums; x++) {
            double sum = 0.0;
            for (int64_t r = 0; r < count; r++) sum += rows[r * ld + x];
            a->sums[i * d + x] += sum;
        }
        for (int64_t x = 0; x < d; x += MOMENT_AT_ONCE)
            for (int64_t y = 0; y < d; y += MOMENT_AT_ONCE * VL)
                add_products(a, i, rows, count, (const int64_t[]){x, y, ld});
    }
}

static lh_status op_row_moments(lh_stream *stream, const lh_row_moments_args *a)
{
    float *memory = NULL;
    int64_t ld = round_up(a->dim, MOMENT_AT_ONCE * VL), own = MOMENT_ROWS * ld;
    LH_TRY(lh_stream_scratch(stream, &memory, omp_get_max_threads() * own * (int64_t)sizeof *memory));
#pragma omp parallel for schedule(dynamic) if (a->heads > 1 && a->rows * a->dim > 64)
    for (int64_t i = 0; i < a->heads; i++) add_moments(a, i, memory + omp_get_thread_num() * own, ld);
    return LH_OK;
}

/* ---- operations on slots (slotwise.h): heads are divided into blocks of slots ----
 *
 * The arguments are copied, because for the compiler a store of a state may change anything behind a pointer. */
enum { SLOT_BLOCK = 1 << 13 };

#define SLOTWISE_OP(op, rows, cols, cost)                                     \
    static lh_status op_##op(lh_stream *stream, const lh_##op##_args *a)      \
    {                                                                         \
        int64_t blocks = ((cols) + SLOT_BLOCK - 1) / SLOT_BLOCK;              \
        (void)stream;                                                         \
        FOR_EACH(n, (rows)*blocks, (rows) * (cols) >= PARALLEL_FROM / (cost), \
                 op##_block(a, n / blocks, n % blocks * SLOT_BLOCK));         \
        return LH_OK;                                                         \
    }

#define LH_SLOTWISE(op, rows, cols, cost)                                                         \
    static void op##_block(const lh_##op##_args *args, int64_t h, int64_t first)                  \
    {                                                                                             \
        const lh_##op##_args copy = *args, *a = &copy;                                            \
        lh_##op##_slots(a, h, (lh_slot_range){first, lh_min_i64(first + SLOT_BLOCK, (cols)), 1}); \
    }                                                                                             \
    SLOTWISE_OP(op, rows, cols, cost)
#define LH_SLOTWISE_KV(op, cost) LH_SLOTWISE(op, a->kv->heads, a->ld, cost)
LH_SLOTWISE_OPS(LH_SLOTWISE, LH_SLOTWISE_KV)
LH_SLOTWISE(classify, (a->batch * a->kv->heads), a->ld, 1)
LH_SLOTWISE(add_heads, a->batch, a->cols, 4)
LH_SLOTWISE(sum_shards, 1, a->count, a->shards + 1)
#undef LH_SLOTWISE
#undef LH_SLOTWISE_KV

/* The compiler vectorises a loop over draws, but not one with logarithms. */
static void gumbel_scores_block(const lh_gumbel_scores_args *a, int64_t h, int64_t first)
{
    const int32_t *positions = lh_positions_of(a->kv, h);
    const int64_t n = lh_min_i64(SLOT_BLOCK, a->kv->len[h] - first), at = h * a->ld + first;
    uint32_t words[SLOT_BLOCK];
    for (int64_t i = 0; i < n; i++)
        words[i] = lh_draw_word(&a->draw, h, (uint32_t)(positions ? positions[first + i] : first + i));
    for (int64_t i = 0; i < n; i++) a->y[at + i] = lh_gumbel_score(a, a->x[at + i], words[i]);
}
SLOTWISE_OP(gumbel_scores, a->kv->heads, a->ld, 16)
