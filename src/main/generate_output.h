/* generate_output.h - output of `generate`: streamed text, progress, a summary; after Ctrl-C the text so far. */
#ifndef LH_MAIN_GENERATE_OUTPUT_H
#define LH_MAIN_GENERATE_OUTPUT_H

#include "base/progress.h"
#include "base/status.h"
#include "engine/generate.h"
#include "shell/shell.h"

typedef struct lh_output {
    int json, writes_at_end, saves_cache; /* for the message of an interrupt: which files it leaves unwritten */
    const char *json_file;                /* gets the JSON object; NULL: none */
    int wants_length;                     /* 1: answers are to be as long as they may be */
    lh_comm *comm;
    const char *const *questions; /* printed above their answers if there are several, on rank 0 */
    int64_t question_count;
    const lh_config *config;
    int64_t prompt_tokens; /* tokens of the prefill */
    const char *trace;     /* of the run; NULL: it is not recorded */
    const char *claims[5]; /* files that the run will write, NULL for none: released by an interrupt */
    const char *resume;    /* state of the run, NULL: none */
    int stores_answer;     /* true: the state is written while the answer is generated, too */
    int64_t layers_kept;   /* of the newest state: all of the model once the prompt was read */
    int leaves;            /* true: the run ends with the next state */
    lh_progress progress;
    int64_t answer;                  /* the current one, -1: none yet */
    lh_answer current;               /* so far: printed by an interrupt ... */
    int64_t shown, shown_thoughts;   /* bytes of its content and its thoughts that were written */
    const lh_generation *generation; /* ... and so are those that are complete */
    lh_failures failed;              /* of writing, kept until the run ends: other ranks wait in collectives */
} lh_output;

/* For lh_generate_request.events, with the output as `self`. Both are collective, since they also look for interrupts:
 * after one rank 0 writes the output so far, and all ranks exit with LH_EINTERRUPTED. */
lh_status lh_output_prefill(void *self, int64_t done, int64_t total);
lh_status lh_output_token(void *self, int64_t answer, int32_t id, const char *text, int64_t bytes);

/* The same for the state of the run: an interrupt that leaves time ends the run when it is written next. */
int lh_output_checkpoint_due(void *self);
void lh_output_checkpoint_kept(void *self, int64_t layers_done);

/* After a complete run: rank 0 writes the last line of text or the JSON object, and the summary to stderr. */
lh_status lh_output_finish(lh_output *out, const lh_engine *engine, const lh_generation *generation);
void lh_output_clear(lh_output *out);

#endif
