/* A prefill in flight to a file and from a file. Every number that is read is checked: the file may be damaged or made
 * by another program. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "cache/file_layout.h"
#include "cache/prefill_file.h"

static lh_status read_number(const lh_prefill_file *f, const char *name, int64_t min, int64_t max, int64_t *out)
{
    *out = -1;
    LH_TRY(lh_h5_get_i64(f->cache.h5, "/state", name, out));
    if (*out < min || *out > max)
        LH_FAIL(LH_EFILE, "'%s': '%s' of '/state' is missing or %lld, it must be between %lld and %lld",
                lh_h5_path(f->cache.h5), name, (long long)*out, (long long)min, (long long)max);
    return LH_OK;
}

lh_status lh_prefill_file_open(lh_prefill_file *f, const char *path)
{
    int64_t bytes = 0;
    const lh_cache_numbers *n = &f->cache.numbers;
    LH_TRY(lh_cache_file_open_as(&f->cache, path, &(lh_h5_header){.kind = "prefill", .schema = LH_CACHE_SCHEMA}));
    LH_TRY(read_number(f, "layers_done", 1, n->layers - 1, &f->state.layers_done));
    LH_TRY(read_number(f, "divided", 0, n->layers * n->kv_heads * n->prompt_tokens, &f->state.divided));
    if (n->seen != n->prompt_tokens || f->cache.extra.n != n->seen)
        LH_FAIL(LH_EFILE, "'%s' holds %lld tokens, of which %lld were seen: a prefill of %lld tokens holds those", path,
                (long long)f->cache.extra.n, (long long)n->seen, (long long)n->prompt_tokens);
    LH_TRY(lh_h5_get_text(f->cache.h5, "/identity", &f->identity, &bytes));
    f->state.identity = f->identity;
    return LH_OK;
}

void lh_prefill_file_close(lh_prefill_file *f)
{
    lh_cache_file_close(&f->cache);
    lh_free(f->identity);
    *f = (lh_prefill_file){0};
}

/* The part of an array of f32 that this rank reads, into device memory. */
typedef struct part {
    const char *name;
    lh_h5_shape shape; /* of all ranks; type i32: the bits of f32, where some numbers may be -inf */
    lh_h5_slab slab;
    float *to;
} part;

static lh_status check_numbers(const lh_prefill_file *f, const part *p, const float *values, int64_t n)
{
    if (p->shape.type == LH_F32) return lh_cache_check_finite(&f->cache, p->name, values, n, LH_NUMBER_LIMIT);
    for (int64_t i = 0; i < n; i++)
        if (values[i] != -INFINITY) LH_TRY(lh_cache_check_finite(&f->cache, p->name, values + i, 1, LH_NUMBER_LIMIT));
    return LH_OK;
}

/* A few rows of the first dimension at a time. */
static lh_status read_part(const lh_prefill_file *f, lh_stream *stream, const part *p)
{
    lh_status st = LH_OK;
    int64_t row = 1;
    lh_h5_array *array = NULL;
    float *values = NULL;
    for (int d = 1; d < p->shape.rank; d++) row *= p->slab.count[d];
    const int64_t rows = p->slab.count[0], chunk = LH_FILE_CHUNK_BYTES / (row * (int64_t)sizeof *values) + 1;
    LH_TRY_DONE(lh_cache_open_array(&f->cache, p->name, &p->shape, &array));
    LH_TRY_DONE(lh_calloc(&values, lh_min_i64(chunk, rows) * row, sizeof *values));
    for (int64_t at = 0; at < rows; at += chunk) {
        lh_h5_slab slab = p->slab;
        slab.at[0] += at;
        slab.count[0] = lh_min_i64(chunk, rows - at);
        LH_TRY_DONE(lh_h5_array_read(array, &slab, values));
        LH_TRY_DONE(check_numbers(f, p, values, slab.count[0] * row));
        LH_TRY_DONE(lh_stream_copy(stream, p->to + at * row, values, slab.count[0] * row * (int64_t)sizeof *values,
                                   LH_COPY_TO_DEVICE));
        LH_TRY_DONE(lh_stream_sync(stream));
    }
    LH_TRY_DONE(lh_h5_array_checked(array));
done:
    lh_h5_array_close(array);
    lh_free(values);
    return st;
}

