/* trace_options.h - how a trace is recorded and what it takes, for `trace` and `plan`. */
#ifndef LH_MAIN_TRACE_OPTIONS_H
#define LH_MAIN_TRACE_OPTIONS_H

#include "lab/trace/levels.h"
#include "shell/shell.h"

extern const lh_option_table lh_trace_option_table; /* lh_trace_options, but for its path */

/* 1 if any of them is given. */
int lh_shell_trace_given(const lh_options *options);

/* Appends "level keys, at most 352.0 MiB (…)". */
lh_status lh_shell_trace_text(lh_buf *out, const lh_trace_options *options, const lh_trace_size *size);

#endif
