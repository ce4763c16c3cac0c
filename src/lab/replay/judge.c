/* judge.c - the effect of a layer's evictions on the reference rows, for all budgets together. The attention weights
 * of a KV head's rows are computed once. A policy's entries are divided into classes by the budgets at which they are
 * kept: if larger budgets keep all entries of smaller ones, there is one class more than there are budgets. The sums
 * of weights, and of weighted values, of a class are one product; the kept sum of a budget is the sum over its
 * classes. (Mattson's stack distances for caches of pages, IBM Systems Journal 9:2, 1970, use the same inclusion.) */
#include <math.h>

#include "base/minmax.h"
#include "lab/replay/judge_impl.h"

/* A class of entries: order[first .. end), kept at the budgets of `bits`. */
typedef struct entry_class {
    uint32_t bits;
    int64_t first, end;
} entry_class;

/* Classes of the entries by the budgets among `at` at which they are kept; 0 where there are too many. */
static int64_t classify(lh_judged_head *w, const uint32_t *kept, uint32_t at, entry_class *classes)
{
    int64_t n = 0, end = 0;
    for (int64_t j = 0; j < w->tokens; j++) {
        const uint32_t bits = kept[j] & at;
        int64_t c = 0;
        while (c < n && classes[c].bits != bits) c++;
        if (c == LH_JUDGE_CLASSES) return 0;
        if (c == n) classes[n++] = (entry_class){.bits = bits};
        classes[c].end++;
    }
    for (int64_t c = 0; c < n; c++) {
        const int64_t size = classes[c].end;
        classes[c].first = classes[c].end = end;
        end += size;
    }
    for (int64_t j = 0; j < w->tokens; j++) {
        int64_t c = 0;
        while (classes[c].bits != (kept[j] & at)) c++;
        w->order[classes[c].end++] = j;
    }
    return n;
}

static void gather(lh_judged_head *w, int64_t count)
{
#pragma omp parallel
    {
#pragma omp for nowait
        for (int64_t n = 0; n < w->n; n++)
            for (int64_t i = 0; i < count; i++) w->columns[n * w->tokens + i] = w->weights[n * w->tokens + w->order[i]];
#pragma omp for
        for (int64_t i = 0; i < count; i++)
            for (int64_t x = 0; x < w->dim; x++)
                w->columns_of_values[x * w->tokens + i] = w->values[w->order[i] * w->dim + x];
    }
}

static void sum_classes(lh_judged_head *w, const lh_replay *r, const entry_class *classes, int64_t count)
{
    gather(w, count ? classes[count - 1].end : 0);
    for (int64_t c = 0; c < count; c++) {
        const int64_t first = classes[c].first, n = classes[c].end - first;
        lh_judge_multiply(r, &(lh_judge_product){w->class_output + c * w->n * w->dim, w->columns + first,
                                                 w->columns_of_values + first, w->n, w->dim, n, w->dim, w->tokens,
                                                 w->tokens});
#pragma omp parallel for
        for (int64_t row = 0; row < w->n; row++) {
            const float *norms = w->norms + row / w->rows * w->tokens;
            double sum = 0, norm = 0;
            for (int64_t i = first; i < first + n; i++) {
                sum += (double)w->columns[row * w->tokens + i];
                norm += (double)w->columns[row * w->tokens + i] * (double)norms[w->order[i]];
            }
            w->class_mass[c * w->n + row] = (float)sum;
            w->class_norm[c * w->n + row] = (float)norm;
        }
    }
}

/* Sums over the classes with the bit, or without it; outputs are added to `to` times `sign`. */
typedef struct side {
    uint32_t bit;
    int kept;
    float *to; /* NULL: mass and norm alone */
    float sign;
    lh_judge_share sum; /* out */
} side;

static void add_side(const lh_judged_head *w, const entry_class *classes, int64_t count, int64_t n, side *s)
{
    for (int64_t c = 0; c < count; c++) {
        const float *o = w->class_output + (c * w->n + n) * w->dim;
        if (((classes[c].bits & s->bit) != 0) != s->kept) continue;
        s->sum.mass += (double)w->class_mass[c * w->n + n];
        s->sum.norm += (double)w->class_norm[c * w->n + n];
        for (int64_t x = 0; x < w->dim && s->to; x++) s->to[x] += s->sign * o[x];
    }
}

/* A policy on the head in work: the entries that it keeps, by classes of the budgets `at`. */
typedef struct judged {
    int64_t policy, head;
    const uint32_t *kept;
    uint32_t at;
    entry_class classes[LH_JUDGE_CLASSES];
    int64_t count;
} judged;

