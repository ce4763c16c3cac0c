/* recorder_layer.c - records a layer while the prompt passes through it, and writes its segment at the end. */
#include <string.h>

#include "base/clock.h"
#include "exec/scratch.h"
#include "lab/trace/recorder_impl.h"

void lh_recorded_layer_clear(lh_recorded_layer *l)
{
    lh_free(l->keys);
    lh_free(l->values);
    lh_free(l->queries);
    lh_free(l->outputs);
    lh_free(l->lse);
    lh_free(l->key_squares);
    lh_free(l->value_squares);
    *l = (lh_recorded_layer){0};
}

static lh_status open_layer(lh_trace *t)
{
    const lh_heads *h = &t->shape.heads;
    lh_recorded_layer *l = &t->layer;
    int64_t entries = h->counted_count * t->prompt, width = h->q_count * t->shape.head_dim;
    lh_recorded_layer_clear(l);
    LH_TRY(lh_calloc(&l->queries, t->rows * width, lh_dtype_bytes(t->row_type)));
    LH_TRY(lh_calloc(&l->outputs, t->rows * width, lh_dtype_bytes(t->row_type)));
    LH_TRY(lh_calloc(&l->lse, t->rows * h->q_count, sizeof *l->lse));
    LH_TRY(lh_calloc(&l->key_squares, entries, sizeof *l->key_squares));
    LH_TRY(lh_calloc(&l->value_squares, entries, sizeof *l->value_squares));
    if (!t->level->entries) return LH_OK;
    LH_TRY(lh_calloc(&l->keys, entries * t->shape.head_dim, lh_dtype_bytes(t->shape.types.prompt)));
    LH_TRY(lh_calloc(&l->values, entries * t->shape.head_dim, lh_dtype_bytes(t->shape.types.prompt)));
    return LH_OK;
}

/* ---- rows ---- */

