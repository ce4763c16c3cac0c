/* Attention that columns receive from observed rows. An item of work is a KV head and a step of its entries, whose keys
 * are packed once and meet all rows; sums stay with the thread until the step is done. A block of rows holds whole
 * groups, so that the mean weight of a group is there before it is squared. */
#include "kernels/cpu/columns.h"
#include "kernels/cpu/single_row.h"

/* The sums that weights are added to, whether some entries are not seen by all rows, and whether they have biases; and
 * whether squares and maxima are those of each query head. Constants at each call. */
enum { ADD_EACH = 1, ADD_MORE = 2, ADD_MASKED = 4, ADD_BIASED = 8, ADD_APART = 16 };

/* The rows of a block, over a vector of entries from j on. */
VEC_FN void add_weights(const lh_stats_item *item, const int64_t range[2], int64_t j, const int kind)
{
    int64_t group = item->step.group;
    const float *s = item->step.s + j, *gain = item->rows->gain + range[0] * group,
                *minus_lse = item->rows->minus_lse + range[0] * group;
    const lh_visible_range *visible = item->stats->watch.visible;
    vf squares = vf_load(item->squares + j), counts = vf_load(item->counts + j), sum = vf_load(item->sums + j),
       largest = vf_load(item->largest + j);
    const vf bias = kind & ADD_BIASED ? step_bias(&item->step, j) : vf_zero();
    for (int64_t r = range[0]; r < range[1]; r++) {
        vf all = vf_zero();
        vm seen = kind & ADD_MASKED ? seen_by(item->step.positions + j, visible[r]) : vm_first(VL);
        for (int64_t i = 0; i < group; i++, s += STEP, gain++, minus_lse++) {
            vf below = vf_set1(*minus_lse);
            if (kind & ADD_BIASED) below = below + bias;
            vf weight = vf_exp_negative(vf_fma(vf_load(s), vf_set1(*gain), below));
            if (kind & ADD_EACH) {
                float *own = item->sums + i * STEP + j;
                if (kind & ADD_MASKED) weight = vf_where(seen, weight, vf_zero());
                vf_store(own, vf_load(own) + weight);
            }
            all = all + weight;
            if (!(kind & ADD_APART)) continue;
            if (kind & ADD_MASKED) weight = vf_where(seen, weight, vf_zero());
            squares = vf_fma(weight, weight, squares);
            largest = vf_max(weight, largest);
        }
        if (kind & ADD_MASKED) all = vf_where(seen, all, vf_zero());
        sum = sum + all;
        if (!(kind & ADD_MORE)) continue;
        if (!(kind & ADD_APART)) squares = vf_fma(all, all, squares);
        if (!(kind & ADD_APART)) largest = vf_max(all, largest);
        counts = counts + vf_where(vf_lt(vf_set1(item->rows->fair[r]), all), vf_set1(1.0f), vf_zero());
    }
    if (!(kind & ADD_EACH)) vf_store(item->sums + j, sum);
    if (!(kind & ADD_MORE)) return;
    vf_store(item->squares + j, squares);
    vf_store(item->largest + j, largest);
    vf_store(item->counts + j, counts);
}

#define ADD_BLOCK(name, kind)                                                      \
    static void name(const lh_stats_item *item, const int64_t range[2], int64_t n) \
    {                                                                              \
        for (int64_t j = 0; j < n; j += VL) add_weights(item, range, j, kind);     \
    }
