/* h5_impl.h - shared by the files h5*.c. All others include h5.h, which does not need hdf5.h. */
#ifndef LH_BASE_H5_IMPL_H
#define LH_BASE_H5_IMPL_H

#include <hdf5.h>
#include <time.h>

#include "base/h5.h"
#include "base/hash.h"

typedef struct lh_h5_hashing lh_h5_hashing; /* the hash of the rows that were read so far */

struct lh_h5 {
    hid_t file, access;   /* access: property list with the driver, which must outlive the file */
    char *path, *partial; /* partial: NULL if reading */
    char *kind;
    int64_t schema;
    /* When reading, of the file as it was opened. No array can be larger. */
    int64_t file_bytes;
    struct timespec modified;
    ino_t inode;
    int share_index, share_count; /* of the ranks that compare the hashes of its arrays; 0: this one alone */
    int failed;                   /* a write failed: never commit */
    int write_errno;              /* the driver's first error */
};

struct lh_h5_array {
    lh_h5 *h5;
    char *name;
    hid_t id, type; /* type: of the file, and of memory */
    lh_h5_shape shape;
    lh_h5_hashing *hashing; /* NULL: the array is not compared with its hash */
};

/* LH_EFILE or LH_EWRITE, as the file is read or written. */
lh_status lh_h5_code(const lh_h5 *h5);

/* What every read ends with, `st` being its status so far: LH_EFILE if the file is not what it was when it was opened
 * for reading, else `st`. Where reading fails, a change is the cause to report. */
lh_status lh_h5_read_status(const lh_h5 *h5, lh_status st);

/* A slab that was read, to the hash of its array. */
lh_status lh_h5_hashing_add(lh_h5_array *array, const lh_h5_slab *slab, const void *data);
void lh_h5_hashing_close(lh_h5_hashing *hashing); /* NULL is fine */

/* Read a slab without hashing it. */
lh_status lh_h5_array_transfer_in(lh_h5_array *array, const lh_h5_slab *slab, void *data);

/* LH_EFILE unless `have` is the hash that is stored beside an array or a text; it may have none. */
lh_status lh_h5_compare_hash(lh_h5 *h5, const char *name, uint64_t have);

/* The innermost reason that HDF5 gives for its last failure, borrowed from *reason. */
typedef struct lh_h5_reason {
    char text[256];
} lh_h5_reason;

const char *lh_h5_why(lh_h5_reason *reason);

/* Write through h5_sink.c: the first error goes to *error, HDF5 sees none. */
herr_t lh_h5_sink_use(hid_t access, int *error);

/* LH_EWRITE after the driver's first error. */
lh_status lh_h5_written(const lh_h5 *h5);

/* Compression for a new dataset: storage->filter is one. */
herr_t lh_h5_filter_use(hid_t plist, const lh_h5_storage *storage, int rank);

/* LH_EFILE unless HDF5 has all filters of the array here. */
lh_status lh_h5_filters_found(const lh_h5_array *array);

/* Refuses an open dataset whose chunks are larger than itself or than the file: HDF5 allocates a whole chunk to read
 * one element, and a compressed chunk may take a few bytes of the file. Refuses chunks that no filter has compressed
 * and that are not whole, too. */
lh_status lh_h5_check_chunk(const lh_h5 *h5, hid_t dataset, const char *name);

/* Shape of an open dataset; refuses more than LH_H5_RANK dimensions, unknown element types, data outside the
 * file, chunks larger than the array, and arrays larger than the file. */
lh_status lh_h5_shape_of(const lh_h5 *h5, hid_t dataset, const char *name, lh_h5_shape *out);

/* Create the parent groups of `name`. */
lh_status lh_h5_group_above(lh_h5 *h5, const char *name);

/* Written last: a hash of all attributes, which HDF5's own checksums do not cover. */
lh_status lh_h5_seal(lh_h5 *h5);

/* Check the attributes of an object, and add its name and all of them but the seal to `hash`. */
lh_status lh_h5_attrs_hash(lh_h5 *h5, hid_t object, const char *name, lh_hasher *hash);

/* A walk over all links below the root, sorted by name; refuses links that are not hard. */
typedef struct lh_h5_walk {
    lh_h5 *h5;
    lh_status (*object)(struct lh_h5_walk *walk, hid_t object, const char *name);
    void *arg;
    int64_t objects;
    lh_status st;
} lh_h5_walk;

lh_status lh_h5_walk_run(lh_h5_walk *walk);

#endif
