/* forecast.h - forecast of the memory of caches: runs the real code in an execution context that only counts
 * (exec/exec.h). Exact where the plan decides how many entries a head keeps; competing heads (AdaKV) are taken to keep
 * equally many. Scratch memory of operations is not included. */
#ifndef LH_KV_FORECAST_H
#define LH_KV_FORECAST_H

#include "kv/kv.h"

/* A prompt, and the tokens expected after it. */
typedef struct lh_kv_forecast_request {
    const lh_policy *policy;
    const lh_policy *others; /* of further caches that the same prefill fills (lh_kv_follow) */
    int64_t other_count;
    const lh_keep_sets *const *given; /* [1 + other_count], each as lh_kv_shape.given; NULL: none */
    int64_t tokens, more;             /* as lh_kv_begin */
    int64_t fork_more;                /* `more` of a fork of each cache (lh_kv_fork), one fork at a time; 0: no forks */
    int64_t block;                    /* tokens of the longest question; 0: none comes */
    lh_device_kind device;
    int64_t *layer_budgets; /* [layers], set to the first cache's; NULL: not wanted */
} lh_kv_forecast_request;

/* Bytes on the rank of the shape's heads. */
typedef struct lh_kv_forecast {
    int64_t held;         /* arenas after the prompt, slack included */
    int64_t one_layer;    /* the layer that is being prefilled, whole; 0 where no layer evicts */
    int64_t work;         /* the most work space at any moment of the prefill */
    int64_t prefill_peak; /* the most of all at any moment of the prefill */
    int64_t decode_peak;  /* peak after the prefill, with one fork */
    int64_t fork_peak;    /* maximum that a fork adds to it */
    int64_t entries;      /* kept entries of this rank's heads after the prompt, of the first cache */
    int64_t probe_tokens; /* of the first cache */
    int64_t counted;      /* entries that no lower rank counts */
    int64_t summaries;    /* of score summaries that this rank sends in the prefill, of the first cache */
} lh_kv_forecast;

/* LH_EUSAGE and LH_EINPUT as of lh_kv_open and lh_kv_begin. Not collective. The shape's projections and rotations may
 * be NULL. */
lh_status lh_kv_forecast_make(lh_kv_forecast *out, const lh_kv_shape *shape, const lh_kv_forecast_request *request);

#endif
