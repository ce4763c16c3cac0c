/* longbench_metrics.h - the metrics of LongBench (THUDM/LongBench 2e00731, LongBench/metrics.py), in [0, 1]: those that
 * need no segmentation of Chinese words. */
#ifndef LH_LAB_EVAL_LONGBENCH_METRICS_H
#define LH_LAB_EVAL_LONGBENCH_METRICS_H

#include <stdint.h>

#include "base/status.h"

/* One right answer of a question; classes: [class_count] of a classification. */
typedef struct lh_longbench_truth {
    const char *answer;
    char *const *classes;
    int64_t class_count;
} lh_longbench_truth;

typedef lh_status lh_longbench_metric(const char *prediction, const lh_longbench_truth *truth, double *score);

/* F1 of words after the normalisation of SQuAD; 0 without a common word. */
lh_longbench_metric lh_longbench_qa_f1;

/* ROUGE-L (F1) of the package rouge 1.0.1: sentences end at full stops, and for every pair of sentences the words of a
 * longest common subsequence count once. */
lh_longbench_metric lh_longbench_rouge;

/* 1 over the number of classes that the prediction names, if the right one is among them; a class that is part of the
 * right one does not count. */
lh_longbench_metric lh_longbench_classification;

/* The share of the prediction's numbers that are the right one: that of the paragraph, or the answer itself. */
lh_longbench_metric lh_longbench_retrieval, lh_longbench_retrieval_zh, lh_longbench_count;

/* fuzz.ratio of fuzzywuzzy 0.18 (difflib's ratio) of the answer and the prediction's first line that is neither a
 * comment nor a fence. */
lh_longbench_metric lh_longbench_code_sim;

#endif
