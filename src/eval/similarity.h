/* similarity.h - how similar two texts are (ROUGE, BLEU), and two distributions (KL divergence). */
#ifndef LH_EVAL_SIMILARITY_H
#define LH_EVAL_SIMILARITY_H

#include <stdint.h>

#include "base/status.h"

/* All from 0 to 1.
 * ROUGE-N (Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004): with m runs of N words that both have
 * (clipped), P = m / runs of the candidate, R = m / runs of the reference, F1 = 2PR / (P + R); 0 where m is.
 * ROUGE-L: the same of m = the longest common subsequence of words, of the whole texts. As rouge-score 0.1.2, no
 * stemmer. BLEU (Papineni et al., 2002) of one text with one reference: exp(mean over N = 1 … 4 of ln p_N) · min(1,
 * exp(1 − r/c)), p_N = runs that both have (clipped) / runs of the candidate, r and c the words of reference and
 * candidate. An order that nothing is had of counts p_N = 1/(2^k · runs), k the number of such orders so far (Chen &
 * Cherry 2014, method 3); orders longer than the candidate do not count; 0 where no word is had. As sacrebleu 2.6.0's
 * sentence_bleu, of which it is the hundredth part. */
typedef struct lh_similarity {
    double rouge1, rouge2, rougel, bleu;
} lh_similarity;

lh_status lh_similarity_of(lh_similarity *out, const char *reference, const char *candidate);

/* Two rows of logits, [vocab]: KL(p || q) = Σ p (ln p − ln q) in nats of their softmax, in double; and whether the
 * largest logit (the lowest id among equals) is the same. */
double lh_kl_of(const float *p, const float *q, int64_t vocab);
int64_t lh_best_of(const float *logits, int64_t vocab);

#endif