static lh_judge_cell cell_of(const lh_replay *r, const judged *j, uint32_t bit)
{
    return (lh_judge_cell){j->policy * r->study.budget_count + __builtin_ctz(bit), j->head};
}

/* Row n: o^ - o = (sum of kept a v - sigma o) / sigma = ((1 - sigma) o - sum of lost a v) / sigma. The smaller side is
 * the more exact. A row without kept mass gets 0 for o^. */
static void join_row(lh_judged_head *w, const lh_replay *r, const judged *j, uint32_t bit, int64_t n)
{
    float *d = w->delta + n * w->dim;
    const float *o = w->output + n * w->dim, *later = w->later_values + n * w->dim;
    const lh_judge_cell cell = cell_of(r, j, bit);
    const lh_judge_share gone = lh_judge_evicted(w, r, &cell, n, NULL);
    side kept = {.bit = bit, .kept = 1, .sum = {(double)w->later[n], (double)w->later_norm[n]}},
         lost = {.bit = bit, .sum = gone};
    add_side(w, j->classes, j->count, n, &kept);
    add_side(w, j->classes, j->count, n, &lost);
    const int few_left = gone.mass > kept.sum.mass / 2;
    kept.sum = few_left ? lh_judge_kept(w, r, &cell, n, NULL)
                        : (lh_judge_share){kept.sum.mass - gone.mass, kept.sum.norm - gone.norm};
    const double all = kept.sum.mass + lost.sum.mass, sigma = kept.sum.mass / all;
    const int by_lost = sigma > 0.5;
    for (int64_t x = 0; x < w->dim; x++)
        d[x] = by_lost ? (float)lost.sum.mass * o[x] : (few_left ? 0 : later[x]) - (float)sigma * o[x];
    if (few_left && !by_lost) {
        lh_judge_kept(w, r, &cell, n, d);
    } else {
        add_side(w, j->classes, j->count, n,
                 &(side){.bit = bit, .kept = !by_lost, .to = d, .sign = by_lost ? -1.0f : 1.0f});
        lh_judge_evicted(w, r, &cell, n, d);
    }
    for (int64_t x = 0; x < w->dim; x++) d[x] = sigma > 0 ? d[x] / (float)sigma : -o[x];
    w->mass[n] = (float)sigma;
    w->lost[n] = (float)(lost.sum.mass / all);
    w->kept_norm[n] = (float)kept.sum.norm;
    w->lost_norm[n] = (float)lost.sum.norm;
}

/* Joins the classes of a budget: kept and lost mass, and the change of the output. */
static void join_classes(lh_judged_head *w, const lh_replay *r, const judged *j, uint32_t bit)
{
#pragma omp parallel for
    for (int64_t n = 0; n < w->n; n++) join_row(w, r, j, bit, n);
}

static void project_delta(lh_judged_head *w, const lh_replay *r, int64_t g)
{
    for (int64_t i = 0; i < r->trace.shape.heads.group; i++)
        lh_judge_norms(w, r, lh_judge_projection(r, g, i), w->delta + i * w->rows * w->dim, w->rows,
                       w->projected_l1 + i * w->rows);
}

static double count_hits(const lh_judged_head *w, const lh_replay *r, const judged *j, uint32_t bit)
{
    const lh_judge_cell cell = cell_of(r, j, bit);
    int64_t hits = 0;
    for (int64_t i = 0; i < w->n * w->top_count; i++) hits += (j->kept[w->top_at[i]] & bit) != 0;
    for (int64_t n = 0; n < w->n; n++) hits -= lh_judge_evicted_hits(w, r, &cell, n);
    return (double)hits / (double)(w->n * w->top_count);
}

static int64_t count_kept(const judged *j, uint32_t bit)
{
    int64_t kept = 0;
    for (int64_t c = 0; c < j->count; c++)
        if (j->classes[c].bits & bit) kept += j->classes[c].end - j->classes[c].first;
    return kept;
}

