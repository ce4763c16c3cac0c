/* synthetic_kinds.h - how the prompts of each kind of task are made, and their answers judged. For synthetic_prompt.c
 * and the files of the kinds only. */
#ifndef LH_LAB_EVAL_SYNTHETIC_KINDS_H
#define LH_LAB_EVAL_SYNTHETIC_KINDS_H

#include "lab/eval/draws.h"
#include "lab/eval/synthetic_prompt.h"

/* A prompt that is being made. */
typedef struct lh_synthetic_maker {
    const lh_synthetic_form *form;
    const lh_synthetic_spec *spec;
    lh_synthetic_sample *out;
    int64_t units;
} lh_synthetic_maker;

typedef struct lh_synthetic_kind {
    /* Fills everything but `prompt` of an empty sample with `units` of haystack. */
    lh_status (*build)(const lh_synthetic_maker *maker);
    int64_t (*min_units)(const lh_synthetic_form *form, const lh_synthetic_spec *spec);
    const char *joint; /* between context and question */
    int64_t max_units; /* 0: any number */
    lh_status (*score)(const lh_synthetic_sample *sample, const char *answer, double *score);
} lh_synthetic_kind;

/* A sequence of draws for one purpose of a kind. */
lh_draws lh_synthetic_draws(const lh_synthetic_maker *maker, uint32_t purpose);

/* Appends a published template with {type_needle_v} and {query} replaced; NULL: it has none. */
lh_status lh_synthetic_fill(lh_buf *out, const char *text, const char *type, const char *query);

/* Adds a reference. */
lh_status lh_synthetic_reference(lh_synthetic_sample *out, const char *text);

/* Appends `units` lines with `n` others, in their order, before distinct ones that are drawn. */
typedef struct lh_synthetic_lines {
    int64_t units, n;
    const lh_buf *inserted; /* [n] */
    const void *self;
    lh_status (*line)(const void *self, int64_t i, lh_buf *out); /* NULL: lines of noise */
} lh_synthetic_lines;
lh_status lh_synthetic_put_lines(const lh_synthetic_lines *lines, lh_draws *draws, lh_buf *out);

/* As RULER scores (string_match_all, string_match_part): the share of the references that occur in an answer, or 100 if
 * any does. Case is ignored, and control characters of the answer are line ends. */
lh_status lh_synthetic_match_all(const lh_synthetic_sample *sample, const char *answer, double *score);
lh_status lh_synthetic_match_part(const lh_synthetic_sample *sample, const char *answer, double *score);

#endif
