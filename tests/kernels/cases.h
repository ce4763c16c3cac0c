/* cases.h - the cases of a test as named dimensions, each with a few values. Case n takes one value of every dimension:
 * each value once in as many cases as the dimension has values, in an order that is drawn from its name, so that values
 * of different dimensions meet in any combination. A value that shall come more often stands there several times. When
 * a check of rig.h fails, its message ends with what the case is: "(case 37: group 3, KV heads 2, type bf16)". */
#ifndef LH_TESTS_KERNELS_CASES_H
#define LH_TESTS_KERNELS_CASES_H

#include <stdint.h>

enum { CASE_VALUES = 12 };

typedef struct dimension {
    const char *name; /* its own within a test */
    int count;
    int64_t values[CASE_VALUES];
    const char *words[CASE_VALUES]; /* of the values; NULL: they are numbers */
} dimension;

/* The value in case n, which becomes the case that messages tell about. */
int64_t case_value(const dimension *d, int n);

/* "", or " (case n: …)" with the dimensions that were asked for since the last case, or since case_forget. */
const char *case_words(void);
void case_forget(void);

#endif