static lh_status judge_budgets(lh_judged_head *w, lh_replay *r, const lh_head_facts *facts, const judged *j)
{
    sum_classes(w, r, j->classes, j->count);
    for (uint32_t left = j->at; left; left &= left - 1) {
        const uint32_t bit = left & -left;
        lh_outcome o = {.policy = j->policy,
                        .budget = __builtin_ctz(bit),
                        .kept = count_kept(j, bit),
                        .mass = w->mass,
                        .lost = w->lost,
                        .delta = w->delta,
                        .hits = count_hits(w, r, j, bit)};
        join_classes(w, r, j, bit);
        if (facts->largest) {
            project_delta(w, r, facts->head);
            o.projected_l1 = w->projected_l1;
            o.kept_norm = w->kept_norm;
            o.lost_norm = w->lost_norm;
        }
        LH_TRY(lh_exec_take(&r->exec));
        LH_TRY(lh_replay_tell(r, &(lh_replay_event){.head = facts, .outcome = &o}));
    }
    return LH_OK;
}

/* All budgets in one pass; where they do not contain each other, and make too many classes, one by one. */
static lh_status judge_policy(lh_judged_head *w, lh_replay *r, const lh_head_facts *facts, int64_t policy)
{
    const uint32_t all = facts->layer->given[policy];
    judged j = {.policy = policy,
                .head = facts->head,
                .kept = facts->layer->kept + (policy * facts->layer->study->kv_heads + facts->head) * w->tokens,
                .at = all};
    j.count = classify(w, j.kept, all, j.classes);
    if (j.count) return judge_budgets(w, r, facts, &j);
    for (uint32_t left = all; left; left &= left - 1) {
        j.at = left & -left;
        j.count = classify(w, j.kept, j.at, j.classes);
        LH_TRY(judge_budgets(w, r, facts, &j));
    }
    return LH_OK;
}

static lh_status judge_head(lh_judged_head *w, lh_replay *r, const lh_layer_facts *layer, int64_t g)
{
    lh_judged_head_weigh(w, r, g);
    LH_TRY(lh_exec_take(&r->exec));
    const lh_head_facts facts = {.layer = layer,
                                 .head = g,
                                 .rows = w->rows,
                                 .n = w->n,
                                 .weights = w->weights,
                                 .later = w->later,
                                 .output = w->output,
                                 .largest = r->layer.projection_f32 ? w->largest : NULL,
                                 .output_l1 = r->layer.projection_f32 ? w->output_l1 : NULL};
    LH_TRY(lh_replay_tell(r, &(lh_replay_event){.head = &facts}));
    for (int64_t p = 0; p < r->study.policy_count; p++) LH_TRY(judge_policy(w, r, &facts, p));
    return LH_OK;
}

/* The mean attention of the rows to each entry: [tokens]. */
static void sum_rows(const lh_judged_head *w, float *reference)
{
    enum { BLOCK = 512 };
#pragma omp parallel for
    for (int64_t first = 0; first < w->tokens; first += BLOCK) {
        const int64_t n = lh_min_i64(BLOCK, w->tokens - first);
        double sums[BLOCK] = {0};
        for (int64_t row = 0; row < w->n; row++)
            for (int64_t j = 0; j < n; j++) sums[j] += (double)w->weights[row * w->tokens + first + j];
        for (int64_t j = 0; j < n; j++) reference[first + j] = (float)(sums[j] / (double)w->rows);
    }
}

lh_status lh_replay_judge_layer(lh_replay *r)
{
    lh_status st = LH_OK;
    float *reference = NULL;
    lh_layer_facts facts = {.study = &r->study,
                            .recorded = &r->layer.data,
                            .kept = r->layer.kept,
                            .given = r->layer.given,
                            .layer = r->layer.data.index,
                            .tokens = r->trace.prompt,
                            .column_rows = r->trace.column_rows,
                            .window = lh_kv_slides(&r->trace.shape, r->layer.data.index) ? r->trace.shape.window : 0,
                            .largest = r->layer.projection_f32 ? 0 : (double)NAN,
                            .replay = r};
    lh_judged_head w = {0};
    LH_TRY_DONE(lh_judged_head_open(&w, r));
    LH_TRY_DONE(lh_calloc(&reference, r->study.kv_heads * r->trace.prompt, sizeof *reference));
    for (int64_t g = 0; g < r->study.kv_heads; g++) {
        LH_TRY_DONE(judge_head(&w, r, &facts, g));
        sum_rows(&w, reference + g * r->trace.prompt);
        for (int64_t i = 0; i < r->study.group && r->layer.projection_f32; i++)
            facts.largest = fmax(facts.largest, (double)w.largest[i]);
    }
    facts.reference = reference;
    LH_TRY_DONE(lh_replay_tell(r, &(lh_replay_event){.layer = &facts}));
done:
    lh_free(reference);
    lh_judged_head_close(&w);
    return st;
}
