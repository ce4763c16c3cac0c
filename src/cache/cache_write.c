/* A cache to a file: what ranks hold is gathered on rank 0, chunk by chunk, and written there. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "cache/file_layout.h"
#include "cache/positions.h"
#include "exec/gather.h"

static lh_status put_state(lh_h5 *h5, const lh_cache_contents *c)
{
    const lh_cache_extra *extra = c->extra;
    char model[24];
    snprintf(model, sizeof model, "%016llx", (unsigned long long)extra->model);
    LH_TRY(lh_h5_put_text(h5, "/policy", c->policy, (int64_t)strlen(c->policy)));
    LH_TRY(lh_h5_group(h5, "/state"));
    LH_TRY(lh_h5_put_string(h5, "/state", "model", model));
    LH_TRY(lh_h5_put_string(h5, "/state", "positions", c->positions));
    for (int i = 0; i < LH_CACHE_NUMBERS; i++)
        LH_TRY(lh_h5_put_i64(h5, "/state", lh_cache_number_list[i].name,
                             *(const int64_t *)((const char *)&c->numbers + lh_cache_number_list[i].at)));
    LH_TRY(lh_h5_put_i64(h5, "/state", "seed", (int64_t)extra->seed));
    if (extra->chat && *extra->chat) LH_TRY(lh_h5_put_text(h5, "/chat", extra->chat, (int64_t)strlen(extra->chat)));
    if (c->numbers.question) LH_TRY(lh_h5_put_i64(h5, "/state", "question_tokens", c->numbers.question));
    LH_TRY(lh_h5_put(h5, "/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {extra->n}}, extra->tokens));
    return lh_h5_put(h5, "/logits", &(lh_h5_shape){.type = LH_F32, .rank = 1, .dims = {extra->vocab}}, extra->logits);
}

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

static lh_status read_piece(writer *w, const lh_arena *arena, const lh_entry_array *a, const piece *p)
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
static lh_status pass_piece(writer *w, const lh_arena *arena, const lh_entry_array *a, const piece *p, int64_t row)
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
    if (w->local == LH_OK) w->local = lh_h5_array_create(&w->array, w->h5, w->name.text, shape, NULL);
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
    const lh_entry_array a = lh_entry_array_of(arena, which);
    int64_t row = 0, entries = w->offsets[w->of->heads->kv_heads];
    if (!a.bytes) return LH_OK;
    const int64_t chunk = LH_FILE_CHUNK_BYTES / a.bytes;
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
        int64_t slot = lh_ring_row_slot(ring, w->of->numbers.seen, at + r);
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
    int64_t heads = w->of->heads->heads, dim = w->of->numbers.head_dim, rows = lh_ring_rows(ring, w->of->numbers.seen);
    int64_t chunk = LH_FILE_CHUNK_BYTES / (heads * dim * (int64_t)sizeof(float));
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
    for (int i = 0; i < LH_ENTRY_ARRAYS; i++) LH_TRY(pass_array(w, layer, i));
    return pass_ring(w, layer, l->ring);
}

static lh_status begin(writer *w, const char *path)
{
    const lh_heads *h = w->of->heads;
    LH_TRY(lh_calloc(&w->mine, LH_FILE_CHUNK_BYTES, 1));
    LH_TRY(lh_calloc(&w->offsets, 2 * h->kv_heads + 1, sizeof *w->offsets));
    w->lens = w->offsets + h->kv_heads + 1;
    LH_TRY(lh_gather_init(&w->gather, h->ranks));
    if (h->rank) return LH_OK;
    LH_TRY(lh_calloc(&w->all, LH_FILE_CHUNK_BYTES, 1));
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
