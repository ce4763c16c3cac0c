/* LagKV: a part of a head at a time, which reads its own entries twice and those of the next part once. */
#include "kernels/cpu/common.h"

/* A part of a head that has a next one, slots [at, at + lag), and a thread's memory for it. */
typedef struct lh_lag_part {
    const lh_ragged *kv;
    int64_t h, at, lag;
    float *least, *scales; /* [head_dim] of the next part: least numbers, 1 / (most - least) */
    float *deviations, *e; /* [lag] */
} lh_lag_part;

/* Keys or values: what channels of the next part range over. */
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

/* Of the entry whose first number is `at`. */
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
    const int64_t floats = 2 * (d + lh_min_i64(a->lag, a->ld)); /* longer parts have no next one */
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
