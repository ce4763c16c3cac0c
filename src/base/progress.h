/* progress.h - progress of long work: a bar if stderr is a terminal, else a line every 10 seconds, with done/total,
 * rate and time left, and the time limit of the job where that comes first (base/job.h). On rank 0 only, and not with
 * -q. */
#ifndef LH_BASE_PROGRESS_H
#define LH_BASE_PROGRESS_H

#include <stdint.h>

typedef struct lh_progress {
    const char *what, *unit; /* borrowed: "prefill", "tokens"; unit "bytes" is shown as MiB */
    int64_t total;           /* 0: unknown */
    int64_t before;          /* units that were done at its begin; not in the rate */
    int estimated;           /* true: the time left is left_s (negative: unknown); else it follows from the mean rate */
    double left_s;
    const char *more; /* at the end of the line, borrowed; NULL: nothing */
    double started_s, shown_s;
    int bar; /* true: the last line of the terminal is the bar */
} lh_progress;

/* Nothing is shown during the first second: short work stays silent. */
void lh_progress_init(lh_progress *p, const char *what, const char *unit, int64_t total);

/* `done` units are done. Cheap: call it at every step of a microsecond or more. */
void lh_progress_update(lh_progress *p, int64_t done);

/* The same with the caller's estimate of the remaining seconds, negative if unknown. */
void lh_progress_estimate(lh_progress *p, int64_t done, double left_s);

/* Erase the bar. */
void lh_progress_clear(lh_progress *p);

/* The text of a line, such as "prefill 2048/7061 tokens (29%), 812 tokens/s, 6 s left", at elapsed_s seconds. */
void lh_progress_text(const lh_progress *p, int64_t done, double elapsed_s, char *out, int64_t bytes);

#endif
