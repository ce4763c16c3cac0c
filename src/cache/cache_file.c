#include "cache/cache_file.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "cache/file_layout.h"
#include "cache/positions.h"
#include "exec/gather.h"

enum { CHUNK_BYTES = 4 << 20, ARRAYS = 4 };

static const int64_t max_budget = INT64_C(1) << 40; /* as its option may say */

/* An array of a layer, with `width` numbers for every entry. */
typedef struct entry_array {
    const char *name, *said; /* said: in messages */
    lh_dtype type;
    int rank;
    int64_t width, bytes; /* of an entry; 0: there is no such array */
    void *at;             /* in the arena; NULL: entry i has i */
} entry_array;

/* Positions, keys, values and numbers of the entries. */
static entry_array array_of(const lh_arena *arena, int i)
{
    const lh_ragged *v = &arena->view;
    entry_array arrays[ARRAYS] = {{"positions", NULL, LH_I32, 1, 1, 0, v->positions},
                                  {"k", "keys and values", v->type, 2, v->head_dim, 0, v->k},
                                  {"v", "keys and values", v->type, 2, v->head_dim, 0, v->v},
                                  {"stats", "stats", LH_F32, 2, arena->form.stats, 0, v->stats}};
    arrays[i].bytes = arrays[i].width * lh_dtype_bytes(arrays[i].type);
    return arrays[i];
}

/* Rows that a ring has after `seen` tokens, and where the r-th of them lies, in the order of their positions. */
static int64_t ring_rows(const lh_query_ring *ring, int64_t seen)
{
    return lh_min_i64(seen, ring->shape.rows);
}

static int64_t ring_slot(const lh_query_ring *ring, int64_t seen, int64_t r)
{
    return lh_ring_slot(ring, r < ring->shape.first_rows ? r : seen - ring_rows(ring, seen) + r);
}

/* ---- /state ---- */

