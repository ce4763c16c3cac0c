/* A cache to a file: rank 0 gathers the entries of all ranks, chunk by chunk, and writes them. */
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "cache/file_layout.h"

lh_status lh_cache_put_state(lh_h5 *h5, const lh_cache_contents *c)
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
    if (extra->run_tokens) LH_TRY(lh_h5_put_i64(h5, "/state", "run_tokens", extra->run_tokens));
    if (extra->chat && *extra->chat) LH_TRY(lh_h5_put_text(h5, "/chat", extra->chat, (int64_t)strlen(extra->chat)));
    if (extra->identity) LH_TRY(lh_h5_put_text(h5, "/identity", extra->identity, (int64_t)strlen(extra->identity)));
    if (extra->answer) LH_TRY(lh_h5_put_text(h5, "/answer", extra->answer, (int64_t)strlen(extra->answer)));
    if (c->numbers.question) LH_TRY(lh_h5_put_i64(h5, "/state", "question_tokens", c->numbers.question));
    return lh_h5_put(h5, "/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {extra->n}}, extra->tokens);
}

static lh_status put_logits(lh_h5 *h5, const lh_cache_extra *extra)
{
    return lh_h5_put(h5, "/logits", &(lh_h5_shape){.type = LH_F32, .rank = 1, .dims = {extra->vocab}}, extra->logits);
}

lh_status lh_cache_write(const char *path, const lh_cache_contents *c)
{
    lh_status st = LH_OK;
    lh_layer_writer w;
    st = lh_layer_writer_open(&w, c->exec, c->heads, path,
                              &(lh_h5_header){.kind = "cache", .schema = LH_CACHE_SCHEMA_PLAIN, .run = c->extra->run});
    if (st == LH_OK && w.h5) st = lh_cache_put_state(w.h5, c);
    if (st == LH_OK && w.h5) st = put_logits(w.h5, c->extra);
    LH_TRY_DONE(lh_comm_agree(c->exec->comm, st));
    for (int64_t l = 0; l < c->numbers.layers; l++) LH_TRY_DONE(lh_write_layer(&w, l, &c->layers[l], c->numbers.seen));
    LH_TRY_DONE(lh_layer_writer_commit(&w));
done:
    lh_layer_writer_close(&w);
    return st;
}

lh_entry_array lh_entry_array_of(const lh_arena *arena, int i)
{
    const lh_ragged *v = &arena->view;
    lh_entry_array arrays[LH_ENTRY_ARRAYS] = {
        {"positions", NULL, LH_I32, 1, 0, 1, 0, v->positions},
        {"k", "keys and values", v->type, 2, LH_NUMBER_LIMIT, v->head_dim, 0, v->k},
        {"v", "keys and values", v->type, 2, LH_NUMBER_LIMIT, v->head_dim, 0, v->v},
        {"bias", "bias", LH_F32, 1, LH_BIAS_LIMIT, arena->form.has_bias, 0, v->bias},
        {"stats", "stats", LH_F32, 2, LH_NUMBER_LIMIT, arena->form.stats, 0, v->stats},
        {"k_scale", "scales of keys", LH_F32, 1, LH_NUMBER_LIMIT, v->type == LH_Q8, 0, v->k_scale},
        {"v_scale", "scales of values", LH_F32, 1, LH_NUMBER_LIMIT, v->type == LH_Q8, 0, v->v_scale}};
    arrays[i].bytes = arrays[i].width * lh_dtype_bytes(arrays[i].type);
    return arrays[i];
}

