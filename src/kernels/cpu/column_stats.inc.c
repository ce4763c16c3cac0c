/* Attention that columns receive from observed rows. A work item is a KV head and a step of its entries, with keys that
 * are packed once for all rows; sums stay with the thread until the step is done. A block of rows holds whole groups,
 * so that the mean weight of a group is known before it is squared. */
#include "kernels/cpu/observed.h"

/* Factors of the rows of a KV head. */
typedef struct lh_stats_rows {
    float *gain, *minus_lse; /* [rows * group]; minus_lse is -inf for a row that adds nothing */
    float *fair;             /* [rows]: sums of weights over the group above it are counted */
} lh_stats_rows;

typedef struct lh_stats {
    const lh_column_stats_args *args;
    lh_watch watch;
    lh_stats_rows *heads; /* [watch.heads] */
} lh_stats;

/* A step and its sums. */
typedef struct lh_stats_item {
    const lh_stats *stats;
    const lh_stats_rows *rows;
    lh_step step;
    float *squares, *largest, *counts, *sums; /* [STEP] each, [parts, STEP] */
} lh_stats_item;

/* Steps of the columns of a head. */
static inline int64_t stats_steps(const lh_column_stats_args *a)
{
    return (a->cols + STEP - 1) / STEP;
}

/* Workspace of an item's sums, in floats. */
static inline int64_t sums_floats(const lh_column_stats_args *a)
{
    return STEP * (a->parts + 3);
}

/* Places the sums in `memory`; returns the step's memory after them. */
static inline float *sums_place(lh_stats_item *item, float *memory)
{
    item->squares = memory;
    item->largest = item->squares + STEP;
    item->counts = item->largest + STEP;
    item->sums = item->counts + STEP;
    return memory + sums_floats(item->stats->args);
}

/* Returns 1 if squares, maxima or counts are wanted. */
static inline int wants_more(const lh_column_stats_args *a)
{
    return a->squares.at || a->largest.at || a->counts.at;
}

/* The n-th item of the operation; returns 0 if it has no entries. */
static inline int stats_item_at(lh_stats_item *item, int64_t n)
{
    const lh_stats *stats = item->stats;
    const lh_column_stats_args *a = stats->args;
    int64_t steps = stats_steps(a);
    lh_step *p = &item->step;
    item->rows = &stats->heads[n / steps];
    *p = (lh_step){
        .watch = &stats->watch, .head = stats->watch.first_head + n / steps, .first = a->first + n % steps * STEP};
    p->n = lh_min_i64(lh_min_i64(a->first + a->cols, a->rows.kv->len[p->head]) - p->first, STEP);
    head_range(&a->rows.map, p->head, &p->i0, &p->group);
    return p->n > 0;
}

/* For a single row that sees all entries of the step: from its known logits, with or without bias, or from its weights
 * up to a factor, which is its gain. The weights are the sums. The same bits as add_block's. */
typedef enum lh_taken { TAKE_LOGITS, TAKE_BIASED_LOGITS, TAKE_WEIGHTS } lh_taken;
VEC_FN void take_row(const lh_stats_item *item, const lh_row_logits *from, const lh_taken what)
{
    const lh_column_stats_args *a = item->stats->args;
    const lh_step *p = &item->step;
    const int each = a->parts > 1, more = wants_more(a);
    for (int64_t j = 0; j < p->n; j += VL) {
        const float *s = from->at + p->i0 * from->ld + p->first + j;
        vf all = vf_zero(), bias = what == TAKE_BIASED_LOGITS ? step_bias(p, j) : vf_zero(), squares = vf_zero(),
           largest = vf_zero();
        for (int64_t i = 0; i < p->group; i++, s += from->ld) {
            vf weight = vf_load_first(s, p->n - j), gain = vf_set1(item->rows->gain[i]);
            if (what == TAKE_WEIGHTS) {
                weight = weight * gain;
            } else {
                vf below = vf_set1(item->rows->minus_lse[i]);
                if (what == TAKE_BIASED_LOGITS) below = below + bias;
                weight = vf_exp_negative(vf_fma(weight, gain, below));
            }
            if (each) vf_store(item->sums + i * STEP + j, weight);
            all = all + weight;
            squares = vf_fma(weight, weight, squares);
            largest = vf_max(weight, largest);
        }
        if (!each) vf_store(item->sums + j, all);
        if (!more) continue;
        if (!a->each_head) squares = all * all, largest = all;
        vf_store(item->squares + j, squares);
        vf_store(item->largest + j, largest);
        vf_store(item->counts + j, vf_where(vf_lt(vf_set1(item->rows->fair[0]), all), vf_set1(1.0f), vf_zero()));
    }
}

/* y += factor * x for the entries of the step. */
static inline void give(const lh_stats_item *item, const lh_slot_floats *y, int64_t c, const float *x, float factor)
{
    const lh_step *p = &item->step;
    const int64_t n = p->n, step = y->step;
    float *at = lh_slot_at(y, p->head, p->first, c);
    for (int64_t j = 0; j < n; j++) at[j * step] += factor * x[j];
}

