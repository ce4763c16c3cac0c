/* checkpoint_impl.h - names and shapes of the datasets, shared by reader and writer of checkpoints. */
#ifndef LH_IMPORT_CHECKPOINT_IMPL_H
#define LH_IMPORT_CHECKPOINT_IMPL_H

#include "base/h5.h"
#include "import/weights.h"

enum { LH_CHECKPOINT_SCHEMA = 1, LH_CHECKPOINT_NAME_BYTES = 64 };

#define LH_CHECKPOINT_CONFIG "/config"
#define LH_CHECKPOINT_TOKENIZER "/tokenizer/json"
#define LH_CHECKPOINT_TOKENIZER_META "/tokenizer/meta"

/* "/weights/layers/003/q" into `name`. */
void lh_checkpoint_name(char name[LH_CHECKPOINT_NAME_BYTES], lh_weight weight, int64_t layer);

/* Shape of a tensor in the file; rank 0 if the model has none. */
lh_h5_shape lh_checkpoint_shape(const lh_config *config, lh_weight weight, lh_dtype type);

/* Called for every tensor of a model, in the order in which they are written. */
typedef lh_status (*lh_checkpoint_visit)(void *arg, lh_weight weight, int64_t layer);
lh_status lh_checkpoint_each(const lh_config *config, lh_checkpoint_visit visit, void *arg);

#endif
