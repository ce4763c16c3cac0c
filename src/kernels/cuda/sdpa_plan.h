/* sdpa_plan.h - softmax attention over a ragged cache as a graph of cuDNN's backend API (9.10 or later), from C. The
 * "batch" of the graph are the KV heads: each has a length and an offset in the pools, like a sequence of a ragged
 * batch, and the query heads of its group share it. */
#ifndef LH_KERNELS_CUDA_SDPA_PLAN_H
#define LH_KERNELS_CUDA_SDPA_PLAN_H

#include "base/mem.h"
#include "kernels/cuda/cudnn_library.h"

/* Version of the graph, increased with every change of it: the text of a plan is for one version. */
enum { LH_SDPA_GRAPH = 1 };

/* tokens: maximum rows of a KV head in a run; fewer rows cost no more than in a smaller plan. */
typedef struct lh_sdpa_shape {
    int64_t kv_heads, group, dim, tokens;
} lh_sdpa_shape;

/* Key of a plan: a handle, or the properties of a device that need not be present (a finished descriptor of the type
 * CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR; such a plan cannot run). */
typedef struct lh_sdpa_place {
    const lh_cudnn *call;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device;
} lh_sdpa_place;

/* Rows and entries are read in whole tiles of at most this size. */
enum { LH_SDPA_TILE = 128 };

/* Arrays of a run, device memory, aligned to 16; `tokens` is the shape's. */
typedef struct lh_sdpa_data {
    const void *q;           /* bf16, a KV head's rows as [rows, group, dim]; with room for a tile after the last one */
    const void *k, *v;       /* pools, bf16; with a tile of finite numbers after the last entry */
    void *o;                 /* as q */
    float *lse;              /* [kv_heads, group, tokens] */
    const int32_t *rows;     /* [kv_heads] actual tokens */
    const int32_t *len;      /* [kv_heads] entries; row t sees the entries below len - rows + t + 1 */
    const int64_t *starts;   /* [kv_heads + 1] numbers before a head's first key in its pool, and after the last */
    const int64_t *q_starts; /* [kv_heads + 1] numbers before a head's first query, and after the last */
    void *room;              /* workspace of the size of the plan */
    float scale;
} lh_sdpa_data;

typedef struct lh_sdpa_plan lh_sdpa_plan;

/* LH_OK with *out = NULL if cuDNN does not support such attention, with its answer in `why`. */
lh_status lh_sdpa_plan_open(lh_sdpa_plan **out, const lh_sdpa_place *place, const lh_sdpa_shape *shape, char why[128]);

/* Appends the plan as text to *out; restores a plan from its text for the same place. A text that cuDNN refuses gives
 * LH_OK with *out = NULL. */
lh_status lh_sdpa_plan_text(const lh_sdpa_plan *plan, lh_buf *out);
lh_status lh_sdpa_plan_restore(lh_sdpa_plan **out, const lh_sdpa_place *place, const lh_buf *text, char why[128]);

void lh_sdpa_plan_close(lh_sdpa_plan *plan);
int64_t lh_sdpa_plan_room(const lh_sdpa_plan *plan);
lh_status lh_sdpa_plan_run(lh_sdpa_plan *plan, const lh_sdpa_data *data);

#endif
