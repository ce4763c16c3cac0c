/* h5.h - checkpoints, caches and results as HDF5 files. One process per file; the library is not thread-safe, so
 * neither is this. Reading fails with LH_EFILE, writing with LH_EWRITE; messages name file and object.
 *
 * A name is a path from the root, such as "/layers/000/k". 16-bit floats are stored bit for bit in the committed
 * types /types/bfloat16 and /types/float16, and every transfer has memory type = file type: HDF5's own
 * conversion of 16-bit floats is wrong (1.10.8 halves values after a subnormal one). */
#ifndef LH_BASE_H5_H
#define LH_BASE_H5_H

#include <jansson.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/mem.h"
#include "base/status.h"

typedef struct lh_h5 lh_h5; /* an open file */

/* ---- files ---- */
typedef struct lh_h5_header {
    const char *kind; /* root attribute `longhaul`: "checkpoint", "cache", "keep-sets", … */
    int64_t schema;   /* root attribute `schema`, from 1 */
    const char *run;  /* root attribute `run`: the resolved options as JSON, or NULL for none */
} lh_h5_header;

/* Write to the partial file of `path` (base/output.h), which has the root attributes (created_by too). lh_h5_commit
 * closes the file, reads its structure back, syncs and renames it; it always frees `h5`, and on failure removes the
 * partial file. lh_h5_close without commit removes it too. Commit fails after any failed write: HDF5 itself closes a
 * file on a full disk without an error. */
lh_status lh_h5_create(lh_h5 **out, const char *path, const lh_h5_header *header);
lh_status lh_h5_commit(lh_h5 *h5);

/* 1 if a regular file begins as HDF5 files do. */
int lh_h5_is_file(const char *path);

/* Open for reading. `want`: required kind (NULL: any) and newest supported schema (0: any).
 * Foreign files: lh_h5_probe first, in another process. */
lh_status lh_h5_open(lh_h5 **out, const char *path, const lh_h5_header *want);
void lh_h5_close(lh_h5 *h5); /* NULL is fine */

const char *lh_h5_path(const lh_h5 *h5);
const char *lh_h5_kind(const lh_h5 *h5);

/* A hash of the contents of a file below its root: names, shapes, attributes (so the `xxh64` of every array and
 * text), and the first and last elements of arrays and texts without `xxh64`. Equal for copies; no array is read as
 * a whole. */
lh_status lh_h5_contents(lh_h5 *h5, uint64_t *hash);

/* LH_EFILE if the size or the time of modification of the file changed since it was opened for reading: HDF5 reads
 * zeros after the end of a truncated file. Every read of an array or a text ends with this check. */
lh_status lh_h5_unchanged(const lh_h5 *h5);

/* A number of the file by inode, size and time of modification, not by its contents: ranks with the same number have
 * opened the same file, also on several hosts of a shared file system. */
uint64_t lh_h5_file_id(const lh_h5 *h5);

/* Check links, types, shapes and attributes of a file without reading arrays; no array may be larger than the file, no
 * link may leave it. lh_h5_check runs in this process, lh_h5_probe in a child with limits, because a damaged file can
 * crash or hang the library: call it before MPI is started. LH_EFILE. */
lh_status lh_h5_check(const char *path);
lh_status lh_h5_probe(const char *path);

/* ---- arrays ---- */
enum { LH_H5_RANK = 5 };

typedef struct lh_h5_shape {
    lh_dtype type;
    int rank; /* 0: a scalar */
    int64_t dims[LH_H5_RANK];
} lh_h5_shape;

int64_t lh_h5_shape_count(const lh_h5_shape *shape); /* elements */

typedef struct lh_h5_array lh_h5_array; /* an open dataset; close before the file */

typedef enum lh_h5_filter { LH_H5_PLAIN, LH_H5_DEFLATE, LH_H5_ZSTD } lh_h5_filter;
extern const char *const lh_h5_filter_names[]; /* in this order, as words of an option: "none", …, NULL */

/* LH_EUSAGE if the HDF5 that runs here does not have the filter: says how to get it. */
lh_status lh_h5_filter_check(lh_h5_filter filter);

/* How an array is stored. All zero: contiguous. */
typedef struct lh_h5_storage {
    lh_h5_filter filter;
    int64_t chunk[LH_H5_RANK]; /* elements that are compressed together, at most the shape of the array */
} lh_h5_storage;

/* New array; parent groups are created. It gets the attribute `dtype`. storage: NULL is contiguous. */
lh_status lh_h5_array_create(lh_h5_array **out, lh_h5 *h5, const char *name, const lh_h5_shape *shape,
                             const lh_h5_storage *storage);

/* LH_EFILE also if the array is compressed by a filter that HDF5 does not have here. */
lh_status lh_h5_array_open(lh_h5_array **out, lh_h5 *h5, const char *name);
void lh_h5_array_close(lh_h5_array *array); /* NULL is fine */
const lh_h5_shape *lh_h5_array_shape(const lh_h5_array *array);
lh_h5_storage
lh_h5_array_storage(const lh_h5_array *array); /* plain if it is not shuffled and compressed by one of the filters */

