/* file_kinds.h - all kinds of file of the engine and the laboratory, for `info` and `verify`. */
#ifndef LH_MAIN_FILE_KINDS_H
#define LH_MAIN_FILE_KINDS_H

#include "cache/file_kinds.h"
#include "lab/analysis/summary.h"
#include "lab/trace/segment.h"
#include "lab/trace/trace_file.h"
#include "model/score_weights.h"

static const lh_file_kind *const file_kinds[] = {&lh_checkpoint_kind,    &lh_cache_kind,         &lh_prefill_kind,
                                                 &lh_keep_sets_kind,     &lh_analysis_kind,      &lh_trace_kind,
                                                 &lh_trace_segment_kind, &lh_score_weights_kind, NULL};

#endif
