/* device_run.h - whole models on a device, to be compared with the same on `cpu`: logits, tokens and what the cache
 * keeps. Which device is tried: LONGHAUL_TEST_BACKEND, else `ref`. The sizes are those that the device is fast enough
 * for: small where it is emulated, or with LONGHAUL_TEST_SMALL, and large on a card. */
#ifndef LH_TESTS_DEVICE_RUN_H
#define LH_TESTS_DEVICE_RUN_H

#include "engine/family_run.h"

enum { DEVICE_SHAPES = 8, DEVICE_LAYERS = 3 };

/* The models in a folder of their own, a prompt and tokens after it (none comes twice: equal tokens have keys of equal
 * norm in the first layer, and rounding would decide between them). */
typedef struct device_models {
    const char *device;
    int small;
    int64_t prompt, steps, vocab;
    tiny_shape shapes[DEVICE_SHAPES];
    char folder[64], paths[DEVICE_SHAPES][96];
    int32_t ids[1024]; /* [prompt + steps] */
} device_models;

void device_models_make(device_models *m); /* collective */
void device_models_remove(device_models *m);

/* Ranks may share a device. */
typedef struct device_options {
    const char *device, *dtype;
    int deterministic;
    int64_t chunk;        /* 0: the engine's choice */
    const char *kv_dtype; /* NULL: dtype */
} device_options;
lh_engine *device_open(lh_comm *comm, const char *path, const device_options *options);

/* What came out of a prompt under a policy and steps after it, which are given. Logits and positions are on rank 0 of
 * the run's communicator alone. */
enum { DEVICE_WAYS = 3 }; /* of choosing a token: the best, one of the k best, one of all */
typedef struct device_result {
    char name[160]; /* of model and policy */
    int64_t layers, rows, vocab, drawn;
    float *logits;   /* [rows, vocab], after every token, or after the prompt and every step */
    int32_t *tokens; /* [drawn], DEVICE_WAYS after the prompt and as many after every step */
    lh_positions kept[DEVICE_LAYERS], final[DEVICE_LAYERS]; /* after the prompt, after the last step */
} device_result;

/* Collective over the engine's ranks. */
typedef struct device_case {
    const device_models *models;
    const char *name; /* of the model */
    const lh_policy_options *policy;
    int every_row;    /* 1: logits of every token */
    int64_t question; /* the first tokens after the prompt, given as a block; 0: all tokens are steps */
} device_case;
void device_run(lh_engine *engine, const device_case *c, device_result *out);
void device_result_clear(device_result *r);

/* Rows of two results. difference: largest of a logit; kl: mean of KL(a || b); same_best: share of rows with the same
 * best token. */
typedef struct device_likeness {
    double difference, kl, same_best;
} device_likeness;
device_likeness device_compare(const device_result *a, const device_result *b);

/* The same on every bit: tokens, logits, positions. */
void device_check_same(const device_result *a, const device_result *b, const char *what);

#endif
