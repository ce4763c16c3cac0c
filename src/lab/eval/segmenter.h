/* segmenter.h - cuts Chinese text into words exactly as the Python package jieba does, which LongBench's metrics use:
 * the most likely path through the words of a dictionary, and a hidden Markov model for characters that no word of the
 * path covers. The dictionary and the model are files of that package. */
#ifndef LH_LAB_EVAL_SEGMENTER_H
#define LH_LAB_EVAL_SEGMENTER_H

#include <stdint.h>

#include "base/status.h"

typedef struct lh_segmenter lh_segmenter;

/* folder: `jieba` of the package (0.42.1), with dict.txt, finalseg/prob_start.py, prob_trans.py and prob_emit.py.
 * *hash: of the files. LH_EINPUT, naming a file that is damaged. */
lh_status lh_segmenter_open(lh_segmenter **out, const char *folder, uint64_t *hash);
void lh_segmenter_close(lh_segmenter *s); /* NULL is fine */

/* Calls `take` with every word in order; together they are the text. Characters outside of Chinese words, white space
 * too, are single-character words, but letters and numbers stay together. */
typedef lh_status (*lh_word_taker)(void *self, const char *word, int64_t bytes);
lh_status lh_segmenter_cut(const lh_segmenter *s, const char *text, lh_word_taker take, void *self);

#endif
