/* text_metrics.h - tokenization of texts into words as the metrics of answers define it, the common words, n-grams and
 * subsequences of two texts, and ROUGE and BLEU from them. */
#ifndef LH_LAB_EVAL_TEXT_METRICS_H
#define LH_LAB_EVAL_TEXT_METRICS_H

#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

typedef enum lh_cut {
    LH_CUT_ANSWER, /* lower case; ASCII letters, digits and non-ASCII characters form words, all else separates */
    LH_CUT_ROUGE, /* the same, but non-ASCII separates: rouge-score 0.1.2 without a stemmer (rouge_score/tokenize.py) */
    LH_CUT_SQUAD, /* as lh_squad_normalise */
    LH_CUT_CHARACTERS, /* every character of lh_chinese_normalise is a word */
    LH_CUT_BLANKS,     /* white space separates */
    LH_CUT_13A         /* mteval-v13a, the usual tokenizer of BLEU (sacrebleu 2.6.0, tokenizers/tokenizer_13a.py) */
} lh_cut;

/* Appends an answer as SQuAD's evaluation script compares it (normalize_answer, Rajpurkar et al., arXiv 1606.05250):
 * lower case, without ASCII punctuation and the words a, an, the; single spaces between words. *out is a string
 * afterwards. */
lh_status lh_squad_normalise(lh_buf *out, const char *text);

/* Appends an answer as LongBench and InfiniteBench compare Chinese ones (normalize_zh_answer): lower case, without
 * white space and ASCII or Chinese punctuation. *out is a string afterwards. */
lh_status lh_chinese_normalise(lh_buf *out, const char *text);

/* Appends a text in lower case as Python's str.lower. *out is a string afterwards. */
lh_status lh_text_lower(lh_buf *out, const char *text);

/* Appends the words of a text as Python's str.split cuts it, separated by single spaces. */
lh_status lh_join_words(lh_buf *out, const char *text);

/* *share: of the words of `wanted`, counted with multiplicity, those that `text` contains; 0 if `wanted` is empty. */
lh_status lh_words_found(double *share, const char *wanted, const char *text);

/* *yes: 1 if `text` contains the words of `wanted` in order and adjacent; both cut as answers. */
lh_status lh_words_contain(int *yes, const char *wanted, const char *text);

/* The words of two texts as ids from 0: equal words have equal ids. */
typedef struct lh_word_pair {
    int32_t *ids[2];
    int64_t n[2];
} lh_word_pair;

lh_status lh_word_pair_make(lh_word_pair *out, const char *const texts[2], lh_cut cut);
void lh_word_pair_clear(lh_word_pair *pair);

/* Number of common n-grams of `order` words (1 to 4), clipped: each counts as often as in the text that has fewer. */
enum { LH_MAX_NGRAM = 4 };
lh_status lh_word_pair_matches(const lh_word_pair *pair, int order, int64_t *matches);

/* Length of the longest common subsequence of words. */
lh_status lh_word_pair_common(const lh_word_pair *pair, int64_t *length);

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

/* ROUGE-L of the package rouge 1.0.1, as LongBench uses it, from 0 to 1: sentences end at full stops, and for every
 * pair of sentences the words of a longest common subsequence count once. */
lh_status lh_rouge_of_sentences(double *score, const char *reference, const char *candidate);

#endif
