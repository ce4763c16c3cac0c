/* A prefill in flight from a file. Everything is checked, for files come from elsewhere. */
#include <math.h>

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
    LH_TRY(lh_cache_file_open_as(&f->cache, path, &(lh_h5_header){.kind = "prefill", .schema = LH_PREFILL_SCHEMA}));
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

/* What this rank reads of an array of f32, into device memory; name: from the root. */
typedef struct part {
    const char *name;
    lh_h5_shape shape; /* of all ranks; type i32: the bits of f32, of which some may be -inf */
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

/* Some rows of the first dimension at a time. */
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

lh_status lh_prefill_file_read_hidden(const lh_prefill_file *f, const lh_exec *exec, float *hidden, int64_t width)
{
    const int64_t tokens = f->cache.numbers.prompt_tokens;
    return read_part(f, exec->stream,
                     &(part){.name = "/hidden",
                             .shape = {.type = LH_F32, .rank = 2, .dims = {tokens, width}},
                             .slab = {.count = {tokens, width}},
                             .to = hidden});
}
