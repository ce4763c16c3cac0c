#include "lab/eval/work.h"

#include "base/clock.h"

double lh_prefill_cost(const lh_config *c, int64_t tokens)
{
    const double n = (double)tokens, width = (double)(c->heads * c->head_dim);
    const double linear = (double)c->hidden * (2 * width + 2 * (double)(c->kv_heads * c->head_dim) +
                                               3 * (double)lh_config_mlp_channels_passed(c));
    return n * (linear + n * width); /* a token attends to n / 2 keys, twice: queries by keys, weights by values */
}

void lh_work_begin(lh_eval_work *work)
{
    work->since_s = lh_clock_s();
}

static void report(const lh_eval_work *work)
{
    if (work->progress.advance) work->progress.advance(work->progress.self, work);
}

static void take(lh_eval_work *work, lh_work_kind kind, double amount)
{
    const double now = lh_clock_s();
    work->pace[kind].done += amount;
    work->pace[kind].seconds += now - work->since_s;
    work->since_s = now;
}

void lh_work_advance(lh_eval_work *work, lh_work_kind kind, double amount)
{
    take(work, kind, amount);
    report(work);
}

void lh_work_show(const lh_eval_work *work, lh_work_kind kind, double amount)
{
    lh_eval_work now = *work;
    if (!work->progress.advance) return;
    take(&now, kind, amount);
    report(&now);
}

void lh_work_finish_prompt(lh_eval_work *work)
{
    work->prompts++;
    report(work);
}

double lh_work_left_s(const lh_eval_work *work)
{
    double left = 0;
    for (int k = 0; k < LH_WORK_KINDS; k++) {
        const lh_work_pace *p = &work->pace[k];
        if (p->total - p->done <= 1e-9 * p->total) continue;
        if (p->done <= 0) return -1;
        left += (p->total - p->done) * p->seconds / p->done;
    }
    return left;
}
