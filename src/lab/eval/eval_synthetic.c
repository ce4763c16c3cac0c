#include "lab/eval/eval_synthetic.h"

lh_status lh_eval_synthetic_run(void *self)
{
    lh_eval_synthetic *r = self;
    lh_synthetic_request *q = &r->request;
    const lh_eval_options *options = &((const lh_eval_values *)r->task.call->values)->run;
    q->setup = lh_eval_setup_of(&r->task);
    q->sources = &r->sources;
    q->chat = (lh_asked_chat){r->task.chat, options->chat_template, options->system};
    q->lengths = r->task.lengths;
    q->length_count = r->task.length_count;
    return lh_synthetic_run(&r->scores, r->task.engine, q);
}

lh_status lh_eval_synthetic_means(const void *self, lh_table *means)
{
    return lh_task_scores_means(&((const lh_eval_synthetic *)self)->scores, means);
}

lh_status lh_eval_synthetic_print(const void *self, lh_buf *out)
{
    return lh_task_scores_print(&((const lh_eval_synthetic *)self)->scores, out);
}

lh_status lh_eval_synthetic_load_nothing(void *self)
{
    (void)self;
    return LH_OK;
}

lh_status lh_eval_synthetic_call(lh_eval_synthetic *run, const lh_eval_kind *kind, lh_call *call)
{
    run->task = (lh_eval_task){.kind = kind, .self = run, .call = call};
    lh_status st = lh_eval_run(&run->task);
    lh_task_scores_clear(&run->scores);
    lh_synthetic_sources_clear(&run->sources);
    return st;
}
