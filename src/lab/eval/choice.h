/* choice.h - the task `choice`: multiple-choice questions. Every policy's cache says how likely each choice is after
 * the question; the most likely one is its answer, as lm-evaluation-harness judges it. */
#ifndef LH_LAB_EVAL_CHOICE_H
#define LH_LAB_EVAL_CHOICE_H

#include "base/table.h"
#include "lab/eval/questions.h"

typedef struct lh_choice_record {
    char *id;      /* the line's "id", or its number */
    char *context; /* the text that the question is about; "": none */
    char *prompt;  /* a choice continues it; begins with an empty line if there is a context */
    char **choices;
    int64_t choice_count; /* at least two */
    int64_t right;        /* index */
    int64_t line;         /* of the file, from 1 */
} lh_choice_record;

typedef struct lh_choice_data {
    lh_choice_record *at;
    int64_t n;
    uint64_t hash; /* of the file */
} lh_choice_data;

/* JSON Lines or an array of objects, with the names of the published files and of lm-evaluation-harness: "question"
 * (which becomes "Question: …\nAnswer:", as its ARC and PIQA tasks write it), or "query" (used unchanged, as HellaSwag
 * has it); "choices", a list or ARC's {"text": list, "label": list}; "answer", "gold" or "label", an index from 0, or
 * "answerKey", one of the labels; "context" and "id" are optional, other members are ignored. At most `max` records, 0:
 * all. LH_EINPUT naming file and line. */
lh_status lh_choice_data_read(lh_choice_data *out, const char *path, int64_t max);
void lh_choice_data_clear(lh_choice_data *data);

typedef struct lh_choice_request {
    lh_eval_setup setup;        /* max_new is 0: nothing is generated */
    const lh_choice_data *data; /* on rank 0; empty on others */
    int scenarios[LH_SCENARIOS];
    lh_eval_chat chat;
} lh_choice_request;

/* Rows are on rank 0 only. The request must outlive the result. */
typedef struct lh_choice_result {
    const lh_choice_request *request;
    lh_table questions; /* one row per question, scenario, policy and budget */
} lh_choice_result;

/* Measures of a question. acc: 1 if the right choice has the largest log-likelihood, the sum over its tokens; acc_norm:
 * 1 if it has the largest per character (code point); the first of equals. As `acc` and `acc_norm` of
 * lm-evaluation-harness 0.4 (lm_eval/api/task.py, process_results). */
extern const lh_column lh_choice_columns[], lh_choice_mean_columns[];

/* Collective. Encodes all prompts before the first prefill, so that a prompt that is too long for the model is reported
 * early: LH_EUSAGE, naming the line. Fills *out row by row; the caller clears it also after a failure. */
lh_status lh_choice_run(lh_choice_result *out, lh_engine *engine, const lh_choice_request *request);
void lh_choice_result_clear(lh_choice_result *result);

/* Means over the finished questions: one row per policy, budget and scenario. */
lh_status lh_choice_means(const lh_choice_result *result, lh_table *means);

/* Appends the means as text: one table per scenario, with policies as rows and budgets as columns. */
lh_status lh_choice_print(const lh_choice_result *result, lh_buf *out);

#endif
