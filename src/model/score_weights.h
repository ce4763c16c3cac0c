/* score_weights.h - what 'longhaul learn' finds of a model, for each KV head: the weights of '--statistic linear'
 * (evict/source_linear.c), a number for each feature of an entry; the distribution of queries for '--refit'
 * (evict/drawn_queries.c); and the share of entries for '--layer-budget learnt'. A file of the kind "score-weights";
 * the engine looks for it in the folder of the checkpoint. */
#ifndef LH_MODEL_SCORE_WEIGHTS_H
#define LH_MODEL_SCORE_WEIGHTS_H

#include "exec/exec.h"
#include "exec/heads.h"
#include "import/checkpoint.h"
#include "import/config.h"
#include "import/verify.h"

typedef struct lh_score_weights {
    int64_t layers, kv_heads, numbers; /* numbers: lh_learnt_numbers of the head's dimensions */
    float *at;                         /* host: [layers, kv_heads, numbers] */
    int64_t *layer_shares;             /* host: [layers], the sums of the heads' shares (lh_kv_shape) */
    uint64_t model; /* identity of the checkpoint that they were learnt from (lh_checkpoint_identity) */
    uint64_t hash;  /* of the numbers, never 0; 0: there are none */
} lh_score_weights;
void lh_score_weights_clear(lh_score_weights *w);

/* The share of a KV head of all layers' heads. */
static inline float *lh_score_weights_share(const lh_score_weights *w, int64_t head)
{
    return &w->at[(head + 1) * w->numbers - 1];
}

extern const lh_file_kind lh_score_weights_kind;

/* LH_EFILE. */
lh_status lh_score_weights_read(lh_score_weights *out, const char *path);

/* run: what made them, as JSON text. LH_EWRITE. */
lh_status lh_score_weights_write(const lh_score_weights *w, const char *path, const char *run);

/* The name of the file in the folder of a checkpoint: "m.h5" has "m.scores.h5". NULL (*out) if the model is no file. */
lh_status lh_score_weights_name(char **out, const char *model);

/* The weights of a model: of the file `path`, or where that is NULL of the file in the model's folder, if there is one;
 * else none (hash 0). LH_EINPUT, naming the file, if they are for another shape; a warning, if the weights of `path`
 * were learnt from another checkpoint. A file in the model's folder that cannot be used, or was learnt from another
 * checkpoint, is warned of, and there are no weights. */
typedef struct lh_score_weights_request {
    const char *path, *model; /* path: as the user gave it, or NULL; model NULL: none */
    int64_t layers, kv_heads, head_dim;
    uint64_t identity; /* of the model; 0: not known, nothing is compared */
} lh_score_weights_request;
lh_status lh_score_weights_find(lh_score_weights *out, const lh_score_weights_request *request);

/* Bytes of the rows of a rank's KV heads, of a model with weights. */
int64_t lh_score_weights_bytes(const lh_config *config, const lh_heads *heads);

/* The rows of a rank's KV heads on its device, [layers, kv_count, numbers]; lh_device_free. */
lh_status lh_score_weights_put(float **out, const lh_score_weights *w, const lh_exec *exec, const lh_heads *heads);

#endif
