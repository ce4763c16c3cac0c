/* measures.h - the figures that rank policies, the strongest first: the output of the model with the kept entries, then
 * the effect of the eviction on attention and outputs. Titles, rankings and the order of figures and of printed tables
 * read it.
 */
#ifndef LH_LAB_ANALYSIS_MEASURES_H
#define LH_LAB_ANALYSIS_MEASURES_H

typedef enum lh_measure_kind {
    LH_MEASURE_MODEL,     /* answers, likelihoods, distributions of the next token */
    LH_MEASURE_ATTENTION, /* attention, entries and outputs of heads */
    LH_MEASURE_OTHER      /* not listed */
} lh_measure_kind;

typedef struct lh_measure {
    const char *name; /* of a figure or of a column: "answer-nll"; the task may precede it: "needle-answer-nll" */
    lh_measure_kind kind;
    int better; /* 1: more is better, -1: less is better */
} lh_measure;

/* Place of a figure's name in the list, from 0; the number of measures if it is not listed. '_' counts as '-'. */
int lh_measure_rank(const char *figure);

lh_measure_kind lh_measure_kind_of(const char *figure);

/* 1 or -1; of a name that is not listed 1. */
int lh_measure_better(const char *figure);

#endif
