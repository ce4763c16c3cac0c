/* generate_output.h - what `generate` shows: text as it is made, progress, a summary; and on Ctrl-C what there is. */
#ifndef LH_CLI_GENERATE_OUTPUT_H
#define LH_CLI_GENERATE_OUTPUT_H

#include "base/progress.h"
#include "cli/cli.h"
#include "engine/generate.h"

typedef struct lh_output {
    int json, writes_at_end, saves_cache; /* files that an interrupted run does not write: at its end, and of a cache
                                             that is saved after the prompt */
    lh_comm *comm;
    const char *const *questions; /* shown above their answers when there are several, on rank 0 */
    int64_t question_count;
    int64_t prompt_tokens; /* that prefill takes in */
    lh_progress progress;
    int64_t answer; /* the one under way, -1: none yet */
    lh_buf text;    /* of the answer under way, with its ids: what an interrupt leaves */
    lh_tokens ids;
    json_t *answers;  /* finished ones, for the same */
    lh_status failed; /* of writing, kept until the run ends: other ranks wait in collectives */
} lh_output;

/* Both are for lh_generate_request.events, with the output as `self`. An interrupt is looked for here, on rank 0: it
 * writes what there is and leaves with LH_EINTERRUPTED, without a collective; the launcher ends the others. */
void lh_output_prefill(void *self, int64_t done, int64_t total);
void lh_output_token(void *self, int64_t answer, int32_t id, const char *text, int64_t bytes);

/* After a finished run, on rank 0: the last line of text, or the JSON object; and the summary on stderr. */
lh_status lh_output_finish(lh_output *out, const lh_engine *engine, const lh_generation *generation);
void lh_output_clear(lh_output *out);

#endif
