/* levels.h - how much a trace records. */
#ifndef LH_LAB_TRACE_LEVELS_H
#define LH_LAB_TRACE_LEVELS_H

#include "base/h5.h"
#include "base/options.h"
#include "import/config.h"
#include "policies/budgets.h"

/* Every level records query rows (the window at the end of the prompt, and a sample of the whole prompt), columns of
 * attention, norms, and all rows after the prompt. */
typedef struct lh_trace_level {
    const char *name, *summary;
    int64_t column_rows; /* the last rows of the prompt that columns count; INT64_MAX: all */
    int entries;         /* 1: keys, values and output projections */
    int all_rows;        /* 1: all query rows of the prompt */
} lh_trace_level;

const lh_trace_level *lh_trace_level_find(const char *name);

typedef struct lh_trace_options {
    const char *path;   /* of the trace */
    const char *level;  /* a name of a level */
    const char *layers; /* "all", or a list such as "0,4-7" */
    const char *dtype;  /* of queries and outputs: "f32", "bf16" */
    int64_t rows;       /* spread over the whole prompt */
    int64_t window;     /* last rows of the prompt */
    lh_h5_filter compress;
} lh_trace_options;

/* layers[l] = 1 for the recorded layers of `count`. LH_EUSAGE, naming the wrong item of the list. */
lh_status lh_trace_layers(const lh_trace_options *options, int64_t count, uint8_t *layers);

/* Positions of the recorded query rows of a prompt of `tokens` tokens, ascending: the last `window` rows, and `rows`
 * rows spread over the rest of the prompt; at a level of all rows, every row. Returns their number; positions NULL:
 * counts only. */
int64_t lh_trace_rows(const lh_trace_options *options, int64_t tokens, int32_t *positions);

/* Logits that are recorded of a step after the prompt: the best ones. */
enum { LH_TRACE_TOP = 64 };
int64_t lh_trace_top_logits(int64_t vocab);

/* A run that is recorded. */
typedef struct lh_trace_run {
    const lh_config *config;
    lh_dtype entry_type, weight_type;
    int64_t tokens, after; /* of the prompt; after it, at most */
} lh_trace_run;

/* Bytes of a trace, uncompressed: per layer, per token of the prompt, and in total with the parts that belong to no
 * layer. LH_EUSAGE for a list of layers that the model does not have. */
typedef struct lh_trace_size {
    int64_t layer, token, total;
} lh_trace_size;
lh_status lh_trace_bytes(lh_trace_size *out, const lh_trace_options *options, const lh_trace_run *run);

/* ---- options of recording, and the size of a trace, for `trace` and `plan` ---- */
extern const lh_option_table lh_trace_option_table; /* lh_trace_options, but for its path */

/* 1 if any of them is given. */
int lh_trace_options_given(const lh_options *options);

/* Appends "level keys, at most 352.0 MiB (…)". */
lh_status lh_trace_size_text(lh_buf *out, const lh_trace_options *options, const lh_trace_size *size);

#endif