/* Positions of rows: of the prompt, or after it. */
static lh_status read_positions(const lh_prefill_file *f, lh_stream *stream, const lh_held_rows *held)
{
    lh_status st = LH_OK;
    lh_layer_name name;
    lh_h5_shape shape;
    int32_t *positions = NULL;
    LH_TRY_DONE(lh_h5_get(f->cache.h5, lh_layer_array(&name, f->cache.layer, "held_positions"),
                          &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {held->rows}}, &shape, &positions));
    for (int64_t r = 0; r < held->rows; r++)
        if (positions[r] < 0)
            LH_FAIL_DONE(LH_EFILE, "'%s': row %lld of '%s' is at position %d", lh_h5_path(f->cache.h5), (long long)r,
                         name.text, positions[r]);
    LH_TRY_DONE(
        lh_stream_copy(stream, held->positions, positions, held->rows * (int64_t)sizeof *positions, LH_COPY_TO_DEVICE));
    LH_TRY_DONE(lh_stream_sync(stream));
done:
    lh_free(positions);
    return st;
}

static lh_status read_held(const lh_prefill_file *f, lh_stream *stream, const lh_heads *h, const lh_held_rows *held)
{
    lh_layer_name name;
    const int64_t dim = f->cache.numbers.head_dim, first = h->kv_first * h->group, grouped = h->kv_count * h->group,
                  n = held->rows * h->group, each = dim + 1;
    if (!held->rows) return LH_OK;
    LH_TRY(read_positions(f, stream, held));
    LH_TRY(read_part(f, stream,
                     &(part){.name = lh_layer_array(&name, f->cache.layer, "held_q"),
                             .shape = {.type = LH_F32, .rank = 3, .dims = {held->rows, h->heads, dim}},
                             .slab = {.at = {0, first, 0}, .count = {held->rows, grouped, dim}},
                             .to = held->q}));
    LH_TRY(read_part(f, stream,
                     &(part){.name = lh_layer_array(&name, f->cache.layer, "held_lse"),
                             .shape = {.type = LH_I32, .rank = 3, .dims = {held->rows, h->heads, 1}},
                             .slab = {.at = {0, first, 0}, .count = {held->rows, grouped, 1}},
                             .to = held->lse}));
    if (!held->outputs) return LH_OK;
    return read_part(f, stream,
                     &(part){.name = lh_layer_array(&name, f->cache.layer, "held_outputs"),
                             .shape = {.type = LH_F32, .rank = 2, .dims = {h->kv_heads * each, n}},
                             .slab = {.at = {h->kv_first * each, 0}, .count = {h->kv_count * each, n}},
                             .to = held->outputs});
}

lh_status lh_prefill_file_read(const lh_prefill_file *f, const lh_exec *exec, const lh_heads *heads,
                               lh_prefill_layer *layer)
{
    lh_layer_name name;
    layer->normless = -1;
    lh_layer_array(&name, f->cache.layer, NULL);
    LH_TRY(lh_h5_get_i64(f->cache.h5, name.text, "normless", &layer->normless));
    if (layer->normless < 0 || layer->normless > f->cache.numbers.seen)
        LH_FAIL(LH_EFILE, "'%s': 'normless' of '%s' is missing or %lld, it must be between 0 and %lld",
                lh_h5_path(f->cache.h5), name.text, (long long)layer->normless, (long long)f->cache.numbers.seen);
    return read_held(f, exec->stream, heads, &layer->held);
}

lh_status lh_prefill_file_read_hidden(const lh_prefill_file *f, const lh_exec *exec, float *hidden, int64_t rows,
                                      int64_t width)
{
    return read_part(f, exec->stream,
                     &(part){.name = "/hidden",
                             .shape = {.type = LH_F32, .rank = 2, .dims = {rows, width}},
                             .slab = {.count = {rows, width}},
                             .to = hidden});
}

/* ---- writing ---- */

/* Offsets of the outputs of this rank's KV heads, and the number of rows of each KV head. */
typedef struct output_heads {
    int64_t *offset; /* [kv_count] */
    int64_t *lens;   /* [kv_heads], of the same block */
} output_heads;

static lh_status count_outputs(output_heads *out, const lh_heads *h, int64_t head_dim)
{
    LH_TRY(lh_calloc(&out->offset, h->kv_count + h->kv_heads, sizeof *out->offset));
    out->lens = out->offset + h->kv_count;
    for (int64_t g = 0; g < h->kv_count; g++) out->offset[g] = g * (head_dim + 1);
    for (int64_t g = 0; g < h->kv_heads; g++) out->lens[g] = head_dim + 1;
    return LH_OK;
}

