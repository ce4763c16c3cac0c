/* gguf.h - a GGUF v2 or v3 file, mapped: typed metadata and tensors, for the importers of models and vocabularies. Of a
 * model that is split into files the first is opened, which has the metadata, and the tensors of all are listed.
 * Every offset, count and string is checked against the size of the file before it is used; a damaged file fails with
 * LH_EINPUT and a message that names file and key. */
#ifndef LH_IMPORT_GGUF_H
#define LH_IMPORT_GGUF_H

#include <stdint.h>

#include "base/file.h"

typedef struct lh_gguf lh_gguf;

lh_status lh_gguf_open(lh_gguf **out, const char *path);
void lh_gguf_close(lh_gguf *gguf); /* NULL is fine */
const char *lh_gguf_path(const lh_gguf *gguf);

/* Typed metadata. An absent key leaves *out unchanged. Another type: LH_EINPUT. Any integer type is read as i64, any
 * float type as f64. Strings are not NUL-terminated: borrowed from the mapping, valid until close. */
typedef struct lh_gguf_text {
    const char *data;
    int64_t bytes;
} lh_gguf_text;

int lh_gguf_text_is(const lh_gguf_text *text, const char *other);

lh_status lh_gguf_i64(const lh_gguf *gguf, const char *key, int64_t *out);
lh_status lh_gguf_f64(const lh_gguf *gguf, const char *key, double *out);
lh_status lh_gguf_bool(const lh_gguf *gguf, const char *key, int *out);
lh_status lh_gguf_string(const lh_gguf *gguf, const char *key, lh_gguf_text *out);

/* Arrays: memory of the caller (lh_free); texts in them are borrowed. Absent: *out NULL, *n 0. A single number is an
 * array of one element. */
lh_status lh_gguf_strings(const lh_gguf *gguf, const char *key, lh_gguf_text **out, int64_t *n);
lh_status lh_gguf_i64s(const lh_gguf *gguf, const char *key, int64_t **out, int64_t *n);
lh_status lh_gguf_f64s(const lh_gguf *gguf, const char *key, double **out, int64_t *n);

/* The keys of the file, in its order. */
typedef struct lh_gguf_entry {
    lh_gguf_text key;
    int is_number; /* true: a number, or true or false as 1 or 0 */
    double number;
    int is_empty; /* true: 0, false, or an array or a string of no elements */
} lh_gguf_entry;

int64_t lh_gguf_entries(const lh_gguf *gguf);
lh_gguf_entry lh_gguf_entry_at(const lh_gguf *gguf, int64_t i);

/* Tensors. dims are ggml's: dims[0] runs fastest, so a matrix [out, in] has dims = {in, out}. */
typedef struct lh_gguf_tensor {
    lh_gguf_text name;
    int type; /* ggml's number: lh_format_numbered in base/format.h */
    int rank;
    int64_t dims[4];
    const lh_map *map;   /* of the file that holds it */
    const uint8_t *data; /* in the mapping; NULL, with bytes 0, if the type is unknown */
    int64_t bytes;
} lh_gguf_tensor;

int64_t lh_gguf_tensors(const lh_gguf *gguf);
const lh_gguf_tensor *lh_gguf_tensor_at(const lh_gguf *gguf, int64_t i);
const lh_gguf_tensor *lh_gguf_tensor_find(const lh_gguf *gguf, const char *name); /* NULL if there is none */

#endif
