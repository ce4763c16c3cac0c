/* recall_trace.h - makes the windows of `recall`: a text with facts, which is divided into a prompt and tokens that are
 * fed after it as if they had been generated, and a question for each fact. Pure functions of their arguments: the same
 * windows on every machine. */
#ifndef LH_LAB_EVAL_RECALL_TRACE_H
#define LH_LAB_EVAL_RECALL_TRACE_H

#include "lab/eval/needle_facts.h"
#include "lab/eval/questions.h"

/* What identifies one window. */
typedef struct lh_recall_spec {
    int64_t length; /* maximum tokens of the prompt */
    int64_t steps;  /* tokens that are fed after it */
    uint64_t seed;  /* of facts and of the part of the haystack that is used */
} lh_recall_spec;

typedef struct lh_recall_fact {
    const char *kind;     /* a name of the form's kinds */
    int64_t at;           /* tokens of prompt and steps before it */
    int64_t age;          /* tokens of prompt and steps after its end */
    lh_eval_prompt asked; /* its question and answer are used */
    lh_buf sentence, answer;
} lh_recall_fact;

typedef struct lh_recall_trace {
    lh_buf text; /* haystack with facts */
    lh_tokens prompt, steps;
    lh_recall_fact *facts; /* [fact_count] in the order of the text */
    int64_t fact_count;
} lh_recall_trace;

/* Makes a window with as much haystack as fits into prompt and steps together; the prompt is shorter than its length if
 * the haystack ends with a whole word earlier. The form's `keys` facts stand at the sentence ends nearest to the
 * middles of as many equal parts of the haystack, so their ages are spread evenly; fact i is of kind (seed + i) modulo
 * the number of kinds. In a chat format prompt and steps are the user's turn, up to the question. LH_EINPUT if the
 * haystack is too short, LH_EUSAGE if the facts alone are longer. */
lh_status lh_recall_make(lh_recall_trace *out, const lh_tokenizer *tok, const lh_needle_form *form,
                         const lh_recall_spec *spec);
void lh_recall_trace_clear(lh_recall_trace *trace);

/* Collective. Broadcasts the tokens of the window of rank 0, without its texts; on other ranks it is empty before. */
lh_status lh_recall_share(lh_comm *comm, lh_recall_trace *trace);

#endif
