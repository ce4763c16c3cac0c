/* checkpoint.h - a model in one HDF5 file: configuration, tokenizer, weights. `import` writes it, every rank of a run
 * reads its shards from it. Layout in docs/files.md.
 * Readers fail with LH_EFILE, writers with LH_EWRITE; messages name file and dataset. */
#ifndef LH_IMPORT_CHECKPOINT_H
#define LH_IMPORT_CHECKPOINT_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/format.h"
#include "base/h5.h"
#include "base/mem.h"
#include "import/config.h"
#include "import/weights.h"
#include "text/tokenizer.h"

/* ---- reading: every rank opens the file and reads its own shards ---- */
typedef struct lh_checkpoint lh_checkpoint;

/* Checks attributes, schema, the configuration, and the shape and format of every dataset against it. */
lh_status lh_checkpoint_open(lh_checkpoint **out, const char *path);
void lh_checkpoint_close(lh_checkpoint *ck);

/* The same, or for "random:SHAPE" the contents of a checkpoint of `import --random SHAPE`, without a file: its weights
 * are not read but drawn (random_weights.h, seed 0), of the types that `weights` names (lh_random_types).
 * LH_EUSAGE for an unknown shape, blocks that do not fit it, and `weights` of a file. */
lh_status lh_checkpoint_open_model(lh_checkpoint **out, const char *name, const char *weights);

/* A model for measurements: the first layers of a model, with the maximum of heads and channels that a rank of `ranks`
 * ranks has, few rows of the vocabulary and no tokenizer. Its weights are drawn, in the model's formats (NULL: bf16);
 * where a rank's rows are no whole number of blocks, in others (lh_format_fitting) or bf16. */
typedef struct lh_checkpoint_part {
    const lh_config *config;
    const lh_format *const *formats; /* lh_weight_format */
    int64_t layers, ranks;
} lh_checkpoint_part;

lh_status lh_checkpoint_open_layers(lh_checkpoint **out, const lh_checkpoint_part *part);

/* The open file, borrowed, for comparisons between ranks and checks for changes (h5.h). NULL: a random model. */
lh_h5 *lh_checkpoint_file(const lh_checkpoint *ck);

const lh_config *lh_checkpoint_config(const lh_checkpoint *ck);

/* Identifies the model: hash of the configuration and of the hashes of all weights. */
uint64_t lh_checkpoint_identity(const lh_checkpoint *ck);

/* Type of stored matrices; vectors may be f32 when matrices have 16 bits. bf16 for matrices of blocks. */
lh_dtype lh_checkpoint_dtype(const lh_checkpoint *ck);

/* Format of a tensor as stored (layer is ignored unless per_layer): plain numbers, or blocks that lh_format_is_kept
 * accepts. NULL if the model does not have the tensor. */
const lh_format *lh_checkpoint_format(const lh_checkpoint *ck, lh_weight weight, int64_t layer);

/* The formats of all tensors (lh_weight_format), borrowed. */
const lh_format *const *lh_checkpoint_formats(const lh_checkpoint *ck);

/* The stored tokenizer.json and the companion object {"bos","eos":[…],"add_bos","chat_template",…}; NULL and 0 bytes
 * if the model was imported without a tokenizer. Borrowed. */
const char *lh_checkpoint_tokenizer(const lh_checkpoint *ck, int64_t *bytes);
const char *lh_checkpoint_tokenizer_meta(const lh_checkpoint *ck, int64_t *bytes);

/* The stored tokenizer, ready for use; NULL if there is none. The caller closes it. */
lh_status lh_checkpoint_open_tokenizer(const lh_checkpoint *ck, lh_tokenizer **out);

/* Read rows [row, row + rows) and columns [col, col + cols) of a tensor (layer is ignored unless per_layer) into dst
 * [rows, ld], converted to `type` (f32 or bf16); the values of blocks are computed in f32 first. Not collective, and
 * not for plain numbers of random models, which the device draws. Fails if a value is not finite or not below 2^64,
 * naming dataset, row and column. */
typedef struct lh_weight_range {
    lh_weight weight;
    int64_t layer, row, rows, col, cols;
} lh_weight_range;

lh_status lh_checkpoint_read(lh_checkpoint *ck, const lh_weight_range *range, void *dst, lh_dtype type, int64_t ld);

/* The same range of a tensor of blocks as stored: dst [rows, bytes of cols]. Columns begin and end between blocks.
 * Fails if a scale or a code is not finite, naming dataset, row and the first column of the block. */
lh_status lh_checkpoint_read_blocks(lh_checkpoint *ck, const lh_weight_range *range, void *dst);

/* ---- writing: one process ---- */
typedef struct lh_checkpoint_writer lh_checkpoint_writer;

typedef struct lh_checkpoint_meta {
    const char *config_json;
    const char *tokenizer; /* tokenizer.json, or NULL */
    int64_t tokenizer_bytes;
    const char *tokenizer_meta; /* JSON, or NULL */
} lh_checkpoint_meta;

lh_status lh_checkpoint_create(lh_checkpoint_writer **out, const char *path, const lh_checkpoint_meta *meta);

/* Begin a tensor [rows, cols] of `format` (plain numbers, or of a matrix blocks that lh_format_is_kept accepts and that
 * divide its columns), then give its rows in order in any number of calls. */
lh_status lh_checkpoint_begin(lh_checkpoint_writer *w, lh_weight weight, int64_t layer, const lh_format *format);
lh_status lh_checkpoint_rows(lh_checkpoint_writer *w, const void *data, int64_t rows);
lh_status lh_checkpoint_end(lh_checkpoint_writer *w); /* writes xxh64 */

/* Flush, check, rename. lh_checkpoint_drop removes the unfinished file. Both free the writer. */
lh_status lh_checkpoint_finish(lh_checkpoint_writer *w);
void lh_checkpoint_drop(lh_checkpoint_writer *w);

/* Names and shapes of the datasets, shared by reader and writer of checkpoints. A checkpoint of plain numbers has
 * schema 1, which earlier versions read too; one with blocks has schema 2. */
enum { LH_CHECKPOINT_SCHEMA_PLAIN = 1, LH_CHECKPOINT_SCHEMA = 2, LH_CHECKPOINT_NAME_BYTES = 64 };

#define LH_CHECKPOINT_CONFIG "/config"
#define LH_CHECKPOINT_TOKENIZER "/tokenizer/json"
#define LH_CHECKPOINT_TOKENIZER_META "/tokenizer/meta"

/* "/weights/layers/003/q" into `name`. */
void lh_checkpoint_name(char name[LH_CHECKPOINT_NAME_BYTES], lh_weight weight, int64_t layer);

/* Shape of a tensor in the file, of blocks u8 [rows, bytes of a row]; rank 0 if the model has none. */
lh_h5_shape lh_checkpoint_shape(const lh_config *config, lh_weight weight, const lh_format *format);

/* Called for every tensor of a model, in the order in which they are written. */
typedef lh_status (*lh_checkpoint_visit)(void *arg, lh_weight weight, int64_t layer);
lh_status lh_checkpoint_each(const lh_config *config, lh_checkpoint_visit visit, void *arg);

#endif
