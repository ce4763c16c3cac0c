/* Split-KV decode attention (flash-decoding), one query row per sequence, and log-sum-exps of query rows by the same
 * kernel without values (split_kv.cuh). */
#include "kernels/cuda/split_kv.cuh"

typedef struct split_way {
    void (*kernel)(lh_split_kv);
    int threads;
    int64_t (*bytes)(int stages, int tile, int64_t units); /* of shared memory */
} split_way;

template <typename T, int D, int HALVES, int VALUES>
static split_way way_for(void)
{
    typedef split_kind<T, D, HALVES, VALUES> K;
    return split_way{split_kernel<K>, K::THREADS, room_bytes<K>};
}

/* With values of more than 128 dimensions tiles have 8 rows (shape_split). */
template <typename T, int HALVES, int VALUES>
static split_way way_of(int64_t dim)
{
    if (dim <= 64) return way_for<T, 64, HALVES, VALUES>();
    if (dim <= 128) return way_for<T, 128, HALVES, VALUES>();
    return way_for < T, 256, VALUES ? 1 : HALVES, VALUES > ();
}

template <typename T, int VALUES>
static split_way way_of_tile(const lh_split_kv *a)
{
    return a->tile <= 8 ? way_of<T, 1, VALUES>(a->form.dim) : way_of<T, 2, VALUES>(a->form.dim);
}

/* Over an f32 cache tiles of any number of rows use the kernel of 16, which few models need. Log-sum-exps alone are not
 * computed over q8. */
template <int VALUES>
static split_way choose(const lh_split_kv *a)
{
    if (a->seqs[0].type == LH_F32) return way_of<float, 2, VALUES>(a->form.dim);
    if constexpr (VALUES)
        if (a->seqs[0].type == LH_Q8) return way_of_tile<int8_t, VALUES>(a);
    return way_of_tile<__nv_bfloat16, VALUES>(a);
}

/* Returns 1 if a block has room for the units of so many sequences, with so many stages. */
template <int VALUES>
static int fits(const lh_stream *stream, const lh_split_kv *a, int stages, int64_t seqs)
{
    const int64_t of_system = 2 << 10;
    return choose<VALUES>(a).bytes(stages, a->tile, seqs * a->heads * a->tiles) + of_system <= lh_cuda_shared(stream);
}

/* Sets tiles and form for a.rows rows; seqs[0] is set. Tiles have as many rows as a block has room for, up to 16.
 * Returns 0 if heads have too many dimensions, or a block has no room for the units of a sequence. */
template <int VALUES>
static int shape_split(const lh_stream *stream, lh_split_kv *a)
{
    const int64_t rows = a->rows * a->map.group, most = VALUES && a->seqs[0].head_dim > 128 ? 8 : 16;
    a->form = lh_form_of(&a->seqs[0]);
    a->first_head = a->map.first / a->map.group;
    a->heads = (a->map.first + a->map.heads - 1) / a->map.group + 1 - a->first_head;
    if (a->form.dim > LH_SPLIT_MAX_DIM) return 0;
    for (a->tile = (int)(rows < most ? rows : most);; a->tile = (a->tile + 1) / 2) {
        a->tiles = (int)((rows + a->tile - 1) / a->tile);
        if (fits<VALUES>(stream, a, 1, 1)) return 1;
        if (a->tile == 1) return 0;
    }
}

static lh_status refuse(const lh_split_kv *a, const char *op)
{
    LH_FAIL(LH_EINTERNAL,
            "%s on a GPU: %lld KV heads of %d dimensions; at most %d dimensions, and as many heads as a "
            "block has shared memory for",
            op, (long long)a->heads, a->form.dim, +LH_SPLIT_MAX_DIM);
}

/* Allocates memory for the parts of one launch; later launches use it again. */
static lh_status open_split(lh_stream *stream, lh_split_kv *a, int64_t seqs)
{
    int64_t units = (seqs < LH_SPLIT_SEQS ? seqs : +LH_SPLIT_SEQS) * a->heads * a->tiles,
            parts = a->is_fixed ? units * LH_SPLIT_FIXED : (units + LH_SPLIT_BLOCKS + 3) / 4 * 4, /* sums are aligned */
        sums = a->o ? parts * a->tile * a->form.dim * (int64_t)sizeof(float) : 0;
    char *memory = NULL;
    LH_TRY(lh_stream_scratch(stream, &memory, sums + parts * a->tile * (int64_t)sizeof(float2)));
    LH_TRY(lh_stream_counters(stream, &a->parts.arrived, units + 1));
    a->parts.readers = a->parts.arrived + units;
    a->parts.o = (float *)memory;
    a->parts.sums = (float2 *)(memory + sums);
    return LH_OK;
}

