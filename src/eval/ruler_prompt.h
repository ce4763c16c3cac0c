/* ruler_prompt.h - the prompts of RULER (Hsieh et al., arXiv 2404.06654), made from a seed: templates, sizes and
 * distributions are those of its generator (NVIDIA/RULER, scripts/data/synthetic), the random choices our own. Pure
 * functions of their arguments: the same prompts on every machine. */
#ifndef LH_EVAL_RULER_PROMPT_H
#define LH_EVAL_RULER_PROMPT_H

#include "eval/asked_prompt.h"
#include "eval/documents.h"

/* What a task needs of the user. */
typedef enum lh_ruler_need { LH_RULER_NOTHING, LH_RULER_TEXT, LH_RULER_SQUAD, LH_RULER_HOTPOT } lh_ruler_need;

typedef struct lh_ruler_task {
    const char *name; /* as published */
    const char *label; /* in the tables: "…@words" where the words are those of word_list.h, "…@text" where the haystack
                          is the user's text, too */
    int version;       /* of RULER */
    lh_ruler_need need;
    int64_t max_new;                        /* tokens of an answer */
    int part;                               /* the score: 1 the best of the references, 0 their mean */
    const struct lh_ruler_kind *kind;       /* how its prompts are made (ruler_kinds.h) … */
    const struct lh_ruler_needles *needles; /* … and which needles they have; NULL: none */
} lh_ruler_task;
extern const lh_ruler_task lh_ruler_tasks[]; /* ends with one without a name */
enum { LH_RULER_TASKS = 15 };

/* What prompts are made of, each empty if it was not given. */
typedef struct lh_ruler_sources {
    lh_buf text;        /* words separated by single blanks */
    int64_t *word_ends; /* [words] bytes of the text up to the end of each */
    int64_t words;
    lh_documents squad, hotpot;
} lh_ruler_sources;

/* Appends a text to be the haystack. */
lh_status lh_ruler_sources_text(lh_ruler_sources *out, const lh_buf *text);
void lh_ruler_sources_clear(lh_ruler_sources *sources);

/* What all prompts of a run have in common. */
typedef struct lh_ruler_form {
    const lh_ruler_sources *sources;
    const lh_tokenizer *tok;
    const lh_chat_format *format;
    const char *system;
} lh_ruler_form;

typedef struct lh_ruler_spec {
    const lh_ruler_task *task;
    int64_t length;  /* maximum tokens of prompt and answer */
    int64_t max_new; /* of these, of the answer */
    uint64_t seed;
    int64_t units; /* of haystack: lines, words or documents */
} lh_ruler_spec;

typedef struct lh_ruler_sample {
    lh_buf text, question; /* the text up to the question */
    lh_buf prefix;         /* how the answer begins, which is given to the model; empty for version 2 */
    lh_buf expected;       /* the right answer as it would go on: a blank, then the text */
    char **references;     /* what is looked for in an answer */
    int64_t reference_count;
    int64_t units;
    lh_asked_prompt prompt;
} lh_ruler_sample;

/* *units: the most with which a prompt of this task, length and seed fits, found by bisection. LH_EUSAGE if not even
 * the shortest one does. */
lh_status lh_ruler_fit(const lh_ruler_form *form, const lh_ruler_spec *spec, int64_t *units);

/* A prompt with at most the units of the spec: they are reduced in steps while it is too long. */
lh_status lh_ruler_make(lh_ruler_sample *out, const lh_ruler_form *form, const lh_ruler_spec *spec);
void lh_ruler_sample_clear(lh_ruler_sample *sample);

/* The score of an answer, in %: share of the references that occur in it, or with `part` 100 if any does. Case is
 * ignored, and control characters of the answer are line ends. */
lh_status lh_ruler_score(const lh_ruler_sample *sample, int part, const char *answer, double *score);

#endif
