/* truncate.h - which tokens of a text remain if it has more than fit. */
#ifndef LH_TEXT_TRUNCATE_H
#define LH_TEXT_TRUNCATE_H

#include <stdint.h>

/* The part to remove. */
typedef enum lh_truncation { LH_TRUNCATE_MIDDLE, LH_TRUNCATE_START, LH_TRUNCATE_END } lh_truncation;
extern const char *const lh_truncation_names[]; /* "middle", "start", "end", NULL */

/* Of n tokens the first `first` and the last `last` remain; first + last == n: all. */
typedef struct lh_kept_ends {
    int64_t first, last;
} lh_kept_ends;

/* At most max(0, max_tokens) of n. Without the middle there are max_tokens / 2 at either end, as in LongBench
 * (THUDM/LongBench, LongBench/pred.py) and InfiniteBench (OpenBMB/InfiniteBench, src/eval_yarn_mistral.py). */
lh_kept_ends lh_truncate(lh_truncation part, int64_t n, int64_t max_tokens);

#endif
