/* trace_figures.h - a first look at a trace: a few figures of its smaller arrays, for `info`. */
#ifndef LH_LAB_TRACE_TRACE_FIGURES_H
#define LH_LAB_TRACE_TRACE_FIGURES_H

#include "lab/analysis/figures.h"
#include "lab/trace/trace_file.h"

/* Appends the figures that the trace has arrays for; keys, values and query rows are not read. LH_EFILE. */
lh_status lh_trace_figures(const lh_trace_file *file, lh_figures *out);

#endif