/* y = max(y, factor * x) for the entries of the step. */
static inline void lift(const lh_stats_item *item, const lh_slot_floats *y, const float *x, float factor)
{
    const lh_step *p = &item->step;
    float *at = lh_slot_at(y, p->head, p->first, 0);
    for (int64_t j = 0; j < p->n; j++) at[j * y->step] = fmaxf(at[j * y->step], factor * x[j]);
}

/* Adds the item's sums to the outputs. */
static inline void give_all(const lh_stats_item *item)
{
    const lh_column_stats_args *a = item->stats->args;
    const float share = 1.0f / (float)item->step.group, own = a->each_head ? 1.0f : share;
    for (int64_t c = 0; c < a->parts && a->sums.at; c++)
        give(item, &a->sums, c, item->sums + c * STEP, a->parts == 1 ? share : 1.0f);
    if (a->squares.at) give(item, &a->squares, 0, item->squares, own * own);
    if (a->largest.at) lift(item, &a->largest, item->largest, own);
    if (a->counts.at) give(item, &a->counts, 0, item->counts, 1.0f);
}

/* Number of entries of a head that a row sees. */
static inline int64_t count_seen(const lh_ragged *kv, int64_t head, lh_visible_range visible)
{
    int64_t len = kv->len[head];
    int32_t count = 0;
    if (!kv->positions) {
        int64_t seen = lh_min_i64(len, (int64_t)visible.last + 1) - ((int64_t)visible.before + 1);
        return seen < 0 ? 0 : seen;
    }
    for (const int32_t *p = kv->positions + kv->offset[head], *end = p + len; p < end; p++)
        count += *p > visible.before && *p <= visible.last;
    return count;
}

/* The bound above which a sum of weights over the group is counted. A row that sees a single entry gives it 1, which
 * must not count as above 1 / 1 by rounding. */
static inline float fair_of(const lh_stats *stats, int64_t head, int64_t r)
{
    const lh_column_stats_args *a = stats->args;
    int64_t seen = a->counts.at ? count_seen(a->rows.kv, head, stats->watch.visible[r]) : 0;
    return seen > 1 ? (float)a->rows.map.group / (float)seen : INFINITY;
}

/* ---- a single row with unknown normaliser: one exponential per entry ----
 *
 * Spans of entries of each head first leave the row's logits and the maxima of their lanes, then the exponentials
 * relative to the row maximum and their sum; the columns use these with the reciprocal of the total sum. Everything is
 * laid out by absolute slots. */
enum { SINGLE_SPAN = 16 * STEP };

typedef struct lh_single_row {
    lh_stats stats;
    int64_t spans;
    lh_row_logits weights; /* [map.heads, ld] in whole vectors: logits first, then weights */
    float (*maxima)[VL];   /* [map.heads, spans] */
    float *denominators;   /* [map.heads, spans] */
} lh_single_row;

/* Stores the row's logits with its gain, -inf for invisible entries and after the last one. */
static inline void single_step(const lh_single_row *l, const lh_step *p, int64_t span)
{
    const lh_observed *o = &l->stats.args->rows;
    const lh_row_logits *given = &o->logits, *to = &l->weights;
    const vf gain = vf_set1(row_gain(o, 0));
    for (int64_t i = 0; i < p->group; i++) {
        const float *s = given->at ? given->at + (p->i0 + i) * given->ld + p->first : p->s + i * STEP;
        float *y = to->at + (p->i0 + i) * to->ld + p->first, *lanes = l->maxima[(p->i0 + i) * l->spans + span];
        vf row_max = vf_load(lanes);
        for (int64_t j = 0; j < p->n; j += VL) {
            vm seen = seen_by(p->positions + j, l->stats.watch.visible[0]);
            vf logit = gain * vf_load_first(s + j, p->n - j), bias = p->bias ? step_bias(p, j) : vf_zero();
            vf x = vf_where(seen, logit + bias, vf_set1(-INFINITY));
            vf_store(y + j, x);
            row_max = vf_max(x, row_max);
        }
        vf_store(lanes, row_max);
    }
}

/* The logits of a span of the n-th KV head. */
static inline void single_logits(const lh_single_row *l, int64_t n, int64_t span, float *memory)
{
    const lh_watch *w = &l->stats.watch;
    const lh_observed *o = &l->stats.args->rows;
    lh_step p = {.watch = w, .head = w->first_head + n};
    int64_t end = lh_min_i64((span + 1) * SINGLE_SPAN, o->kv->len[p.head]);
    head_range(&o->map, p.head, &p.i0, &p.group);
    for (int64_t i = 0; i < p.group; i++) vf_store(l->maxima[(p.i0 + i) * l->spans + span], vf_set1(LOWEST));
    for (p.first = span * SINGLE_SPAN; p.first < end; p.first += STEP) {
        p.n = lh_min_i64(end - p.first, STEP);
        step_begin(&p, memory);
        if (!o->logits.at) step_logits(&p, 0, p.n);
        single_step(l, &p, span);
    }
}

