/* Norms of values after the output projection: a matrix product of which only the sums of absolute values are kept.
 * The weights of a query head are packed PROJECTED_COLS columns at a time, meet a run of entries, and what comes out is
 * added up by lanes at once. A section of PROJECTED_SECTION columns has a sum of its own, whose
 * lanes take the columns in order; the sums of the sections are added in order too. So bits depend neither on the
 * entries beside one nor on whether a thread has all sections of a run of entries (many entries) or one (few). Measured
 * on Zen 4, one core, beside gemm of the same operations: 1.0 in f32, 0.9 to 1.0 in pairs of bf16. */
#include "kernels/cpu/pack.h"
#include "kernels/cpu/pairs.h"
#include "kernels/cpu/softmax.h"

/* Packing a column costs as much as some ten entries, so a run has many. */
enum { PROJECTED_COLS = 4 * TILE_COLS, PROJECTED_SECTION = 512, PROJECTED_ENTRIES = 512, PROJECTED_LEAST = 96 };

typedef struct lh_projected {
    const lh_projected_norms_args *args;
    int pairs;            /* products of bf16 pairs */
    int64_t rows, places; /* rows of a block; floats or words of a value */
    int64_t entries;      /* of a run, whole blocks */
    int64_t runs;         /* of a query head */
    int64_t sections;
} lh_projected;

/* Sections [begin, end) of a run of entries of a query head, and the memory for it. */
typedef struct lh_projected_item {
    const lh_projected *product;
    int64_t i, head, first, count; /* first: of the entries that are wanted */
    int64_t begin, end;
    float *v, *w, *c, *lanes; /* packed values and weights; [rows, PROJECTED_COLS] products; [entries, VL] */
    float *sums;              /* [sections, entries] of the run */
} lh_projected_item;

/* Floats of a thread, and of the sums of a run. */
static int64_t projected_floats(const lh_projected *p)
{
    return p->entries * (p->places + VL) + PROJECTED_COLS * (p->places + p->rows);
}

static int64_t projected_sums(const lh_projected *p)
{
    return p->sections * p->entries;
}

/* Entries of KV head h that are wanted. */
static int64_t projected_count(const lh_projected_norms_args *a, int64_t h)
{
    return lh_min_i64(a->kv->len[h], a->last);
}

static lh_projected_item projected_run(const lh_projected *p, int64_t run, float *memory, float *sums)
{
    const lh_projected_norms_args *a = p->args;
    lh_projected_item item = {.product = p, .i = run / p->runs, .end = p->sections, .sums = sums};
    item.head = (a->map.first + item.i) / a->map.group;
    item.first = run % p->runs * p->entries;
    item.count = lh_min_i64(projected_count(a, item.head) - item.first, p->entries);
    item.v = memory;
    item.w = item.v + p->entries * p->places;
    item.c = item.w + PROJECTED_COLS * p->places;
    item.lanes = item.c + PROJECTED_COLS * p->rows;
    return item;
}

static void projected_values(const lh_projected_item *item)
{
    const lh_projected *p = item->product;
    const lh_ragged *kv = p->args->kv;
    int64_t d = kv->head_dim, slot = lh_slot_of_last(kv->len[item->head], p->args->last) + item->first;
    lh_rows rows = {.src = kv->v,
                    .type = kv->type,
                    .first = (kv->offset[item->head] + slot) * d,
                    .outer_ld = d,
                    .inner = 1,
                    .count = item->count,
                    .depth = d,
                    .factor = 1.0f};
    for (int64_t b = 0; b * p->rows < item->count; b++) {
        if (p->pairs)
            pack_row_pairs(item->v + b * p->rows * p->places, &rows, b);
        else
            pack_rows(item->v + b * p->rows * p->places, &rows, b);
    }
}

/* Output columns [o, o + count). */
static void projected_weights(const lh_projected_item *item, int64_t o, int64_t count)
{
    const lh_projected_norms_args *a = item->product->args;
    lh_columns columns = {.src = a->w,
                          .type = a->type,
                          .first = o * a->w_ld + item->i * a->kv->head_dim,
                          .ld = a->w_ld,
                          .count = count,
                          .depth = a->kv->head_dim};
    if (item->product->pairs)
        pack_column_words(item->w, &columns, item->product->places);
    else
        pack_columns(item->w, &columns);
}