/* Attributes, in the order of the file. */
static const struct {
    const char *name;
    size_t at; /* in lh_cache_numbers */
    int64_t min, max;
} numbers[] = {{"layers", offsetof(lh_cache_numbers, layers), 1, 1000},
               {"heads", offsetof(lh_cache_numbers, heads), 1, 1 << 20},
               {"kv_heads", offsetof(lh_cache_numbers, kv_heads), 1, 1 << 20},
               {"head_dim", offsetof(lh_cache_numbers, head_dim), 1, 1 << 20},
               {"window", offsetof(lh_cache_numbers, window), 0, INT64_MAX},
               {"entries", offsetof(lh_cache_numbers, budget), 1, INT64_MAX},
               {"prompt_tokens", offsetof(lh_cache_numbers, prompt_tokens), 1, INT32_MAX},
               {"seen_tokens", offsetof(lh_cache_numbers, seen), 1, INT32_MAX},
               {"steps", offsetof(lh_cache_numbers, steps), 0, INT32_MAX},
               {"evictions", offsetof(lh_cache_numbers, evictions), 0, INT32_MAX},
               {"budgets_made", offsetof(lh_cache_numbers, budgets_made), 0, 1}};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static lh_status put_state(lh_h5 *h5, const lh_cache_contents *c)
{
    const lh_cache_extra *extra = c->extra;
    char model[24];
    snprintf(model, sizeof model, "%016llx", (unsigned long long)extra->model);
    LH_TRY(lh_h5_put_text(h5, "/policy", c->policy, (int64_t)strlen(c->policy)));
    LH_TRY(lh_h5_group(h5, "/state"));
    LH_TRY(lh_h5_put_string(h5, "/state", "model", model));
    LH_TRY(lh_h5_put_string(h5, "/state", "positions", c->positions));
    for (int i = 0; i < NUMBERS; i++)
        LH_TRY(lh_h5_put_i64(h5, "/state", numbers[i].name,
                             *(const int64_t *)((const char *)&c->numbers + numbers[i].at)));
    LH_TRY(lh_h5_put_i64(h5, "/state", "seed", (int64_t)extra->seed));
    if (c->numbers.question) LH_TRY(lh_h5_put_i64(h5, "/state", "question_tokens", c->numbers.question));
    LH_TRY(lh_h5_put(h5, "/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {extra->n}}, extra->tokens));
    return lh_h5_put(h5, "/logits", &(lh_h5_shape){.type = LH_F32, .rank = 1, .dims = {extra->vocab}}, extra->logits);
}

static lh_status read_state(lh_cache_file *f)
{
    lh_status st = LH_OK;
    char *model = NULL;
    int64_t seed = -1;
    if (!lh_h5_has(f->h5, "/state")) LH_FAIL(LH_EFILE, "'%s' has no group '/state'", lh_h5_path(f->h5));
    for (int i = 0; i < NUMBERS; i++) {
        int64_t *out = (int64_t *)((char *)&f->numbers + numbers[i].at);
        *out = -1;
        LH_TRY(lh_h5_get_i64(f->h5, "/state", numbers[i].name, out));
        if (*out < numbers[i].min || *out > numbers[i].max)
            LH_FAIL(LH_EFILE, "'%s': '%s' of '/state' is missing or %lld, it must be between %lld and %lld",
                    lh_h5_path(f->h5), numbers[i].name, (long long)*out, (long long)numbers[i].min,
                    (long long)numbers[i].max);
    }
    LH_TRY(lh_h5_get_i64(f->h5, "/state", "seed", &seed));
    f->extra.seed = (uint64_t)seed;
    LH_TRY(lh_h5_get_i64(f->h5, "/state", "question_tokens", &f->numbers.question));
    LH_TRY_DONE(lh_h5_get_string(f->h5, "/state", "model", &model));
    if (!model || sscanf(model, "%16" SCNx64, &f->extra.model) != 1)
        LH_FAIL_DONE(LH_EFILE, "'%s' does not say which model it belongs to", lh_h5_path(f->h5));
done:
    lh_free(model);
    return st;
}

/* ---- write ---- */

/* `mine` is what this rank sends, `all` what rank 0 receives. */
typedef struct writer {
    const lh_cache_contents *of;
    lh_h5 *h5; /* on rank 0 */
    char *mine, *all;
    int64_t *offsets, *lens; /* of all heads: [kv_heads + 1], [kv_heads] */
    lh_gather gather;
    lh_hasher *hasher;
    lh_h5_array *array;
    lh_layer_name name; /* of the array */
    lh_status local;    /* of this rank alone: it goes on taking part */
} writer;

/* Entries of one head, from entry `at` of it on. */
typedef struct piece {
    int64_t head, at, entries;
} piece;

static int counts_head(const lh_heads *heads, int64_t head)
{
    return head >= heads->counted_first && head < heads->counted_first + heads->counted_count;
}

static lh_status read_piece(writer *w, const lh_arena *arena, const entry_array *a, const piece *p)
{
    const lh_exec *x = w->of->exec;
    int64_t slot = arena->offset[p->head - w->of->heads->kv_first] + p->at;
    if (a->at)
        LH_TRY(lh_stream_copy(x->stream, w->mine, (const char *)a->at + slot * a->bytes, p->entries * a->bytes,
                              LH_COPY_TO_HOST));
    for (int64_t i = 0; !a->at && i < p->entries; i++) ((int32_t *)w->mine)[i] = (int32_t)(p->at + i);
    return lh_stream_sync(x->stream);
}

/* Collective. One piece goes from the rank that counts its head to rank 0 and into the file, at entry `row`. */
static lh_status pass_piece(writer *w, const lh_arena *arena, const entry_array *a, const piece *p, int64_t row)
{
    const lh_heads *h = w->of->heads;
    int64_t bytes = p->entries * a->bytes;
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        w->gather.at[r] = 0;
        w->gather.bytes[r] = counts_head(&other, p->head) ? bytes : 0;
    }
    if (w->local == LH_OK && w->gather.bytes[h->rank]) w->local = read_piece(w, arena, a, p);
    LH_TRY(lh_comm_gatherv(w->of->exec->comm, 0, w->mine, w->all, w->gather.bytes, w->gather.at));
    if (h->rank || w->local != LH_OK) return LH_OK;
    lh_hasher_add(w->hasher, w->all, bytes);
    w->local = lh_h5_array_write(w->array, &(lh_h5_slab){.at = {row}, .count = {p->entries, a->width}}, w->all);
    return LH_OK;
}

/* On rank 0: a new array of a layer, and the hash of what goes into it. */
static void open_array(writer *w, int64_t layer, const char *array, const lh_h5_shape *shape)
{
    if (w->of->heads->rank || w->local != LH_OK) return;
    w->local = lh_hasher_open(&w->hasher);
    lh_layer_array(&w->name, layer, array);
    if (w->local == LH_OK) w->local = lh_h5_array_create(&w->array, w->h5, w->name.text, shape);
}

static void close_array(writer *w)
{
    lh_h5_array_close(w->array);
    if (w->array && w->local == LH_OK) w->local = lh_h5_put_hash(w->h5, w->name.text, lh_hasher_value(w->hasher));
    lh_hasher_close(w->hasher);
    w->array = NULL;
    w->hasher = NULL;
}

/* Collective. All heads of one array of a layer. */
static lh_status pass_array(writer *w, int64_t layer, int which)
{
    const lh_arena *arena = w->of->layers[layer].arena;
    const entry_array a = array_of(arena, which);
    int64_t row = 0, entries = w->offsets[w->of->heads->kv_heads];
    if (!a.bytes) return LH_OK;
    const int64_t chunk = CHUNK_BYTES / a.bytes;
    open_array(w, layer, a.name, &(lh_h5_shape){.type = a.type, .rank = a.rank, .dims = {entries, a.width}});
    for (int64_t g = 0; g < w->of->heads->kv_heads; g++)
        for (int64_t at = 0; at < w->lens[g]; at += chunk) {
            piece p = {.head = g, .at = at, .entries = lh_min_i64(chunk, w->lens[g] - at)};
            LH_TRY(pass_piece(w, arena, &a, &p, row));
            row += p.entries;
        }
    close_array(w);
    return LH_OK;
}

/* ---- rings ---- */

/* Rows [at, at + rows) of the ring in the order of their positions, of this rank's query heads. */
static lh_status read_rows(writer *w, const lh_query_ring *ring, int64_t at, int64_t rows)
{
    int64_t width = ring->shape.width;
    for (int64_t r = 0; r < rows; r++) {
        int64_t slot = ring_slot(ring, w->of->numbers.seen, at + r);
        LH_TRY(lh_stream_copy(w->of->exec->stream, (float *)w->mine + r * width, ring->q + slot * width,
                              width * (int64_t)sizeof *ring->q, LH_COPY_TO_HOST));
    }
    return lh_stream_sync(w->of->exec->stream);
}

/* Collective. The same rows of all query heads, gathered by rank and written row by row. */
static lh_status pass_rows(writer *w, const lh_query_ring *ring, int64_t at, int64_t rows)
{
    const lh_heads *h = w->of->heads;
    int64_t dim = w->of->numbers.head_dim, head = dim * (int64_t)sizeof(float);
    lh_gather_query_heads(&w->gather, h, rows * head);
    if (w->local == LH_OK) w->local = read_rows(w, ring, at, rows);
    LH_TRY(lh_comm_gatherv(w->of->exec->comm, 0, w->mine, w->all, w->gather.bytes, w->gather.at));
    if (h->rank || w->local != LH_OK) return LH_OK;
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        for (int64_t t = 0; t < rows; t++)
            memcpy(w->mine + (t * h->heads + other.q_first) * head, w->all + w->gather.at[r] + t * other.q_count * head,
                   (size_t)(other.q_count * head));
    }
    lh_hasher_add(w->hasher, w->mine, rows * h->heads * head);
    w->local = lh_h5_array_write(w->array, &(lh_h5_slab){.at = {at}, .count = {rows, h->heads, dim}}, w->mine);
    return LH_OK;
}

