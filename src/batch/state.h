/* state.h - "OUTPUT.state", a small JSON file beside an output that says how far its run is, for `status` and scripts.
 * The output alone decides what is done; the state can be deleted. */
#ifndef LH_BATCH_STATE_H
#define LH_BATCH_STATE_H

#include <jansson.h>

#include "base/mem.h"

typedef enum lh_batch_stage {
    LH_BATCH_RUNNING,
    LH_BATCH_DONE,        /* every request has a line */
    LH_BATCH_INTERRUPTED, /* ended on request, to be resumed */
    LH_BATCH_FAILED,      /* ended by a failure, which `message` tells */
    LH_BATCH_KILLED,      /* says that it runs, and does not: of status.h alone */
    LH_BATCH_INCOMPLETE,  /* says that it is done, and lines are missing: of status.h alone */
    LH_BATCH_UNKNOWN,     /* there is no state: of status.h alone */
    LH_BATCH_STAGES
} lh_batch_stage;

extern const char *const lh_batch_stages[LH_BATCH_STAGES]; /* "running", … */

typedef struct lh_batch_state {
    lh_batch_stage stage;
    int64_t total, done, failed; /* requests; failed ones are done, too */
    int64_t input_total;         /* requests of the whole input, of which `total` are those of this part */
    int64_t resumed;             /* done before this run */
    int64_t started, updated;    /* seconds of Unix time */
    int64_t ranks, replicas;
    char *input, *message, *host, *job; /* job: of a batch system; NULL: none */
    char *device;                       /* of a rank: "cpu", "cuda" */
    int64_t pid;
    /* Bytes of the requests: of all, of those that are done, and of those that were before this run. */
    int64_t work_total, work_done, work_resumed;
    /* Of all runs that continued each other: tokens of prompts, those of shared contexts in front of them, and
     * generated ones; milliseconds of all ranks. Of this run: tokens read and generated, milliseconds. */
    int64_t prompt_tokens, context_tokens, new_tokens, rank_ms, run_tokens, run_ms;
    int64_t memory_peak; /* bytes of rank 0's device */
} lh_batch_state;

void lh_batch_state_clear(lh_batch_state *state);

/* Replace the file whole; on a full disk in place. LH_EWRITE. */
lh_status lh_batch_state_write(const lh_batch_state *state, const char *path);

/* LH_EINPUT: there is none, or it is none. */
lh_status lh_batch_state_read(lh_batch_state *state, const char *path);

/* The state beside an output, or beside the file that a link of this name leads to; LH_BATCH_UNKNOWN: there is none. */
lh_status lh_batch_state_of(lh_batch_state *state, const char *output);

/* Members of the state as members of an object. */
void lh_batch_state_put(json_t *object, const lh_batch_state *state);

/* Of this run: requests and tokens per second, 0: not known yet; and the seconds that the rest takes if it goes on as
 * it went, by the bytes of the requests, negative: not known. */
double lh_batch_state_rate(const lh_batch_state *state);
double lh_batch_state_tokens_rate(const lh_batch_state *state);
double lh_batch_state_left(const lh_batch_state *state);

/* Of all runs: hours of a rank, which is a GPU or a part of a host; tokens read and generated in one, 0: not known. */
double lh_batch_state_rank_hours(const lh_batch_state *state);
double lh_batch_state_tokens_per_rank_hour(const lh_batch_state *state);

#endif
