/* source_tensors.h - a list of the tensors of a source of an import, found by name. */
#ifndef LH_IMPORT_SOURCE_TENSORS_H
#define LH_IMPORT_SOURCE_TENSORS_H

#include "base/file.h"
#include "base/format.h"

typedef struct lh_source_tensor {
    char *name, *format_name;
    const lh_format *format; /* of lh_source_row; NULL, or one known by name only: cannot be read */
    int rank;
    int64_t dims[4];   /* outermost first; more dimensions are multiplied into the last */
    const lh_map *map; /* that `data` lies in */
    const uint8_t *data;
    int64_t bytes;
    struct lh_quantised *quantised; /* of a matrix in several tensors; NULL: the rows are `data` */
    int used;                       /* set by the importer */
} lh_source_tensor;

typedef struct lh_source_tensors {
    const char *path; /* of the source, for messages; borrowed */
    lh_source_tensor *at;
    int64_t n;
} lh_source_tensors;

/* Append a tensor with this name and 1 for every dimension; *out is valid until the next call. */
lh_status lh_source_tensors_add(lh_source_tensors *list, const char *name, int64_t name_bytes, lh_source_tensor **out);

/* Sort by name, which lh_source_tensors_find presumes. LH_EINPUT: two tensors have the same name. */
lh_status lh_source_tensors_sort(lh_source_tensors *list);
lh_source_tensor *lh_source_tensors_find(const lh_source_tensors *list, const char *name); /* NULL if there is none */

/* Free the list and its texts. */
void lh_source_tensors_clear(lh_source_tensors *list);

#endif