/* Collective. The last query rows of a layer, where decoding observes them. */
static lh_status pass_ring(writer *w, int64_t layer, const lh_query_ring *ring)
{
    int64_t heads = w->of->heads->heads, dim = w->of->numbers.head_dim, rows = ring_rows(ring, w->of->numbers.seen);
    int64_t chunk = CHUNK_BYTES / (heads * dim * (int64_t)sizeof(float));
    if (!ring->q) return LH_OK;
    open_array(w, layer, "ring", &(lh_h5_shape){.type = LH_F32, .rank = 3, .dims = {rows, heads, dim}});
    for (int64_t at = 0; at < rows; at += chunk) LH_TRY(pass_rows(w, ring, at, lh_min_i64(chunk, rows - at)));
    close_array(w);
    return LH_OK;
}

/* ---- the file ---- */

static lh_status put_layer(writer *w, int64_t layer)
{
    const lh_cache_layer *c = &w->of->layers[layer];
    lh_layer_name name;
    LH_TRY(lh_h5_put(w->h5, lh_layer_array(&name, layer, "offsets"),
                     &(lh_h5_shape){.type = LH_I64, .rank = 1, .dims = {w->of->heads->kv_heads + 1}}, w->offsets));
    lh_layer_array(&name, layer, NULL);
    LH_TRY(lh_h5_put_i64(w->h5, name.text, "budget", c->budget));
    LH_TRY(lh_h5_put_i64(w->h5, name.text, "protected_sinks", c->sinks));
    LH_TRY(lh_h5_put_i64(w->h5, name.text, "protected_recents", c->recents));
    return lh_h5_put_i64(w->h5, name.text, "sliding", c->slides);
}