lh_status lh_record_fetch(lh_trace *t, const float *device, const lh_query_rows *rows, int64_t width, int64_t ld,
                          const float **out)
{
    const lh_exec *x = t->view.exec;
    int64_t bytes = ((rows->tokens - 1) * ld + width) * (int64_t)sizeof *device;
    *out = device; /* of a device that is the host */
    if (lh_device_kind_of(t->view.device) == LH_DEVICE_CPU) return LH_OK;
    if (t->staging.cap_bytes < bytes) {
        lh_buf_clear(&t->staging);
        LH_TRY(lh_calloc(&t->staging.data, bytes, 1));
        t->staging.cap_bytes = bytes;
    }
    LH_TRY(lh_stream_copy(x->stream, t->staging.data, device, bytes, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(x->stream));
    *out = (const float *)(const void *)t->staging.data;
    return LH_OK;
}

static float square_of(const void *entry, lh_dtype type, int64_t dim)
{
    double sum = 0;
    for (int64_t i = 0; i < dim; i++) {
        float x = type == LH_F32 ? ((const float *)entry)[i] : lh_bf16_to_f32(((const uint16_t *)entry)[i]);
        sum += (double)x * (double)x;
    }
    return (float)sum;
}

/* Keys or values of a chunk, x [tokens, kv_count, head_dim] with ld, into `to` (NULL: their squares alone). */
static lh_status take_entries(lh_trace *t, const lh_query_rows *rows, const float *device, void *to, float *squares)
{
    const lh_heads *h = &t->shape.heads;
    int64_t dim = t->shape.head_dim, size = lh_dtype_bytes(t->shape.types.prompt);
    char one[4 * 1024];
    const float *x;
    if (dim * size > (int64_t)sizeof one) LH_FAIL(LH_EINTERNAL, "heads of %lld dimensions", (long long)dim);
    LH_TRY(lh_record_fetch(t, device, rows, h->kv_count * dim, rows->q_ld, &x));
    for (int64_t r = 0; r < rows->tokens; r++)
        for (int64_t g = 0; g < h->counted_count; g++) {
            int64_t slot = g * t->prompt + rows->first + r;
            void *entry = to ? (char *)to + slot * dim * size : one;
            lh_dtype_convert(entry, t->shape.types.prompt,
                             x + r * rows->q_ld + (h->counted_first - h->kv_first + g) * dim, LH_F32, dim);
            squares[slot] = square_of(entry, t->shape.types.prompt, dim);
        }
    return LH_OK;
}

/* Copies the recorded rows among rows of `width` numbers with stride ld into `to`. */
typedef struct row_copy {
    const float *device;
    void *to;
    lh_dtype type;
    int64_t width, ld;
} row_copy;

static lh_status take_rows(lh_trace *t, const lh_query_rows *rows, const row_copy *c)
{
    const float *x;
    LH_TRY(lh_record_fetch(t, c->device, rows, c->width, c->ld, &x));
    for (int64_t n = t->layer.next_row; n < t->rows && t->positions[n] < rows->first + rows->tokens; n++)
        lh_dtype_convert((char *)c->to + n * c->width * lh_dtype_bytes(c->type), c->type,
                         x + (t->positions[n] - rows->first) * c->ld, LH_F32, c->width);
    return LH_OK;
}

static lh_status take_chunk(lh_trace *t, const lh_kv_rows *k)
{
    const lh_query_rows *rows = &k->queries;
    lh_recorded_layer *l = &t->layer;
    int64_t q = t->shape.heads.q_count, width = q * t->shape.head_dim, end = rows->first + rows->tokens;
    if (rows->first == 0) LH_TRY(open_layer(t));
    LH_TRY(take_entries(t, rows, k->keys, l->keys, l->key_squares));
    LH_TRY(take_entries(t, rows, k->values, l->values, l->value_squares));
    LH_TRY(take_rows(t, rows, &(row_copy){rows->q, l->queries, t->row_type, width, rows->q_ld}));
    LH_TRY(take_rows(t, rows, &(row_copy){k->outputs, l->outputs, t->row_type, width, width}));
    LH_TRY(take_rows(t, rows, &(row_copy){rows->lse, l->lse, LH_F32, q, q}));
    while (l->next_row < t->rows && t->positions[l->next_row] < end) l->next_row++;
    return LH_OK;
}

/* ---- statistics ---- */

/* Copies the job, with the recorder's own statistics of the entries, and allocates these. */
static lh_status with_stats(lh_trace *t, const lh_evict_job *job, lh_ragged *view, lh_evict_job *out)
{
    lh_recorded_stats *s = &t->stats;
    lh_device *device = t->view.device;
    int64_t slots = t->shape.heads.kv_count ? job->offset[t->shape.heads.kv_count - 1] + t->prompt : 0;
    if (slots > s->slots) {
        lh_device_free(device, s->device);
        s->device = NULL;
        s->slots = 0;
        LH_TRY(lh_device_alloc(device, &s->device, slots * s->at.count * (int64_t)sizeof(float), LH_MEM_WORK));
        s->slots = slots;
    }
    *view = *job->entries;
    view->stats = s->device;
    view->stat_count = s->at.count;
    *out = *job;
    out->entries = view;
    out->cols = t->prompt;
    out->normless = &s->normless;
    return LH_OK;
}

static lh_status count_rows(lh_trace *t, const lh_evict_job *job, const lh_query_rows *rows)
{
    lh_ragged view;
    lh_evict_job own;
    if (!t->stats.evictor) return LH_OK;
    LH_TRY(with_stats(t, job, &view, &own));
    if (rows->first == 0) {
        LH_TRY(lh_stream_zero(t->view.exec->stream, t->stats.device,
                              t->stats.slots * t->stats.at.count * (int64_t)sizeof(float)));
        lh_evict_begin_layer(t->stats.evictor, &own);
    }
    lh_evict_rows(t->stats.evictor, &own, rows);
    return LH_OK;
}

lh_status lh_record_prompt_rows(lh_trace *t, const lh_evict_job *job, const lh_kv_rows *rows)
{
    lh_status st = lh_exec_ok(t->view.exec) ? take_chunk(t, rows) : LH_OK;
    lh_status counted = count_rows(t, job, &rows->queries);
    return st == LH_OK ? counted : st;
}

/* ---- the end of a layer ---- */

lh_status lh_record_slab(lh_segment *segment, int64_t layer, const char *array, const lh_slab *slab)
{
    lh_slab named = *slab;
    if (lh_h5_shape_count(&slab->shape) == 0) { /* a rank may count no KV head */
        lh_free(slab->data);
        return LH_OK;
    }
    snprintf(named.name, sizeof named.name, "/layers/%03lld/%s", (long long)layer, array);
    return lh_segment_add(segment, &named);
}

/* One number of every entry, [counted heads, tokens], out of the statistics on the host. */
static lh_status add_stat(lh_trace *t, const lh_evict_job *job, lh_segment *segment, const float *stats,
                          const char *array, int64_t index)
{
    const lh_heads *h = &t->shape.heads;
    float *column = NULL;
    LH_TRY(lh_calloc(&column, h->counted_count * t->prompt, sizeof *column));
    for (int64_t g = 0; g < h->counted_count; g++)
        for (int64_t s = 0; s < t->prompt; s++)
            column[g * t->prompt + s] =
                stats[(job->offset[h->counted_first - h->kv_first + g] + s) * t->stats.at.count + index];
    return lh_record_slab(segment, job->layer.index, array,
                          &(lh_slab){.shape = {LH_F32, 2, {h->counted_count, t->prompt}},
                                     .at = {h->counted_first, 0},
                                     .chunk = {1, 0},
                                     .data = column});
}

static lh_status add_stats(lh_trace *t, const lh_evict_job *job, lh_segment *segment)
{
    lh_status st = LH_OK;
    const struct {
        const char *array;
        int64_t index;
    } arrays[] = {{"columns/sums", t->stats.at.sums},
                  {"columns/squares", t->stats.at.squares},
                  {"columns/counts", t->stats.at.counts},
                  {"norms/projected", t->stats.at.norms}};
    float *stats = NULL;
    int64_t n = t->stats.slots * t->stats.at.count;
    LH_TRY_DONE(lh_calloc(&stats, n, sizeof *stats));
    LH_TRY_DONE(
        lh_stream_copy(t->view.exec->stream, stats, t->stats.device, n * (int64_t)sizeof *stats, LH_COPY_TO_HOST));
    LH_TRY_DONE(lh_stream_sync(t->view.exec->stream));
    LH_TRY_DONE(lh_evict_check_rows(t->stats.evictor, job->layer.index));
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        LH_TRY_DONE(add_stat(t, job, segment, stats, arrays[i].array, arrays[i].index));
done:
    lh_free(stats);
    return st;
}

/* What take_chunk has gathered goes over to the segment. */
static lh_status add_rows(lh_trace *t, int64_t layer, lh_segment *segment)
{
    const lh_heads *h = &t->shape.heads;
    lh_recorded_layer *l = &t->layer;
    int64_t dim = t->shape.head_dim;
    const lh_h5_shape rows = {t->row_type, 3, {t->rows, h->q_count, dim}}, lse = {LH_F32, 2, {t->rows, h->q_count}},
                      entries = {t->shape.types.prompt, 3, {h->counted_count, t->prompt, dim}},
                      squares = {LH_F32, 2, {h->counted_count, t->prompt}};
    const struct {
        const char *array;
        void **data;
        lh_h5_shape shape;
        int64_t at[2], chunk[3];
    } arrays[] = {{"prefill/queries", &l->queries, rows, {0, h->q_first}, {0, 1, dim}},
                  {"prefill/outputs", &l->outputs, rows, {0, h->q_first}, {0, 1, dim}},
                  {"prefill/lse", (void **)(void *)&l->lse, lse, {0, h->q_first}, {0, 1}},
                  {"prefill/keys", &l->keys, entries, {h->counted_first, 0}, {1, 0, dim}},
                  {"prefill/values", &l->values, entries, {h->counted_first, 0}, {1, 0, dim}},
                  {"norms/key_squares", (void **)(void *)&l->key_squares, squares, {h->counted_first, 0}, {1, 0}},
                  {"norms/value_squares", (void **)(void *)&l->value_squares, squares, {h->counted_first, 0}, {1, 0}}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        void *data = *arrays[i].data;
        *arrays[i].data = NULL;
        if (!data) continue;
        lh_slab slab = {.shape = arrays[i].shape, .data = data};
        memcpy(slab.at, arrays[i].at, sizeof arrays[i].at);
        memcpy(slab.chunk, arrays[i].chunk, sizeof arrays[i].chunk);
        LH_TRY(lh_record_slab(segment, layer, arrays[i].array, &slab));
    }
    return LH_OK;
}

static lh_status add_projection(lh_trace *t, const lh_evict_job *job, lh_segment *segment)
{
    lh_scratch scratch = {0};
    lh_exec exec = *t->view.exec;
    exec.scratch = &scratch;
    const lh_matrix w = lh_evict_plain_projection(
        &exec, job->layer.projection,
        &(lh_evict_shape){.hidden = t->shape.hidden, .projection_bytes = t->shape.projection_bytes});
    int64_t width = t->shape.heads.q_count * t->shape.head_dim, size = w.format->bytes;
    char *all = NULL, *own = NULL;
    lh_status st = LH_OK;
    if (!lh_exec_ok(&exec)) LH_TRY_DONE(lh_exec_take(&exec));
    LH_TRY_DONE(lh_calloc(&all, t->shape.hidden * w.ld, size));
    LH_TRY_DONE(lh_calloc(&own, t->shape.hidden * width, size));
    LH_TRY_DONE(lh_stream_copy(t->view.exec->stream, all, w.data, ((t->shape.hidden - 1) * w.ld + width) * size,
                               LH_COPY_TO_HOST));
    LH_TRY_DONE(lh_stream_sync(t->view.exec->stream));
    for (int64_t i = 0; i < t->shape.hidden; i++)
        memcpy(own + i * width * size, all + i * w.ld * size, (size_t)(width * size));
    st = lh_record_slab(segment, job->layer.index, "output_projection",
                        &(lh_slab){.shape = {w.format->plain, 2, {t->shape.hidden, width}},
                                   .at = {0, t->shape.heads.q_first * t->shape.head_dim},
                                   .chunk = {0, t->shape.head_dim},
                                   .data = own});
    own = NULL;
done:
    lh_scratch_release(&exec, 0);
    lh_free(all);
    lh_free(own);
    return st;
}

/* Frequencies of the rotation, the factor of its cosines and sines, and the scaling of queries: by rank 0. */
static lh_status add_rotation(lh_trace *t, const lh_evict_job *job, lh_segment *segment)
{
    const lh_rotation *r = job->layer.rotation;
    float *frequencies = NULL, *scale = NULL, *scaling = NULL;
    if (lh_comm_rank(t->view.comm) != 0 || !r) return LH_OK;
    LH_TRY(lh_rotation_fetch(r, t->view.exec, &frequencies));
    LH_TRY(lh_record_slab(segment, job->layer.index, "rotation/frequencies",
                          &(lh_slab){.shape = {LH_F32, 1, {r->rotary / 2}}, .data = frequencies}));
    LH_TRY(lh_calloc(&scale, 1, sizeof *scale));
    *scale = r->scale;
    LH_TRY(lh_record_slab(segment, job->layer.index, "rotation/scale",
                          &(lh_slab){.shape = {LH_F32, 1, {1}}, .data = scale}));
    if (r->queries.positions == 0) return LH_OK;
    LH_TRY(lh_calloc(&scaling, 2, sizeof *scaling));
    scaling[0] = r->queries.beta;
    scaling[1] = (float)r->queries.positions;
    return lh_record_slab(segment, job->layer.index, "rotation/query_scaling",
                          &(lh_slab){.shape = {LH_F32, 1, {2}}, .data = scaling});
}

static lh_status put_segment(lh_trace *t, const lh_evict_job *job)
{
    lh_status st = LH_OK;
    int64_t layer = job->layer.index;
    lh_segment segment = {0};
    lh_segment_name(segment.name, LH_SEGMENT_OF_LAYER, layer, lh_comm_rank(t->view.comm));
    LH_TRY_DONE(add_rows(t, layer, &segment));
    if (t->stats.evictor) LH_TRY_DONE(add_stats(t, job, &segment));
    if (t->level->entries && job->layer.projection) LH_TRY_DONE(add_projection(t, job, &segment));
    LH_TRY_DONE(add_rotation(t, job, &segment));
    LH_TRY_DONE(lh_segment_writer_put(t->writer, &segment));
done:
    lh_segment_clear(&segment);
    return st;
}

lh_status lh_record_whole(lh_trace *t, const lh_evict_job *job)
{
    lh_ragged view;
    lh_evict_job own;
    if (t->stats.evictor) {
        LH_TRY(with_stats(t, job, &view, &own));
        t->stats.normless = t->prompt;
        lh_evict_end_layer(t->stats.evictor, &own);
        lh_evict_make_norms(t->stats.evictor, &own);
    }
    if (!lh_exec_ok(t->view.exec)) return LH_OK;
    LH_TRY(put_segment(t, job));
    t->seconds[job->layer.index] = (float)(lh_clock_s() - t->began_s);
    t->began_s = lh_clock_s();
    return LH_OK;
}
