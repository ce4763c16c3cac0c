/* Scoring rows that see other weights than the model gives: sharpened by AhaKV's gain (--gain), and as if they also saw
 * the rows after them (--non-causal). */
#include <math.h>

#include "evict/evict_impl.h"

/* ---- gain ---- */

typedef struct gain_params {
    int on, floor; /* floor: a gain of at least 1 */
} gain_params;

static const gain_params *params_of(const lh_policy_methods *methods)
{
    return lh_params_of(methods, LH_METHOD_gain);
}

static int has_gain(const lh_policy *policy)
{
    return params_of(&policy->methods)->on;
}

float lh_step_gain(int64_t seen, int64_t kept)
{
    return seen > kept ? (float)sqrt(2.0 * log((double)seen / (double)kept)) : 1.0f;
}

static float gain_of(const lh_policy_numbers *p, int64_t seen)
{
    float gain = lh_step_gain(seen, p->budget);
    return params_of(&p->methods)->floor && gain < 1.0f ? 1.0f : gain;
}

static void put_gains(lh_evictor *ev, const lh_evict_job *job, lh_row_block *b)
{
    const lh_exec *x = &ev->exec;
    int64_t rows = b->rows.tokens;
    float *gains = NULL;
    (void)job;
    lh_exec_latch(x, lh_calloc(&gains, rows, sizeof *gains));
    for (int64_t r = 0; r < rows && gains; r++)
        gains[r] = gain_of(&ev->policy, (r < b->rows.first_rows ? r : b->rows.first + r) + 1);
    float *at = lh_scratch_floats(ev, rows);
    lh_exec_put(x, at, gains, rows * (int64_t)sizeof *gains);
    b->gains = at;
    lh_free(gains);
}

/* The gain is sqrt(2 ln(i / k)) (arXiv 2506.03762): below 1 for i < k * sqrt(e), and 0 at k. */
static lh_status warn(const lh_outlook *o, lh_buf *out)
{
    double ratio = (double)o->seen / (double)o->fixed.budget;
    if (params_of(&o->fixed.methods)->floor || ratio * ratio >= exp(1)) return LH_OK;
    return lh_buf_printf(out,
                         "the gain of the last row is %.2f: just above the budget of %lld entries it flattens the "
                         "attention that scores; '--gain-floor' keeps it at 1\n",
                         sqrt(2 * log(ratio)), (long long)o->fixed.budget);
}

static const lh_part gain_parts[] = {
    {LH_PART_SWITCH(gain, gain_params, on), .after = "rows", .used = lh_policy_attends, .needs = LH_ATTENTION_NEEDED,
     .row.name = "gain",
     .row.help = "Sharpen the attention that scores, more so for texts much longer than the budget (AhaKV)."},
    {LH_PART_SWITCH(gain, gain_params, floor), .after = "rows", .row.name = "gain-floor",
     .row.help = "A gain of at least 1, which never flattens."},
    {.row.name = NULL}};

static const lh_addition gain_addition = {.alter = put_gains};

const lh_method lh_method_gain = {.option = "--gain",
                                  .active = has_gain,
                                  .parts = gain_parts,
                                  .traits = LH_ALTERS_ROWS,
                                  .warn = warn,
                                  .addition = &gain_addition};

/* ---- later rows ---- */

typedef struct sight_params {
    int on;
} sight_params;

static int is_non_causal(const lh_policy *policy)
{
    const sight_params *p = lh_params_of(&policy->methods, LH_METHOD_non_causal);
    return p->on;
}

static int observes_again(const lh_policy *policy)
{
    return lh_policy_observes(policy) && !policy->score.running;
}

/* The last position that rows see. */
static void put_until(lh_evictor *ev, const lh_evict_job *job, lh_row_block *b)
{
    const lh_exec *x = &ev->exec;
    int64_t rows = b->rows.tokens;
    int32_t *until = NULL;
    lh_exec_latch(x, lh_calloc(&until, rows, sizeof *until));
    for (int64_t r = 0; r < rows && until; r++) until[r] = (int32_t)(job->seen - 1);
    int32_t *at = lh_scratch_alloc(x, rows * (int64_t)sizeof *until);
    lh_exec_put(x, at, until, rows * (int64_t)sizeof *until);
    b->until = at;
    lh_free(until);
}

static const lh_part sight_parts[] = {
    {LH_PART_SWITCH(non_causal, sight_params, on), .after = "rows", .used = observes_again,
     .needs = "rows that are observed again ('--window N' or '--proxies P%') and a statistic of rows ('--statistic "
              "sum' or mean, mas, count, rms, max, output-error)",
     .row.name = "non-causal", .row.help = "Rows that score see later rows, too."},
    {.row.name = NULL}};

static const lh_addition sight_addition = {.alter = put_until};

const lh_method lh_method_non_causal = {.option = "--non-causal",
                                        .active = is_non_causal,
                                        .parts = sight_parts,
                                        .traits = LH_ALTERS_ROWS,
                                        .addition = &sight_addition};
