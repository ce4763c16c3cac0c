/* rerun_impl.h - several policies at budgets that are rerun in one pass over a trace, and what the files of the rerun
 * call of each other. */
#ifndef LH_LAB_REPLAY_RERUN_IMPL_H
#define LH_LAB_REPLAY_RERUN_IMPL_H

#include "lab/replay/replay_impl.h"

typedef struct lh_rerun_group {
    lh_replay *replay;
    const int64_t *cells; /* [n] indices of replay->cells */
    lh_kv **caches;       /* [n] the prefill of the first fills all */
    int64_t n;
    int64_t answers, longest; /* of the trace; rows of the longest */
    /* [layers] what lasts over the prompt: rows after it, output projections, rotations */
    lh_trace_layer *layers;
    lh_projection *projections;
    lh_rotation *rotations;
    int64_t chunk;        /* tokens that go through a layer together */
    float *k, *v;         /* [chunk, kv_heads, head_dim] */
    float *outputs, *lse; /* [chunk, heads, head_dim], [chunk, heads] */
    int32_t *positions;   /* [chunk] */
    int32_t *marks;       /* [layers, kv_heads, prompt + longest]: the last row before which the entry was held */
} lh_rerun_group;

/* rerun_prompt.c: caches and work space; the prompt through all layers. Clear also after a failure. */
lh_status lh_rerun_open(lh_rerun_group *group);
void lh_rerun_close(lh_rerun_group *group);
lh_status lh_rerun_prompt(lh_rerun_group *group);

/* `tokens` tokens of a layer's entries into group->k and v, from one that has `all` tokens a head or, by_token, all
 * heads of a token beside each other. */
typedef struct lh_rerun_entries {
    const void *keys, *values;
    int64_t first, tokens, all;
    int by_token;
} lh_rerun_entries;
void lh_rerun_append(lh_rerun_group *group, const lh_rerun_entries *entries, int64_t position, lh_ragged *view);

/* rerun_steps.c: the rows after the prompt, through one cache; and what it kept. */
lh_status lh_rerun_answers(lh_rerun_group *group, lh_kv *kv, lh_rerun *out);

#endif
