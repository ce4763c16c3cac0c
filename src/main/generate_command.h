/* generate_command.h - the command `generate`, for `trace`, which is the same run with a recorder. */
#ifndef LH_MAIN_GENERATE_COMMAND_H
#define LH_MAIN_GENERATE_COMMAND_H

#include "lab/trace/levels.h"
#include "lab/trace/recorder.h"
#include "main/generate_input.h"
#include "shell/shell.h"

typedef struct lh_answer_options {
    int64_t max_new;
    int ignore_eos, keep_thinking;
    lh_strings stops;
} lh_answer_options;

typedef struct lh_generate_files {
    int json, logprobs;
    int64_t logits_last;
    const char *load_cache, *save_cache, *keep_sets, *keep_sets_from, *logits, *json_file;
} lh_generate_files;

typedef struct lh_resume_options {
    const char *path; /* NULL: none */
    double every_s;
} lh_resume_options;

typedef struct lh_generate_values {
    lh_shell_common common;
    lh_engine_options engine;
    lh_policy_options policy;
    lh_input_options input;
    lh_shell_chat chat;
    lh_sampling sampling;
    lh_answer_options answer;
    lh_generate_files files;
    lh_resume_options resume;
    lh_context_store_options store;
} lh_generate_values;

extern const lh_option_table lh_answer_option_table, lh_generate_file_table;

/* The run; trace: how it is recorded, NULL: not at all. */
lh_status lh_shell_generate(lh_call *call, lh_generate_values *values, const lh_trace_options *trace);

#endif
