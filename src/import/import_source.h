/* import_source.h - the source of an import as one list of named tensors and a configuration: a Hugging Face folder
 * (one safetensors file, or shards with an index) or a GGUF file. A matrix that a folder holds as several tensors, such
 * as codes and scales, is one tensor of the list (quantised.h). */
#ifndef LH_IMPORT_IMPORT_SOURCE_H
#define LH_IMPORT_IMPORT_SOURCE_H

#include <jansson.h>

#include "import/families.h"
#include "import/gguf.h"
#include "import/source_tensors.h"

typedef struct lh_source lh_source;

/* dst: the bytes of a row of a tensor with `cols` values in a row; any number of threads. The pages of rows that are
 * not read again are released. LH_EINPUT if a file of the tensor changed since it was opened. */
void lh_source_row(const lh_source_tensor *t, int64_t row, int64_t cols, void *dst);
void lh_source_release(const lh_source_tensor *t, int64_t row, int64_t n, int64_t cols);
lh_status lh_source_unchanged(const lh_source_tensor *t);

/* The format in which the tensor lies in the source. */
const lh_format *lh_source_stored(const lh_source_tensor *t);

/* *path: the safetensors file of a folder or, with *is_index, the index of its shards; lh_free. NULL: it has neither.
 */
lh_status lh_source_find_weights(char **path, int *is_index, const char *folder);

lh_status lh_source_open(lh_source **out, const char *path);
void lh_source_close(lh_source *source); /* NULL is fine */

const char *lh_source_path(const lh_source *source);
int lh_source_is_gguf(const lh_source *source);
const char *lh_source_quantiser(const lh_source *source); /* of a folder, such as "gptq"; NULL: it has none */
const char *lh_source_config(const lh_source *source);    /* JSON, in the format of config.json */

/* Write into the configuration whether lm_head is the embedding. */
lh_status lh_source_set_tied(lh_source *source, int tied);

/* *tied: true if the configuration lets lm_head be the embedding in a source without an lm_head: the whole model or its
 * text model says so, or a model for images and text says nothing. */
lh_status lh_source_may_be_tied(const lh_source *source, int *tied);

int64_t lh_source_count(const lh_source *source);
lh_source_tensor *lh_source_at(lh_source *source, int64_t i);                /* sorted by name */
lh_source_tensor *lh_source_find(const lh_source *source, const char *name); /* NULL if there is none */

/* A configuration from the metadata of a GGUF file (gguf_config.c); json_decref. */
lh_status lh_gguf_config(json_t **out, const lh_gguf *gguf);

#endif
