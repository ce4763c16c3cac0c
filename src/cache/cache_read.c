/* A cache from a file: every rank opens the file and reads its own heads. Every number is checked: the file may be
 * damaged or made by another program. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "cache/file_layout.h"
#include "cache/keep_sets.h"

static const int64_t max_budget = INT64_C(1) << 40; /* the limit of the option */

static lh_status read_state(lh_cache_file *f)
{
    lh_status st = LH_OK;
    char *model = NULL;
    int64_t seed = -1;
    if (!lh_h5_has(f->h5, "/state")) LH_FAIL(LH_EFILE, "'%s' has no group '/state'", lh_h5_path(f->h5));
    for (int i = 0; i < LH_CACHE_NUMBERS; i++) {
        int64_t *out = (int64_t *)((char *)&f->numbers + lh_cache_number_list[i].at);
        *out = -1;
        LH_TRY(lh_h5_get_i64(f->h5, "/state", lh_cache_number_list[i].name, out));
        if (*out < lh_cache_number_list[i].min || *out > lh_cache_number_list[i].max)
            LH_FAIL(LH_EFILE, "'%s': '%s' of '/state' is missing or %lld, it must be between %lld and %lld",
                    lh_h5_path(f->h5), lh_cache_number_list[i].name, (long long)*out,
                    (long long)lh_cache_number_list[i].min, (long long)lh_cache_number_list[i].max);
    }
    LH_TRY(lh_h5_get_i64(f->h5, "/state", "seed", &seed));
    f->extra.seed = (uint64_t)seed;
    LH_TRY(lh_h5_get_i64(f->h5, "/state", "run_tokens", &f->extra.run_tokens));
    LH_TRY(lh_h5_get_i64(f->h5, "/state", "question_tokens", &f->numbers.question));
    LH_TRY_DONE(lh_h5_get_string(f->h5, "/state", "model", &model));
    if (!model || sscanf(model, "%16" SCNx64, &f->extra.model) != 1)
        LH_FAIL_DONE(LH_EFILE, "'%s' does not say which model it belongs to", lh_h5_path(f->h5));
done:
    lh_free(model);
    return st;
}

lh_status lh_cache_check_finite(const lh_cache_file *f, const char *said, const float *values, int64_t n, int limit)
{
    const float below = ldexpf(1.0f, limit);
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(values[i]) < below))
            LH_FAIL(LH_EFILE, "'%s': '%s' holds a value that is not finite or not below 2^%d", lh_h5_path(f->h5), said,
                    limit);
    return LH_OK;
}