const lh_cache_number lh_cache_number_list[LH_CACHE_NUMBERS] = {
    {"layers", offsetof(lh_cache_numbers, layers), 1, 1000},
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

/* ---- one array ---- */

/* On rank 0: a new array, and the hash of its contents. */
static void create_array(lh_layer_writer *w, const lh_h5_shape *shape)
{
    if (w->heads->rank || w->local != LH_OK) return;
    w->local = lh_hasher_open(&w->hasher);
    if (w->local == LH_OK) w->local = lh_h5_array_create(&w->array, w->h5, w->name.text, shape, NULL);
}

static void close_array(lh_layer_writer *w)
{
    lh_h5_array_close(w->array);
    if (w->array && w->local == LH_OK) w->local = lh_h5_put_hash(w->h5, w->name.text, lh_hasher_value(w->hasher));
    lh_hasher_close(w->hasher);
    w->array = NULL;
    w->hasher = NULL;
}

/* On rank 0: a slab of the array. */
static void write_slab(lh_layer_writer *w, const lh_h5_slab *slab, const char *data, int64_t bytes)
{
    lh_hasher_add(w->hasher, data, bytes);
    w->local = lh_h5_array_write(w->array, slab, data);
}

/* ---- by KV heads ---- */

/* `entries` entries of a head, from entry `at` on. */
typedef struct piece {
    int64_t head, at, entries;
} piece;

static int counts_head(const lh_heads *heads, int64_t head)
{
    return head >= heads->counted_first && head < heads->counted_first + heads->counted_count;
}

static lh_status read_piece(lh_layer_writer *w, const lh_head_array *of, const piece *p)
{
    lh_stream *stream = w->exec->stream;
    const lh_entry_array *a = &of->array;
    const int64_t h = p->head - w->heads->kv_first;
    const int64_t shared = of->shared ? lh_max_i64(0, lh_min_i64(of->shared[h] - p->at, p->entries)) : 0,
                  own = p->entries - shared;
    for (int64_t i = 0; !a->at && i < p->entries; i++) ((int32_t *)w->mine)[i] = (int32_t)(p->at + i);
    if (a->at && shared)
        LH_TRY(lh_stream_copy(stream, w->mine, of->parent_at + (of->parent_offset[h] + p->at) * a->bytes,
                              shared * a->bytes, LH_COPY_TO_HOST));
    if (a->at && own)
        LH_TRY(lh_stream_copy(stream, w->mine + shared * a->bytes,
                              (const char *)a->at + (of->offset[h] + p->at + shared) * a->bytes, own * a->bytes,
                              LH_COPY_TO_HOST));
    return lh_stream_sync(stream);
}

/* Collective. Sends a piece from the rank that counts its head to rank 0, which writes it at entry `row`. */
static lh_status pass_piece(lh_layer_writer *w, const lh_head_array *of, const piece *p, int64_t row)
{
    const lh_heads *h = w->heads;
    int64_t bytes = p->entries * of->array.bytes;
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        w->gather.at[r] = 0;
        w->gather.bytes[r] = counts_head(&other, p->head) ? bytes : 0;
    }
    if (w->local == LH_OK && w->gather.bytes[h->rank]) w->local = read_piece(w, of, p);
    LH_TRY(lh_comm_gatherv(w->exec->comm, 0, w->mine, w->all, w->gather.bytes, w->gather.at));
    if (h->rank || w->local != LH_OK) return LH_OK;
    write_slab(w, &(lh_h5_slab){.at = {row}, .count = {p->entries, of->array.width}}, w->all, bytes);
    return LH_OK;
}

lh_status lh_write_heads(lh_layer_writer *w, int64_t layer, const lh_head_array *of)
{
    const lh_entry_array *a = &of->array;
    int64_t row = 0, entries = 0;
    if (!a->bytes) return LH_OK;
    const int64_t chunk = LH_FILE_CHUNK_BYTES / a->bytes, heads = w->heads->kv_heads;
    for (int64_t g = 0; g < heads; g++) entries += of->lens[g];
    lh_layer_array(&w->name, layer, a->name);
    create_array(w, &(lh_h5_shape){.type = a->type, .rank = a->rank, .dims = {entries, a->width}});
    for (int64_t g = 0; g < heads; g++)
        for (int64_t at = 0; at < of->lens[g]; at += chunk) {
            piece p = {.head = g, .at = at, .entries = lh_min_i64(chunk, of->lens[g] - at)};
            LH_TRY(pass_piece(w, of, &p, row));
            row += p.entries;
        }
    close_array(w);
    return LH_OK;
}

