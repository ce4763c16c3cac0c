/* trace_file.h - reads a trace, layer by layer. The file is foreign: shapes are checked against each other, and
 * failures are LH_EFILE, naming file and array. Layout in docs/traces.md. */
#ifndef LH_LAB_TRACE_TRACE_FILE_H
#define LH_LAB_TRACE_TRACE_FILE_H

#include "base/h5.h"
#include "import/verify.h"
#include "kv/layer_plan.h"
#include "lab/analysis/figures.h"
#include "lab/trace/levels.h"

/* Traces, for `verify` and `info`. */
extern const lh_file_kind lh_trace_kind;

/* Tokens of the questions; each question was one block. None if the prompt itself was answered, which may then end
 * with a question. */
typedef struct lh_trace_questions {
    int32_t *tokens;
    int64_t count, asked; /* asked: tokens of the question at the prompt's end; 0: none */
} lh_trace_questions;

typedef struct lh_trace_file {
    lh_h5 *h5;
    lh_kv_shape shape; /* one rank, all heads, the order of the run; no projections, rotations or profiles */
    const lh_trace_level *level;
    uint8_t *recorded; /* [layers] 1: the trace has this layer */
    uint8_t *sliding;  /* [layers] */
    int32_t *tokens;   /* [prompt] */
    int64_t prompt;
    int32_t *rows; /* [row_count] positions of the recorded query rows, ascending; the last `window` end the prompt */
    int64_t row_count, window;
    int64_t column_rows; /* the last rows that columns count; 0: there are no columns */
    /* rows after the prompt, answer by answer: positions, which in each answer continue the prompt's, and the answer's
     * number */
    int32_t *after_positions, *after_answers; /* [after_count] */
    int64_t after_count;
    lh_trace_questions questions;
    int64_t chunk; /* tokens that went through a layer together; 0: not known */
    uint64_t seed;
    lh_policy policy; /* of the run */
    lh_profiles profiles;
} lh_trace_file;

/* Clear also after a failure. All zero is closed. */
lh_status lh_trace_file_open(lh_trace_file *out, const char *path);
void lh_trace_file_close(lh_trace_file *file);

/* Index of the recorded row at a position of the prompt; -1: it was not recorded. */
int64_t lh_trace_row_at(const lh_trace_file *file, int64_t position);

/* A text of the file, parsed (a new reference). */
lh_status lh_trace_json(const lh_trace_file *file, const char *name, json_t **out);

/* Questions and answers of the run, as JSON (a new reference); NULL: the trace has none. */
lh_status lh_trace_answers(const lh_trace_file *file, json_t **out);

/* The rows of an answer: [first, end) of the rows after the prompt; the first `block` are its question. Advances from
 * all zeros to the next answer; returns 0 after the last. */
typedef struct lh_trace_answer_rows {
    int64_t first, end, block;
} lh_trace_answer_rows;
int lh_trace_next_answer(const lh_trace_file *file, lh_trace_answer_rows *rows);

/* One layer, but for the outputs of its rows, which a replay works out. Rows are f32; entries as the cache had them.
 * NULL: not recorded. */
typedef struct lh_trace_rows {
    float *queries, *lse; /* [n, heads, head_dim], [n, heads] */
} lh_traced_rows;

typedef struct lh_trace_layer {
    int64_t index;
    lh_traced_rows rows, after;
    void *keys, *values;             /* [kv_heads, prompt, head_dim] of shape.types.prompt */
    void *after_keys, *after_values; /* [after_count, kv_heads, head_dim] of shape.types.prompt */
    float *sums, *squares, *counts;  /* [kv_heads, prompt]: columns */
    float *projected;                /* [kv_heads, prompt]: norms */
    void *projection;                /* [hidden, heads * head_dim] of projection_type */
    lh_dtype projection_type;
    float *frequencies, rotation_scale; /* [rotary / 2] */
    lh_query_scaling query_scaling;
    int64_t rotary;
} lh_trace_layer;

/* Reads the arrays that the trace's level has. Clear also after a failure. */
lh_status lh_trace_layer_read(lh_trace_layer *out, const lh_trace_file *file, int64_t layer);
void lh_trace_layer_clear(lh_trace_layer *layer);

/* Reads all of a trace: LH_EFILE if an array is missing, or if shapes contradict each other. */
lh_status lh_trace_verify(const char *path);

/* The parts of a trace that continue its prompt with the model: the model's identity, the entries of the prompt, the
 * last logits, the tokens after the prompt. Failures are LH_EFILE, naming file and array. */
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

/* ---- a first look at a trace: a few figures of its smaller arrays, for `info` ---- */
/* Appends the figures that the trace has arrays for; keys, values and query rows are not read. LH_EFILE. */
lh_status lh_trace_figures(const lh_trace_file *file, lh_figures *out);

#endif