lh_status lh_cache_file_open_as(lh_cache_file *f, const char *path, const lh_h5_header *want)
{
    lh_h5_shape shape;
    LH_TRY(lh_h5_open(&f->h5, path, want));
    LH_TRY(lh_h5_get_text(f->h5, "/policy", &f->policy, &f->policy_bytes));
    LH_TRY(read_state(f));
    LH_TRY(lh_h5_get(f->h5, "/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {-1}}, &shape, &f->tokens));
    f->extra.n = shape.dims[0];
    if (f->extra.n < f->numbers.seen)
        LH_FAIL(LH_EFILE, "'%s' holds %lld tokens and says that %lld were seen", path, (long long)f->extra.n,
                (long long)f->numbers.seen);
    for (int64_t t = 0; t < f->extra.n; t++)
        if (f->tokens[t] < 0) LH_FAIL(LH_EFILE, "'%s': token %lld is %d", path, (long long)t, f->tokens[t]);
    f->extra.tokens = f->tokens;
    return LH_OK;
}

lh_status lh_cache_file_open(lh_cache_file *f, const char *path)
{
    lh_h5_shape shape;
    LH_TRY(lh_cache_file_open_as(f, path, &(lh_h5_header){.kind = "cache", .schema = LH_CACHE_SCHEMA}));
    LH_TRY(lh_h5_get(f->h5, "/logits", &(lh_h5_shape){.type = LH_F32, .rank = 1, .dims = {-1}}, &shape, &f->logits));
    f->extra.vocab = shape.dims[0];
    LH_TRY(lh_cache_check_finite(f, "/logits", f->logits, f->extra.vocab, LH_NUMBER_LIMIT));
    f->extra.logits = f->logits;
    return LH_OK;
}

lh_status lh_cache_read_chat(const char *path, char **out)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    int64_t bytes = 0;
    *out = NULL;
    LH_TRY_DONE(lh_h5_open(&h5, path, &(lh_h5_header){.kind = "cache", .schema = LH_CACHE_SCHEMA}));
    if (lh_h5_has(h5, "/chat")) LH_TRY_DONE(lh_h5_get_text(h5, "/chat", out, &bytes));
done:
    lh_h5_close(h5);
    return st;
}

static void close_layer(lh_cache_file *f)
{
    lh_free(f->offsets);
    f->offsets = NULL;
    for (int i = 0; i < LH_ENTRY_ARRAYS; i++) {
        lh_h5_array_close(f->arrays[i]);
        f->arrays[i] = NULL;
    }
}

void lh_cache_file_close(lh_cache_file *f)
{
    close_layer(f);
    lh_h5_close(f->h5);
    lh_free(f->policy);
    lh_free(f->tokens);
    lh_free(f->logits);
    *f = (lh_cache_file){0};
}

/* ---- read: a layer ---- */

lh_status lh_cache_open_array(const lh_cache_file *f, const char *name, const lh_h5_shape *want, lh_h5_array **out)
{
    LH_TRY(lh_h5_array_open(out, f->h5, name));
    LH_TRY(lh_h5_array_check(*out));
    const lh_h5_shape *got = lh_h5_array_shape(*out);
    if (got->type != want->type)
        LH_FAIL(LH_EFILE, "'%s': '%s' is %s, this run wants %s ('%s')", lh_h5_path(f->h5), name,
                lh_dtype_name(got->type), lh_dtype_name(want->type), lh_setting("kv_dtype"));
    int same = got->rank == want->rank;
    for (int i = 0; same && i < want->rank; i++) same = got->dims[i] == want->dims[i];
    if (!same) LH_FAIL(LH_EFILE, "'%s': '%s' has not the shape that its offsets say", lh_h5_path(f->h5), name);
    return LH_OK;
}

static lh_status read_offsets(lh_cache_file *f)
{
    const lh_cache_numbers *n = &f->numbers;
    lh_layer_name name;
    lh_h5_shape shape;
    LH_TRY(lh_h5_get(f->h5, lh_layer_array(&name, f->layer, "offsets"),
                     &(lh_h5_shape){.type = LH_I64, .rank = 1, .dims = {n->kv_heads + 1}}, &shape, &f->offsets));
    for (int64_t g = 0; g <= n->kv_heads; g++) {
        int64_t before = g ? f->offsets[g - 1] : 0;
        if (f->offsets[g] < before || f->offsets[g] - before > (g ? n->seen : 0))
            LH_FAIL(LH_EFILE, "'%s': '%s' does not rise from 0 by at most %lld a head", lh_h5_path(f->h5), name.text,
                    (long long)n->seen);
    }
    return LH_OK;
}

/* An arena of q8 takes f32 and bf16, too: the caller quantises them. */
static lh_status choose_type(const lh_cache_file *f, lh_arena *arena)
{
    lh_status st = LH_OK;
    lh_layer_name name;
    lh_h5_array *keys = NULL;
    int64_t schema = 0;
    if (arena->view.type != LH_Q8) return LH_OK;
    LH_TRY_DONE(lh_h5_array_open(&keys, f->h5, lh_layer_array(&name, f->layer, "k")));
    const lh_dtype type = lh_h5_array_shape(keys)->type;
    if (type == LH_F32 || type == LH_BF16) arena->view.type = type;
    LH_TRY_DONE(lh_h5_get_i64(f->h5, "/", "schema", &schema));
    if (type == LH_Q8 && schema <= LH_CACHE_SCHEMA_PLAIN)
        LH_FAIL_DONE(LH_EFILE,
                     "'%s' has q8 keys of an earlier version, which this version does not read: make the file again",
                     lh_h5_path(f->h5));
done:
    lh_h5_array_close(keys);
    return st;
}

lh_status lh_cache_file_seek(lh_cache_file *f, int64_t layer, lh_arena *arena)
{
    lh_layer_name name;
    close_layer(f);
    f->layer = layer;
    f->budget = 0;
    LH_TRY(read_offsets(f));
    LH_TRY(choose_type(f, arena));
    arena->form.has_bias = lh_h5_has(f->h5, lh_layer_array(&name, layer, "bias"));
    for (int i = 0; i < LH_ENTRY_ARRAYS; i++) {
        const lh_entry_array a = lh_entry_array_of(arena, i);
        lh_h5_shape want = {.type = a.type, .rank = a.rank, .dims = {f->offsets[f->numbers.kv_heads], a.width}};
        if (a.bytes) LH_TRY(lh_cache_open_array(f, lh_layer_array(&name, layer, a.name), &want, &f->arrays[i]));
    }
    lh_layer_array(&name, layer, NULL);
    LH_TRY(lh_h5_get_i64(f->h5, name.text, "budget", &f->budget));
    if (f->budget < 1 || f->budget > max_budget)
        LH_FAIL(LH_EFILE, "'%s': the budget of '%s' is missing or %lld, it must be between 1 and %lld",
                lh_h5_path(f->h5), name.text, (long long)f->budget, (long long)max_budget);
    return LH_OK;
}

/* Entries of a head: from `row` of the file to `slot` of the arena. */
typedef struct head_reader {
    const lh_cache_file *f;
    lh_stream *stream;
    const lh_arena *arena;
    int64_t row, slot, entries;
} head_reader;

/* Positions: below the number of seen tokens, none twice, and without gaps if the cache stores no positions. */
static lh_status read_positions(const head_reader *r)
{
    lh_status st = LH_OK;
    int stored = r->arena->form.has_positions;
    int32_t *positions = NULL, *sorted;
    LH_TRY_DONE(lh_calloc(&positions, 2 * r->entries, sizeof *positions));
    sorted = positions + r->entries;
    LH_TRY_DONE(lh_h5_array_read(r->f->arrays[0], &(lh_h5_slab){.at = {r->row}, .count = {r->entries}}, positions));
    memcpy(sorted, positions, (size_t)r->entries * sizeof *sorted);
    lh_positions_sort(sorted, r->entries);
    for (int64_t i = 0; i < r->entries; i++) {
        int twice = i && sorted[i] == sorted[i - 1];
        if (twice || sorted[i] < 0 || sorted[i] >= r->f->numbers.seen || (!stored && positions[i] != i))
            LH_FAIL_DONE(LH_EFILE, "'%s': layer %lld holds an entry at position %d, which cannot be",
                         lh_h5_path(r->f->h5), (long long)r->f->layer, sorted[i]);
    }
    if (stored)
        LH_TRY_DONE(lh_stream_copy(r->stream, r->arena->view.positions + r->slot, positions,
                                   r->entries * (int64_t)sizeof *positions, LH_COPY_TO_DEVICE));
    LH_TRY_DONE(lh_stream_sync(r->stream));
done:
    lh_free(positions);
    return st;
}

/* Keys, values or numbers, chunk by chunk. */
static lh_status read_array(const head_reader *r, int which)
{
    lh_status st = LH_OK;
    const lh_entry_array a = lh_entry_array_of(r->arena, which);
    const int64_t chunk = LH_FILE_CHUNK_BYTES / a.bytes + 1;
    char *raw = NULL;
    float *values = NULL;
    LH_TRY_DONE(lh_calloc(&raw, chunk, a.bytes));
    LH_TRY_DONE(lh_calloc(&values, chunk * a.width, sizeof *values));
    for (int64_t at = 0; at < r->entries; at += chunk) {
        int64_t n = lh_min_i64(chunk, r->entries - at);
        LH_TRY_DONE(
            lh_h5_array_read(r->f->arrays[which], &(lh_h5_slab){.at = {r->row + at}, .count = {n, a.width}}, raw));
        if (a.type != LH_Q8) { /* codes are finite */
            lh_dtype_convert(values, LH_F32, raw, a.type, n * a.width);
            LH_TRY_DONE(lh_cache_check_finite(r->f, a.said, values, n * a.width, a.limit));
        }
        LH_TRY_DONE(
            lh_stream_copy(r->stream, (char *)a.at + (r->slot + at) * a.bytes, raw, n * a.bytes, LH_COPY_TO_DEVICE));
        LH_TRY_DONE(lh_stream_sync(r->stream));
    }
done:
    lh_free(raw);
    lh_free(values);
    return st;
}

static lh_status read_ring(const lh_cache_file *f, lh_stream *stream, const lh_heads *h, lh_query_ring *ring)
{
    lh_status st = LH_OK;
    int64_t dim = f->numbers.head_dim, width = h->q_count * dim, rows = lh_ring_rows(ring, f->numbers.seen);
    const lh_h5_shape want = {.type = LH_F32, .rank = 3, .dims = {rows, h->heads, dim}};
    lh_layer_name name;
    lh_h5_array *array = NULL;
    float *row = NULL;
    if (!ring->q) return LH_OK;
    LH_TRY_DONE(lh_cache_open_array(f, lh_layer_array(&name, f->layer, "ring"), &want, &array));
    LH_TRY_DONE(lh_calloc(&row, width, sizeof *row));
    for (int64_t t = 0; t < rows; t++) {
        LH_TRY_DONE(lh_h5_array_read(array, &(lh_h5_slab){.at = {t, h->q_first}, .count = {1, h->q_count, dim}}, row));
        LH_TRY_DONE(lh_cache_check_finite(f, "ring", row, width, LH_NUMBER_LIMIT));
        LH_TRY_DONE(lh_stream_copy(stream, ring->q + lh_ring_row_slot(ring, f->numbers.seen, t) * width, row,
                                   width * (int64_t)sizeof *row, LH_COPY_TO_DEVICE));
        LH_TRY_DONE(lh_stream_sync(stream));
    }
    LH_TRY_DONE(lh_h5_array_checked(array));
done:
    lh_h5_array_close(array);
    lh_free(row);
    return st;
}

lh_status lh_cache_file_read(const lh_cache_file *f, const lh_exec *exec, const lh_heads *heads, lh_arena *arena,
                             lh_query_ring *ring)
{
    for (int64_t h = 0; h < heads->kv_count; h++) {
        const int64_t *from = f->offsets + heads->kv_first + h;
        head_reader r = {f, exec->stream, arena, from[0], arena->offset[h], from[1] - from[0]};
        LH_TRY(read_positions(&r));
        for (int i = 1; i < LH_ENTRY_ARRAYS; i++)
            if (f->arrays[i]) LH_TRY(read_array(&r, i));
        arena->len[h] = r.entries;
    }
    for (int i = 0; i < LH_ENTRY_ARRAYS; i++)
        if (f->arrays[i]) LH_TRY(lh_h5_array_checked(f->arrays[i]));
    LH_TRY(lh_arena_push_len(arena, exec));
    return read_ring(f, exec->stream, heads, ring);
}
