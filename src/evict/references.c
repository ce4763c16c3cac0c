/* Reference queries: the outputs of rows after the prompt, or of drawn ones, over all entries, and the fit of the kept
 * entries to them, immediately or after the last layer. */
#include "evict/evict_impl.h"
#include "evict/fit.h"

float *lh_reference_outputs(lh_evictor *ev, int64_t rows)
{
    const lh_heads *h = &ev->shape.heads;
    if (!ev->outputs) ev->outputs = lh_scratch_floats(ev, h->kv_count * (ev->shape.head_dim + 1) * h->group * rows);
    return ev->outputs;
}

typedef struct fit_params {
    int kind;
    lh_decimal ridge;
} fit_params;

enum { FIT_NONE, FIT_BIAS, FIT_VALUES, FIT_BOTH };
static const char *const kinds[] = {"none", "bias", "values", "both", NULL};
static const char *const meanings[] = {
    "Entries stay what they were.",
    "A bias of each kept entry, which stands for the attention that went to evicted ones.",
    "The values, so that outputs stay what they were.",
    "A bias of each kept entry for the attention that went to evicted ones, then the values."};

static int kind_of(const lh_policy_methods *methods, lh_method_id id)
{
    const fit_params *p = lh_params_of(methods, id);
    return p->kind;
}

/* Of the method that the policy uses. */
static int kind_in_use(const lh_policy_methods *methods)
{
    return kind_of(methods, lh_methods_have(methods, LH_REFITS) ? LH_METHOD_refit : LH_METHOD_fit);
}

static int has_values(int kind)
{
    return kind == FIT_VALUES || kind == FIT_BOTH;
}

int lh_fits_bias(const lh_policy_methods *methods)
{
    const int kind = kind_in_use(methods);
    return kind == FIT_BIAS || kind == FIT_BOTH;
}

int lh_fits_values(const lh_policy_methods *methods)
{
    return has_values(kind_in_use(methods));
}

int lh_evict_fits(const lh_evictor *ev, const lh_evict_job *job)
{
    return kind_in_use(&ev->policy.methods) != FIT_NONE && job->scored;
}

/* The fit of a layer to its rows, without rows.kv, offset and len. */
static lh_fit fit_of(const lh_evictor *ev, const lh_reference_queries *r)
{
    const lh_heads *h = &ev->shape.heads;
    lh_fit fit = {.rows = {.q = r->q,
                           .positions = r->positions,
                           .map = {.heads = h->kv_count * h->group, .group = h->group},
                           .logit = {.scale = ev->shape.scale, .softcap = ev->shape.softcap, .window = r->layer.window},
                           .rows = r->rows,
                           .q_ld = r->q_ld},
                  .lse = r->lse,
                  .lse_ld = r->lse_ld,
                  .outputs = r->outputs,
                  .keeps_bias = !lh_fits_bias(&ev->policy.methods),
                  .keeps_values = !lh_fits_values(&ev->policy.methods),
                  .order = ev->shape.order,
                  .of_bias = lh_fit_usual_bias,
                  .of_values = lh_fit_usual_values};
    const fit_params *once = lh_params_of(&ev->policy.methods, LH_METHOD_fit);
    if (once->kind != FIT_NONE) fit.of_values.ridge = (float)lh_decimal_value(once->ridge);
    return fit;
}

lh_reference_queries lh_evict_reference_queries(lh_evictor *ev, const lh_evict_job *job, const int64_t *len)
{
    const lh_row_block b = lh_reference_rows(ev, job);
    lh_reference_queries r = {.layer = job->layer,
                              .q = b.rows.q,
                              .lse = b.rows.lse,
                              .positions = b.rows.positions,
                              .rows = b.rows.tokens,
                              .q_ld = b.rows.q_ld,
                              .lse_ld = b.lse_ld};
    lh_fit fit = fit_of(ev, &r);
    fit.rows.kv = job->entries;
    fit.offset = job->offset;
    fit.len = len;
    fit.outputs = r.outputs = lh_reference_outputs(ev, r.rows);
    if (fit.keeps_values || lh_uses_method(&ev->policy.methods, LH_METHOD_losses))
        return r; /* not needed, or made for curves */
    if (lh_exec_ok(&ev->exec)) lh_fit_outputs(&ev->exec, &fit);
    return r;
}

/* Rows of numbers with leading dimension ld. */
typedef struct rows_of {
    int64_t rows, width, ld;
} rows_of;

static void copy_rows(const lh_exec *exec, float *y, const float *x, rows_of r)
{
    LH_RUN(exec, convert, .dst = y, .src = x, .dst_type = LH_F32, .src_type = LH_F32, .rows = r.rows, .cols = r.width,
           .dst_ld = r.width, .src_ld = r.ld);
}

