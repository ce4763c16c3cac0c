/* synthetic_prompt.h - tasks whose prompts are made from seeds: those of RULER (ruler_*.c), and `path` and `kv` with
 * long answers (path_task.c, kv_task.c). A prompt is a haystack of as many units as fit into its length, a question,
 * and mostly the beginning of its answer. Pure functions of their arguments: the same prompts on every machine. */
#ifndef LH_LAB_EVAL_SYNTHETIC_PROMPT_H
#define LH_LAB_EVAL_SYNTHETIC_PROMPT_H

#include "lab/eval/asked_prompt.h"
#include "lab/eval/documents.h"

/* What a task needs of the user. */
typedef enum lh_synthetic_need {
    LH_SYNTHETIC_NOTHING,
    LH_SYNTHETIC_TEXT,
    LH_SYNTHETIC_SQUAD,
    LH_SYNTHETIC_HOTPOT
} lh_synthetic_need;

typedef struct lh_synthetic_task {
    const char *name;  /* as published */
    const char *label; /* in the tables: "…@words" where the words are those of word_list.h and not the published ones,
                          "…@text" where the haystack is the user's text, too */
    lh_synthetic_need need;
    int averaged;                           /* 1: the average over tasks includes it */
    int64_t max_new;                        /* tokens of an answer; 0: a quarter more than the right one has, and 16 */
    const struct lh_synthetic_kind *kind;   /* how its prompts are made (synthetic_kinds.h) … */
    const struct lh_ruler_needles *needles; /* … and which needles they have; NULL: none */
} lh_synthetic_task;

/* Tasks of RULER (Hsieh et al., arXiv 2404.06654); ends with one without a name. */
enum { LH_RULER_TASKS = 15 };
extern const lh_synthetic_task lh_ruler_tasks[];
extern const lh_synthetic_task lh_path_task, lh_kv_task;

/* What prompts are made of, each empty if it was not given. */
typedef struct lh_synthetic_sources {
    lh_buf text;        /* words separated by single blanks */
    int64_t *word_ends; /* [words] bytes of the text up to the end of each */
    int64_t words;
    lh_documents squad, hotpot;
} lh_synthetic_sources;

/* Appends a text to be the haystack. */
lh_status lh_synthetic_sources_text(lh_synthetic_sources *out, const lh_buf *text);
void lh_synthetic_sources_clear(lh_synthetic_sources *sources);

/* What all prompts of a run have in common. */
typedef struct lh_synthetic_form {
    const lh_synthetic_sources *sources;
    const lh_tokenizer *tok;
    const lh_chat_format *format;
    const char *system;
    int64_t asked; /* steps of the route, keys asked for; 0 for RULER */
} lh_synthetic_form;

typedef struct lh_synthetic_spec {
    const lh_synthetic_task *task;
    int64_t length;  /* maximum tokens of prompt and answer */
    int64_t max_new; /* of these, of the answer */
    uint64_t seed;
    int64_t units; /* of haystack: lines, words or documents */
} lh_synthetic_spec;

typedef struct lh_synthetic_sample {
    lh_buf text, question; /* the text up to the question */
    lh_buf prefix;         /* how the answer begins, which is given to the model; empty: nothing is */
    lh_buf expected;       /* the right answer as it goes on after that */
    char **references;     /* what is looked for in an answer */
    int64_t reference_count;
    int64_t units;
    lh_asked_prompt prompt;
} lh_synthetic_sample;

/* Finds the most units with which a prompt of this task, length and seed fits, by bisection; max_new, where the spec
 * has 0, is that of the task. LH_EUSAGE if not even the shortest prompt fits. */
lh_status lh_synthetic_fit(const lh_synthetic_form *form, lh_synthetic_spec *spec);

/* A prompt with at most the units of the spec: they are reduced in steps while it is too long. */
lh_status lh_synthetic_make(lh_synthetic_sample *out, const lh_synthetic_form *form, const lh_synthetic_spec *spec);
void lh_synthetic_sample_clear(lh_synthetic_sample *sample);

/* The score of an answer, in %. */
lh_status lh_synthetic_score(const lh_synthetic_sample *sample, const lh_synthetic_task *task, const char *answer,
                             double *score);

#endif