/* The hyperslab [at, at + count) of every dimension, dense in memory. At most 1 GiB goes to HDF5 at a time. */
typedef struct lh_h5_slab {
    int64_t at[LH_H5_RANK], count[LH_H5_RANK];
} lh_h5_slab;

lh_status lh_h5_array_write(lh_h5_array *array, const lh_h5_slab *slab, const void *data);
lh_status lh_h5_array_read(lh_h5_array *array, const lh_h5_slab *slab, void *data);

/* Find damage while an array is read. After lh_h5_array_check every slab of complete rows is hashed when it is read,
 * in ascending order; lh_h5_array_checked reads and hashes the other rows, and compares the hash with the attribute
 * `xxh64`: LH_EFILE if it differs. An array without the attribute passes. Where `count` ranks have the same file open,
 * lh_h5_share divides its arrays among them by bytes: one rank compares each array, and the ranks agree on the result.
 * Until it is called, every rank compares all arrays that it reads. */
lh_status lh_h5_array_check(lh_h5_array *array);
lh_status lh_h5_array_checked(lh_h5_array *array);
void lh_h5_share(lh_h5 *h5, int index, int count);

/* Compare all arrays and texts of a file with their hashes, for readers that do not read all of them. */
lh_status lh_h5_compare(lh_h5 *h5);

/* Read an array for its hash. */
lh_status lh_h5_array_hash(lh_h5_array *array, uint64_t *hash);

/* Write all of `from`, an array of another file and of the same type and rank, at [at, …) of `to`. Where both have the
 * same chunks and filter, compressed chunks are copied. */
lh_status lh_h5_array_place(lh_h5_array *to, const int64_t *at, lh_h5_array *from);

/* A whole array in one call, with the attribute `xxh64`. lh_h5_get allocates *data (lh_free) and fills *shape; `want`
 * holds the required type, rank and dimensions (-1: any). It compares the data with the attribute, if there is one. */
lh_status lh_h5_put(lh_h5 *h5, const char *name, const lh_h5_shape *shape, const void *data);
lh_status lh_h5_put_stored(lh_h5 *h5, const char *name, const lh_h5_shape *shape, const lh_h5_storage *storage,
                           const void *data);
lh_status lh_h5_get(lh_h5 *h5, const char *name, const lh_h5_shape *want, lh_h5_shape *shape, void *data);

/* Text as a scalar dataset, with `xxh64`: for texts too long for an attribute. lh_h5_get_text gives NUL-terminated
 * memory, and compares the text with the attribute, if there is one. */
lh_status lh_h5_put_text(lh_h5 *h5, const char *name, const char *text, int64_t bytes);
lh_status lh_h5_get_text(lh_h5 *h5, const char *name, char **text, int64_t *bytes);

/* ---- structure ---- */
int lh_h5_has(lh_h5 *h5, const char *name);

/* Create a group and its parents; nothing happens if it exists. */
lh_status lh_h5_group(lh_h5 *h5, const char *name);

/* Called for every dataset, sorted by name; its failure ends the walk and is returned. */
typedef lh_status (*lh_h5_visit)(void *arg, lh_h5 *h5, const char *name);
lh_status lh_h5_each_array(lh_h5 *h5, lh_h5_visit visit, void *arg);
lh_status lh_h5_each_text(lh_h5 *h5, lh_h5_visit visit, void *arg); /* ... datasets that are strings */

/* The contents of an open file as members of `object`: kind, bytes, the attributes of the root, an object for each
 * group with attributes; and *arrays (json_decref), a list of {name, dtype, shape, its attributes}. */
lh_status lh_h5_describe(lh_h5 *h5, json_t *object, json_t **arrays);

/* ---- attributes of the object `name` ("/" is the root). A missing attribute leaves *out unchanged. ---- */
lh_status lh_h5_put_i64(lh_h5 *h5, const char *name, const char *attr, int64_t value);
lh_status lh_h5_put_string(lh_h5 *h5, const char *name, const char *attr, const char *value);
lh_status lh_h5_get_i64(lh_h5 *h5, const char *name, const char *attr, int64_t *out);
lh_status lh_h5_get_f64(lh_h5 *h5, const char *name, const char *attr, double *out);
lh_status lh_h5_get_string(lh_h5 *h5, const char *name, const char *attr, char **out); /* lh_free; NULL: absent */

/* Attribute `xxh64`: lh_hash64 of an array's bytes as stored, 16 hexadecimal digits. */
lh_status lh_h5_put_hash(lh_h5 *h5, const char *name, uint64_t hash);
lh_status lh_h5_get_hash(lh_h5 *h5, const char *name, uint64_t *hash, int *found);

#endif
