#include "evict/curve_room.h"

#include "evict/fit.h"

/* The arrays for `rows` rows and heads of `ld` slots, from `at` on (NULL: to know their bytes); returns their bytes. */
static int64_t place(const lh_evict_shape *shape, int64_t rows, int64_t ld, char *at, lh_curve_room *out)
{
    const int64_t heads = shape->heads.kv_count, dim = shape->head_dim, n = rows * shape->heads.group,
                  f32 = sizeof(float), i32 = sizeof(int32_t), i64 = sizeof(int64_t), block = LH_FIT_AT_ONCE;
    const lh_ragged kv = {.heads = 1, .head_dim = dim, .type = LH_BF16}; /* which needs most */
    const lh_fit fit = {.rows = {.kv = &kv, .map = {.group = shape->heads.group}, .rows = rows}, .order = shape->order};
    void **const arrays[] = {(void **)&out->counts,
                             (void **)&out->order,
                             (void **)&out->losses,
                             (void **)&out->energies,
                             (void **)&out->ranks,
                             (void **)&out->gains,
                             (void **)&out->sums,
                             &out->k,
                             &out->v,
                             (void **)&out->positions,
                             (void **)&out->bias,
                             (void **)&out->offset,
                             (void **)&out->len,
                             &out->work};
    const int64_t bytes[] = {2 * heads * i64,
                             2 * heads * ld * i32,
                             heads * LH_CURVE_POINTS * f32,
                             shape->heads.kv_heads * f32,
                             LH_CURVE_POINTS * f32,
                             heads * LH_CURVE_POINTS * f32,
                             LH_CURVE_POINTS * (dim + 1) * n * f32,
                             block * dim * f32,
                             block * dim * f32,
                             block * i32,
                             block * f32,
                             i64,
                             i64,
                             lh_fit_bytes(&fit)};
    int64_t end = 0, line = 64;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        *arrays[i] = at ? at + end : NULL;
        end += (bytes[i] + line - 1) / line * line;
    }
    return end;
}

void lh_curve_space(const lh_space_request *request, int64_t *bytes)
{
    const lh_evict_shape *shape = request->shape;
    lh_curve_room none;
    bytes[LH_SPACE_ENTRY_GAINS] = shape->heads.kv_count * request->need.ld * (int64_t)sizeof(float);
    const int64_t ld = request->need.ld, apart = lh_policy_references(request->policy, ld),
                  rows = apart ? apart : lh_min_i64(lh_policy_rows(request->policy, ld), lh_policy_reference_rows(ld));
    bytes[LH_SPACE_CURVES] = place(shape, rows, ld, NULL, &none);
}

lh_curve_room lh_curve_room_of(const lh_evictor *ev, int64_t rows)
{
    lh_curve_room room;
    place(&ev->shape, rows, ev->ld, ev->at[LH_SPACE_CURVES], &room);
    return room;
}