static lh_status write_layer(writer *w, int64_t layer)
{
    const lh_heads *h = w->of->heads;
    const lh_cache_layer *l = &w->of->layers[layer];
    LH_TRY(lh_gather_lens(&w->gather, h, w->of->exec->comm, l->arena->len, w->lens));
    for (int64_t g = 0; g < h->kv_heads; g++) w->offsets[g + 1] = w->offsets[g] + w->lens[g];
    if (h->rank == 0 && w->local == LH_OK) w->local = put_layer(w, layer);
    for (int i = 0; i < ARRAYS; i++) LH_TRY(pass_array(w, layer, i));
    return pass_ring(w, layer, l->ring);
}

static lh_status begin(writer *w, const char *path)
{
    const lh_heads *h = w->of->heads;
    LH_TRY(lh_calloc(&w->mine, CHUNK_BYTES, 1));
    LH_TRY(lh_calloc(&w->offsets, 2 * h->kv_heads + 1, sizeof *w->offsets));
    w->lens = w->offsets + h->kv_heads + 1;
    LH_TRY(lh_gather_init(&w->gather, h->ranks));
    if (h->rank) return LH_OK;
    LH_TRY(lh_calloc(&w->all, CHUNK_BYTES, 1));
    LH_TRY(lh_h5_create(&w->h5, path,
                        &(lh_h5_header){.kind = "cache", .schema = LH_CACHE_SCHEMA, .run = w->of->extra->run}));
    return put_state(w->h5, w->of);
}

lh_status lh_cache_write(const char *path, const lh_cache_contents *contents)
{
    lh_status st = LH_OK;
    writer w = {.of = contents};
    w.local = begin(&w, path);
    LH_TRY_DONE(lh_comm_agree(contents->exec->comm, w.local));
    for (int64_t l = 0; l < contents->numbers.layers; l++) LH_TRY_DONE(write_layer(&w, l));
    if (w.h5 && w.local == LH_OK) {
        w.local = lh_h5_commit(w.h5);
        w.h5 = NULL;
    }
    LH_TRY_DONE(lh_comm_agree(contents->exec->comm, w.local));
done:
    close_array(&w);
    lh_h5_close(w.h5);
    lh_gather_clear(&w.gather);
    lh_free(w.offsets);
    lh_free(w.mine);
    lh_free(w.all);
    return st;
}

/* ---- read ---- */

static lh_status check_finite(const lh_cache_file *f, const char *name, const float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            LH_FAIL(LH_EFILE, "'%s': '%s' holds a value that is not finite", lh_h5_path(f->h5), name);
    return LH_OK;
}

