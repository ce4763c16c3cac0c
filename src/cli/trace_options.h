/* trace_options.h - how a trace is recorded and what it takes, for `trace` and `plan`. */
#ifndef LH_CLI_TRACE_OPTIONS_H
#define LH_CLI_TRACE_OPTIONS_H

#include "cli/cli.h"
#include "trace/levels.h"

extern const lh_option_table lh_trace_option_table; /* lh_trace_options, but for its path */

/* 1 if any of them is given. */
int lh_cli_trace_given(const lh_options *options);

/* Appends "level keys, at most 352.0 MiB (…)". */
lh_status lh_cli_trace_text(lh_buf *out, const lh_trace_options *options, const lh_trace_size *size);

#endif
