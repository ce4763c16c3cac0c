/* rerun_plan.c - which policies are rerun over a whole trace, and on which rank: policies that evict while decoding,
 * if the reference rows lie after the prompt, and policies with competing layers. All other policies are replayed
 * layer by layer. Policies that keep little share a pass over the trace. */
#include <string.h>

#include "base/mem.h"
#include "lab/replay/replay_impl.h"

/* 1 where the policy may evict while an answer is made. */
static int decodes(const lh_trace_file *t, const lh_policy *policy)
{
    const lh_policy_numbers n = lh_policy_fix(policy, t->prompt);
    lh_trace_answer_rows rows = {0};
    if (!n.evicts || n.every == 0) return 0;
    while (lh_trace_next_answer(t, &rows)) {
        const int64_t steps = rows.end - rows.first - rows.block;
        if ((rows.block || steps >= n.every) && n.budget < t->prompt + rows.end - rows.first) return 1;
    }
    return 0;
}

int lh_rerun_needed(const lh_trace_file *t, int after, const lh_policy *policy)
{
    const lh_policy_numbers n = lh_policy_fix(policy, t->prompt);
    return (after && decodes(t, policy)) ||
           (n.evicts && n.budgets.layers == LH_LAYERS_ADAPTIVE && n.budget < t->prompt);
}

const char *lh_rerun_missing(const lh_trace_file *t, const lh_policy *policy)
{
    const lh_policy_numbers n = lh_policy_fix(policy, t->prompt);
    for (int64_t l = 0; l < t->shape.layers; l++)
        if (!t->recorded[l])
            return n.budgets.layers == LH_LAYERS_ADAPTIVE
                       ? "its layers compete, and the trace does not have all of them"
                       : "it evicts while decoding, which takes all layers, and the trace does not have them: judge by "
                         "rows of the prompt ('--judge prompt'), or leave decoding out ('--evict never')";
    if (lh_kv_uses_slots(&n))
        return "while decoding it rotates keys by slots, and the recorded rows are rotated by positions: judge by rows "
               "of the prompt ('--judge prompt'), or give '--positions original' or '--evict never'";
    return NULL;
}

/* True if the recorded run had the same policy and budget: then its rows are exact. */
static int is_recorded(const lh_trace_file *t, const lh_policy *policy)
{
    lh_policy a = lh_replay_policy(policy), b = lh_replay_policy(&t->policy);
    a.budget = (lh_policy_amount){.n = lh_policy_entries(&a, t->prompt)};
    b.budget = (lh_policy_amount){.n = lh_policy_entries(&b, t->prompt)};
    return lh_policy_same(&a, &b);
}

typedef struct plan {
    int64_t *cells, *groups_of; /* [n] that are rerun, group by group */
    int64_t n, groups;
} plan;

/* Ranks share out the groups. */
static int owner_of(const lh_replay *r, const plan *p, int64_t i)
{
    return (int)(p->groups_of[i] % lh_comm_size(r->request.comm));
}

/* Adds the cells that observe rows, or the cells with recorded statistics, which need no rows: groups that keep half
 * of the prompt in total, or one cell. */
static void add_groups(const lh_replay *r, int counted, plan *p)
{
    const int64_t all = r->study.policy_count * r->study.budget_count, room = r->trace.prompt / 2;
    int64_t held = room;
    for (int64_t c = 0; c < all; c++) {
        const lh_policy *policy = r->cells[c].policy;
        if (!policy || !lh_rerun_needed(&r->trace, r->judges.is_after, policy)) continue;
        const lh_policy_numbers n = lh_policy_fix(policy, r->trace.prompt);
        if (lh_replay_columns_serve(r, &n) != counted) continue;
        if (held + n.budget > room) p->groups++, held = 0;
        held += n.budget;
        p->cells[p->n] = c;
        p->groups_of[p->n++] = p->groups - 1;
    }
}

static lh_status make_plan(const lh_replay *r, plan *p)
{
    const int64_t all = r->study.policy_count * r->study.budget_count;
    LH_TRY(lh_calloc(&p->cells, all, sizeof *p->cells));
    LH_TRY(lh_calloc(&p->groups_of, all, sizeof *p->groups_of));
    for (int counted = 0; counted < 2; counted++) add_groups(r, counted, p);
    return LH_OK;
}

/* Layers that this rank goes through: of its groups, and its own. */
static int64_t count_steps(const lh_replay *r, const plan *p)
{
    const int ranks = lh_comm_size(r->request.comm), rank = lh_comm_rank(r->request.comm);
    const int64_t groups = (p->groups - rank + ranks - 1) / ranks,
                  layers = (r->study.layers - rank + ranks - 1) / ranks;
    return groups * r->study.layers + layers;
}

/* One group: cells[first .. end). */
static lh_status run_group(lh_replay *r, plan *p, int64_t first, int64_t end)
{
    lh_status st = LH_OK;
    lh_rerun_group g = {.replay = r, .cells = p->cells + first, .n = end - first};
    LH_TRY_DONE(lh_rerun_open(&g));
    LH_TRY_DONE(lh_rerun_prompt(&g));
    for (int64_t i = 0; i < g.n; i++) {
        lh_replay_cell *cell = &r->cells[g.cells[i]];
        LH_TRY_DONE(lh_rerun_answers(&g, g.caches[i], &cell->rerun));
        r->pace.entries += r->study.kv_heads * r->study.layers * r->trace.prompt;
    }
done:
    lh_rerun_close(&g);
    return st;
}

