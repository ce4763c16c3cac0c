/* kv_rig.h - caches without a model: keys, values and queries of a seed, run through a cache as the engine would, on
 * any ranks. */
#ifndef LH_TESTS_KV_RIG_H
#define LH_TESTS_KV_RIG_H

#include "kv/figures.h"
#include "kv/save.h"
#include "mpi_check.h"
#include "policies/budgets.h"

/* Most layers of a case: more than twice as many as are evicted at once. */
enum { KV_RIG_LAYERS = 19 };

/* Of '--layer-budget learnt'. */
extern const int64_t kv_rig_layer_shares[KV_RIG_LAYERS];

/* What a model computed, in place of numbers of a seed: a token's row in layer l is row l * room + token. */
typedef struct kv_rig_values {
    const float *k, *v, *q; /* [layers, room, heads or kv_heads, dim], rotated */
    const float *w;         /* output projections, [layers, hidden, heads * dim] */
    int64_t room, hidden;
    double scale;                 /* of the logits */
    const lh_rotation *rotations; /* [layers] */
    int64_t rotary;               /* dimensions */
} kv_rig_values;

typedef struct kv_rig_case {
    int64_t heads, kv_heads, dim, layers, tokens, more;
    lh_dtype type;
    int quantises;          /* 1: caches that evict keep their entries as q8 */
    int64_t window;         /* of sliding layers */
    const uint8_t *sliding; /* [layers] */
    float softcap;
    uint64_t seed;
    int equal_keys;         /* 1: all keys are the same, so that all scores are */
    int equal_groups;       /* 1: the query heads of a group are the same */
    int64_t kinds;          /* so many different keys, but for those of the last `apart` tokens; 0: all differ */
    int64_t apart, shuffle; /* shuffle: which token has which key (the others are odd in number) */
    int64_t question;       /* tokens of the question that ends the prompt, for policies that observe it */
    int works_out;          /* 1: no step leaves its logits, so that the bits are the same where groups are split */
    lh_policy_options policy;
    const kv_rig_values *values; /* NULL: all numbers follow from the seed; for the oracle alone, a rig has its own */
} kv_rig_case;

/* What a run left on this rank: positions of every layer, those that it held before each block of the prompt (complete
 * on rank 0 of its communicator), the log-sum-exps of the newest row [layers, heads] (of all ranks), and the scores
 * that were ranked ([kv_count, tokens] of this rank, NULL where none were). */
typedef struct kv_rig_result {
    lh_positions kept[KV_RIG_LAYERS], *blocks[KV_RIG_LAYERS];
    int64_t block_count[KV_RIG_LAYERS];
    float *lse;
    float *raw[KV_RIG_LAYERS], *scores[KV_RIG_LAYERS];
    uint8_t *state[KV_RIG_LAYERS];
    lh_kv_stats stats;
} kv_rig_result;

typedef struct kv_rig {
    const kv_rig_case *of;
    lh_device *device;
    lh_stream *stream;
    const lh_ops *ops;
    lh_comm *comm, *device_comm;
    lh_heads heads;
    lh_kv *kv;
    lh_kv *origin; /* of the fork that kv is; NULL: it is none */
    lh_policy plan;
    lh_policy_numbers fixed; /* the plan for the prompt */
    int64_t chunk;           /* tokens appended at a time */
    float *k, *v, *q, *o, *lse, *w;
    uint16_t *hidden; /* bf16, [tokens, RIG_HIDDEN] */
    float *newest;    /* [layers, q_count]: log-sum-exps of the last row that a layer took in */
    int32_t *positions;
    float *frequencies;
    lh_projection projections[KV_RIG_LAYERS];
    lh_rotation rotations[KV_RIG_LAYERS];
    float *score_weights;  /* [layers, kv_count, numbers] */
    kv_rig_result *result; /* where the listener writes during the prompt */
} kv_rig;

/* The backends that caches are tried on, `ref` first; NULL after the last. A rig's arrays are the host's, so these are
 * the ones that compute there. */
const lh_ops *kv_rig_backend(int i);
int kv_rig_backends(void);

/* Opens a cache of the case over `comm` and `ops`. */
void kv_rig_open(kv_rig *r, const kv_rig_case *of, lh_comm *comm, const lh_ops *ops);
void kv_rig_close(kv_rig *r);
lh_kv_shape kv_rig_shape(const kv_rig *r);

/* Another cache where the rig's is, with the case's seed. */
lh_kv *kv_rig_cache(const kv_rig *r, const lh_policy *plan);

/* Goes on in a fork of the rig's cache; of a rig that is in a fork already, in a new fork of the same cache. */
void kv_rig_fork(kv_rig *r);

/* Append, attend and record `tokens` tokens from `first` on in a layer's view. With slot positions, after the prompt,
 * keys go in as they were before their rotation and queries are turned by their slots. */
void kv_rig_feed(kv_rig *r, lh_ragged *view, int64_t layer, int64_t first, int64_t tokens);

/* The whole prompt through all layers. */
void kv_rig_prefill(kv_rig *r, kv_rig_result *out);

/* Tokens after the prompt. */
void kv_rig_take(kv_rig *r, lh_kv_taken what, int64_t tokens);

void kv_rig_gather(kv_rig *r, kv_rig_result *out);
void kv_rig_result_clear(kv_rig_result *result);
int64_t kv_rig_evictions(lh_kv *kv);

/* 1 where two caches keep the same entries of a layer. */
int kv_rig_same(const lh_positions *a, const lh_positions *b);

/* Weight i of the learnt score of a KV head; and a policy with what it takes from a model. */
float kv_rig_score_weight(const kv_rig_case *of, int64_t layer, int64_t head, int64_t i);
void kv_rig_size(lh_policy *policy);

/* Element i of token t, head h, layer l of k, v or q ('k', 'v', 'q'); of the output projection ('w') `token` is the
 * channel of the hidden state, below kv_rig_hidden. */
enum { RIG_HIDDEN = 13 }; /* of cases without values */
float kv_rig_element(const kv_rig_case *of, char what, int64_t layer, int64_t token, int64_t head, int64_t i);

/* Channel i of the hidden state of a token: exact in bf16. */
float kv_rig_hidden_state(int64_t layer, int64_t token, int64_t i);

/* Tokens of one kind have one key, where a case has kinds. */
int64_t kv_rig_kind(const kv_rig_case *of, int64_t token);

/* Frequency i of the rotation that queries are taken to have. */
float kv_rig_frequency(const kv_rig_case *of, int64_t i);

/* The same of a layer, half of the dimensions that are rotated, the scale of the logits and channels of the hidden
 * state: those of the values, where there are some. */
float kv_rig_frequency_of(const kv_rig_case *of, int64_t layer, int64_t i);
lh_query_scaling kv_rig_query_scaling(const kv_rig_case *of, int64_t layer);
int64_t kv_rig_half(const kv_rig_case *of);
double kv_rig_scale(const kv_rig_case *of);
int64_t kv_rig_hidden(const kv_rig_case *of);

/* Every entry of every head lies here as it was made: its key and value belong to its position. */
int kv_rig_entries_are_whole(kv_rig *r);

/* The most bytes there ever were, without the scratch of operations, which stays with the stream. */
int64_t kv_rig_peak(const kv_rig *r);

#endif
