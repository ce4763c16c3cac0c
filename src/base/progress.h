/* progress.h - how far long work is: a bar where stderr is a terminal, else a line every 10 seconds, with done/total,
 * rate and time left. Rank 0 speaks, and not under -q. */
#ifndef LH_BASE_PROGRESS_H
#define LH_BASE_PROGRESS_H

#include <stdint.h>

typedef struct lh_progress {
    const char *what, *unit; /* borrowed: "prefill", "tokens"; unit "bytes" is shown as MiB */
    int64_t total;           /* 0: not known */
    double started_s, shown_s;
    int bar; /* 1: a bar is on the screen's last line */
} lh_progress;

/* Nothing is shown before the first second has passed: short work stays silent. */
void lh_progress_init(lh_progress *p, const char *what, const char *unit, int64_t total);

/* `done` units are done; cheap enough for every step of anything that takes a microsecond. */
void lh_progress_update(lh_progress *p, int64_t done);

/* Takes the bar away. */
void lh_progress_clear(lh_progress *p);

/* The text of one line, as "prefill 2048/7061 tokens (29%), 812 tokens/s, 6 s left", at elapsed_s seconds. */
void lh_progress_text(const lh_progress *p, int64_t done, double elapsed_s, char *out, int64_t bytes);

#endif