/* ---- by rows ---- */

/* Rows [at, at + rows) of this rank's query heads. */
static lh_status read_rows(lh_layer_writer *w, const lh_row_array *of, int64_t at, int64_t rows)
{
    int64_t width = w->heads->q_count * of->width;
    for (int64_t r = 0; r < rows; r++) {
        int64_t slot = of->ring ? lh_ring_row_slot(of->ring, of->seen, at + r) : at + r;
        LH_TRY(lh_stream_copy(w->exec->stream, (float *)w->mine + r * width, of->at + slot * of->ld,
                              width * (int64_t)sizeof *of->at, LH_COPY_TO_HOST));
    }
    return lh_stream_sync(w->exec->stream);
}

/* Collective. The same rows of all query heads, gathered by rank and written row by row. */
static lh_status pass_rows(lh_layer_writer *w, const lh_row_array *of, int64_t at, int64_t rows)
{
    const lh_heads *h = w->heads;
    int64_t head = of->width * (int64_t)sizeof(float);
    lh_gather_query_heads(&w->gather, h, rows * head);
    if (w->local == LH_OK) w->local = read_rows(w, of, at, rows);
    LH_TRY(lh_comm_gatherv(w->exec->comm, 0, w->mine, w->all, w->gather.bytes, w->gather.at));
    if (h->rank || w->local != LH_OK) return LH_OK;
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        for (int64_t t = 0; t < rows; t++)
            memcpy(w->mine + (t * h->heads + other.q_first) * head, w->all + w->gather.at[r] + t * other.q_count * head,
                   (size_t)(other.q_count * head));
    }
    write_slab(w, &(lh_h5_slab){.at = {at}, .count = {rows, h->heads, of->width}}, w->mine, rows * h->heads * head);
    return LH_OK;
}

lh_status lh_write_rows(lh_layer_writer *w, int64_t layer, const lh_row_array *of)
{
    int64_t heads = w->heads->heads;
    if (!of->at) return LH_OK; /* on all ranks */
    const int64_t chunk = LH_FILE_CHUNK_BYTES / (heads * of->width * (int64_t)sizeof(float));
    lh_layer_array(&w->name, layer, of->name);
    create_array(w, &(lh_h5_shape){.type = of->type, .rank = 3, .dims = {of->rows, heads, of->width}});
    for (int64_t at = 0; at < of->rows; at += chunk) LH_TRY(pass_rows(w, of, at, lh_min_i64(chunk, of->rows - at)));
    close_array(w);
    return LH_OK;
}

/* ---- arrays that all ranks have ---- */

static lh_status write_rows_alone(lh_layer_writer *w, const float *at, int64_t rows, int64_t width)
{
    const int64_t row = width * (int64_t)sizeof *at, chunk = LH_FILE_CHUNK_BYTES / row;
    for (int64_t r = 0, n; r < rows; r += n) {
        n = lh_min_i64(chunk, rows - r);
        LH_TRY(lh_stream_copy(w->exec->stream, w->mine, at + r * width, n * row, LH_COPY_TO_HOST));
        LH_TRY(lh_stream_sync(w->exec->stream));
        write_slab(w, &(lh_h5_slab){.at = {r}, .count = {n, width}}, w->mine, n * row);
        LH_TRY(w->local);
    }
    return LH_OK;
}

void lh_write_matrix(lh_layer_writer *w, const char *name, const float *at, int64_t rows, int64_t width)
{
    snprintf(w->name.text, sizeof w->name.text, "%s", name);
    create_array(w, &(lh_h5_shape){.type = LH_F32, .rank = 2, .dims = {rows, width}});
    if (w->array && w->local == LH_OK) w->local = write_rows_alone(w, at, rows, width);
    close_array(w);
}

