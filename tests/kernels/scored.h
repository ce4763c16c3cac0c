/* scored.h - scores of the entries of a layer, on the host and on a backend's device, and their order. */
#ifndef LH_TESTS_KERNELS_SCORED_H
#define LH_TESTS_KERNELS_SCORED_H

#include "rig.h"

enum { SCORES_NORMAL, SCORES_FEW, SCORES_EQUAL, SCORES_TINY, SCORES_ODD, SCORES_CLOSE, SCORES_PLATEAUS, SCORE_KINDS };

/* A score of a kind, the n-th without a pattern; *normals: a normal number. */
float score_at(int kind, uint64_t n, const float *normals);

/* Scores of a layer. Slots stand in any order; some entries do not compete. */
typedef struct layer {
    cache kv;
    int64_t heads, ld;
    float *scores;  /* [heads, ld] */
    uint8_t *state; /* [heads, ld] */
} layer;

/* The n-th of many. */
void layer_make(lot *m, layer *l, int n);

typedef struct entry {
    float score;
    int64_t head, slot, position;
} entry;

/* For qsort: score descending with NaN last, head ascending, position ascending. */
int by_rank(const void *left, const void *right);

/* The competing entries of heads [from, to), best first; returns how many. */
int64_t ranked(lot *m, const layer *l, int64_t from, int64_t to, entry **out);

/* A layer on the device. */
typedef struct placed {
    lh_ragged kv;
    float *scores;
    uint8_t *state;
} placed;

placed layer_put(rig *g, const layer *l);
void check_states(rig *g, const placed *on, const layer *l, const uint8_t *want, int n);

#endif