static lh_status put_prefill(lh_h5 *h5, const lh_prefill_contents *c)
{
    LH_TRY(lh_cache_put_state(h5, &c->cache));
    LH_TRY(lh_h5_put_i64(h5, "/state", "layers_done", c->state.layers_done));
    LH_TRY(lh_h5_put_i64(h5, "/state", "divided", c->state.divided));
    return lh_h5_put_text(h5, "/identity", c->state.identity, (int64_t)strlen(c->state.identity));
}

/* On rank 0. */
static lh_status put_layer(lh_layer_writer *w, int64_t layer, const lh_prefill_layer *of)
{
    lh_status st = LH_OK;
    lh_layer_name name;
    int32_t *positions = NULL;
    LH_TRY_DONE(lh_h5_put_i64(w->h5, lh_layer_array(&name, layer, NULL), "normless", of->normless));
    if (!of->held.rows) goto done;
    LH_TRY_DONE(lh_calloc(&positions, of->held.rows, sizeof *positions));
    LH_TRY_DONE(lh_stream_copy(w->exec->stream, positions, of->held.positions,
                               of->held.rows * (int64_t)sizeof *positions, LH_COPY_TO_HOST));
    LH_TRY_DONE(lh_stream_sync(w->exec->stream));
    LH_TRY_DONE(lh_h5_put(w->h5, lh_layer_array(&name, layer, "held_positions"),
                          &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {of->held.rows}}, positions));
done:
    lh_free(positions);
    return st;
}

/* Collective. */
static lh_status write_held(lh_layer_writer *w, int64_t layer, const lh_prefill_contents *c, const output_heads *heads)
{
    const lh_heads *h = w->heads;
    const lh_held_rows *held = &c->layers[layer].held;
    const int64_t dim = c->cache.numbers.head_dim, own = h->q_first - h->kv_first * h->group,
                  grouped = h->kv_count * h->group, n = held->rows * h->group;
    if (!held->rows) return LH_OK;
    LH_TRY(lh_write_rows(w, layer,
                         &(lh_row_array){.name = "held_q",
                                         .type = LH_F32,
                                         .at = held->q + own * dim,
                                         .rows = held->rows,
                                         .width = dim,
                                         .ld = grouped * dim}));
    LH_TRY(lh_write_rows(
        w, layer,
        &(lh_row_array){
            .name = "held_lse", .type = LH_I32, .at = held->lse + own, .rows = held->rows, .width = 1, .ld = grouped}));
    if (!held->outputs) return LH_OK;
    const lh_entry_array outputs = {.name = "held_outputs",
                                    .type = LH_F32,
                                    .rank = 2,
                                    .width = n,
                                    .bytes = n * (int64_t)sizeof *held->outputs,
                                    .at = held->outputs};
    return lh_write_heads(w, layer, &(lh_head_array){.array = outputs, .offset = heads->offset, .lens = heads->lens});
}

/* Collective. */
static lh_status write_layers(lh_layer_writer *w, const lh_prefill_contents *c, const output_heads *heads)
{
    for (int64_t l = 0; l < c->state.layers_done; l++) {
        LH_TRY(lh_write_layer(w, l, &c->cache.layers[l], c->cache.numbers.seen));
        if (w->h5 && w->local == LH_OK) w->local = put_layer(w, l, &c->layers[l]);
        LH_TRY(write_held(w, l, c, heads));
    }
    return LH_OK;
}

lh_status lh_prefill_write(const char *path, const lh_prefill_contents *c)
{
    lh_status st = LH_OK;
    lh_layer_writer w;
    output_heads heads = {0};
    const lh_exec *exec = c->cache.exec;
    st = lh_layer_writer_open(
        &w, exec, c->cache.heads, path,
        &(lh_h5_header){.kind = "prefill", .schema = LH_CACHE_SCHEMA_PLAIN, .run = c->cache.extra->run});
    if (st == LH_OK) st = count_outputs(&heads, c->cache.heads, c->cache.numbers.head_dim);
    if (st == LH_OK && w.h5) st = put_prefill(w.h5, c);
    LH_TRY_DONE(lh_comm_agree(exec->comm, st));
    LH_TRY_DONE(write_layers(&w, c, &heads));
    lh_write_matrix(&w, "/hidden", c->hidden, c->rows, c->width);
    LH_TRY_DONE(lh_layer_writer_commit(&w));
done:
    lh_layer_writer_close(&w);
    lh_free(heads.offset);
    return st;
}
