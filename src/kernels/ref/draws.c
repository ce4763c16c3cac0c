/* Random scores, keyed by what they are drawn for and never by the order of calls. */
#include <math.h>

#include "base/rng.h"
#include "kernels/ref/ref.h"

static uint32_t draw_word(const lh_draw *draw, const lh_ragged *kv, int64_t h, int64_t s)
{
    const uint32_t counter[4] = {draw->counter[0], draw->counter[1], (uint32_t)(draw->first_head + h),
                                 (uint32_t)ref_position(kv, h, s)};
    uint32_t words[4];
    lh_philox(words, draw->key, counter);
    return words[0];
}

lh_status lh_ref_random_scores(lh_stream *stream, const lh_random_scores_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        for (int64_t s = 0; s < a->kv->len[h]; s++) a->y[h * a->ld + s] = lh_uniform(draw_word(&a->draw, a->kv, h, s));
    }
    return LH_OK;
}

lh_status lh_ref_gumbel_scores(lh_stream *stream, const lh_gumbel_scores_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        for (int64_t s = 0; s < a->kv->len[h]; s++) {
            double u = lh_uniform_open(draw_word(&a->draw, a->kv, h, s));
            a->y[h * a->ld + s] = (float)((double)a->x[h * a->ld + s] / a->temperature - log(-log(u)));
        }
    }
    return LH_OK;
}
