/* rerun.h - a run without its model: what a policy keeps of a whole trace, over time. The prompt goes through kv/ layer
 * by layer, with recorded keys, values and query rows, and then the rows after it, answer by answer and step by step:
 * so layers compete, and decoding evicts, by the code of the engine. The rows are those of the recorded run, whatever
 * this policy evicts (teacher forcing): only where that run had the same policy are they what this one would have
 * seen. */
#ifndef LH_LAB_REPLAY_RERUN_H
#define LH_LAB_REPLAY_RERUN_H

#include <stdint.h>

/* An entry that goes after the prompt. Rows are numbered over all answers. */
typedef struct lh_drop {
    int32_t row;   /* the first that does not see it any more; of the same answer, or one past its end */
    int32_t entry; /* a position of the prompt, or the tokens of the prompt and the entry's row */
} lh_drop;

/* All zero: none. */
typedef struct lh_rerun {
    int64_t layers, heads, answers;
    int64_t *kept_at; /* [layers * heads + 1] */
    int32_t *kept;    /* positions at the end of the prompt, ascending within a head */
    int64_t *drop_at; /* [answers * layers * heads + 1] */
    lh_drop *drops;
} lh_rerun;

void lh_rerun_clear(lh_rerun *rerun);

/* What a head of a layer keeps at the end of the prompt, and what goes while an answer (of those that the trace has) is
 * made. */
typedef struct lh_rerun_kept {
    const int32_t *positions;
    int64_t count;
} lh_rerun_kept;
typedef struct lh_rerun_drops {
    const lh_drop *at;
    int64_t count;
} lh_rerun_drops;
lh_rerun_kept lh_rerun_kept_of(const lh_rerun *rerun, int64_t layer, int64_t head);
lh_rerun_drops lh_rerun_drops_of(const lh_rerun *rerun, int64_t answer, int64_t layer, int64_t head);

#endif
