/* progress.h - progress of long work: a bar if stderr is a terminal, else a line every 10 seconds, with done/total,
 * rate and time left. On rank 0 only, and not with -q. */
#ifndef LH_BASE_PROGRESS_H
#define LH_BASE_PROGRESS_H

#include <stdint.h>

typedef struct lh_progress {
    const char *what, *unit; /* borrowed: "prefill", "tokens"; unit "bytes" is shown as MiB */
    int64_t total;           /* 0: unknown */
    int64_t before;          /* units that were done when it began; not in the rate */
    int estimated;           /* 1: the time left is left_s, negative: not known; else that of the mean rate */
    double left_s;
    const char *more; /* at the end of the line, borrowed; NULL: nothing */
    double started_s, shown_s;
    int bar; /* 1: the last line of the terminal is the bar */
} lh_progress;

/* Nothing is shown during the first second: short work stays silent. */
void lh_progress_init(lh_progress *p, const char *what, const char *unit, int64_t total);

/* `done` units are done; cheap enough for every step of anything that takes a microsecond. */
void lh_progress_update(lh_progress *p, int64_t done);

/* The same with an estimate of the caller's: seconds that the rest takes, negative if it is not known. */
void lh_progress_estimate(lh_progress *p, int64_t done, double left_s);

/* Erase the bar. */
void lh_progress_clear(lh_progress *p);

/* The text of one line, such as "prefill 2048/7061 tokens (29%), 812 tokens/s, 6 s left", at elapsed_s seconds. */
void lh_progress_text(const lh_progress *p, int64_t done, double elapsed_s, char *out, int64_t bytes);

#endif