ADD_BLOCK(add_means, 0)
ADD_BLOCK(add_heads, ADD_EACH)
ADD_BLOCK(add_means_more, ADD_MORE)
ADD_BLOCK(add_heads_more, ADD_EACH | ADD_MORE)
ADD_BLOCK(add_seen_means, ADD_MASKED)
ADD_BLOCK(add_seen_heads, ADD_EACH | ADD_MASKED)
ADD_BLOCK(add_seen_means_more, ADD_MORE | ADD_MASKED)
ADD_BLOCK(add_seen_heads_more, ADD_EACH | ADD_MORE | ADD_MASKED)
ADD_BLOCK(add_biased_means, ADD_MASKED | ADD_BIASED)
ADD_BLOCK(add_biased_heads, ADD_EACH | ADD_MASKED | ADD_BIASED)
ADD_BLOCK(add_biased_means_more, ADD_MORE | ADD_MASKED | ADD_BIASED)
ADD_BLOCK(add_biased_heads_more, ADD_EACH | ADD_MORE | ADD_MASKED | ADD_BIASED)
ADD_BLOCK(add_apart, ADD_MORE | ADD_APART)
ADD_BLOCK(add_seen_apart, ADD_MORE | ADD_MASKED | ADD_APART)
ADD_BLOCK(add_biased_apart, ADD_MORE | ADD_MASKED | ADD_BIASED | ADD_APART)

typedef void add_function(const lh_stats_item *item, const int64_t range[2], int64_t n);

/* By what must be masked: nothing, what is not seen, and with biases what is not seen whether there is any or not; and
 * by the sums that are wanted. */
static add_function *const add_kinds[3][4] = {
    {add_means, add_heads, add_means_more, add_heads_more},
    {add_seen_means, add_seen_heads, add_seen_means_more, add_seen_heads_more},
    {add_biased_means, add_biased_heads, add_biased_means_more, add_biased_heads_more}};
static add_function *const apart_kinds[3] = {add_apart, add_seen_apart, add_biased_apart};

static void add_block(const lh_stats_item *item, int64_t block, lh_seen seen)
{
    const lh_column_stats_args *a = item->stats->args;
    int64_t reach = seen == SEEN_ALL ? item->step.n : step_reach(&item->step, block);
    int64_t first = block * item->stats->watch.way->rows, tokens = step_logits(&item->step, block, reach);
    int masked = item->step.bias ? 2 : seen != SEEN_ALL;
    int wanted = (a->parts > 1 ? ADD_EACH : 0) | (wants_more(a) ? ADD_MORE : 0);
    add_function *add = a->each_head && wants_more(a) ? apart_kinds[masked] : add_kinds[masked][wanted];
    add(item, (const int64_t[]){first, first + tokens}, reach);
}

static void add_blocks(const lh_stats_item *item)
{
    memset(item->squares, 0, (size_t)sums_floats(item->stats->args) * sizeof *item->squares);
    for (int64_t b = 0; b < item->stats->watch.blocks; b++) {
        lh_seen seen = step_seen(&item->step, b);
        if (seen != SEEN_NONE) add_block(item, b, seen);
    }
}

static void stats_item(lh_stats_item *item, float *memory)
{
    const lh_column_stats_args *a = item->stats->args;
    step_begin(&item->step, sums_place(item, memory));
    if (!a->rows.logits.at || step_seen(&item->step, 0) != SEEN_ALL)
        add_blocks(item);
    else if (item->step.bias)
        take_row(item, &a->rows.logits, TAKE_BIASED_LOGITS);
    else
        take_row(item, &a->rows.logits, TAKE_LOGITS);
    give_all(item);
}

/* Block b of the rows of the n-th KV head. */
static void stats_rows(const lh_stats *stats, int64_t n, int64_t b)
{
    const lh_column_stats_args *a = stats->args;
    const lh_observed *o = &a->rows;
    const lh_stats_rows *rows = &stats->heads[n];
    int64_t i0, group, whole = stats->watch.way->rows;
    head_range(&o->map, stats->watch.first_head + n, &i0, &group);
    for (int64_t r = b * whole; r < lh_min_i64((b + 1) * whole, o->rows); r++) {
        rows->fair[r] = fair_of(stats, stats->watch.first_head + n, r);
        for (int64_t i = 0; i < group; i++) {
            float lse = a->lse[r * a->lse_ld + i0 + i];
            rows->gain[r * group + i] = row_gain(o, r);
            rows->minus_lse[r * group + i] = lse == -INFINITY ? -INFINITY : -lse;
        }
    }
}

