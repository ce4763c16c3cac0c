/* import_source.h - the source of an import as one list of named tensors and a configuration: a Hugging Face folder
 * (one safetensors file, or shards with an index) or a GGUF file. */
#ifndef LH_IMPORT_IMPORT_SOURCE_H
#define LH_IMPORT_IMPORT_SOURCE_H

#include <jansson.h>

#include "base/format.h"
#include "import/families.h"
#include "import/gguf.h"

typedef struct lh_source lh_source;

typedef struct lh_source_tensor {
    char *name, *format_name;
    const lh_format *format; /* NULL, or one known by name only: cannot be read */
    int rank;
    int64_t dims[4];   /* outermost first; more dimensions are multiplied into the last */
    const lh_map *map; /* that `data` lies in */
    const uint8_t *data;
    int64_t bytes;
    int used; /* set by the importer */
} lh_source_tensor;

lh_status lh_source_open(lh_source **out, const char *path);
void lh_source_close(lh_source *source); /* NULL is fine */

const char *lh_source_path(const lh_source *source);
int lh_source_is_gguf(const lh_source *source);
const char *lh_source_config(const lh_source *source); /* JSON, in the format of config.json */

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
