/* ruler_kinds.h - how the prompts of each kind of task are made. For ruler_*.c only. */
#ifndef LH_EVAL_RULER_KINDS_H
#define LH_EVAL_RULER_KINDS_H

#include "eval/draws.h"
#include "eval/ruler_prompt.h"

/* A prompt that is being made. */
typedef struct lh_ruler_maker {
    const lh_ruler_form *form;
    const lh_ruler_spec *spec;
    lh_ruler_sample *out;
    int64_t units;
} lh_ruler_maker;

typedef struct lh_ruler_kind {
    /* Fills everything but `prompt` of an empty sample with `units` of haystack. */
    lh_status (*build)(const lh_ruler_maker *maker);
    int64_t (*min_units)(const lh_ruler_form *form, const lh_ruler_spec *spec);
    const char *joint; /* between context and question */
    int64_t max_units; /* 0: any number */
} lh_ruler_kind;
extern const lh_ruler_kind lh_ruler_niah, lh_ruler_tracking, lh_ruler_common, lh_ruler_frequent, lh_ruler_documents;

typedef enum lh_ruler_type { LH_RULER_WORD, LH_RULER_NUMBER, LH_RULER_UUID } lh_ruler_type;
typedef enum lh_ruler_hay { LH_RULER_NOISE, LH_RULER_ESSAY, LH_RULER_NEEDLES } lh_ruler_hay;

typedef struct lh_ruler_needles {
    lh_ruler_hay hay;
    lh_ruler_type key, value;
    int keys, values, queries; /* values: of each key */
    int digits;                /* of numbers */
} lh_ruler_needles;

/* A sequence of draws for one purpose of a kind. */
lh_draws lh_ruler_draws(const lh_ruler_maker *maker, uint32_t purpose);

/* Appends a published template with {type_needle_v} and {query} replaced; NULL: it has none. */
lh_status lh_ruler_fill(lh_buf *out, const char *text, const char *type, const char *query);

/* Adds a reference. */
lh_status lh_ruler_reference(lh_ruler_sample *out, const char *text);

/* Appends `units` lines with `n` others, in their order, before distinct ones that are drawn. */
typedef struct lh_ruler_lines {
    int64_t units, n;
    const lh_buf *inserted; /* [n] */
    const void *self;
    lh_status (*line)(const void *self, int64_t i, lh_buf *out); /* NULL: lines of noise */
} lh_ruler_lines;
lh_status lh_ruler_put_lines(const lh_ruler_lines *lines, lh_draws *draws, lh_buf *out);

#endif
