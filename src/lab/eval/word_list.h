/* word_list.h - words for the prompts of tasks: single ones, and compounds such as "amber-acorn". */
#ifndef LH_LAB_EVAL_WORD_LIST_H
#define LH_LAB_EVAL_WORD_LIST_H

#include "base/mem.h"

enum { LH_WORDS = 337, LH_COMPOUNDS = 26986 };

/* Append the i-th one. */
lh_status lh_word_put(int64_t i, lh_buf *out);     /* i in [0, LH_WORDS) */
lh_status lh_compound_put(int64_t i, lh_buf *out); /* i in [0, LH_COMPOUNDS) */

#endif
