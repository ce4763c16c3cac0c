/* similarity.h - similarity of two texts (ROUGE, BLEU). */
#ifndef LH_LAB_EVAL_SIMILARITY_H
#define LH_LAB_EVAL_SIMILARITY_H

#include <stdint.h>

#include "base/status.h"

/* Similarity of two texts, all from 0 to 1.
 * - ROUGE-N (Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004): with m common n-grams of N words
 *   (clipped), P = m / n-grams of the candidate, R = m / n-grams of the reference, F1 = 2PR / (P + R); 0 if m is 0.
 * - ROUGE-L: the same with m = length of the longest common subsequence of words of the whole texts. Both as
 *   rouge-score 0.1.2 without a stemmer.
 * - BLEU (Papineni et al., 2002) of one text and one reference: exp(mean over N = 1 … 4 of ln p_N) · min(1, exp(1 −
 *   r/c)), p_N = common n-grams (clipped) / n-grams of the candidate, r and c the numbers of words of reference and
 *   candidate. An order without common n-grams has p_N = 1/(2^k · n-grams), k the number of such orders so far (Chen &
 *   Cherry 2014, method 3); orders longer than the candidate do not count; 0 if no word is common. A hundredth of
 *   sacrebleu 2.6.0's sentence_bleu. */
typedef struct lh_similarity {
    double rouge1, rouge2, rougel, bleu;
} lh_similarity;

lh_status lh_similarity_of(lh_similarity *out, const char *reference, const char *candidate);

/* An answer compared with those that are right, each measure the best of all of them (SQuAD's script takes maxima,
 * too). exact: 1 if the normalised texts are equal (lh_squad_normalise); f1: of their words, 1 if neither has any;
 * rougel as above, of the texts as they are. */
typedef struct lh_answer_score {
    int exact;
    double f1, rougel;
} lh_answer_score;

lh_status lh_answer_score_of(lh_answer_score *out, const char *answer, const char *const *right, int64_t n);

#endif
