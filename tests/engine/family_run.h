/* family_run.h - one prompt through a model under a policy and some tokens after it: what came out, what was kept, and
 * whether the cache ever held more than it may. */
#ifndef LH_TESTS_FAMILY_RUN_H
#define LH_TESTS_FAMILY_RUN_H

#include "engine/family_models.h"
#include "engine/session.h"
#include "kv/figures.h"
#include "mpi_check.h"

typedef struct family_case {
    const char *name; /* of the model */
    const lh_policy_options *policy;
    const int32_t *ids; /* [FAMILY_PROMPT + FAMILY_STEPS] */
} family_case;

/* Positions and logits are on rank 0 of the run's communicator alone. */
typedef struct family_result {
    char name[160]; /* of model and policy */
    int64_t layers;
    int32_t tokens[FAMILY_STEPS]; /* the best ones after the prompt and every step */
    float *logits;                /* [FAMILY_STEPS, FAMILY_VOCAB] that they were chosen from */
    lh_positions kept[FAMILY_LAYERS], final[FAMILY_LAYERS]; /* after the prompt, after the last step */
} family_result;

lh_engine *family_open(lh_comm *comm, const char *path, const char *device, int deterministic);

/* Collective over the engine's ranks. Checks the laws of how much is held after the prompt and after every step. */
void family_run(lh_engine *engine, const family_case *c, family_result *out);
void family_result_clear(family_result *r);

/* How alike keep sets are, head by head, over any number of runs (Jaccard: shared entries of all entries). */
typedef struct family_likeness {
    int64_t heads, differing;
    double sum, least;
    char worst[160]; /* the run with the head that differs most */
} family_likeness;
void family_compare(family_likeness *l, const family_result *a, const family_result *b);
void family_compare_sets(family_likeness *l, const lh_positions *a, const lh_positions *b, int64_t layers,
                         const char *name);

/* The same on every bit: tokens, logits, positions. */
void family_check_same(const family_result *a, const family_result *b);

#endif
