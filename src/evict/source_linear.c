/* A linear function of an entry's own key, without its rotation, and value (entry_features of ops_score.h), with
 * weights that are learnt for each KV head of a model (score_weights.h). It needs no query rows: heads stay on their
 * ranks, and the score of an entry is the same at the end of a prompt, while decoding and in a replay. */
#include "evict/evict_impl.h"
#include "evict/plain_entries.h"

/* features: [LH_PLAIN_ENTRIES_AT_ONCE, features of an entry]. */
static void score_head(const lh_evictor *ev, const lh_plain_entries *p, int64_t h, const float *weights,
                       float *features, float *y)
{
    const int64_t len = p->len[h];
    for (int64_t at = 0; at < len; at += LH_PLAIN_ENTRIES_AT_ONCE) {
        const int64_t count = lh_min_i64(len - at, LH_PLAIN_ENTRIES_AT_ONCE);
        lh_plain_entries_load(p, h, at, count);
        lh_plain_entries_weigh(p, count, weights, ev->shape.order, features, y + at);
    }
}

static lh_status score_heads(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    lh_status st = LH_OK;
    const int64_t dim = ev->shape.head_dim, mark = lh_scratch_mark(&ev->exec);
    float *features = lh_scratch_floats(ev, LH_PLAIN_ENTRIES_AT_ONCE * lh_feature_count(dim));
    lh_plain_entries p;
    LH_TRY_DONE(lh_plain_entries_open(&p, &ev->exec, job->entries, lh_key_rotation(ev, job), LH_PLAIN_KEYS_AND_VALUES));
    for (int64_t h = 0; h < job->entries->heads && lh_exec_ok(&ev->exec); h++)
        if (p.len[h])
            score_head(ev, &p, h, job->layer.score_weights + h * lh_learnt_numbers(dim), features, scores + h * ev->ld);
done:
    lh_plain_entries_close(&p);
    lh_scratch_release(&ev->exec, mark);
    return st;
}

void lh_linear_scores(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_LATCH(&ev->exec, score_heads(ev, job, scores));
}

static const lh_source source = {.score = lh_linear_scores};

const lh_method lh_method_linear = {.word = "linear",
                                    .help = "A learnt function of key and value first ('longhaul learn').",
                                    .traits = LH_NEEDS_ENTRIES | LH_NEEDS_ROTATION | LH_NEEDS_SCORE_WEIGHTS,
                                    .source = &source};
