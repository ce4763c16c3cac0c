#include "lab/eval/asked_sizes.h"

#include <stdio.h>

#include "base/minmax.h"
#include "lab/eval/warn_policies.h"

void lh_asked_sizes_clear(lh_asked_sizes *sizes)
{
    lh_free(sizes->at);
    *sizes = (lh_asked_sizes){0};
}

static int64_t tokens_of(const lh_asked_size *s, int scenario)
{
    return scenario == LH_QUESTION_AWARE ? s->whole : s->context;
}

static lh_asked_size size_of(const lh_asked_prompt *p)
{
    lh_asked_size s = {p->whole.n, p->context.n, p->question.n, p->answer.n, lh_asked_prompt_longest(p),
                       p->line,    p->max_new};
    for (int64_t i = 0; i < p->choice_count; i++) s.answers += p->choices[i].n;
    return s;
}

/* On rank 0. */
static lh_status make_all(lh_asked_sizes *out, lh_asking *a)
{
    lh_status st = LH_OK;
    lh_asked_prompt prompt = {0};
    for (int64_t i = 0; i < out->n; i++) {
        lh_asked_prompt_clear(&prompt);
        LH_TRY_DONE(a->asker->make(a->self, i, &prompt));
        out->at[i] = size_of(&prompt);
    }
done:
    lh_asked_prompt_clear(&prompt);
    return st;
}

static lh_status check_policies(const lh_asked_sizes *sizes, const lh_asking *a)
{
    const lh_policy_list *policies = a->setup->policies;
    for (int64_t p = 0; p < policies->n; p++)
        for (int64_t i = 0; i < sizes->n; i++)
            for (int s = 0; s < LH_SCENARIOS; s++)
                if (a->scenarios[s]) LH_TRY(lh_policy_check(&policies->at[p].policy, tokens_of(&sizes->at[i], s)));
    return LH_OK;
}

static lh_status check_positions(const lh_asked_sizes *sizes, const lh_asking *a)
{
    const int64_t positions = lh_engine_get(a->engine)->config->max_positions;
    for (int64_t i = 0; i < sizes->n; i++) {
        const lh_asked_size *s = &sizes->at[i];
        const int64_t all = lh_max_i64(s->whole, s->context + s->question);
        const int64_t answer = lh_max_i64(s->max_new ? s->max_new : a->setup->max_new, s->longest);
        if (all + answer > positions)
            LH_FAIL(LH_EUSAGE,
                    "line %lld of '--data': %lld tokens of prompt and %lld of the answer are longer than the %lld "
                    "positions of the model: shorten its context%s",
                    (long long)s->line, (long long)all, (long long)answer, (long long)positions,
                    answer > s->longest ? ", or reduce '--max-new'" : "");
    }
    return LH_OK;
}

static lh_status warn(const lh_asked_sizes *sizes, const lh_asking *a)
{
    int64_t lengths[2] = {0, INT64_MAX};
    const int scenario = a->scenarios[LH_CONTEXT_ONLY] ? LH_CONTEXT_ONLY : LH_QUESTION_AWARE;
    for (int64_t i = 0; i < sizes->n; i++) {
        lengths[0] = lh_max_i64(lengths[0], tokens_of(&sizes->at[i], scenario));
        lengths[1] = lh_min_i64(lengths[1], tokens_of(&sizes->at[i], scenario));
    }
    return lh_eval_warn_of_policies(a->setup->policies, lengths, 2);
}

lh_status lh_asked_sizes_measure(lh_asked_sizes *out, lh_asking *a, int64_t n)
{
    lh_comm *comm = lh_engine_get(a->engine)->comm;
    const int root = lh_comm_rank(comm) == 0;
    out->n = n;
    LH_TRY(lh_comm_bcast(comm, 0, &out->n, sizeof out->n));
    lh_status st = lh_calloc(&out->at, out->n, sizeof *out->at);
    if (st == LH_OK && root) st = make_all(out, a);
    LH_TRY(lh_comm_agree_untimed(comm, st));
    LH_TRY(lh_comm_bcast(comm, 0, out->at, out->n * (int64_t)sizeof *out->at));
    st = check_positions(out, a);
    if (st == LH_OK) st = check_policies(out, a);
    if (st == LH_OK) st = warn(out, a);
    return lh_comm_agree(comm, st);
}

void lh_asked_sizes_describe(const lh_asked_sizes *sizes, int64_t number, lh_scenario scenario, lh_asked_case *out)
{
    const lh_asked_size *s = &sizes->at[number];
    snprintf(out->name, sizeof out->name, "%04lld-%s", (long long)s->line, lh_scenario_names[scenario]);
    out->seed += (uint64_t)number;
    out->tokens = tokens_of(s, scenario);
    out->answer = s->answers;
    if (s->max_new) out->max_new = s->max_new;
}
