/* attend_decode and row_lse: rows that look at all entries. */
#include "kernels/cuda/scan_kernel.cuh"

typedef void (*scan_function)(lh_scan);
typedef struct scan_way {
    scan_function kernel;
    int64_t shared;
} scan_way;

template <typename T, int D, int HALVES, int VALUES>
static scan_way way_for(void)
{
    typedef scan_kind<T, D, HALVES, VALUES> K;
    return scan_way{scan_kernel<K>, scan_room<K>::BYTES};
}

template <typename T, int HALVES, int VALUES>
static scan_way way_of(int64_t dim)
{
    if (dim <= 64) return way_for<T, 64, HALVES, VALUES>();
    return dim <= 128 ? way_for<T, 128, HALVES, VALUES>() : way_for<T, 256, HALVES, VALUES>();
}

/* Scans of an f32 cache always have room for 16 rows, of which few models are in need. */
template <int VALUES>
static scan_way choose(const lh_scan *a)
{
    if (a->seqs[0].type == LH_F32) return way_of<float, 2, VALUES>(a->form.dim);
    if (a->tile <= 8) return way_of<__nv_bfloat16, 1, VALUES>(a->form.dim);
    return way_of<__nv_bfloat16, 2, VALUES>(a->form.dim);
}

/* Rows, tiles and form; seqs[0] is there. */
static lh_status shape_scan(lh_scan *a, const char *op)
{
    int64_t rows = a->rows * a->map.group;
    a->form = lh_form_of(&a->seqs[0]);
    a->first_head = a->map.first / a->map.group;
    a->heads = (a->map.first + a->map.heads - 1) / a->map.group + 1 - a->first_head;
    a->tile = rows < 16 ? (int)rows : 16;
    a->tiles = (int)((rows + a->tile - 1) / a->tile);
    if (a->form.dim > LH_SCAN_MOST_DIM)
        LH_FAIL(LH_EINTERNAL, "%s on a GPU: heads of %d dimensions, more than %d", op, a->form.dim, LH_SCAN_MOST_DIM);
    return LH_OK;
}

/* Memory for pieces of one launch; those behind it use it again. */
static lh_status open_scan(lh_stream *stream, lh_scan *a, int64_t seqs)
{
    int64_t units = (seqs < LH_SCAN_SEQS ? seqs : +LH_SCAN_SEQS) * a->heads * a->tiles,
            parts = units * a->tile * LH_SPLITS;
    char *memory = NULL;
    LH_TRY(lh_stream_scratch(stream, &memory,
                             parts * (int64_t)(sizeof(float2) + (a->o ? a->form.dim * sizeof(float) : 0))));
    LH_TRY(lh_stream_counters(stream, &a->arrived, units));
    a->part_o = (float *)memory;
    a->part = (float2 *)(memory + (a->o ? parts * a->form.dim * (int64_t)sizeof(float) : 0));
    return LH_OK;
}

static lh_status scan(lh_stream *stream, const char *op, const lh_scan *a, int64_t seqs)
{
    scan_way way = a->o ? choose<1>(a) : choose<0>(a);
    dim3 blocks((unsigned)(a->heads * a->tiles), (unsigned)seqs, LH_SPLITS);
    return lh_launch(stream, op, lh_shape{blocks, LH_SCAN_THREADS, way.shared}, way.kernel, *a);
}

/* The next sequences, as many as a launch has and as are of one type. */
static int64_t take_seqs(lh_scan *a, const lh_ragged *seqs, int64_t left)
{
    int64_t n = 0;
    a->form = lh_form_of(&seqs[0]);
    for (; n < left && n < LH_SCAN_SEQS && seqs[n].type == seqs[0].type; n++) {
        a->seqs[n] = seqs[n];
        a->form.wide &= lh_form_of(&seqs[n]).wide;
    }
    return n;
}

lh_status lh_cuda_attend_decode(lh_stream *stream, const lh_attend_decode_args *d)
{
    lh_scan a = {};
    if (d->batch == 0 || d->map.heads == 0 || d->seqs[0].head_dim == 0) return LH_OK;
    a.seqs[0] = d->seqs[0];
    a.o = d->o;
    a.map = d->map;
    a.logit = d->logit;
    a.rows = 1;
    a.q_ld = d->q_ld;
    a.o_ld = d->o_ld;
    LH_TRY(shape_scan(&a, "attend_decode"));
    LH_TRY(open_scan(stream, &a, d->batch));
    for (int64_t b = 0, n; b < d->batch; b += n) {
        n = take_seqs(&a, d->seqs + b, d->batch - b);
        a.o = d->o + b * d->o_ld;
        a.lse = d->lse ? d->lse + b * d->map.heads : NULL;
        a.q = d->q + b * d->q_ld;
        a.positions = d->positions + b;
        a.logits = lh_row_logits{d->logits.at ? d->logits.at + b * d->map.heads * d->logits.ld : NULL, d->logits.ld};
        LH_TRY(scan(stream, "attend_decode", &a, n));
    }
    return LH_OK;
}

/* Rows that a launch has at most, times the heads of a group: what bounds the memory for pieces. */
enum { SLAB = 512 };

lh_status lh_cuda_row_lse(lh_stream *stream, const lh_row_lse_args *args)
{
    const lh_observed *o = &args->rows;
    lh_scan a = {};
    int64_t slab = SLAB / o->map.group > 1 ? SLAB / o->map.group : 1;
    if (o->rows == 0 || o->map.heads == 0) return LH_OK;
    a.seqs[0] = *o->kv;
    a.map = o->map;
    a.logit = o->logit;
    a.q_ld = o->q_ld;
    for (int64_t r = 0; r < o->rows; r += slab) {
        a.rows = o->rows - r < slab ? o->rows - r : slab;
        a.lse = args->lse + r * o->map.heads;
        a.q = o->q + r * o->q_ld;
        a.positions = o->positions + r;
        a.until = o->until ? o->until + r : NULL;
        a.gains = o->gains ? o->gains + r : NULL;
        LH_TRY(shape_scan(&a, "row_lse"));
        if (r == 0) LH_TRY(open_scan(stream, &a, 1));
        LH_TRY(scan(stream, "row_lse", &a, 1));
    }
    return LH_OK;
}
