/* join.h - one file of the segments of a trace. */
#ifndef LH_LAB_TRACE_JOIN_H
#define LH_LAB_TRACE_JOIN_H

#include "base/status.h"

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
