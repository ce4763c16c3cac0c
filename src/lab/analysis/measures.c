#include "lab/analysis/measures.h"

#include <string.h>

/* The scores of a task precede the likelihood of its right answers, which decides where small models answer nothing. */
static const lh_measure measures[] = {
    {"next-token-kl", LH_MEASURE_MODEL, -1},
    {"kl", LH_MEASURE_MODEL, -1},
    {"score", LH_MEASURE_MODEL, 1},
    {"f1", LH_MEASURE_MODEL, 1},
    {"acc", LH_MEASURE_MODEL, 1},
    {"exact", LH_MEASURE_MODEL, 1},
    {"answer-nll", LH_MEASURE_MODEL, -1},
    {"nll", LH_MEASURE_MODEL, -1},
    {"ppl", LH_MEASURE_MODEL, -1},
    {"over-full", LH_MEASURE_MODEL, -1},
    {"perturbation-l2", LH_MEASURE_ATTENTION, -1},
    {"mass", LH_MEASURE_ATTENTION, 1},
    {"hits", LH_MEASURE_ATTENTION, 1},
};
enum { MEASURES = sizeof measures / sizeof *measures };

/* 1 if `figure` ends with `name`, at its beginning or after a dash. */
static int is_named(const char *figure, const char *name)
{
    const size_t bytes = strlen(figure), end = strlen(name);
    if (bytes < end || (bytes > end && figure[bytes - end - 1] != '-' && figure[bytes - end - 1] != '_')) return 0;
    for (size_t i = 0; i < end; i++) {
        const char c = figure[bytes - end + i];
        if ((c == '_' ? '-' : c) != name[i]) return 0;
    }
    return 1;
}

int lh_measure_rank(const char *figure)
{
    int i = 0;
    while (i < MEASURES && !is_named(figure, measures[i].name)) i++;
    return i;
}

lh_measure_kind lh_measure_kind_of(const char *figure)
{
    const int i = lh_measure_rank(figure);
    return i < MEASURES ? measures[i].kind : LH_MEASURE_OTHER;
}

int lh_measure_better(const char *figure)
{
    const int i = lh_measure_rank(figure);
    return i < MEASURES ? measures[i].better : 1;
}
