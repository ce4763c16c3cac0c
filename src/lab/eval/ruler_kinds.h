/* ruler_kinds.h - the kinds of tasks of RULER. For ruler_*.c only. */
#ifndef LH_LAB_EVAL_RULER_KINDS_H
#define LH_LAB_EVAL_RULER_KINDS_H

#include "lab/eval/synthetic_kinds.h"

extern const lh_synthetic_kind lh_ruler_niah, lh_ruler_tracking, lh_ruler_common, lh_ruler_frequent, lh_ruler_documents;

typedef enum lh_ruler_type { LH_RULER_WORD, LH_RULER_NUMBER, LH_RULER_UUID } lh_ruler_type;
typedef enum lh_ruler_hay { LH_RULER_NOISE, LH_RULER_ESSAY, LH_RULER_NEEDLES } lh_ruler_hay;

typedef struct lh_ruler_needles {
    lh_ruler_hay hay;
    lh_ruler_type key, value;
    int keys, values, queries; /* values: of each key */
    int digits;                /* of numbers */
    int version;               /* of RULER's templates */
} lh_ruler_needles;

#endif