lh_status lh_cache_file_open(lh_cache_file *f, const char *path)
{
    lh_h5_shape shape;
    LH_TRY(lh_h5_open(&f->h5, path, &(lh_h5_header){.kind = "cache", .schema = LH_CACHE_SCHEMA}));
    LH_TRY(lh_h5_get_text(f->h5, "/policy", &f->policy, &f->policy_bytes));
    LH_TRY(read_state(f));
    LH_TRY(lh_h5_get(f->h5, "/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {-1}}, &shape, &f->tokens));
    f->extra.n = shape.dims[0];
    if (f->extra.n < f->numbers.seen)
        LH_FAIL(LH_EFILE, "'%s' holds %lld tokens and says that %lld were seen", path, (long long)f->extra.n,
                (long long)f->numbers.seen);
    for (int64_t t = 0; t < f->extra.n; t++)
        if (f->tokens[t] < 0) LH_FAIL(LH_EFILE, "'%s': token %lld is %d", path, (long long)t, f->tokens[t]);
    LH_TRY(lh_h5_get(f->h5, "/logits", &(lh_h5_shape){.type = LH_F32, .rank = 1, .dims = {-1}}, &shape, &f->logits));
    f->extra.vocab = shape.dims[0];
    LH_TRY(check_finite(f, "/logits", f->logits, f->extra.vocab));
    f->extra.tokens = f->tokens;
    f->extra.logits = f->logits;
    return LH_OK;
}

static void close_layer(lh_cache_file *f)
{
    lh_free(f->offsets);
    f->offsets = NULL;
    for (int i = 0; i < ARRAYS; i++) {
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

static lh_status open_array_of(const lh_cache_file *f, const char *array, const lh_h5_shape *want, lh_h5_array **out)
{
    lh_layer_name name;
    LH_TRY(lh_h5_array_open(out, f->h5, lh_layer_array(&name, f->layer, array)));
    const lh_h5_shape *got = lh_h5_array_shape(*out);
    if (got->type != want->type)
        LH_FAIL(LH_EFILE, "'%s': '%s' is %s, this run wants %s ('--kv-dtype')", lh_h5_path(f->h5), name.text,
                lh_dtype_name(got->type), lh_dtype_name(want->type));
    int same = got->rank == want->rank;
    for (int i = 0; same && i < want->rank; i++) same = got->dims[i] == want->dims[i];
    if (!same) LH_FAIL(LH_EFILE, "'%s': '%s' has not the shape that its offsets say", lh_h5_path(f->h5), name.text);
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
        int64_t held = g ? f->offsets[g] - f->offsets[g - 1] : 0;
        if ((g == 0 && f->offsets[0] != 0) || f->offsets[g] < 0 || held < 0 || held > n->seen)
            LH_FAIL(LH_EFILE, "'%s': '%s' does not rise from 0 by at most %lld a head", lh_h5_path(f->h5), name.text,
                    (long long)n->seen);
    }
    return LH_OK;
}

lh_status lh_cache_file_seek(lh_cache_file *f, int64_t layer, const lh_arena *arena)
{
    lh_layer_name name;
    close_layer(f);
    f->layer = layer;
    f->budget = 0;
    LH_TRY(read_offsets(f));
    for (int i = 0; i < ARRAYS; i++) {
        const entry_array a = array_of(arena, i);
        lh_h5_shape want = {.type = a.type, .rank = a.rank, .dims = {f->offsets[f->numbers.kv_heads], a.width}};
        if (a.bytes) LH_TRY(open_array_of(f, a.name, &want, &f->arrays[i]));
    }
    lh_layer_array(&name, layer, NULL);
    LH_TRY(lh_h5_get_i64(f->h5, name.text, "budget", &f->budget));
    if (f->budget < 1 || f->budget > max_budget)
        LH_FAIL(LH_EFILE, "'%s': the budget of '%s' is missing or %lld, it must be between 1 and %lld",
                lh_h5_path(f->h5), name.text, (long long)f->budget, (long long)max_budget);
    return LH_OK;
}

/* Entries of one head: from `row` of the file to `slot` of the arena. */
typedef struct head_reader {
    const lh_cache_file *f;
    lh_stream *stream;
    const lh_arena *arena;
    int64_t row, slot, entries;
} head_reader;

/* Positions: below what was seen, none twice, and without gaps where the cache stores none. */
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
    const entry_array a = array_of(r->arena, which);
    const int64_t chunk = CHUNK_BYTES / a.bytes + 1;
    char *raw = NULL;
    float *values = NULL;
    LH_TRY_DONE(lh_calloc(&raw, chunk, a.bytes));
    LH_TRY_DONE(lh_calloc(&values, chunk * a.width, sizeof *values));
    for (int64_t at = 0; at < r->entries; at += chunk) {
        int64_t n = lh_min_i64(chunk, r->entries - at);
        LH_TRY_DONE(
            lh_h5_array_read(r->f->arrays[which], &(lh_h5_slab){.at = {r->row + at}, .count = {n, a.width}}, raw));
        lh_dtype_convert(values, LH_F32, raw, a.type, n * a.width);
        LH_TRY_DONE(check_finite(r->f, a.said, values, n * a.width));
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
    int64_t dim = f->numbers.head_dim, width = h->q_count * dim, rows = ring_rows(ring, f->numbers.seen);
    lh_h5_array *array = NULL;
    float *row = NULL;
    if (!ring->q) return LH_OK;
    LH_TRY_DONE(
        open_array_of(f, "ring", &(lh_h5_shape){.type = LH_F32, .rank = 3, .dims = {rows, h->heads, dim}}, &array));
    LH_TRY_DONE(lh_calloc(&row, width, sizeof *row));
    for (int64_t t = 0; t < rows; t++) {
        LH_TRY_DONE(lh_h5_array_read(array, &(lh_h5_slab){.at = {t, h->q_first}, .count = {1, h->q_count, dim}}, row));
        LH_TRY_DONE(check_finite(f, "ring", row, width));
        LH_TRY_DONE(lh_stream_copy(stream, ring->q + ring_slot(ring, f->numbers.seen, t) * width, row,
                                   width * (int64_t)sizeof *row, LH_COPY_TO_DEVICE));
        LH_TRY_DONE(lh_stream_sync(stream));
    }
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
        for (int i = 1; i < ARRAYS; i++)
            if (f->arrays[i]) LH_TRY(read_array(&r, i));
        arena->len[h] = r.entries;
    }
    LH_TRY(lh_arena_push_len(arena, exec));
    return read_ring(f, exec->stream, heads, ring);
}
