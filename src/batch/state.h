/* state.h - "OUTPUT.state", a small JSON file beside an output that says how far its run is, for `status` and scripts;
 * and what `status` makes of it and of the output. The output alone decides what is done; the state can be deleted. */
#ifndef LH_BATCH_STATE_H
#define LH_BATCH_STATE_H

#include <jansson.h>

#include "base/mem.h"

typedef enum lh_batch_stage {
    LH_BATCH_RUNNING,
    LH_BATCH_DONE,        /* every request has a line */
    LH_BATCH_INTERRUPTED, /* ended on request, to be resumed */
    LH_BATCH_FAILED,      /* ended by a failure, which `message` tells */
    LH_BATCH_KILLED,      /* says that it runs, and does not: of a status alone */
    LH_BATCH_UNKNOWN,     /* there is no state: of a status alone */
    LH_BATCH_STAGES
} lh_batch_stage;

extern const char *const lh_batch_stages[LH_BATCH_STAGES]; /* "running", … */

typedef struct lh_batch_state {
    lh_batch_stage stage;
    int64_t total, done, failed; /* requests; failed ones are done, too */
    int64_t resumed;             /* done before this run */
    int64_t started, updated;    /* seconds of Unix time */
    int64_t ranks, replicas;
    char *input, *message, *host, *job; /* job: of a batch system; NULL: none */
    int64_t pid;
} lh_batch_state;

void lh_batch_state_clear(lh_batch_state *state);

/* Replace the file whole; on a full disk in place. LH_EWRITE. */
lh_status lh_batch_state_write(const lh_batch_state *state, const char *path);

/* LH_EINPUT: there is none, or it is none. */
lh_status lh_batch_state_read(lh_batch_state *state, const char *path);

/* A running or finished batch as another process sees it. */
typedef struct lh_batch_status {
    lh_batch_state state; /* done and failed are counted in the output */
    int64_t torn_bytes;
    lh_buf failures; /* "line 3 ('a'): invalid_request: …" of the first failures, each with a line feed */
} lh_batch_status;

/* LH_EINPUT: there is no output; LH_EFILE: it is none. */
lh_status lh_batch_status_read(lh_batch_status *status, const char *output);
void lh_batch_status_clear(lh_batch_status *status);

/* Requests per second of this run, 0: not known yet; and the seconds that the rest takes at that rate, negative: not
 * known. */
double lh_batch_state_rate(const lh_batch_state *state);
double lh_batch_state_left(const lh_batch_state *state);

lh_status lh_batch_status_json(const lh_batch_status *status, const char *output, json_t **out);

#endif
