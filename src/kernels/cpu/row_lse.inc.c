/* Log-sum-exp of observed rows. A work item is a KV head and SPAN of its entries; every row keeps its maximum and its
 * denominator lane by lane, and spans are combined in their order. Rows are processed in slabs of SLAB, which bounds
 * the memory. Every step of a row's arithmetic is laid out by absolute slots. */
#include "kernels/cpu/observed.h"

enum { SPAN = 4 * STEP, SLAB = 128 };

/* Row maximum and denominator, for each lane and for all lanes. */
typedef struct lh_lanes {
    float row_max[VL], denominator[VL];
} lh_lanes;
typedef struct lh_lse_part {
    float row_max, denominator;
} lh_lse_part;

typedef struct lh_slab {
    const lh_observed *rows;
    lh_watch watch;
    int64_t spans;
    lh_lse_part *parts; /* [heads, spans, rows * group] */
    float *lse;         /* [rows, map.heads] */
} lh_slab;

static lh_lse_part *parts_of(const lh_slab *slab, int64_t n, int64_t span)
{
    return slab->parts + (n * slab->spans + span) * slab->rows->rows * slab->rows->map.group;
}

/* Variants of add_logits besides the gain, constants at each call. */
enum { LSE_MASKED = 1, LSE_BIASED = 2 };

/* Adds the logits of one row at a step. */
VEC_FN void add_logits(const lh_step *p, float *s, int64_t r, lh_lanes *lanes, const int kind)
{
    vf gain = vf_set1(row_gain(p->watch->rows, r)), before = vf_load(lanes->row_max), row_max = before, denominator;
    for (int64_t j = 0; j < p->n; j += VL) {
        vf x = gain * vf_load(s + j);
        if (kind & LSE_BIASED) x = x + step_bias(p, j);
        if (kind & LSE_MASKED) x = vf_where(seen_by(p->positions + j, p->watch->visible[r]), x, vf_set1(-INFINITY));
        vf_store(s + j, x);
        row_max = vf_max(x, row_max);
    }
    denominator = vf_load(lanes->denominator) * vf_exp_negative(before - row_max);
    for (int64_t j = 0; j < p->n; j += VL) denominator = denominator + vf_exp_negative(vf_load(s + j) - row_max);
    vf_store(lanes->row_max, row_max);
    vf_store(lanes->denominator, denominator);
}

/* Adds the rows of a block at a step; the vector is masked after the last entry of a head. */
static void add_rows_of(const lh_step *p, int64_t block, lh_seen seen, lh_lanes *lanes)
{
    int64_t first = block * p->watch->way->rows, tokens = step_logits(p, block, p->n);
    const int masked = seen != SEEN_ALL || p->n % VL != 0;
    for (int64_t row = 0; row < tokens * p->group; row++) {
        int64_t r = first + row / p->group;
        lh_lanes *own = &lanes[first * p->group + row];
        float *s = p->s + row * STEP;
        if (p->bias)
            add_logits(p, s, r, own, LSE_MASKED | LSE_BIASED);
        else if (masked)
            add_logits(p, s, r, own, LSE_MASKED);
        else
            add_logits(p, s, r, own, 0);
    }
}

static void lse_item(const lh_slab *slab, int64_t n, int64_t span, float *memory)
{
    const lh_watch *w = &slab->watch;
    const lh_observed *o = slab->rows;
    lh_lanes *lanes = (lh_lanes *)memory;
    lh_step p = {.watch = w, .head = w->first_head + n};
    lh_lse_part *parts = parts_of(slab, n, span);
    int64_t end = lh_min_i64((span + 1) * SPAN, o->kv->len[p.head]);
    head_range(&o->map, p.head, &p.i0, &p.group);
    for (int64_t row = 0; row < o->rows * p.group; row++) {
        vf_store(lanes[row].row_max, vf_set1(LOWEST));
        vf_store(lanes[row].denominator, vf_zero());
    }
    for (p.first = span * SPAN; p.first < end; p.first += STEP) {
        p.n = lh_min_i64(end - p.first, STEP);
        step_begin(&p, (float *)(lanes + o->rows * o->map.group));
        for (int64_t b = 0; b < w->blocks; b++) {
            lh_seen seen = step_seen(&p, b);
            if (seen != SEEN_NONE) add_rows_of(&p, b, seen, lanes);
        }
    }
    for (int64_t row = 0; row < o->rows * p.group; row++) {
        vf row_maxima = vf_load(lanes[row].row_max);
        float row_max = vf_top(row_maxima);
        vf shares = vf_exp_negative(row_maxima - vf_set1(row_max));
        parts[row] = (lh_lse_part){.row_max = row_max, .denominator = vf_sum(shares * vf_load(lanes[row].denominator))};
    }
}

