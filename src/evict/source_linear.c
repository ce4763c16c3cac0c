/* A linear function of an entry's own key, without its rotation, and value (lh_linear_scores_args), with weights that are
 * learnt for each KV head of a model (score_weights.h). It needs no query rows: heads stay on their ranks, and the score
 * of an entry is the same at the end of a prompt, while decoding and in a replay. */
#include "evict/evict_impl.h"

void lh_linear_scores(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    static const lh_rotation none = {.scale = 1.0f};
    const lh_rotation *r = lh_key_rotation(ev, job);
    if (!r) r = &none;
    LH_RUN(&ev->exec, linear_scores, .y = scores, .w = job->layer.score_weights, .kv = job->entries,
           .inv_freq = r->inv_freq, .rotary = r->rotary, .scale = r->scale, .ld = ev->ld,
           .w_ld = lh_learnt_numbers(ev->shape.head_dim));
}

static const lh_source source = {.score = lh_linear_scores};

const lh_method lh_method_linear = {.word = "linear",
                                    .help = "A learnt function of key and value first ('longhaul learn').",
                                    .traits = LH_NEEDS_ENTRIES | LH_NEEDS_ROTATION | LH_NEEDS_SCORE_WEIGHTS,
                                    .source = &source};
