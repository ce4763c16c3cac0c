/* after_prompt.h - what a trace holds to go on from its prompt with the model: which model, the entries of the prompt,
 * its last logits, the tokens that followed. Failures are LH_EFILE, naming file and array. */
#ifndef LH_LAB_TRACE_AFTER_PROMPT_H
#define LH_LAB_TRACE_AFTER_PROMPT_H

#include "lab/trace/trace_file.h"

/* Of the checkpoint that was traced (lh_engine_view.identity). */
lh_status lh_trace_identity(const lh_trace_file *file, uint64_t *identity);

/* Tokens of the run at most, prompt included: some rotary scalings depend on it. */
lh_status lh_trace_run_tokens(const lh_trace_file *file, int64_t *tokens);

/* The tokens of the rows after the prompt, each below `vocab`: a new array [after_count]. */
lh_status lh_trace_after_tokens(const lh_trace_file *file, int64_t vocab, int32_t **out);

/* The logits of the last token of the prompt: a new array [vocab]. */
lh_status lh_trace_logits(const lh_trace_file *file, int64_t vocab, float **out);

/* Keys and values of KV heads [first, first + count) of a layer, each [count, prompt, head_dim] of the trace's type. */
typedef struct lh_trace_entries {
    int64_t layer, first, count;
    void *keys, *values;
} lh_trace_entries;
lh_status lh_trace_read_entries(const lh_trace_file *file, const lh_trace_entries *to);

#endif
