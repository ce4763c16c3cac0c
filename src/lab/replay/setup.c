/* setup.c - chooses policies, budgets and reference rows of a replay, and checks that the trace has the data that the
 * policies observe. */
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "lab/replay/replay_impl.h"

/* The policies that know the reference rows: the best of each head by the attention that they give; and the best of the
 * layer, where a policy of the list divides its budgets so, too. */
static const struct {
    const char *name, *head_budget, *alpha;
} oracles[] = {{"oracle", "uniform", NULL}, {"oracle-adaptive", "adaptive", "0"}};

static lh_status oracle_at(lh_policy *out, const char *budget, int64_t kind)
{
    LH_TRY(lh_policy_resolve(out, &(lh_policy_options){.policy = "snapkv",
                                                       .budget = budget,
                                                       .parts = {.window = "1",
                                                                 .pool = "none",
                                                                 .head_budget = oracles[kind].head_budget,
                                                                 .own = {{"alpha", oracles[kind].alpha}}}}));
    out->window = 0; /* nothing is protected */
    return LH_OK;
}

static int64_t find(char *const *names, int64_t n, const char *name)
{
    for (int64_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

static lh_status add_name(char ***names, int64_t *n, const char *name)
{
    if (find(*names, *n, name) >= 0) return LH_OK;
    LH_TRY(lh_realloc(names, *n + 1, sizeof **names));
    LH_TRY(lh_strdup(&(*names)[*n], name));
    (*n)++;
    return LH_OK;
}

static const char refits[] = "it fits entries again at every eviction, and a trace has them as the model made them "
                             "('--refit none' can be)";
static const char repeats[] = "its rows are of probe tokens, which pass through the model and are in no trace "
                              "('--rows-at own' or 'after' can be)";

/* NULL, or the reason why no trace can replay the policy. */
static const char *not_replayed(const lh_policy_choice *c)
{
    if (c->given) return "keep sets are given, a replay chooses them";
    if (c->policy.block)
        return "it evicts while it prefills, so that the rows that follow see other keys than those of the trace "
               "('--evict never' or 'every:m' can be)";
    return lh_policy_has_probes(&c->policy) ? repeats : NULL;
}

/* Names of policies and budgets, as they come. */
static lh_status collect(lh_replay *r)
{
    const lh_policy_list *list = r->request.policies;
    lh_study *s = &r->study;
    int adaptive = 0;
    for (int64_t i = 0; i < list->n; i++) {
        const lh_policy_choice *c = &list->at[i];
        if (!c->policy.evicts) continue;
        adaptive |= c->policy.budgets.heads == LH_HEADS_ADAPTIVE;
        const char *why = not_replayed(c);
        if (why) LH_FAIL(LH_EUSAGE, "policy '%s' cannot be replayed: %s", c->name, why);
        LH_TRY(add_name(&r->names, &s->policy_count, c->name));
        LH_TRY(add_name(&r->budgets, &s->budget_count, c->budget));
    }
    if (s->budget_count > LH_STUDY_BUDGETS)
        LH_FAIL(LH_EUSAGE, "a replay takes at most %d budgets at a time, %lld are given", LH_STUDY_BUDGETS,
                (long long)s->budget_count);
    s->oracle = s->policy_count;
    for (int64_t k = 0; k < 1 + adaptive; k++) LH_TRY(add_name(&r->names, &s->policy_count, oracles[k].name));
    return LH_OK;
}

lh_status lh_replay_set_up(lh_replay *r)
{
    const lh_policy_list *list = r->request.policies;
    lh_study *s = &r->study;
    LH_TRY(collect(r));
    s->policies = (const char *const *)r->names;
    s->budgets = (const char *const *)r->budgets;
    LH_TRY(lh_calloc(&r->cells, s->policy_count * s->budget_count, sizeof *r->cells));
    for (int64_t i = 0; i < list->n; i++) {
        const lh_policy_choice *c = &list->at[i];
        int64_t p = find(r->names, s->policy_count, c->name), b = find(r->budgets, s->budget_count, c->budget);
        lh_replay_cell *cell = &r->cells[p * s->budget_count + b];
        if (!c->policy.evicts) continue;
        cell->own = lh_replay_policy(&c->policy);
        cell->policy = &cell->own;
    }
    for (int64_t i = s->oracle * s->budget_count; i < s->policy_count * s->budget_count; i++) {
        LH_TRY(oracle_at(&r->cells[i].own, r->budgets[i % s->budget_count], i / s->budget_count - s->oracle));
        r->cells[i].policy = &r->cells[i].own;
    }
    return LH_OK;
}

/* ---- needs of a policy ---- */

/* Rows after the prompt are the future of all layers: what evicts while decoding is followed through them. */
lh_replay_judge lh_replay_judge_of(const lh_trace_file *t, lh_replay_judge wanted)
{
    enum { FEWEST_AFTER = 8 };
    if (wanted != LH_JUDGE_AUTO) return wanted;
    for (int64_t l = 0; l < t->shape.layers; l++)
        if (!t->recorded[l]) return LH_JUDGE_PROMPT;
    return t->after_count >= FEWEST_AFTER ? LH_JUDGE_DECODE : LH_JUDGE_PROMPT;
}

/* 1 where rows that are spread over the prompt are among those that were recorded. */
static int has_spread_rows(const lh_trace_file *t, const lh_policy_numbers *n)
{
    for (int64_t r = 0; n->rows_spread && r < lh_policy_rows(n, t->prompt); r++)
        if (lh_trace_row_at(t, lh_policy_row_of(n, t->prompt, r)) < 0) return 0;
    for (int64_t r = 0; r < lh_policy_references(n, t->prompt); r++)
        if (lh_trace_row_at(t, lh_policy_reference_of(n, t->prompt, r)) < 0) return 0;
    return 1;
}

static int needs_all_rows(const lh_trace_file *t, const lh_policy_numbers *n)
{
    const int counts = n->score.running && !lh_methods_have(&n->methods, LH_ALTERS_ROWS) && n->shape.group == 0 &&
                       !lh_groups_after_pool(&n->methods);
    const int64_t rows = lh_policy_rows(n, t->prompt);
    if (lh_methods_have(&n->methods, LH_PROMPT_ROWS)) return 1;
    if (n->rows_spread) return 0;
    if (counts && rows == t->column_rows) return 0; /* they were counted */
    return rows > t->window || n->first_rows > 0;
}

/* NULL, or the missing data. */
static const char *missing(const lh_trace_file *t, const lh_policy_numbers *n)
{
    const int observes = lh_policy_rows(n, t->prompt) > 0;
    const int counted = n->score.running && lh_policy_rows(n, t->prompt) == t->column_rows;
    int needs_entries = 0;
    for (lh_method_id m = 1; m < LH_METHODS; m++)
        if (lh_uses_method(&n->methods, m) && !(counted && m == n->score.source))
            needs_entries |= (lh_methods[m]->traits & LH_NEEDS_ENTRIES) != 0;
    if ((observes || lh_methods_have(&n->methods, LH_PROMPT_ROWS)) && t->window < t->prompt && needs_all_rows(t, n))
        return "it observes more query rows than were recorded: '--trace-level full' records all, '--trace-window N' "
               "the last N";
    if (lh_score_reads_hidden(&n->score))
        return "it observes hidden states, which traces do not hold: try it with 'generate' or 'eval'";
    if (!has_spread_rows(t, n))
        return "it observes rows spread over the prompt that were not recorded: '--trace-level full' records all, "
               "'--trace-rows N' those of '--rows sample:N'";
    if (needs_entries && !t->level->entries)
        return "it observes keys or values: record them with '--trace-level keys' or 'full'";
    return NULL;
}

const char *lh_replay_missing(const lh_trace_file *trace, lh_replay_judge judge, const lh_policy *policy)
{
    const int after = lh_replay_judge_of(trace, judge) == LH_JUDGE_DECODE;
    const char *why = NULL;
    if (lh_policy_has_probes(policy)) return repeats;
    if (lh_policy_has(policy, LH_REFITS)) return refits;
    lh_policy asked = lh_replay_policy(policy);
    lh_policy_ask(&asked, trace->questions.asked);
    if (asked.proxies.kind == LH_PROXIES_QUESTION && asked.proxies.question == 0)
        return "it observes a question at the end of the prompt: record one with '--scenario question-aware'";
    const lh_policy_numbers n = lh_policy_fix(&asked, trace->prompt);
    const int reruns = lh_rerun_needed(trace, after, &asked);
    if (reruns || n.budget < trace->prompt) why = missing(trace, &n);
    return why || !reruns ? why : lh_rerun_missing(trace, &asked);
}

lh_status lh_replay_check(lh_replay *r)
{
    const lh_study *s = &r->study;
    const lh_trace_file *t = &r->trace;
    for (int64_t i = 0; i < s->policy_count * s->budget_count; i++) {
        const lh_policy *policy = r->cells[i].policy;
        if (!policy || lh_replay_is_oracle(r, i / s->budget_count)) continue;
        lh_policy_ask(&r->cells[i].own, t->questions.asked);
        const char *why = lh_replay_missing(t, r->request.judge, policy);
        if (why)
            LH_FAIL(LH_EUSAGE, "policy '%s' cannot be replayed on '%s' (level %s): %s", r->names[i / s->budget_count],
                    lh_h5_path(t->h5), t->level->name, why);
        LH_TRY(lh_profiles_check(&r->request.policies->profiles, policy, t->shape.layers, t->shape.heads.kv_heads));
    }
    if (!t->level->entries)
        LH_FAIL(LH_EUSAGE,
                "'%s' was recorded at level %s, without keys and values, by which a replay is judged: record "
                "it with '--trace-level keys' or 'full'",
                lh_h5_path(t->h5), t->level->name);
    return LH_OK;
}

/* ---- who judges ---- */

void lh_replay_clear_judges(lh_replay_rows *j)
{
    lh_free(j->at);
    lh_free(j->answer);
    *j = (lh_replay_rows){.is_after = j->is_after, .n = j->n};
}

/* Names the reference rows: with several traces, some may use rows of the prompt and some rows after it. */
static lh_status name_judges(lh_replay *r)
{
    const lh_replay_rows *j = &r->judges;
    char *text = NULL;
    LH_TRY(lh_asprintf(&text, "%lld rows %s", (long long)j->n, j->is_after ? "after the prompt" : "of the prompt"));
    if (r->words.reference && strcmp(r->words.reference, text) != 0) {
        lh_free(text);
        LH_TRY(lh_strdup(&text, "rows of the prompt or after it, as the traces have them"));
    }
    lh_free(r->words.reference);
    r->words.reference = text;
    return LH_OK;
}

lh_status lh_replay_choose_judges(lh_replay *r)
{
    const lh_trace_file *t = &r->trace;
    lh_replay_rows *j = &r->judges;
    const lh_replay_judge judge = lh_replay_judge_of(t, r->request.judge);
    lh_trace_answer_rows rows = {0};
    int64_t answers = 0;
    if (judge == LH_JUDGE_DECODE && t->after_count == 0)
        LH_FAIL(LH_EUSAGE,
                "'%s' has no rows after the prompt to judge by: record a trace with '-n 64', or judge by rows "
                "of the prompt",
                lh_h5_path(t->h5));
    const int64_t all = judge == LH_JUDGE_DECODE ? t->after_count : t->row_count;
    j->is_after = judge == LH_JUDGE_DECODE;
    j->n = lh_min_i64(all, r->request.judge_rows);
    lh_replay_clear_judges(j);
    LH_TRY(lh_calloc(&j->at, j->n, sizeof *j->at));
    LH_TRY(lh_calloc(&j->answer, j->n, sizeof *j->answer));
    for (int64_t i = 0; i < j->n; i++) {
        j->at[i] = (2 * i + 1) * all / (2 * j->n);
        while (j->is_after && j->at[i] >= rows.end && lh_trace_next_answer(t, &rows)) answers++;
        j->answer[i] = answers - 1;
    }
    return name_judges(r);
}
