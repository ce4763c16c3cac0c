/* learn.h - learns the weights of '--statistic linear', the distribution of queries for '--refit' (query_moments.h) and
 * the shares of '--layer-budget learnt' from a model's own prefill: in a first pass over the prompts the scores of a
 * policy that looks back at the whole prompt are the target of a ridge regression for each KV head, from the features
 * of an entry to the logarithm of its score; a second pass counts the learnt scores and the scores of
 * '--statistic rms --rows-at after', puts the weights on the scale of the latter (calibration.h), and finds how many of
 * the best learnt scores each head has. Sums are in
 * double and in the order of the prompts: the same weights on any number of ranks, where the prefill's bits are the
 * same. */
#ifndef LH_LAB_LEARN_LEARN_H
#define LH_LAB_LEARN_LEARN_H

#include "engine/session.h"
#include "model/score_weights.h"

/* The usual target; the policy that gives the scale of the weights; and the share of the turns of the learnt score. */
#define LH_LEARN_TARGET "snapkv --statistic max --rows-at repeat:512 --window 0 --pool none --sinks 4"
#define LH_LEARN_ROWS "snapkv --window 4 --rows sample:2048 --rows-at after --statistic rms --pool none --sinks 4"
#define LH_LEARN_SHARE 0.7

typedef struct lh_learn_request {
    const int32_t *ids; /* [prompts, tokens] */
    int64_t prompts, tokens;
    const lh_policy *target, *rows; /* both evict at the end of the prompt */
    const lh_profiles *profiles;
    double ridge, share; /* share of the turns that the learnt score takes */
} lh_learn_request;

typedef struct lh_learn_result {
    lh_score_weights weights;
    float *explained; /* [layers, kv_heads]: shares of the variance of the target; -1, with weights of 0, where
                         no entry was scored */
    double slope, constant;
} lh_learn_result;

/* Collective. The result is on every rank. */
lh_status lh_learn(lh_learn_result *out, lh_engine *engine, const lh_learn_request *request);
void lh_learn_result_clear(lh_learn_result *r);

#endif