/* By a team, or by one thread; own: floats of each. */
static void stats_team(const lh_stats *stats, float *memory, int64_t own)
{
    const lh_watch *watch = &stats->watch;
    const int64_t items = watch->heads * stats_steps(stats->args);
    float *mine = memory + omp_get_thread_num() * own;
#pragma omp for
    for (int64_t n = 0; n < watch->heads * watch->blocks; n++) {
        watch_pack(watch, n / watch->blocks, n % watch->blocks);
        stats_rows(stats, n / watch->blocks, n % watch->blocks);
    }
    watch->way->begin();
#pragma omp for schedule(dynamic, steps_at_once(items))
    for (int64_t n = 0; n < items; n++) {
        lh_stats_item item = {.stats = stats};
        if (stats_item_at(&item, n)) stats_item(&item, mine);
    }
    watch->way->end();
}

static lh_status single_row(lh_stream *stream, const lh_column_stats_args *a)
{
    lh_single_row l = {.stats.args = a};
    lh_watch *w = &l.stats.watch;
    char *memory = NULL;
    watch_open(w, &a->rows);
    const int64_t longest = watch_longest(w);
    l.spans = (longest + SINGLE_SPAN - 1) / SINGLE_SPAN;
    l.weights.ld = round_up(longest, 16);
    int64_t own = round_up(lh_max_i64(step_floats_of(w), sums_floats(a)), 16), shared = watch_bytes(w),
            placed = single_place(&l, NULL);
    LH_TRY(lh_stream_scratch(stream, &memory, shared + placed + omp_get_max_threads() * own * 4));
    watch_place(w, memory);
    single_place(&l, memory + shared);
    if (w->heads * l.spans > 1 && watch_work(w, longest) >= PARALLEL_FROM) {
#pragma omp parallel
        single_team(&l, (float *)(memory + shared + placed), own);
    } else {
        single_team(&l, (float *)(memory + shared + placed), own);
    }
    return LH_OK;
}

static lh_status op_column_stats(lh_stream *stream, const lh_column_stats_args *a)
{
    const lh_observed *o = &a->rows;
    lh_stats stats = {.args = a};
    lh_watch *watch = &stats.watch;
    int64_t group = o->map.group, rows = o->rows;
    char *memory = NULL;
    assert(rows <= 1 || (a->lse && !o->logits.at));
    assert(!a->each_head || (a->parts == 1 && !a->counts.at));
    if (o->map.heads == 0 || rows == 0 || a->cols == 0) return LH_OK;
    if (!a->lse) return single_row(stream, a);
    watch_open(watch, o);
    int64_t own = round_up(step_floats_of(watch) + sums_floats(a), 16);
    int64_t shared = watch_bytes(watch), listed = round_up(watch->heads * (int64_t)sizeof *stats.heads, 64);
    int64_t numbers = round_up(watch->heads * rows * (2 * group + 1), 16) * 4;
    LH_TRY(lh_stream_scratch(stream, &memory, shared + listed + numbers + omp_get_max_threads() * own * 4));
    watch_place(watch, memory);
    stats.heads = (lh_stats_rows *)(memory + shared);
    for (int64_t n = 0; n < watch->heads; n++) {
        float *at = (float *)(memory + shared + listed) + n * rows * (2 * group + 1);
        stats.heads[n] = (lh_stats_rows){.gain = at, .minus_lse = at + rows * group, .fair = at + 2 * rows * group};
    }
    float *each = (float *)(memory + shared + listed + numbers);
    if (watch->heads * stats_steps(a) > 1 && watch_work(watch, a->cols) >= PARALLEL_FROM) {
#pragma omp parallel
        stats_team(&stats, each, own);
    } else {
        stats_team(&stats, each, own);
    }
    return LH_OK;
}
