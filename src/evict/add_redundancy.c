/* Redundancy of keys (R-KV, arXiv 2505.24133, as in its published code): an entry whose key resembles other keys is
 * worth less. The cosines of its key and the other keys are averaged; every entry leaves out the last entry that it
 * resembles, so that of a repetition the newest entry stays. The softmax of these means over the head, times a share,
 * is taken from the other share of the score. A head at a time, its keys against all in blocks. */
#include <math.h>

#include "evict/evict_impl.h"
#include "evict/plain_entries.h"

static const float SIMILAR = 0.5f; /* the cosine from which keys resemble each other */

typedef struct redundancy_params {
    lh_decimal share;
} redundancy_params;

static double share_of(const lh_policy_methods *methods)
{
    const redundancy_params *p = lh_params_of(methods, LH_METHOD_redundancy);
    return lh_decimal_value(p->share);
}

static int is_on(const lh_policy *policy)
{
    return share_of(&policy->methods) > 0;
}

/* The arrays of a head of up to ld entries, on the scratch stack. */
typedef struct similarity_arrays {
    float *keys, *dots; /* [ld, dim], [LH_PLAIN_ENTRIES_AT_ONCE, ld] */
    float *norms;       /* [kv_count, ld] of keys */
    float *means;       /* [ld]: sums of cosines, then the softmax of their means */
    int32_t *last;      /* [LH_PLAIN_ENTRIES_AT_ONCE] */
} similarity_arrays;

static similarity_arrays alloc_arrays(const lh_evictor *ev)
{
    const int64_t rows = LH_PLAIN_ENTRIES_AT_ONCE;
    return (similarity_arrays){.keys = lh_scratch_floats(ev, ev->ld * ev->shape.head_dim),
                               .dots = lh_scratch_floats(ev, rows * ev->ld),
                               .norms = lh_scratch_floats(ev, ev->shape.heads.kv_count * ev->ld),
                               .means = lh_scratch_floats(ev, ev->ld),
                               .last = lh_scratch_alloc(&ev->exec, rows * (int64_t)sizeof(int32_t))};
}

/* means = the sums of the cosines of KV head h. */
static void add_up(const lh_evictor *ev, const similarity_arrays *r, const lh_plain_entries *p, int64_t h)
{
    const lh_exec *x = &ev->exec;
    const int64_t dim = ev->shape.head_dim, len = p->len[h];
    lh_key_products of = {.dots = r->dots, .norms = r->norms + h * ev->ld, .cols = len};
    if (p->entries->positions) of.positions = p->entries->positions + p->offset[h];
    for (int64_t at = 0; at < len; at += LH_PLAIN_ENTRIES_AT_ONCE) {
        const int64_t count = lh_min_i64(len - at, LH_PLAIN_ENTRIES_AT_ONCE);
        lh_plain_entries_load(p, h, at, count);
        lh_exec_copy(x, r->keys + at * dim, p->keys, count * dim * (int64_t)sizeof *r->keys, LH_COPY_ON_DEVICE);
    }
    lh_exec_zero(x, r->means, len * (int64_t)sizeof *r->means);
    for (of.first = 0; of.first < len; of.first += of.rows) {
        of.rows = lh_min_i64(len - of.first, LH_PLAIN_ENTRIES_AT_ONCE);
        LH_RUN(x, gemm, .y = r->dots, .x = r->keys + of.first * dim, .w = lh_plain_matrix(r->keys, LH_F32, dim),
               .type = LH_F32, .order = ev->shape.order, .tokens = of.rows, .out = len, .in = dim, .y_ld = len,
               .x_ld = dim);
        LH_RUN(x, last_similar, .y = r->last, .of = of, .threshold = SIMILAR);
        LH_RUN(x, add_similarities, .y = r->means, .last = r->last, .of = of);
    }
}

/* In place: n sums of n cosines become the softmax of their means. */
static lh_status normalise(const lh_exec *x, float *means, int64_t n)
{
    lh_status st = LH_OK;
    const int64_t bytes = n * (int64_t)sizeof(float);
    float *host = NULL;
    double all = 0;
    LH_TRY_DONE(lh_calloc(&host, n, sizeof *host));
    lh_exec_fetch(x, host, means, bytes);
    for (int64_t i = 0; i < n; i++) all += exp((double)host[i] / (double)n);
    for (int64_t i = 0; i < n; i++) host[i] = (float)(exp((double)host[i] / (double)n) / all);
    lh_exec_put(x, means, host, bytes);
done:
    lh_free(host);
    return st;
}

static lh_status weigh_heads(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    lh_status st = LH_OK;
    const lh_exec *x = &ev->exec;
    const int64_t mark = lh_scratch_mark(x);
    const double share = share_of(&ev->policy.methods);
    const similarity_arrays r = alloc_arrays(ev);
    lh_plain_entries p;
    LH_TRY_DONE(lh_plain_entries_open(&p, x, job->entries, NULL, LH_PLAIN_KEYS));
    LH_RUN(x, entry_norms, .y = lh_slot_rows(r.norms, 1, ev->ld), .kv = job->entries, .last = LH_ALL_ENTRIES,
           .part = LH_PART_KEY, .kind = LH_NORM_L2);
    for (int64_t h = 0; h < job->entries->heads && lh_exec_ok(x); h++) {
        add_up(ev, &r, &p, h);
        LH_LATCH(x, normalise(x, r.means, p.len[h]));
        LH_RUN(x, mix_scores, .y = scores + h * ev->ld, .x = r.means, .cols = p.len[h], .own = (float)(1 - share),
               .other = (float)-share);
    }
done:
    lh_plain_entries_close(&p);
    lh_scratch_release(x, mark);
    return st;
}

static void weigh(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_LATCH(&ev->exec, weigh_heads(ev, job, scores));
}

static lh_status check(const lh_policy *policy)
{
    if (policy->score.source != LH_METHOD_mean)
        LH_FAIL(LH_EUSAGE, "'--redundancy' mixes shares of a head's attention with shares of its redundancy: it needs "
                           "'--statistic mean'");
    return LH_OK;
}

static const lh_part parts[] = {{LH_PART_SHARE(redundancy, redundancy_params, share), .after = "rows",
                                 .used = lh_policy_attends, .needs = LH_ATTENTION_NEEDED, .def = "0",
                                 .row.name = "redundancy", .row.arg = "X",
                                 .row.help = "Share of the score by which similar keys lose, from 0 to 1 (R-KV)."},
                                {.row.name = NULL}};

static const lh_addition addition = {.weigh = weigh};

const lh_method lh_method_redundancy = {.option = "--redundancy",
                                        .active = is_on,
                                        .parts = parts,
                                        .traits = LH_NEEDS_ENTRIES,
                                        .check = check,
                                        .addition = &addition};