lh_status lh_evict_alloc_saved_queries(const lh_evictor *ev, int64_t rows, lh_saved_queries *held)
{
    const lh_heads *h = &ev->shape.heads;
    const int64_t heads = h->kv_count * h->group, q = rows * heads * ev->shape.head_dim, lse = rows * heads,
                  outputs = h->kv_count * (ev->shape.head_dim + 1) * h->group * rows;
    LH_TRY(lh_device_alloc(lh_exec_device(&ev->exec), &held->q,
                           (q + lse + outputs) * (int64_t)sizeof(float) + rows * (int64_t)sizeof(int32_t),
                           LH_MEM_WORK));
    held->lse = held->q + q;
    held->outputs = held->lse + lse;
    held->positions = (int32_t *)(held->outputs + outputs);
    return LH_OK;
}

void lh_evict_use_saved_queries(const lh_evictor *ev, lh_reference_queries *r, const lh_saved_queries *held)
{
    r->q = held->q;
    r->lse = held->lse;
    r->outputs = held->outputs;
    r->positions = held->positions;
    r->lse_ld = ev->shape.heads.kv_count * ev->shape.heads.group;
    r->q_ld = r->lse_ld * ev->shape.head_dim;
}

lh_status lh_evict_save_queries(const lh_evictor *ev, lh_reference_queries *r, lh_saved_queries *held)
{
    const lh_reference_queries from = *r;
    const lh_exec *x = &ev->exec;
    LH_TRY(lh_evict_alloc_saved_queries(ev, r->rows, held));
    lh_evict_use_saved_queries(ev, r, held);
    copy_rows(x, held->q, from.q, (rows_of){r->rows, r->q_ld, from.q_ld});
    copy_rows(x, held->lse, from.lse, (rows_of){r->rows, r->lse_ld, from.lse_ld});
    lh_exec_copy(x, held->outputs, from.outputs, (char *)held->positions - (char *)held->outputs, LH_COPY_ON_DEVICE);
    lh_exec_copy(x, held->positions, from.positions, r->rows * (int64_t)sizeof *held->positions, LH_COPY_ON_DEVICE);
    return LH_OK;
}

int lh_evict_uses_outputs(const lh_evictor *ev)
{
    return lh_fits_values(&ev->policy.methods);
}

void lh_evict_fit(lh_evictor *ev, const lh_reference_queries *r, const lh_evict_kept *kept)
{
    lh_fit fit = fit_of(ev, r);
    fit.rows.kv = kept->entries;
    fit.offset = kept->offset;
    fit.len = kept->len;
    fit.before = kept->before;
    if (lh_exec_ok(&ev->exec)) lh_fit_entries(&ev->exec, &fit);
}

/* ---- the method ---- */

static int is_fitted(const lh_policy *policy)
{
    return kind_of(&policy->methods, LH_METHOD_fit) != FIT_NONE;
}

static int is_fitted_again(const lh_policy *policy)
{
    return kind_of(&policy->methods, LH_METHOD_refit) != FIT_NONE;
}

static int has_ridge(const lh_policy *policy)
{
    return has_values(kind_of(&policy->methods, LH_METHOD_fit));
}

static const lh_part parts[] = {
    {LH_PART_WORD(fit, fit_params, kind), .after = "head-budget", .used = lh_policy_may_refer,
     .needs = "a statistic other than position and last", .def = "none", .row.name = "fit", .row.choices = kinds,
     .meanings = meanings,
     .row.help = "What of the kept entries is fitted, so that rows after the prompt see in them what they saw in all."},
    {LH_PART_SHARE(fit, fit_params, ridge), .after = "head-budget", .used = has_ridge,
     .needs = "'--fit values' or both", .def = "0.1", .row.name = "ridge", .row.arg = "X",
     .row.help = "Strength that holds fitted values near the old ones, from 0 to 1."},
    {.row.name = NULL}};

const lh_method lh_method_fit = {.option = "--fit",
                                 .active = is_fitted,
                                 .parts = parts,
                                 .traits = LH_REFERENCES | LH_WHOLE_PROMPT | LH_AT_EVICTION,
                                 .check = lh_check_references};

/* ---- at every eviction ---- */

static lh_status check_refit(const lh_policy *policy)
{
    if (is_fitted(policy))
        LH_FAIL(LH_EUSAGE, "'--refit' fits at every eviction, the one at the end of the prompt included: leave '--fit' "
                           "out");
    return LH_OK;
}

static const lh_part refit_parts[] = {
    {LH_PART_WORD(refit, fit_params, kind), .after = "head-budget", .used = lh_policy_may_refer,
     .needs = "a statistic other than position and last", .def = "none", .row.name = "refit", .row.choices = kinds,
     .meanings = meanings,
     .row.help = "What of the kept entries is fitted at every eviction, so that queries which are drawn as 'longhaul "
                 "learn' has found them distributed see in them what they saw in all."},
    {.row.name = NULL}};

const lh_method lh_method_refit = {.option = "--refit",
                                   .active = is_fitted_again,
                                   .parts = refit_parts,
                                   .traits = LH_NEEDS_ROTATION | LH_NEEDS_SCORE_WEIGHTS | LH_REFITS,
                                   .check = check_refit};
