/* adaptive_heads.h - AdaKV's threshold search over the heads of all ranks, of one layer or of several. */
#ifndef LH_EVICT_ADAPTIVE_HEADS_H
#define LH_EVICT_ADAPTIVE_HEADS_H

#include "evict/evict.h"

/* What every head of the model keeps of its competing entries, over one layer or several. */
typedef struct lh_top_request {
    int64_t layers;
    int each_layer;           /* 1: the heads of each layer compete among each other; 0: those of all layers */
    const lh_evict_job *jobs; /* [layers] */
    const float *scores;      /* of the layers of an eviction; NULL: lh_evict_show_scores for each layer */
    int64_t scores_step;
    const lh_layer_limits *limits; /* host, [layers] */
    lh_fraction share;
} lh_top_request;

/* Collective. budgets (host): [layers, kv_heads of the model]. Not while an eviction is under way. */
void lh_evict_divide(lh_evictor *evictor, const lh_top_request *request, int64_t *budgets);

/* Entries whose scores are stored with them while layers compete. lh_evict_keep_scores scores a layer and stores the
 * scores; lh_evict_show_scores makes the mask and the scores of a layer from the stored ones. Until lh_evict_end. */
void lh_evict_keep_scores(lh_evictor *evictor, const lh_evict_job *job);
void lh_evict_show_scores(lh_evictor *evictor, const lh_evict_job *job);

/* counts[h] (host, [kv_count]) competing entries of this rank's head h stay, the best by the scores that are shown. */
void lh_evict_mark(lh_evictor *evictor, const lh_evict_job *job, const int64_t *counts);

#endif
