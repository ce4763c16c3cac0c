/* text_metrics.h - texts cut into words as the metrics of answers define them, and what two such texts share. */
#ifndef LH_EVAL_TEXT_METRICS_H
#define LH_EVAL_TEXT_METRICS_H

#include <stdint.h>

#include "base/mem.h"

typedef enum lh_cut {
    LH_CUT_ANSWER, /* lower case; ASCII letters and digits and all that is no ASCII are words, the rest separates */
    LH_CUT_ROUGE, /* the same without what is no ASCII: rouge-score 0.1.2 without a stemmer (rouge_score/tokenize.py) */
    LH_CUT_13A    /* mteval-v13a, which BLEU is usually given with (sacrebleu 2.6.0, tokenizers/tokenizer_13a.py) */
} lh_cut;

/* Share of the words of `wanted` that `text` has, each as often as it is wanted; 0 when nothing is wanted. */
lh_status lh_words_found(double *share, const char *wanted, const char *text);

/* 1 when `text` has the words of `wanted`, one after the other; cut as answers. */
lh_status lh_words_contain(int *yes, const char *wanted, const char *text);

/* The words of two texts as numbers: equal words are equal numbers from 0 on. */
typedef struct lh_word_pair {
    int32_t *ids[2];
    int64_t n[2];
} lh_word_pair;

lh_status lh_word_pair_make(lh_word_pair *out, const char *const texts[2], lh_cut cut);
void lh_word_pair_clear(lh_word_pair *pair);

/* Runs of `order` words (1 to 4) that both have, each as often as the one that has it less often. */
enum { LH_WORD_RUNS = 4 };
lh_status lh_word_pair_matches(const lh_word_pair *pair, int order, int64_t *matches);

/* Length of the longest common subsequence of words. */
lh_status lh_word_pair_common(const lh_word_pair *pair, int64_t *length);

#endif