/* The lanes of all entries grow by the columns in item->w; those after `count` are zeros. */
static void projected_columns(const lh_projected_item *item, int64_t count)
{
    const lh_projected *p = item->product;
    lh_tile tile = {.b = item->w,
                    .c = item->c,
                    .depth = p->places,
                    .cols = count,
                    .b_next = TILE_COLS * p->places,
                    .c_ld = PROJECTED_COLS,
                    .from_zero = 1};
    for (int64_t first = 0; first < item->count; first += p->rows) {
        int64_t rows = lh_min_i64(item->count - first, p->rows);
        tile.a = item->v + first * p->places;
        if (p->pairs)
            pairs_logits(&tile, rows);
        else
            tile_strip(&tile, tile_packed, rows, 1);
        for (int64_t r = 0; r < rows; r++) {
            float *lanes = item->lanes + (first + r) * VL;
            vf sum = vf_load(lanes);
            for (int64_t j = 0; j < round_up(count, TILE_COLS); j += VL)
                sum = sum + vf_abs(vf_load(item->c + r * PROJECTED_COLS + j));
            vf_store(lanes, sum);
        }
    }
}

static void projected_section(const lh_projected_item *item, int64_t section)
{
    const lh_projected *p = item->product;
    int64_t end = lh_min_i64((section + 1) * PROJECTED_SECTION, p->args->out);
    float *sums = item->sums + section * p->entries;
    memset(item->lanes, 0, (size_t)(item->count * VL) * sizeof *item->lanes);
    for (int64_t o = section * PROJECTED_SECTION; o < end; o += PROJECTED_COLS) {
        int64_t count = lh_min_i64(PROJECTED_COLS, end - o);
        projected_weights(item, o, count);
        projected_columns(item, count);
    }
    for (int64_t r = 0; r < item->count; r++) sums[r] = vf_sum(vf_load(item->lanes + r * VL));
}

static void projected_work(const lh_projected_item *item)
{
    projected_values(item);
    if (item->product->pairs) pairs_begin();
    for (int64_t section = item->begin; section < item->end; section++) projected_section(item, section);
    if (item->product->pairs) pairs_end();
}

static void projected_finish(const lh_projected_item *item)
{
    const lh_projected *p = item->product;
    for (int64_t r = 0; r < item->count; r++) {
        double sum = 0.0;
        for (int64_t n = 0; n < p->sections; n++) sum += item->sums[n * p->entries + r];
        p->args->y[item->i * p->args->ld + item->first + r] = (float)sum;
    }
}

/* Divide the entries: into as many runs as leave every thread some, in whole blocks. Returns the entries of all
 * query heads. */
static int64_t projected_cut(lh_projected *p)
{
    enum { TURNS = 4 };
    const lh_projected_norms_args *a = p->args;
    int64_t all = 0, most = 0;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        int64_t i0, group, count = projected_count(a, h);
        head_range(&a->map, h, &i0, &group);
        all += group > 0 ? group * count : 0;
        most = count > most ? count : most;
    }
    int64_t share = lh_min_i64(all / (TURNS * omp_get_max_threads()), PROJECTED_ENTRIES);
    p->entries = round_up(lh_min_i64(most, share > PROJECTED_LEAST ? share : PROJECTED_LEAST), p->rows);
    p->runs = p->entries > 0 ? (most + p->entries - 1) / p->entries : 0;
    return all;
}

static lh_status op_projected_norms(lh_stream *stream, const lh_projected_norms_args *a)
{
    lh_projected p = {.args = a,
                      .pairs = BLOCK_IN_PAIRS && a->type == LH_BF16,
                      .sections = (a->out + PROJECTED_SECTION - 1) / PROJECTED_SECTION};
    float *memory = NULL;
    p.rows = p.pairs ? PAIR_ROWS : TILE_ROWS;
    p.places = p.pairs ? pair_words(a->kv->head_dim) : a->kv->head_dim;
    int64_t entries = projected_cut(&p), runs = a->map.heads * p.runs, threads = omp_get_max_threads();
    int64_t own = projected_floats(&p), sums = projected_sums(&p);
    int64_t cuts = runs < 2 * threads && p.sections > 1 ? p.sections : 1;
    int64_t floats = threads * own + (cuts > 1 ? runs : threads) * sums;
    LH_TRY(lh_stream_scratch(stream, &memory, floats * (int64_t)sizeof *memory));
#pragma omp parallel if (entries * a->out * a->kv->head_dim >= PARALLEL_FROM)
    {
        int64_t thread = omp_get_thread_num();
        float *mine = memory + thread * own, *all = memory + threads * own;
#pragma omp for schedule(dynamic)
        for (int64_t n = 0; n < runs * cuts; n++) {
            lh_projected_item item = projected_run(&p, n / cuts, mine, all + (cuts > 1 ? n / cuts : thread) * sums);
            if (cuts > 1) {
                item.begin = n % cuts;
                item.end = item.begin + 1;
            }
            if (item.count > 0) projected_work(&item);
            if (cuts == 1) projected_finish(&item);
        }
#pragma omp for
        for (int64_t run = 0; run < (cuts > 1 ? runs : 0); run++) {
            lh_projected_item item = projected_run(&p, run, mine, all + run * sums);
            projected_finish(&item);
        }
    }
    return LH_OK;
}
