/* Attention that columns receive. An item of work is a KV head and a tile of
 * KEYS columns: its keys are packed once and meet the rows of all query heads
 * of the group. */
#include "kernels/cpu/pack.h"
#include "kernels/cpu/softmax.h"

typedef struct lh_columns_item {
    const lh_column_sums_args *args;
    const float *q;                    /* of the item's KV head: [blocks][d][TILE_ROWS], row r *
                                          group + (head - i0) */
    float *k, *s, *sums;               /* this thread's: packed keys, [TILE_ROWS, KEYS] logits,
                                          [group, KEYS] sums */
    int32_t *positions;                /* [KEYS] */
    int64_t head, i0, group, first, n; /* first: slot */
} lh_columns_item;

/* One row's weights are added to the sums of its query head. */
static void add_row(const lh_columns_item *item, const float *s, int64_t r)
{
    const lh_column_sums_args *a = item->args;
    int64_t i = r % item->group, position = a->positions[r / item->group];
    int64_t from = a->logit.window > 0 ? position - a->logit.window : -1;
    float *sums = item->sums + i * KEYS, cap = a->logit.softcap;
    vf lse = vf_set1(a->lse[r / item->group * a->map.heads + item->i0 + i]);
    vi last = vi_set1((int32_t)position), before = vi_set1(from < -1 ? -1 : (int32_t)from);
    for (int64_t j = 0; j < item->n; j += VL) {
        vf x = vf_load(s + j);
        vi p = vi_load(item->positions + j);
        vm seen = vm_and(vi_gt(p, before), vm_not(vi_gt(p, last)));
        if (cap > 0) x = vf_set1(cap) * vf_tanh(x);
        vf weight = vf_exp(x - lse);
        vf_store(sums + j, vf_load(sums + j) + vf_where(seen, weight, vf_zero()));
    }
}

static void sum_item(const lh_columns_item *item)
{
    const lh_column_sums_args *a = item->args;
    const lh_ragged *kv = a->kv;
    int64_t d = kv->head_dim, rows = a->rows * item->group, at = kv->offset[item->head] + item->first;
    lh_columns keys = {.src = kv->k, .type = kv->type, .first = at * d, .ld = d, .count = item->n, .depth = d};
    for (int64_t j = 0; j < KEYS; j++)
        item->positions[j] = j < item->n ? (int32_t)entry_position(kv, item->head, item->first + j) : INT32_MAX;
    memset(item->sums, 0, (size_t)(item->group * KEYS) * sizeof *item->sums);
    pack_columns(item->k, &keys);
    for (int64_t row = 0; row < rows; row += TILE_ROWS) {
        int64_t n = rows - row < TILE_ROWS ? rows - row : TILE_ROWS;
        lh_tile tile = {.a = item->q + row * d,
                        .b = item->k,
                        .c = item->s,
                        .depth = d,
                        .cols = item->n,
                        .b_next = TILE_COLS * d,
                        .c_ld = KEYS,
                        .from_zero = 1};
        tile_strip(&tile, tile_packed, n, 1);
        for (int64_t r = 0; r < n; r++) add_row(item, item->s + r * KEYS, row + r);
    }
    for (int64_t i = 0; i < item->group; i++)
        memcpy(a->sums + (item->i0 + i) * a->ld + item->first - a->first, item->sums + i * KEYS,
               (size_t)item->n * sizeof *a->sums);
}

static void pack_queries(const lh_column_sums_args *a, int64_t head, float *q)
{
    int64_t d = a->kv->head_dim, i0, group;
    head_range(&a->map, head, &i0, &group);
    lh_rows rows = {.src = a->q,
                    .type = LH_F32,
                    .first = i0 * d,
                    .outer_ld = a->q_ld,
                    .inner = group,
                    .inner_ld = d,
                    .count = a->rows * group,
                    .depth = d,
                    .factor = query_factor(&a->logit)};
    for (int64_t b = 0; b * TILE_ROWS < rows.count; b++) pack_rows(q + b * TILE_ROWS * d, &rows, b);
}

static lh_status op_column_sums(lh_stream *stream, const lh_column_sums_args *a)
{
    lh_status st = LH_OK;
    int64_t d = a->kv->head_dim, tiles = (a->cols + KEYS - 1) / KEYS, heads;
    int64_t packed = round_up(a->rows * a->map.group, TILE_ROWS) * d;
    int64_t own = KEYS * (d + TILE_COLS + TILE_ROWS + a->map.group + 1);
    float *memory = NULL;
    if (a->map.heads == 0 || a->cols == 0) return LH_OK;
    heads = head_end(&a->map) - head_first(&a->map);
    LH_TRY(
        lh_stream_scratch(stream, &memory, (heads * packed + omp_get_max_threads() * own) * (int64_t)sizeof *memory));
#pragma omp parallel if (heads * tiles > 1 && a->rows * a->cols * a->map.heads >= PARALLEL_FROM / 32)
    {
        float *mine = memory + heads * packed + omp_get_thread_num() * own;
#pragma omp for
        for (int64_t h = 0; h < heads; h++) pack_queries(a, head_first(&a->map) + h, memory + h * packed);
#pragma omp for schedule(dynamic)
        for (int64_t n = 0; n < heads * tiles; n++) {
            lh_columns_item item = {
                .args = a, .head = head_first(&a->map) + n / tiles, .first = a->first + n % tiles * KEYS};
            int64_t end = a->first + a->cols < item.first + KEYS ? a->first + a->cols : item.first + KEYS;
            int64_t len = a->kv->len[item.head];
            head_range(&a->map, item.head, &item.i0, &item.group);
            item.n = (end < len ? end : len) - item.first;
            item.n = item.n < 0 ? 0 : item.n;
            item.q = memory + n / tiles * packed;
            item.k = mine;
            item.s = item.k + KEYS * d;
            item.sums = item.s + KEYS * TILE_ROWS;
            item.positions = (int32_t *)(item.sums + KEYS * a->map.group);
            sum_item(&item);
            for (int64_t i = item.i0; i < item.i0 + item.group; i++) {
                float *sums = a->sums + i * a->ld - a->first;
                for (int64_t j = item.first + item.n; j < end; j++) sums[j] = 0.0f;
            }
        }
    }
done:
    return st;
}
