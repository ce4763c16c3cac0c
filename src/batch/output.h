/* output.h - the output of a batch while the run writes it: lines (answer.h) are appended as requests finish. One
 * process writes, rank 0 of the run; other replicas send it their lines. A kill of the processes loses no line; a loss
 * of power loses the lines of the last `sync_s` seconds, which were not synced, and their requests are answered
 * again. A full disk ends the run with LH_EWRITE, and whole lines stay.
 *
 * With `ordered` the output has the order of the input. A line that finishes early is appended to "OUTPUT.held", and
 * copied to the output when all lines before it are there, so that the output grows during the run and a kill loses no
 * line. Next to it lie "OUTPUT.state" (state.h), "OUTPUT.timings.jsonl", and the folder of prefills.h, which is removed
 * when the output is complete. */
#ifndef LH_BATCH_OUTPUT_H
#define LH_BATCH_OUTPUT_H

#include <jansson.h>

#include "batch/input.h"
#include "batch/prefills.h"
#include "batch/queue.h"
#include "batch/state.h"
#include "device/device.h"

typedef struct lh_batch_output lh_batch_output;

typedef struct lh_batch_output_options {
    const json_t *run;        /* the member `run` of all lines (answer.h), borrowed while the output is open */
    const char *context_root; /* of resume.h */
    int resume;               /* true: an existing output is continued; false: it is an error */
    int retry_failed;         /* true: lines of errors are removed, and their requests tried again */
    int ordered;
    double sync_s;       /* maximum seconds between two syncs; 0: every line is synced */
    const char *metrics; /* a file for Prometheus, written as often as the state; NULL: none */
    int64_t ranks, replicas;
    const lh_device *device;           /* of this rank, borrowed; NULL: none */
    const lh_batch_prefills *prefills; /* of this output, borrowed; NULL: its folder is not touched */
} lh_batch_output_options;

/* Creates the output and locks it for this process, reads the finished requests, truncates a torn line, and writes the
 * state. LH_EUSAGE: the output or its prefills exist, and `resume` is 0, or the output belongs to another input or run
 * (resume.h); LH_EFILE: the output is damaged, or is no output; LH_EWRITE: the output cannot be written, or another run
 * writes it. After a failure nothing has changed. */
lh_status lh_batch_output_open(lh_batch_output **out, const char *path, const lh_batch_input *input,
                               const lh_batch_output_options *options);

/* Without lh_batch_output_finish the files are left as a kill leaves them. Removes an output without lines. NULL is
 * fine. */
void lh_batch_output_close(lh_batch_output *output);

/* From now on progress is shown, and the run ends when more than max_errors requests have failed; negative: no limit.
 */
void lh_batch_output_begin_run(lh_batch_output *output, int64_t max_errors);

/* True if line i of the input has its line in the output. */
int lh_batch_output_has(const lh_batch_output *output, int64_t i);

/* The current state; valid until the next call. */
const lh_batch_state *lh_batch_output_state(lh_batch_output *output);

/* Appends the line of request i, which has none yet. LH_EPARTIAL: the line is written, and more than max_errors
 * requests have failed. LH_EWRITE: the line is not written, and the output accepts no further line. */
typedef struct lh_batch_put {
    int64_t i;
    const char *line; /* [bytes], with its line feed */
    int64_t bytes;
    int failed;           /* true for a line of lh_batch_failure_line */
    const json_t *timing; /* object for the file of timings; NULL: none. A failure to write it is a warning */
} lh_batch_put;
lh_status lh_batch_output_put(lh_batch_output *output, const lh_batch_put *put);

/* Owner of a queue: requests that cannot be answered get the line of a failure. */
lh_batch_queue_owner lh_batch_output_owner(lh_batch_output *output);

/* To be called about every second, also when no request finishes: syncs, and writes the state, when either is due. */
lh_status lh_batch_output_tick(lh_batch_output *output);

/* Syncs, and writes the status of the run: LH_OK, LH_EINTERRUPTED, or a failure with lh_error_message(). Returns that
 * status, or LH_EWRITE if it is LH_OK and the output could not be synced. */
lh_status lh_batch_output_finish(lh_batch_output *output, lh_status how);

#endif
