/* Scores from statistics, and their shaping. */
#include "kernels/cpu/common.h"
#include "kernels/slotwise.h"

/* Slots [first, end) of a row of y, which may be the numbers themselves. */
typedef struct lh_finish {
    const lh_finish_scores_args *args;
    int64_t row, first, end;
} lh_finish;

/* In double: positions are exact, and the difference of a deviation cancels. Numbers of slots lie singly or in pairs as
 * a rule, and `step` is a constant then: what would be gathered is loaded. */
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

/* By kind. */
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

/* y may be x, and then row h of y lies over a row of an earlier or the same
 * group: heads in order. */
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
