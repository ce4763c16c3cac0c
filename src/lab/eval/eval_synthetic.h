/* eval_synthetic.h - what `eval ruler`, `eval path` and `eval kv` share: options and functions of tasks whose prompts
 * are made from seeds (eval/synthetic.h). */
#ifndef LH_LAB_EVAL_EVAL_SYNTHETIC_H
#define LH_LAB_EVAL_EVAL_SYNTHETIC_H

#include "lab/eval/eval_common.h"
#include "lab/eval/synthetic.h"

/* A run of such a task; `task` comes first, and `self` of it is this. */
typedef struct lh_eval_synthetic {
    lh_eval_task task;
    lh_synthetic_request request; /* tasks, task_count, asked, count and scenarios are the command's to fill */
    lh_task_scores scores;
    lh_synthetic_sources sources;
} lh_eval_synthetic;

/* Of lh_eval_kind, beside the command's own `check` and `load`. */
#define LH_EVAL_SYNTHETIC_KIND(NAME, CHECK, LOAD)                                                                   \
    {                                                                                                               \
        .name = NAME, .check = CHECK, .load = LOAD, .run = lh_eval_synthetic_run, .means = lh_eval_synthetic_means, \
        .print = lh_eval_synthetic_print, .tables = {                                                               \
            {"answers", offsetof(lh_eval_synthetic, scores.answers)}                                                \
        }                                                                                                           \
    }
lh_status lh_eval_synthetic_run(void *self);
lh_status lh_eval_synthetic_means(const void *self, lh_table *means);
lh_status lh_eval_synthetic_print(const void *self, lh_buf *out);

/* For a task without input: nothing is loaded. */
lh_status lh_eval_synthetic_load_nothing(void *self);

/* Runs a command whose run is filled in, and frees what it holds. */
lh_status lh_eval_synthetic_call(lh_eval_synthetic *run, const lh_eval_kind *kind, lh_call *call);

/* Rows of lh_eval_options that are the same in all of them, after that of the length. */
#define LH_EVAL_SYNTHETIC_ROWS                                                                                     \
    {LH_EVAL_CHAT,                                                                                                 \
     .help = "Put text and question into the user's turn of the model's chat format, and begin the answer in the " \
             "model's turn. auto: on if the model has one."},                                                      \
        {LH_EVAL_CHAT_TEMPLATE},                                                                                   \
        {.type = LH_OPT_STR,                                                                                       \
         .name = "system",                                                                                         \
         LH_FIELD(lh_eval_options, system),                                                                        \
         .arg = "TEXT",                                                                                            \
         .help = "System message."},                                                                               \
        {LH_EVAL_SEED, .help = "Random seed of prompts and policies."}, {LH_EVAL_GIVEN}, {LH_EVAL_TOGETHER},
#define LH_EVAL_SYNTHETIC_COUNT .type = LH_OPT_I64, .name = "count", .arg = "N", .def = "10", .min = 1, .max = 1 << 20

#endif
