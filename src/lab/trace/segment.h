/* segment.h - a trace while it is recorded: segments, each a small HDF5 file of its own (kind `trace-segment`) that is
 * synced and renamed when it is whole, so that a killed run leaves what it had. A segment holds slabs of the arrays of
 * the trace: those of one rank and one layer of the prompt, or of some rows after it. join.h makes one file of them. */
#ifndef LH_LAB_TRACE_SEGMENT_H
#define LH_LAB_TRACE_SEGMENT_H

#include "base/h5.h"

enum { LH_TRACE_SCHEMA = 1, LH_SEGMENT_NAME = 64 };

/* What a segment is of: the run, a layer of the prompt, or a stretch of rows after it; these of each rank. Its name
 * says so: "run", "prompt" and "run-end", "prefill-l003-r001", "after-n0002-r001". */
typedef enum lh_segment_kind { LH_SEGMENT_OF_RUN, LH_SEGMENT_OF_LAYER, LH_SEGMENT_OF_ROWS } lh_segment_kind;
void lh_segment_name(char out[LH_SEGMENT_NAME], lh_segment_kind kind, int64_t number, int rank);
lh_segment_kind lh_segment_kind_of(const char *file, int64_t *number);

/* 1 for the name of a segment's file, without a folder, or of one that was not written to its end. */
int lh_segment_is_file(const char *file);

/* Part of an array: elements [at, at + shape.dims) of it. */
typedef struct lh_slab {
    char name[LH_SEGMENT_NAME]; /* of the array in the trace: "/layers/003/prefill/keys" */
    lh_h5_shape shape;          /* of the slab */
    int64_t at[LH_H5_RANK];
    /* what is compressed together: the same on all ranks, which share out heads; 0 of a dimension: as much as a chunk
     * holds. All 0: never compressed */
    int64_t chunk[LH_H5_RANK];
    void *data;
} lh_slab;

typedef struct lh_segment_text {
    char name[LH_SEGMENT_NAME];
    char *text;
} lh_segment_text;

/* All zero is empty; owns data and texts. */
typedef struct lh_segment {
    char name[LH_SEGMENT_NAME]; /* of the file, without ".h5" */
    const char *run;            /* borrowed; NULL: the file has no attribute `run` */
    lh_slab *slabs;
    lh_segment_text *texts;
    int64_t slab_count, text_count;
} lh_segment;
void lh_segment_clear(lh_segment *segment);

/* Add a slab, whose data is the segment's from now on, also after a failure; a text, which is copied. */
lh_status lh_segment_add(lh_segment *segment, const lh_slab *slab);
lh_status lh_segment_add_text(lh_segment *segment, const char *name, const char *text);

/* Write it to "FOLDER/NAME.h5", compressed but for small arrays. LH_EWRITE. */
lh_status lh_segment_write(const lh_segment *segment, const char *folder, lh_h5_filter filter);

/* Where a slab of an open segment lies in the array that it is part of. LH_EFILE. */
lh_status lh_segment_place(lh_h5 *h5, const char *name, lh_slab *out);

#endif