/* Combines row r of all query heads of the n-th KV head. */
static void join_spans(const lh_slab *slab, int64_t n, int64_t r)
{
    const lh_observed *o = slab->rows;
    int64_t i0, group;
    head_range(&o->map, slab->watch.first_head + n, &i0, &group);
    for (int64_t i = 0; i < group; i++) {
        float row_max = LOWEST, denominator = 0.0f;
        for (int64_t span = 0; span < slab->spans; span++)
            row_max = fmaxf(row_max, parts_of(slab, n, span)[r * group + i].row_max);
        for (int64_t span = 0; span < slab->spans; span++) {
            lh_lse_part part = parts_of(slab, n, span)[r * group + i];
            denominator += part.denominator * expf(part.row_max - row_max);
        }
        slab->lse[r * o->map.heads + i0 + i] = denominator == 0 ? -INFINITY : row_max + logf(denominator);
    }
}

/* Runs in a parallel region, or on one thread; own: bytes of workspace per thread. */
static void lse_team(const lh_slab *slab, char *memory, int64_t own)
{
    const lh_watch *w = &slab->watch;
    const int64_t rows = slab->rows->rows, items = w->heads * slab->spans;
    float *mine = (float *)(memory + omp_get_thread_num() * own);
#pragma omp for
    for (int64_t n = 0; n < w->heads * w->blocks; n++) watch_pack(w, n / w->blocks, n % w->blocks);
    w->way->begin();
#pragma omp for schedule(dynamic, steps_at_once(items))
    for (int64_t n = 0; n < items; n++) lse_item(slab, n / slab->spans, n % slab->spans, mine);
    w->way->end();
#pragma omp for
    for (int64_t n = 0; n < w->heads * rows; n++) join_spans(slab, n / rows, n % rows);
}

static lh_status run_slab(lh_stream *stream, lh_slab *slab)
{
    const lh_observed *o = slab->rows;
    lh_watch *w = &slab->watch;
    int64_t rows = o->rows * o->map.group;
    char *memory = NULL;
    watch_open(w, o);
    const int64_t longest = watch_longest(w);
    slab->spans = (longest + SPAN - 1) / SPAN;
    int64_t shared = watch_bytes(w), parts = round_up(w->heads * slab->spans * rows * (int64_t)sizeof *slab->parts, 64);
    int64_t own = round_up(rows * (int64_t)sizeof(lh_lanes) + step_floats_of(w) * (int64_t)sizeof(float), 64);
    LH_TRY(lh_stream_scratch(stream, &memory, shared + parts + omp_get_max_threads() * own));
    watch_place(w, memory);
    slab->parts = (lh_lse_part *)(memory + shared);
    if (w->heads * slab->spans > 1 && watch_work(w, longest) >= PARALLEL_FROM) {
#pragma omp parallel
        lse_team(slab, memory + shared + parts, own);
    } else {
        lse_team(slab, memory + shared + parts, own);
    }
    return LH_OK;
}

static lh_status op_row_lse(lh_stream *stream, const lh_row_lse_args *a)
{
    assert(!a->rows.logits.at);
    if (a->rows.map.heads == 0) return LH_OK;
    for (int64_t r = 0; r < a->rows.rows; r += SLAB) {
        lh_observed rows = a->rows;
        rows.rows = lh_min_i64(a->rows.rows - r, SLAB);
        rows.q += r * rows.q_ld;
        rows.positions += r;
        rows.until = rows.until ? rows.until + r : NULL;
        rows.gains = rows.gains ? rows.gains + r : NULL;
        LH_TRY(run_slab(stream, &(lh_slab){.rows = &rows, .lse = a->lse + r * rows.map.heads}));
    }
    return LH_OK;
}
