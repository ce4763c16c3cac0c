/* generate_input.h - what `generate` reads: rank 0 reads and tokenizes, everybody gets the ids. */
#ifndef LH_CLI_GENERATE_INPUT_H
#define LH_CLI_GENERATE_INPUT_H

#include "cli/cli.h"
#include "eval/needle.h"

/* Where the prompt comes from, and how it is put. */
typedef struct lh_input_options {
    const char *prompt, *prompt_file, *prompt_tokens;
    lh_strings questions, question_files;
    lh_scenario scenario;
    int chat;
    const char *chat_template, *system, *force_tokens;
} lh_input_options;

extern const lh_option_table lh_input_option_table;

/* LH_EUSAGE where the options contradict each other. */
lh_status lh_input_check(const lh_options *options, const lh_input_options *in);

/* What is read. The first two are the caller's; the texts are there on rank 0, elsewhere empty. */
typedef struct lh_input {
    const lh_input_options *options;
    int behind_cache; /* 1: a cache is loaded, and the answer may just continue after it */
    lh_buf prompt;
    char **questions; /* [n] */
    int64_t n;        /* on every rank */
} lh_input;

/* Local to rank 0: agree afterwards. Without any option the prompt is standard input, or nothing after a cache. */
lh_status lh_input_read(lh_input *input);
void lh_input_clear(lh_input *input);

/* Collective: the ids of prompt, questions, forced tokens and end tokens, in the request; questions is memory of the
 * caller. */
typedef struct lh_input_ids {
    lh_tokens prompt, force, ends, *questions;
    int64_t n;
} lh_input_ids;

lh_status lh_input_encode(const lh_input *input, lh_engine *engine, lh_input_ids *out);
void lh_input_ids_clear(lh_input_ids *ids);

#endif
