/* h5_impl.h - shared by the files h5*.c. Other files include h5.h, which does not need hdf5.h. */
#ifndef LH_BASE_H5_IMPL_H
#define LH_BASE_H5_IMPL_H

#include <hdf5.h>
#include <time.h>

#include "base/h5.h"
#include "base/hash.h"

struct lh_h5 {
    hid_t file, access;   /* access: property list with the driver, which must outlive the file */
    char *path, *partial; /* partial: NULL if the file is open for reading */
    char *kind;
    int64_t schema;
    /* Size, time and inode of a file that is read, at its opening. No array can be larger than the file. */
    int64_t file_bytes;
    struct timespec modified;
    ino_t inode;
    int share_index, share_count; /* of the ranks that compare the hashes of its arrays; 0: this rank compares all */
    int failed;                   /* a write failed: never commit */
    int write_errno;              /* the driver's first error */
};

void lh_h5_release(lh_h5 *h5);

/* LH_EFILE for a file that is read, LH_EWRITE for one that is written. */
lh_status lh_h5_code(const lh_h5 *h5);

/* Ends every read, `st` being its status so far: LH_EFILE if the file has changed since it was opened for reading, else
 * `st`. Where reading fails, a change is the cause to report. */
lh_status lh_h5_read_status(const lh_h5 *h5, lh_status st);

/* The innermost reason that HDF5 gives for its last failure, borrowed from *reason. */
typedef struct lh_h5_reason {
    char text[256];
} lh_h5_reason;

const char *lh_h5_why(lh_h5_reason *reason);

typedef enum lh_h5_string { LH_H5_STRING_READ, LH_H5_STRING_ABSENT, LH_H5_STRING_UNREADABLE } lh_h5_string;

/* The text of an attribute or a dataset that holds one string of either kind of HDF5, in new memory. */
lh_h5_string lh_h5_read_string(const lh_h5 *h5, hid_t id, char **text, int64_t *bytes);

/* Shape of an open dataset; refuses more than LH_H5_RANK dimensions, unknown element types, data outside the file,
 * chunks larger than the array, and arrays larger than the file. */
lh_status lh_h5_shape_of(const lh_h5 *h5, hid_t dataset, const char *name, lh_h5_shape *out);

/* Create the parent groups of `name`. */
lh_status lh_h5_group_above(lh_h5 *h5, const char *name);

#endif