/* The exponentials of a span of query head i. */
static inline void single_powers(const lh_single_row *l, int64_t i, int64_t span)
{
    const lh_observed *o = &l->stats.args->rows;
    int64_t len = o->kv->len[(o->map.first + i) / o->map.group], first = span * SINGLE_SPAN;
    int64_t n = lh_min_i64(round_up(len, VL) - first, SINGLE_SPAN);
    vf row_max = vf_set1(LOWEST);
    for (int64_t s = 0; s < l->spans; s++) row_max = vf_max(vf_load(l->maxima[i * l->spans + s]), row_max);
    l->denominators[i * l->spans + span] =
        n > 0 ? row_weigh(l->weights.at + i * l->weights.ld + first, n, n, vf_top(row_max), 0) : 0.0f;
}

/* The factors of the n-th KV head's rows. */
static inline void single_factors(const lh_single_row *l, int64_t n)
{
    const lh_stats_rows *rows = &l->stats.heads[n];
    int64_t head = l->stats.watch.first_head + n, i0, group;
    head_range(&l->stats.args->rows.map, head, &i0, &group);
    rows->fair[0] = fair_of(&l->stats, head, 0);
    for (int64_t i = 0; i < group; i++) {
        float denominator = 0.0f;
        for (int64_t s = 0; s < l->spans; s++) denominator += l->denominators[(i0 + i) * l->spans + s];
        rows->gain[i] = denominator == 0.0f ? 0.0f : 1.0f / denominator;
    }
}

/* Runs in a parallel region, or on one thread; own: floats of workspace per thread. */
static inline void single_team(const lh_single_row *l, float *memory, int64_t own)
{
    const lh_watch *w = &l->stats.watch;
    const int64_t items = w->heads * l->spans, rows = w->rows->map.heads * l->spans,
                  columns = w->heads * stats_steps(l->stats.args);
    float *mine = memory + omp_get_thread_num() * own;
#pragma omp for
    for (int64_t n = 0; n < w->heads; n++) watch_pack(w, n, 0);
    w->way->begin();
#pragma omp for schedule(dynamic)
    for (int64_t n = 0; n < items; n++) single_logits(l, n / l->spans, n % l->spans, mine);
    w->way->end();
#pragma omp for schedule(dynamic)
    for (int64_t n = 0; n < rows; n++) single_powers(l, n / l->spans, n % l->spans);
#pragma omp for
    for (int64_t n = 0; n < w->heads; n++) single_factors(l, n);
#pragma omp for schedule(dynamic, steps_at_once(columns))
    for (int64_t n = 0; n < columns; n++) {
        lh_stats_item item = {.stats = &l->stats};
        if (!stats_item_at(&item, n)) continue;
        sums_place(&item, mine);
        take_row(&item, &l->weights, TAKE_WEIGHTS);
        give_all(&item);
    }
}

/* Bytes of the shared workspace after the observation's; places it from `at` on, unless that is NULL. */
static inline int64_t single_place(lh_single_row *l, char *at)
{
    const lh_observed *o = &l->stats.args->rows;
    int64_t heads = l->stats.watch.heads, each = o->map.group + 1, rows = o->map.heads * l->spans;
    int64_t maxima = round_up(heads * (int64_t)sizeof *l->stats.heads, 64),
            weights = maxima + rows * (int64_t)sizeof *l->maxima,
            denominators = weights + o->map.heads * l->weights.ld * 4, numbers = denominators + rows * 4;
    if (!at) return round_up(numbers + heads * each * 4, 64);
    l->stats.heads = (lh_stats_rows *)at;
    l->maxima = (float(*)[VL])(at + maxima);
    l->weights.at = (float *)(at + weights);
    l->denominators = (float *)(at + denominators);
    for (int64_t n = 0; n < heads; n++) {
        float *row = (float *)(at + numbers) + n * each;
        l->stats.heads[n] = (lh_stats_rows){.gain = row, .fair = row + o->map.group};
    }
    return 0;
}

/* Variants of add_weights, constants at each call: the sums of single heads; squares, maxima and counts; entries that
 * some rows do not see; entries with biases; squares and maxima of each query head instead of the group's mean. */
enum { ADD_EACH = 1, ADD_MORE = 2, ADD_MASKED = 4, ADD_BIASED = 8, ADD_APART = 16 };

/* Adds the weights of the rows of a block, for a vector of entries from j on. */
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

/* By mask (none; invisible entries; biases, with masking in any case) and by the wanted sums. */
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

/* The factors of block b of the rows of the n-th KV head. */
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

/* Runs in a parallel region, or on one thread; own: floats of workspace per thread. */
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
