/* metrics.h - the state of a batch for Prometheus, in its text format: a file that the collector of text files of the
 * node exporter reads, or a web server hands out. */
#ifndef LH_BATCH_METRICS_H
#define LH_BATCH_METRICS_H

#include "batch/state.h"

/* Replaces the file whole. `output`: the label of every value. LH_EWRITE. */
lh_status lh_batch_metrics_write(const lh_batch_state *state, const char *output, const char *path);

#endif
