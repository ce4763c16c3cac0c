/* forced.h - the forced tokens after the prompt of a trace: questions and answers of the trace, each from the state
 * after the prompt, or a given text. */
#ifndef LH_LAB_REPLAY_FORCED_H
#define LH_LAB_REPLAY_FORCED_H

#include "lab/trace/trace_file.h"

/* Tokens of answer a: ids[first[a] .. first[a + 1]); the last one is not fed. */
typedef struct lh_forced {
    int32_t *ids;    /* [n] */
    uint8_t *judged; /* [n] 1: the next token is of the same answer, or of the text */
    int64_t *first;  /* [answers + 1] */
    int64_t n, answers;
    int64_t longest; /* tokens of the longest answer */
    int64_t count;   /* of those that are judged */
} lh_forced;

/* `text`: NULL, or what takes the place of the recorded tokens. LH_EUSAGE when nothing would be judged; LH_EFILE. Clear
 * also after a failure. */
lh_status lh_forced_take(lh_forced *out, const lh_trace_file *trace, const lh_tokens *text, int64_t vocab);
void lh_forced_clear(lh_forced *forced);

#endif
