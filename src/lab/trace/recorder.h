/* recorder.h - records a run of `generate` as a trace: a listener of the cache on every rank, which writes segments
 * (segment.h) during the run. docs/traces.md describes the file. */
#ifndef LH_LAB_TRACE_RECORDER_H
#define LH_LAB_TRACE_RECORDER_H

#include "engine/generate.h"
#include "lab/trace/levels.h"

typedef struct lh_trace lh_trace;

/* Not collective; options are borrowed. For lh_generate_request.recorder: the run then fails as well where the trace
 * cannot be written. */
lh_status lh_trace_open(lh_trace **out, const lh_trace_options *options);
void lh_trace_close(lh_trace *trace); /* NULL is fine */
lh_generate_recorder lh_trace_recorder(lh_trace *trace);

/* Collective, after the run. Writes the last segments, and joins all segments into one file. answers: JSON, kept in
 * it; may be NULL; rank 0. */
lh_status lh_trace_finish(lh_trace *trace, const char *answers);

#endif
