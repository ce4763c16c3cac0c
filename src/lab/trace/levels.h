/* levels.h - how much a trace records. */
#ifndef LH_LAB_TRACE_LEVELS_H
#define LH_LAB_TRACE_LEVELS_H

#include "base/h5.h"
#include "import/config.h"
#include "policies/budgets.h"

/* Every level records query rows (those of the window at the end of the prompt, and some drawn over all of it), columns
 * of attention, norms, and all rows after the prompt. */
typedef struct lh_trace_level {
    const char *name, *summary;
    int64_t column_rows; /* the last rows of the prompt that columns count; INT64_MAX: all */
    int entries;         /* 1: keys, values and output projections */
    int all_rows;        /* 1: all query rows of the prompt */
} lh_trace_level;

const lh_trace_level *lh_trace_level_at(int i); /* NULL after the last */
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

/* layers[l] = 1 for the recorded ones of `count`. LH_EUSAGE, naming what is wrong with the list. */
lh_status lh_trace_layers(const lh_trace_options *options, int64_t count, uint8_t *layers);

/* Positions of the recorded query rows of a prompt of `tokens` tokens, ascending: the last `window`, and before them
 * those of `rows` rows that are spread over the whole prompt; all of them at a level of all rows. Returns their number;
 * positions NULL: counts only. */
int64_t lh_trace_rows(const lh_trace_options *options, int64_t tokens, int32_t *positions);

/* Logits that are recorded of a step after the prompt: the best ones. */
enum { LH_TRACE_TOP = 64 };
int64_t lh_trace_top_logits(int64_t vocab);

/* A run that is recorded. */
typedef struct lh_trace_run {
    const lh_config *config;
    lh_dtype kv_type, weight_type;
    int64_t tokens, after; /* of the prompt; after it, at most */
} lh_trace_run;

/* Bytes of a trace, uncompressed: of one layer, for each token of the prompt, and of all recorded layers with what is
 * not a layer's. LH_EUSAGE for a list of layers that the model does not have. */
typedef struct lh_trace_size {
    int64_t layer, token, total;
} lh_trace_size;
lh_status lh_trace_bytes(lh_trace_size *out, const lh_trace_options *options, const lh_trace_run *run);

#endif
