/* segment_writer.h - writes segments on a thread of its own while the run goes on. One segment is written while the
 * next is recorded: who is faster waits. No other thread may use HDF5 from a put until the writer is drained. */
#ifndef LH_LAB_TRACE_SEGMENT_WRITER_H
#define LH_LAB_TRACE_SEGMENT_WRITER_H

#include "lab/trace/segment.h"

typedef struct lh_segment_writer lh_segment_writer;

/* Into a folder, which exists. filter: HDF5 has it. */
lh_status lh_segment_writer_open(lh_segment_writer **out, const char *folder, lh_h5_filter filter);

/* Hand a segment over, which is empty afterwards. Fails with what an earlier one failed with: LH_EWRITE. */
lh_status lh_segment_writer_put(lh_segment_writer *writer, lh_segment *segment);

/* Wait until all is written. */
lh_status lh_segment_writer_drain(lh_segment_writer *writer);

int64_t lh_segment_writer_bytes(const lh_segment_writer *writer); /* of arrays, handed over so far */

void lh_segment_writer_close(lh_segment_writer *writer); /* waits; NULL is fine */

#endif