/* VALUES 0: only log-sum-exps are computed. One block a multiprocessor. */
template <int VALUES>
static lh_status launch_split(lh_stream *stream, const char *op, lh_split_kv *a, int64_t seqs)
{
    const split_way way = choose<VALUES>(a);
    const int64_t most = lh_cuda_processors(stream);
    a->units = (int)(seqs * a->heads * a->tiles);
    a->stages = fits<VALUES>(stream, a, 2, seqs) ? 2 : 1;
    const dim3 blocks((unsigned)(most < LH_SPLIT_BLOCKS ? most : +LH_SPLIT_BLOCKS));
    const lh_shape shape = {blocks, way.threads, way.bytes(a->stages, a->tile, a->units)};
    return lh_launch_early(stream, op, shape, way.kernel, *a);
}

/* Takes the sequences from b on that fit in a launch and have the same type. */
static int64_t take_seqs(const lh_stream *stream, lh_split_kv *a, const lh_attend_decode_args *d, int64_t b)
{
    const lh_ragged *seqs = d->seqs + b;
    int64_t n = 0, left = d->batch - b;
    a->form = lh_form_of(&seqs[0]);
    for (; n < left && n < LH_SPLIT_SEQS && seqs[n].type == seqs[0].type; n++) {
        if (n > 0 && !fits<1>(stream, a, 1, n + 1)) break;
        a->seqs[n] = seqs[n];
        a->logits[n] = d->logits ? d->logits[b + n] : lh_row_logits{};
        a->form.wide &= lh_form_of(&seqs[n]).wide;
    }
    return n;
}

lh_status lh_cuda_attend_decode(lh_stream *stream, const lh_attend_decode_args *d)
{
    lh_split_kv a = {};
    if (d->batch == 0 || d->map.heads == 0 || d->seqs[0].head_dim == 0) return LH_OK;
    a.map = d->map;
    a.logit = d->logit;
    a.rows = 1;
    a.q_ld = d->q_ld;
    a.o_ld = d->o_ld;
    a.fresh = (int)d->fresh;
    a.is_fixed = d->order == LH_ORDER_FIXED;
    for (int64_t b = 0, n; b < d->batch; b += n) {
        a.seqs[0] = d->seqs[b];
        a.o = d->o + b * d->o_ld;
        if (!shape_split<1>(stream, &a)) return refuse(&a, "attend_decode");
        LH_TRY(open_split(stream, &a, d->batch - b));
        n = take_seqs(stream, &a, d, b);
        a.o_bf16 = d->o_bf16 ? (__nv_bfloat16 *)d->o_bf16 + b * d->o_ld : NULL;
        a.lse = d->lse ? d->lse + b * d->map.heads : NULL;
        a.q = d->q + b * d->q_ld;
        a.positions = d->positions + b;
        LH_TRY(launch_split<1>(stream, "attend_decode", &a, n));
    }
    return LH_OK;
}

/* ---- row_lse ---- */

/* Maximum rows of a launch, times the heads of a group: bounds the memory for splits. Fewer where there are many KV
 * heads. */
enum { SLAB = 256 };

lh_status lh_cuda_row_lse(lh_stream *stream, const lh_row_lse_args *args)
{
    const lh_observed *o = &args->rows;
    lh_split_kv a = {};
    int64_t slab = SLAB / o->map.group > 1 ? SLAB / o->map.group : 1;
    if (o->rows == 0 || o->map.heads == 0) return LH_OK;
    a.seqs[0] = *o->kv;
    a.map = o->map;
    a.logit = o->logit;
    a.q_ld = o->q_ld;
    a.is_fixed = 1;
    for (a.rows = slab; !shape_split<0>(stream, &a) && slab > 1; a.rows = slab) slab /= 2;
    for (int64_t r = 0; r < o->rows; r += slab) {
        a.rows = o->rows - r < slab ? o->rows - r : slab;
        a.lse = args->lse + r * o->map.heads;
        a.q = o->q + r * o->q_ld;
        a.positions = o->positions + r;
        a.until = o->until ? o->until + r : NULL;
        a.gains = o->gains ? o->gains + r : NULL;
        if (!shape_split<0>(stream, &a)) return refuse(&a, "row_lse");
        if (r == 0) LH_TRY(open_split(stream, &a, 1));
        LH_TRY(launch_split<0>(stream, "row_lse", &a, 1));
    }
    return LH_OK;
}
