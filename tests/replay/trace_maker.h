/* trace_maker.h - a small trace of seeded numbers, written array by array, without a model. */
#ifndef LH_TESTS_REPLAY_TRACE_MAKER_H
#define LH_TESTS_REPLAY_TRACE_MAKER_H

#include "base/status.h"

enum {
    MADE_LAYERS = 2,
    MADE_HEADS = 4,
    MADE_KV_HEADS = 2,
    MADE_DIM = 4,
    MADE_HIDDEN = 6,
    MADE_PROMPT = 24,
    MADE_WINDOW = 8, /* query rows, all at the end of the prompt */
    MADE_AFTER = 9,
    MADE_QUESTION = 2 /* of the rows after the prompt */
};

/* A number in [-1, 1): of array `what`, layer and element. */
float made_number(int what, int layer, int element);

/* At level keys. MADE_EVEN: queries are 0, so that a row attends to all that it sees alike; MADE_COMPRESSED: the random
 * one, compressed row by row. */
typedef enum made_kind { MADE_RANDOM, MADE_EVEN, MADE_COMPRESSED, MADE_NOT_FINITE } made_kind;
lh_status made_trace_write(const char *path, made_kind kind);

#endif
