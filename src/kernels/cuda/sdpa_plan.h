/* sdpa_plan.h - softmax attention over a ragged cache as a graph of cuDNN's backend API (9.10 or later), from C. The
 * "batch" of the graph are the KV heads: each has a length and a place in the pools of its own, as the sequences of a
 * ragged batch have, and the query heads of its group share it. */
#ifndef LH_KERNELS_CUDA_SDPA_PLAN_H
#define LH_KERNELS_CUDA_SDPA_PLAN_H

#include "base/mem.h"
#include "kernels/cuda/cudnn_library.h"

/* Number of the graph: another one for every change of it, so that a text of a plan is of this graph. */
enum { LH_SDPA_GRAPH = 1 };

/* tokens: no KV head has more rows in a run; few cost no more than they would in a plan for few. */
typedef struct lh_sdpa_shape {
    int64_t kv_heads, group, dim, tokens;
} lh_sdpa_shape;

/* Key of a plan: a handle, or the properties of a device that need not be here (a finished descriptor of the type
 * CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR; such a plan cannot run). */
typedef struct lh_sdpa_place {
    const lh_cudnn *call;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device;
} lh_sdpa_place;

/* Rows and entries are read in tiles of at most so many, to their end. */
enum { LH_SDPA_TILE = 128 };

/* Arrays of a run, device memory, aligned to 16; `tokens` is the shape's. */
typedef struct lh_sdpa_data {
    const void *q;           /* bf16, a KV head's rows as [rows, group, dim]; with room for a tile after the last */
    const void *k, *v;       /* pools, bf16; after the last entry there are a tile of finite numbers */
    void *o;                 /* as q */
    float *lse;              /* [kv_heads, group, tokens] */
    const int32_t *rows;     /* [kv_heads] tokens that there are */
    const int32_t *len;      /* [kv_heads] entries; row t sees those below len - rows + t + 1 */
    const int64_t *starts;   /* [kv_heads + 1] numbers before a head's first key in its pool, and after the last */
    const int64_t *q_starts; /* [kv_heads + 1] numbers before a head's first query, and after the last */
    void *room;              /* as many bytes as the plan says */
    float scale;
} lh_sdpa_data;

typedef struct lh_sdpa_plan lh_sdpa_plan;

/* LH_OK with *out = NULL where cuDNN takes no such attention; `why` says then what it answered. */
lh_status lh_sdpa_plan_open(lh_sdpa_plan **out, const lh_sdpa_place *place, const lh_sdpa_shape *shape, char why[128]);

/* The plan as text, appended to *out; and from the text of one for such a place. A text that cuDNN cannot take gives
 * LH_OK with *out = NULL. */
lh_status lh_sdpa_plan_text(const lh_sdpa_plan *plan, lh_buf *out);
lh_status lh_sdpa_plan_restore(lh_sdpa_plan **out, const lh_sdpa_place *place, const lh_buf *text, char why[128]);

void lh_sdpa_plan_close(lh_sdpa_plan *plan);
int64_t lh_sdpa_plan_room(const lh_sdpa_plan *plan);
lh_status lh_sdpa_plan_run(lh_sdpa_plan *plan, const lh_sdpa_data *data);

#endif
