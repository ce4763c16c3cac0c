/* adaptive_heads.h - AdaKV's threshold search over the heads of all ranks, of one layer or of several. */
#ifndef LH_EVICT_ADAPTIVE_HEADS_H
#define LH_EVICT_ADAPTIVE_HEADS_H

#include "evict/workspace.h"

/* Collective. What every head of the model keeps of its competing entries, over one layer or several, on the device:
 * [layers, kv_heads]. Nothing waits for the device, and nothing goes through the host that the communicator of device
 * memory does not take there. */
typedef struct lh_top_request {
    int64_t layers;
    int each_layer;                /* 1: the heads of each layer compete among each other; 0: those of all layers */
    const lh_evict_job *jobs;      /* [layers] */
    const lh_space_part *scores;   /* where they are, of layers with masks; NULL: lh_evict_show_scores for each */
    const lh_layer_limits *limits; /* host, [layers] */
    lh_fraction share;
} lh_top_request;

const int64_t *lh_evict_global_top(lh_evictor *evictor, const lh_top_request *request);

/* Entries whose scores go with them while layers compete: of a layer that was scored, put there; and the mask and the
 * scores of a layer, in LH_SPACE_RAW, from what went with them. */
void lh_evict_keep_scores(lh_evictor *evictor, const lh_evict_job *job);
void lh_evict_show_scores(lh_evictor *evictor, const lh_evict_job *job);

/* counts[h] (host, [kv_count]) competing entries of this rank's head h stay, the best by the scores that are shown. */
void lh_evict_mark(lh_evictor *evictor, const lh_evict_job *job, const int64_t *counts);

#endif
