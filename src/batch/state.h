/* state.h - "OUTPUT.state", a small JSON file with the progress of a run, for `status` and scripts. The output alone
 * decides which requests are done; the state can be deleted. */
#ifndef LH_BATCH_STATE_H
#define LH_BATCH_STATE_H

#include <jansson.h>

#include "base/mem.h"

typedef enum lh_batch_stage {
    LH_BATCH_RUNNING,
    LH_BATCH_DONE,        /* every request has a line */
    LH_BATCH_INTERRUPTED, /* ended on request, to be resumed */
    LH_BATCH_FAILED,      /* ended by a failure, with its `message` */
    /* of lh_batch_status alone */
    LH_BATCH_KILLED,     /* the state is "running", and the process has ended */
    LH_BATCH_INCOMPLETE, /* the state is "done", and lines are missing */
    LH_BATCH_UNKNOWN,    /* there is no state */
    LH_BATCH_STAGES
} lh_batch_stage;

extern const char *const lh_batch_stages[LH_BATCH_STAGES]; /* "running", … */

typedef struct lh_batch_state {
    lh_batch_stage stage;
    int64_t total, done, failed; /* requests; `done` includes the failed ones */
    int64_t input_total;         /* requests of the whole input; `total`: of this part */
    int64_t resumed;             /* done before this run */
    int64_t started, updated;    /* seconds of Unix time */
    int64_t ranks, replicas;
    char *input, *message, *host, *job; /* job: of a batch system; NULL: none */
    char *device;                       /* of a rank: "cpu", "cuda" */
    int64_t pid;
    /* Bytes of all requests, of the done requests, and of the requests that were done before this run. */
    int64_t work_total, work_done, work_resumed;
    /* Of all runs of this output: tokens of prompts, of shared contexts before them, and of answers; milliseconds of
     * all ranks. Of this run: tokens of prompts and answers, milliseconds. */
    int64_t prompt_tokens, context_tokens, new_tokens, rank_ms, run_tokens, run_ms;
    int64_t memory_peak; /* bytes of rank 0's device */
} lh_batch_state;

void lh_batch_state_clear(lh_batch_state *state);

/* Replaces the file; on a full disk it is overwritten in place. LH_EWRITE. */
lh_status lh_batch_state_write(const lh_batch_state *state, const char *path);

/* LH_EINPUT: there is no such file, or it is no state. */
lh_status lh_batch_state_read(lh_batch_state *state, const char *path);

/* The state of an output, which may be a symbolic link; LH_BATCH_UNKNOWN: it has none. */
lh_status lh_batch_state_of(lh_batch_state *state, const char *output);

/* Sets the members of the state in an object. */
void lh_batch_state_put(json_t *object, const lh_batch_state *state);

/* Of this run: requests and tokens per second, 0: not known yet; and the remaining seconds, extrapolated by the bytes
 * of the requests, negative: not known. */
double lh_batch_state_rate(const lh_batch_state *state);
double lh_batch_state_tokens_rate(const lh_batch_state *state);
double lh_batch_state_left(const lh_batch_state *state);

/* Of all runs: hours of all ranks; tokens of prompts and answers in an hour of a rank, 0: not known. */
double lh_batch_state_rank_hours(const lh_batch_state *state);
double lh_batch_state_tokens_per_rank_hour(const lh_batch_state *state);

/* A running or finished batch, as another process finds it in the output and its state. */
typedef struct lh_batch_status {
    lh_batch_state state; /* done and failed are counted in the output */
    int64_t torn_bytes;
    lh_buf failures; /* "line 3 ('a'): invalid_request: …" of the first failures, each with a line feed */
} lh_batch_status;

/* LH_EINPUT: there is no output; LH_EFILE: the file is no output. */
lh_status lh_batch_status_read(lh_batch_status *status, const char *output);
void lh_batch_status_clear(lh_batch_status *status);

lh_status lh_batch_status_json(const lh_batch_status *status, const char *output, json_t **out);

/* Replaces a file with the state in the text format of Prometheus, for the textfile collector of the node exporter or a
 * web server. Every value has the labels `output` and, if there is one, `job`. LH_EWRITE. */
lh_status lh_batch_metrics_write(const lh_batch_state *state, const char *output, const char *path);

#endif