/* ---- a layer ---- */

static lh_status put_layer(lh_layer_writer *w, int64_t layer, const lh_cache_layer *of)
{
    lh_layer_name name;
    LH_TRY(lh_h5_put(w->h5, lh_layer_array(&name, layer, "offsets"),
                     &(lh_h5_shape){.type = LH_I64, .rank = 1, .dims = {w->heads->kv_heads + 1}}, w->offsets));
    lh_layer_array(&name, layer, NULL);
    LH_TRY(lh_h5_put_i64(w->h5, name.text, "budget", of->budget));
    LH_TRY(lh_h5_put_i64(w->h5, name.text, "protected_sinks", of->sinks));
    LH_TRY(lh_h5_put_i64(w->h5, name.text, "protected_recents", of->recents));
    LH_TRY(lh_h5_put_i64(w->h5, name.text, "sliding", of->slides));
    if (of->arena->view.type != LH_Q8) return LH_OK;
    return lh_h5_put_i64(w->h5, "/", "schema", LH_CACHE_SCHEMA);
}

lh_status lh_write_layer(lh_layer_writer *w, int64_t layer, const lh_cache_layer *of, int64_t seen)
{
    const lh_heads *h = w->heads;
    const lh_query_ring *ring = of->ring;
    LH_TRY(lh_gather_lens(&w->gather, h, w->exec->comm, of->arena->len, w->lens));
    for (int64_t g = 0; g < h->kv_heads; g++) w->offsets[g + 1] = w->offsets[g] + w->lens[g];
    if (h->rank == 0 && w->local == LH_OK) w->local = put_layer(w, layer, of);
    for (int i = 0; i < LH_ENTRY_ARRAYS; i++) {
        const lh_arena *a = of->arena;
        lh_head_array array = {.array = lh_entry_array_of(a, i), .offset = a->offset, .lens = w->lens};
        if (a->parent) {
            array.shared = a->shared;
            array.parent_at = lh_entry_array_of(a->parent, i).at;
            array.parent_offset = a->parent->offset;
        }
        LH_TRY(lh_write_heads(w, layer, &array));
    }
    return lh_write_rows(w, layer,
                         &(lh_row_array){.name = "ring",
                                         .type = LH_F32,
                                         .at = ring->q,
                                         .rows = lh_ring_rows(ring, seen),
                                         .width = ring->shape.width / h->q_count,
                                         .ld = ring->shape.width,
                                         .ring = ring,
                                         .seen = seen});
}

/* ---- the file ---- */

lh_status lh_layer_writer_open(lh_layer_writer *w, const lh_exec *exec, const lh_heads *heads, const char *path,
                               const lh_h5_header *header)
{
    *w = (lh_layer_writer){.exec = exec, .heads = heads};
    LH_TRY(lh_calloc(&w->mine, LH_FILE_CHUNK_BYTES, 1));
    LH_TRY(lh_calloc(&w->offsets, 2 * heads->kv_heads + 1, sizeof *w->offsets));
    w->lens = w->offsets + heads->kv_heads + 1;
    LH_TRY(lh_gather_init(&w->gather, heads->ranks));
    if (heads->rank) return LH_OK;
    LH_TRY(lh_calloc(&w->all, LH_FILE_CHUNK_BYTES, 1));
    return lh_h5_create(&w->h5, path, header);
}

lh_status lh_layer_writer_commit(lh_layer_writer *w)
{
    if (w->h5 && w->local == LH_OK) {
        w->local = lh_h5_commit(w->h5);
        w->h5 = NULL;
    }
    return lh_comm_agree(w->exec->comm, w->local);
}

void lh_layer_writer_close(lh_layer_writer *w)
{
    close_array(w);
    lh_h5_close(w->h5);
    lh_gather_clear(&w->gather);
    lh_free(w->offsets);
    lh_free(w->mine);
    lh_free(w->all);
}