static lh_status run_own(lh_replay *r, plan *p)
{
    const int rank = lh_comm_rank(r->request.comm);
    for (int64_t c = 0, end; c < p->n; c = end) {
        for (end = c + 1; end < p->n && p->groups_of[end] == p->groups_of[c];) end++;
        if (owner_of(r, p, c) == rank) LH_TRY(run_group(r, p, c, end));
    }
    return LH_OK;
}

/* ---- to all ranks ---- */

/* Collective. `n` elements from the owner; elsewhere new memory. */
static lh_status share_array(lh_comm *comm, int owner, void *array, int64_t n, int64_t bytes)
{
    void **at = array;
    lh_status st = lh_comm_rank(comm) == owner ? LH_OK : lh_calloc(at, n, bytes);
    LH_TRY(lh_comm_agree(comm, st));
    return lh_comm_bcast(comm, owner, *at, n * bytes);
}

static lh_status share(lh_comm *comm, int owner, lh_rerun *x)
{
    int64_t shape[] = {x->layers, x->heads, x->answers};
    LH_TRY(lh_comm_bcast(comm, owner, shape, sizeof shape));
    x->layers = shape[0], x->heads = shape[1], x->answers = shape[2];
    const int64_t heads = x->layers * x->heads, all = x->answers * heads;
    LH_TRY(share_array(comm, owner, &x->kept_at, heads + 1, sizeof *x->kept_at));
    LH_TRY(share_array(comm, owner, &x->kept, x->kept_at[heads], sizeof *x->kept));
    LH_TRY(share_array(comm, owner, &x->drop_at, all + 1, sizeof *x->drop_at));
    return share_array(comm, owner, &x->drops, x->drop_at[all], sizeof *x->drops);
}

lh_status lh_replay_rerun_all(lh_replay *r)
{
    lh_status st = LH_OK;
    plan p = {0};
    lh_replay_clear_reruns(r);
    st = make_plan(r, &p);
    r->progress.each = count_steps(r, &p);
    if (st == LH_OK) st = run_own(r, &p);
    LH_TRY_DONE(lh_comm_agree_untimed(r->request.comm, st));
    for (int64_t i = 0; i < p.n; i++) {
        lh_replay_cell *cell = &r->cells[p.cells[i]];
        const lh_rerun *x = &cell->rerun;
        LH_TRY_DONE(share(r->request.comm, owner_of(r, &p, i), &cell->rerun));
        if (x->drop_at[x->answers * x->layers * x->heads] == 0) continue;
        *(is_recorded(&r->trace, cell->policy) ? &cell->recorded : &cell->forced) = 1;
    }
done:
    lh_free(p.cells);
    lh_free(p.groups_of);
    return st;
}

void lh_replay_clear_reruns(lh_replay *r)
{
    for (int64_t c = 0; r->cells && c < r->study.policy_count * r->study.budget_count; c++)
        lh_rerun_clear(&r->cells[c].rerun);
}

/* ---- in words ---- */

/* The random baseline, which observes no rows: recorded rows are always valid. */
static int is_random(const char *policy)
{
    return strncmp(policy, "random", 6) == 0;
}

lh_status lh_replay_log_decoding(const lh_replay *r, char **out)
{
    static const char by_others[] = "by rows of a run with another policy (teacher-forced)";
    lh_status st = LH_OK;
    lh_buf forced = {0}, recorded = {0};
    const lh_study *s = &r->study;
    for (int64_t c = 0, named = -1; c < s->policy_count * s->budget_count; c++) {
        const int64_t p = c / s->budget_count;
        if (r->cells[c].recorded)
            LH_TRY_DONE(lh_buf_printf(&recorded, "%s%s at %s", recorded.bytes ? ", " : "", s->policies[p],
                                      s->budgets[c % s->budget_count]));
        if (!r->cells[c].forced || named == p || is_random(s->policies[p])) continue;
        named = p;
        LH_TRY_DONE(lh_buf_printf(&forced, "%s%s", forced.bytes ? ", " : "", s->policies[p]));
    }
    if (recorded.bytes)
        LH_TRY_DONE(lh_asprintf(out, "evictions while decoding as in the recorded run: %s%s%s", recorded.data,
                                forced.bytes ? "; all others " : "", forced.bytes ? by_others : ""));
    else
        LH_TRY_DONE(lh_asprintf(out, "%s%s%s%s", forced.bytes ? "evictions while decoding " : "",
                                forced.bytes ? by_others : "", forced.bytes ? ": " : "",
                                forced.bytes ? forced.data : ""));
done:
    lh_buf_clear(&forced);
    lh_buf_clear(&recorded);
    return st;
}

void lh_rerun_clear(lh_rerun *x)
{
    lh_free(x->kept_at);
    lh_free(x->kept);
    lh_free(x->drop_at);
    lh_free(x->drops);
    *x = (lh_rerun){0};
}

lh_rerun_kept lh_rerun_kept_of(const lh_rerun *x, int64_t layer, int64_t head)
{
    const int64_t *at = x->kept_at + layer * x->heads + head;
    return (lh_rerun_kept){x->kept + at[0], at[1] - at[0]};
}

lh_rerun_drops lh_rerun_drops_of(const lh_rerun *x, int64_t answer, int64_t layer, int64_t head)
{
    const int64_t *at = x->drop_at + (answer * x->layers + layer) * x->heads + head;
    return (lh_rerun_drops){x->drops + at[0], at[1] - at[0]};
}
