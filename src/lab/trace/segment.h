/* segment.h - a trace while it is recorded: segments, each a small HDF5 file (kind `trace-segment`) that is synced and
 * renamed when it is whole, so that the finished segments of a killed run remain. A segment holds one rank's slabs of
 * the trace's arrays, for one layer of the prompt or for some rows after it. lh_trace_join makes one file of them. */
#ifndef LH_LAB_TRACE_SEGMENT_H
#define LH_LAB_TRACE_SEGMENT_H

#include "base/h5.h"
#include "base/status.h"
#include "import/verify.h"

enum { LH_TRACE_SCHEMA = 1, LH_SEGMENT_NAME = 64 };
extern const lh_file_kind lh_trace_segment_kind;

/* Contents of a segment: the run, or one rank's part of a layer of the prompt or of some rows after it. Its name says
 * so: "run", "prompt" and "run-end", "prefill-l003-r001", "after-n0002-r001". */
typedef enum lh_segment_kind { LH_SEGMENT_OF_RUN, LH_SEGMENT_OF_LAYER, LH_SEGMENT_OF_ROWS } lh_segment_kind;
void lh_segment_name(char out[LH_SEGMENT_NAME], lh_segment_kind kind, int64_t number, int rank);
lh_segment_kind lh_segment_kind_of(const char *file, int64_t *number);

/* True for the file name (without a folder) of a segment, also of a segment that was not written to its end. */
int lh_segment_is_file(const char *file);

/* Part of an array: elements [at, at + shape.dims) of it. */
typedef struct lh_slab {
    char name[LH_SEGMENT_NAME]; /* of the array in the trace: "/layers/003/prefill/keys" */
    lh_h5_shape shape;          /* of the slab */
    int64_t at[LH_H5_RANK];
    /* chunk of compression: the same on all ranks; 0 in a dimension: as large as a chunk may be. All 0: never
     * compressed */
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

/* Add a slab: the segment owns its data from now on, also after a failure. Add a text, which is copied. */
lh_status lh_segment_add(lh_segment *segment, const lh_slab *slab);
lh_status lh_segment_add_text(lh_segment *segment, const char *name, const char *text);

/* Write it to "FOLDER/NAME.h5", compressed but for small arrays. LH_EWRITE. */
lh_status lh_segment_write(const lh_segment *segment, const char *folder, lh_h5_filter filter);

/* Where a slab of an open segment lies in the array that it is part of. LH_EFILE. */
lh_status lh_segment_place(lh_h5 *h5, const char *name, lh_slab *out);

/* Writes segments on a separate thread during the run. One segment is written while the next is recorded. No other
 * thread may use HDF5 from a put until the writer is drained. */
typedef struct lh_segment_writer lh_segment_writer;

/* Into a folder, which exists. filter: HDF5 has it. */
lh_status lh_segment_writer_open(lh_segment_writer **out, const char *folder, lh_h5_filter filter);

/* Hand a segment over, which is empty afterwards. Fails with what an earlier one failed with: LH_EWRITE. */
lh_status lh_segment_writer_put(lh_segment_writer *writer, lh_segment *segment);

/* Wait until all is written. */
lh_status lh_segment_writer_drain(lh_segment_writer *writer);

void lh_segment_writer_close(lh_segment_writer *writer); /* waits; NULL is fine */

/* ---- one file of the segments of a trace ---- */
/* The folder of the segments of a trace at `path`: "PATH.segments", a new string. */
lh_status lh_trace_folder(char **out, const char *path);

/* Reads the segments of a trace that another run left, in child processes: LH_EFILE where one is damaged. Call it
 * before MPI is started, and before lh_trace_join. */
lh_status lh_trace_check_segments(const char *path);

/* Writes the trace at `path` from its segments, and removes them. Layers, and rows after the prompt, that some rank has
 * not finished are left out; *missing: 1 if there are any, or the run did not come to its end. LH_EINPUT when there is
 * no folder of segments, LH_EFILE when segments do not fit each other, LH_EWRITE. */
lh_status lh_trace_join(const char *path, int *missing);

#endif
