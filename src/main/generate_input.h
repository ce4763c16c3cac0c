/* generate_input.h - prompt and questions of `generate`: rank 0 reads and tokenizes them and broadcasts the ids. */
#ifndef LH_MAIN_GENERATE_INPUT_H
#define LH_MAIN_GENERATE_INPUT_H

#include "engine/chat_state.h"
#include "engine/prompt_fit.h"
#include "shell/chat_options.h"
#include "shell/shell.h"
#include "text/messages.h"

/* Sources of the prompt, and its chat format. */
typedef struct lh_input_options {
    const char *prompt, *prompt_file, *prompt_tokens, *messages;
    lh_strings questions, question_files;
    const char *question_list; /* a file with a question a line */
    lh_scenario scenario;
    const char *chat; /* one of lh_shell_chat_choices */
    const char *system, *force_tokens, *truncate;
    int continues_turn; /* true: the answer continues the last message */
} lh_input_options;

extern const lh_option_table lh_input_option_table;

/* LH_EUSAGE if the options contradict each other. */
lh_status lh_input_check(const lh_options *options, const lh_input_options *in, const lh_shell_chat *chat);

/* 1 if '-f' names a document and '-p' is the question about it. */
int lh_input_is_pair(const lh_input_options *in);

/* Number of questions that the options give. A list counts as two, because the file is not read yet. */
int64_t lh_input_questions(const lh_input_options *in);

/* The texts, on rank 0; empty elsewhere. The caller sets the members before `prompt`. */
typedef struct lh_input {
    const lh_input_options *options;
    const lh_shell_chat *chat;
    const char *load_cache; /* NULL: none; without a prompt the answer continues it */
    int64_t max_new;
    int keep_thinking; /* true: thoughts stay in the contents of messages */
    int saves_cache;   /* true: the text is a document that will be asked about */
    lh_stops stops;
    int ignore_eos;
    lh_buf prompt;
    lh_messages messages;
    char **questions; /* [n] */
    int64_t n;
} lh_input;

/* Local to rank 0: agree afterwards. Without an option the prompt is read from standard input, or is empty after a
 * cache. */
lh_status lh_input_read(lh_input *input);
void lh_input_clear(lh_input *input);

/* Token ids of the request: prompt, forced tokens, end tokens, and n questions; on rank 0 the chat format that they are
 * in, and where it stands in the loaded cache. lh_input_encode is collective; it logs a format that was chosen. */
typedef struct lh_input_ids {
    lh_tokens prompt, force, ends, *questions;
    int64_t n;
    int in_chat;       /* 1: in a chat format */
    int in_thoughts;   /* 1: the last message, which the answer continues, ends within thoughts */
    lh_prompt_cut cut; /* of the prompt */
    lh_chat_state chat;
} lh_input_ids;

lh_status lh_input_encode(const lh_input *input, lh_engine *engine, lh_input_ids *out);
void lh_input_ids_clear(lh_input_ids *ids);

#endif
