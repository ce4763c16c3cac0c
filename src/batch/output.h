/* output.h - the output of a batch while it is made: lines (answer.h) are appended as requests finish. One process
 * writes, rank 0 of the run; other replicas send it their lines. What a line was written for is never lost by a kill of
 * the processes; a loss of power, of the machine that writes, costs what was not synced, `sync_s` seconds at most, and
 * is cut off and answered again. A disk that is full ends the run with LH_EWRITE, and what was complete stays.
 *
 * With `ordered` the output has the order of the input. A line that is ahead of its turn goes to "OUTPUT.held", and
 * from there to the output when those before it are written, so that the output grows while the run goes on and yet
 * nothing that was finished is lost. Beside it lie "OUTPUT.state" (state.h) and "OUTPUT.timings.jsonl"; and the folder
 * of prefills.h, which an output that is complete removes. */
#ifndef LH_BATCH_OUTPUT_H
#define LH_BATCH_OUTPUT_H

#include <jansson.h>

#include "batch/input.h"
#include "batch/prefills.h"
#include "batch/state.h"
#include "device/device.h"

typedef struct lh_batch_output lh_batch_output;

typedef struct lh_batch_output_options {
    const json_t *run;        /* what all lines have in common (answer.h), borrowed while the output is open */
    const char *context_root; /* of resume.h */
    int resume;               /* 1: an output that exists is continued; 0: it is an error */
    int retry_failed;         /* 1: lines of errors are taken out, and their requests tried again */
    int ordered;
    double sync_s;       /* 0: every line is synced */
    const char *metrics; /* a file for Prometheus (metrics.h), written as often as the state; NULL: none */
    int64_t ranks, replicas;
    const lh_device *device;           /* of this rank, borrowed; NULL: none */
    const lh_batch_prefills *prefills; /* of this output, borrowed; NULL: they are not looked at */
} lh_batch_output_options;

/* Creates the output and claims it for this process, reads what is done, cuts a torn line off, and writes the state.
 * LH_EUSAGE: the output exists, or prefills of it, and `resume` is 0, or it belongs to another input or run (resume.h);
 * LH_EFILE: it is damaged, or no output; LH_EWRITE: it cannot be written, or another run writes it. Nothing is changed
 * then. */
lh_status lh_batch_output_open(lh_batch_output **out, const char *path, const lh_batch_input *input,
                               const lh_batch_output_options *options);

/* Ends the run: without lh_batch_output_finish as a kill does. Removes an output without a line. NULL is fine. */
void lh_batch_output_close(lh_batch_output *output);

/* 1 if line i of the input has its line in the output. */
int lh_batch_output_has(const lh_batch_output *output, int64_t i);

/* As it is now; valid until the next call. */
const lh_batch_state *lh_batch_output_state(lh_batch_output *output);

/* The line for request i, with its end, which lh_batch_output_has not; `failed` is 1 for one of lh_batch_failure_line.
 * LH_EWRITE: it is not written, and the output takes no other. */
typedef struct lh_batch_put {
    int64_t i;
    const char *line;
    int64_t bytes;
    int failed;
    const json_t *timing; /* a line of the file of timings, an object; NULL: none. What cannot be written is dropped */
} lh_batch_put;
lh_status lh_batch_output_put(lh_batch_output *output, const lh_batch_put *put);

/* To be called every second or so, also when no request finishes: syncs, and writes the state, when it is time. */
lh_status lh_batch_output_tick(lh_batch_output *output);

/* Syncs, and writes how the run ended: with LH_OK, LH_EINTERRUPTED or a failure with lh_error_message(). Returns that
 * again, or LH_EWRITE if it is LH_OK and the output could not be synced. */
lh_status lh_batch_output_finish(lh_batch_output *output, lh_status how);

#endif
