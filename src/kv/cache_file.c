#include "kv/cache_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/h5.h"
#include "base/hash.h"
#include "kv/cache_impl.h"

enum { CHUNK_BYTES = 4 << 20 };

/* ---- arrays that come from all ranks ---- */

typedef enum array_kind { POSITIONS, KEYS, VALUES, STATS } array_kind;

static const char *const array_names[] = {"positions", "k", "v", "stats"};

/* A cache on its way to the file: `mine` is what this rank sends, `all` what rank 0 receives. */
typedef struct writer {
    lh_kv *kv;
    lh_h5 *h5; /* on rank 0 */
    char *mine, *all;
    lh_hasher *hasher;
    lh_h5_array *array;
    lh_layer_name name; /* of the array */
    lh_status local;    /* of this rank alone: it goes on taking part */
} writer;

/* Entries of one head, from slot `at` of it on. */
typedef struct piece {
    array_kind kind;
    int64_t layer, head, at, entries;
} piece;

/* Numbers an entry in an array of that kind, and their type. */
static int64_t entry_width(const lh_kv *kv, array_kind kind)
{
    const int64_t widths[] = {1, kv->shape.head_dim, kv->shape.head_dim, kv->layers[0].arena.form.stats};
    return widths[kind];
}

static lh_dtype entry_type(const lh_kv *kv, array_kind kind)
{
    const lh_dtype types[] = {LH_I32, kv->shape.type, kv->shape.type, LH_F32};
    return types[kind];
}

static int64_t entry_bytes(const lh_kv *kv, array_kind kind)
{
    return entry_width(kv, kind) * lh_dtype_bytes(entry_type(kv, kind));
}

static int counts_head(const lh_heads *heads, int64_t head)
{
    return head >= heads->counted_first && head < heads->counted_first + heads->counted_count;
}

static lh_status read_piece(writer *w, const piece *p)
{
    const lh_kv *kv = w->kv;
    const lh_arena *arena = &kv->layers[p->layer].arena;
    int64_t bytes = entry_bytes(kv, p->kind), slot = arena->offset[p->head - kv->shape.heads.kv_first] + p->at;
    const void *const arrays[] = {arena->view.positions, arena->view.k, arena->view.v, arena->view.stats};
    const char *from = arrays[p->kind];
    if (from)
        LH_TRY(lh_stream_copy(kv->exec.stream, w->mine, from + slot * bytes, p->entries * bytes, LH_COPY_TO_HOST));
    for (int64_t i = 0; !from && i < p->entries; i++) ((int32_t *)w->mine)[i] = (int32_t)(p->at + i);
    LH_TRY(lh_stream_sync(kv->exec.stream));
    return LH_OK;
}

/* Collective. One piece goes from the rank that counts its head to rank 0 and into the file, at entry `row`. */
static lh_status pass_piece(writer *w, const piece *p, int64_t row)
{
    lh_kv *kv = w->kv;
    const lh_heads *h = &kv->shape.heads;
    int64_t bytes = p->entries * entry_bytes(kv, p->kind);
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        kv->arrays.gather.at[r] = 0;
        kv->arrays.gather.bytes[r] = counts_head(&other, p->head) ? bytes : 0;
    }
    if (w->local == LH_OK && kv->arrays.gather.bytes[h->rank]) w->local = read_piece(w, p);
    LH_TRY(lh_comm_gatherv(kv->exec.comm, 0, w->mine, w->all, kv->arrays.gather.bytes, kv->arrays.gather.at));
    if (h->rank || w->local != LH_OK) return LH_OK;
    lh_hasher_add(w->hasher, w->all, bytes);
    w->local = lh_h5_array_write(w->array, &(lh_h5_slab){.at = {row}, .count = {p->entries, entry_width(kv, p->kind)}},
                                 w->all);
    return LH_OK;
}

/* On rank 0: a new array of a layer, and the hash of what goes into it. */
static void open_array(writer *w, int64_t layer, const char *array, const lh_h5_shape *shape)
{
    if (w->kv->shape.heads.rank || w->local != LH_OK) return;
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

/* Collective. All heads of one array of a layer; lens: of all heads. */
static lh_status pass_array(writer *w, int64_t layer, array_kind kind, const int64_t *lens)
{
    const lh_kv *kv = w->kv;
    int64_t heads = kv->shape.heads.kv_heads, entries = 0, row = 0, chunk;
    if (entry_width(kv, kind) == 0) return LH_OK;
    chunk = CHUNK_BYTES / entry_bytes(kv, kind);
    for (int64_t g = 0; g < heads; g++) entries += lens[g];
    open_array(w, layer, array_names[kind],
               &(lh_h5_shape){.type = entry_type(kv, kind),
                              .rank = kind == POSITIONS ? 1 : 2,
                              .dims = {entries, entry_width(kv, kind)}});
    for (int64_t g = 0; g < heads; g++)
        for (int64_t at = 0; at < lens[g]; at += chunk) {
            piece p = {.kind = kind, .layer = layer, .head = g, .at = at, .entries = lens[g] - at};
            if (p.entries > chunk) p.entries = chunk;
            LH_TRY(pass_piece(w, &p, row));
            row += p.entries;
        }
    close_array(w);
    return LH_OK;
}

/* ---- rings ---- */

/* Rows [at, at + rows) of the ring in the order of their positions, of this rank's query heads. */
static lh_status read_rows(writer *w, int64_t layer, int64_t at, int64_t rows)
{
    const lh_kv *kv = w->kv;
    int64_t width = kv->shape.heads.q_count * kv->shape.head_dim;
    const lh_query_ring *ring = &kv->layers[layer].ring;
    for (int64_t r = 0; r < rows; r++) {
        int64_t slot = lh_ring_slot(ring, lh_policy_row_at(&kv->numbers, kv->timeline.seen, at + r));
        LH_TRY(lh_stream_copy(kv->exec.stream, (float *)w->mine + r * width, ring->q + slot * width,
                              width * (int64_t)sizeof *ring->q, LH_COPY_TO_HOST));
    }
    LH_TRY(lh_stream_sync(kv->exec.stream));
    return LH_OK;
}

/* Collective. The same rows of all query heads, gathered by rank and written row by row. */
static lh_status pass_rows(writer *w, int64_t layer, int64_t at, int64_t rows)
{
    lh_kv *kv = w->kv;
    const lh_heads *h = &kv->shape.heads;
    int64_t head = kv->shape.head_dim * (int64_t)sizeof(float);
    lh_gather_query_heads(&kv->arrays.gather, h, rows * head);
    if (w->local == LH_OK) w->local = read_rows(w, layer, at, rows);
    LH_TRY(lh_comm_gatherv(kv->exec.comm, 0, w->mine, w->all, kv->arrays.gather.bytes, kv->arrays.gather.at));
    if (h->rank || w->local != LH_OK) return LH_OK;
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        for (int64_t t = 0; t < rows; t++)
            memcpy(w->mine + (t * h->heads + other.q_first) * head,
                   w->all + kv->arrays.gather.at[r] + t * other.q_count * head, (size_t)(other.q_count * head));
    }
    lh_hasher_add(w->hasher, w->mine, rows * h->heads * head);
    w->local =
        lh_h5_array_write(w->array, &(lh_h5_slab){.at = {at}, .count = {rows, h->heads, kv->shape.head_dim}}, w->mine);
    return LH_OK;
}

/* Collective. The last query rows of a layer, where decoding observes them. */
static lh_status pass_ring(writer *w, int64_t layer)
{
    const lh_kv *kv = w->kv;
    int64_t rows = lh_min_i64(kv->timeline.seen, kv->numbers.rows),
            row_bytes = kv->shape.heads.heads * kv->shape.head_dim * (int64_t)sizeof(float);
    int64_t chunk = CHUNK_BYTES / row_bytes;
    if (!kv->layers[layer].ring.q) return LH_OK;
    open_array(w, layer, "ring",
               &(lh_h5_shape){.type = LH_F32, .rank = 3, .dims = {rows, kv->shape.heads.heads, kv->shape.head_dim}});
    for (int64_t at = 0; at < rows; at += chunk) LH_TRY(pass_rows(w, layer, at, rows - at < chunk ? rows - at : chunk));
    close_array(w);
    return LH_OK;
}

/* ---- what rank 0 knows alone ---- */

static lh_status write_layer_head(writer *w, int64_t layer, const int64_t *lens)
{
    lh_kv *kv = w->kv;
    int64_t heads = kv->shape.heads.kv_heads, *offsets = kv->arrays.offsets;
    lh_protection p = lh_policy_protect(
        &kv->numbers, &(lh_protect_request){.budget = kv->arrays.budgets[layer],
                                            .seen = kv->timeline.seen,
                                            .visible_from = lh_kv_visible_from(&kv->shape, layer, kv->timeline.seen)});
    lh_layer_name name;
    offsets[0] = 0;
    for (int64_t g = 0; g < heads; g++) offsets[g + 1] = offsets[g] + lens[g];
    LH_TRY(lh_h5_put(w->h5, lh_layer_array(&name, layer, "offsets"),
                     &(lh_h5_shape){.type = LH_I64, .rank = 1, .dims = {heads + 1}}, offsets));
    lh_layer_array(&name, layer, NULL);
    LH_TRY(lh_h5_put_i64(w->h5, name.text, "budget", kv->arrays.budgets[layer]));
    LH_TRY(lh_h5_put_i64(w->h5, name.text, "protected_sinks", p.sinks));
    LH_TRY(lh_h5_put_i64(w->h5, name.text, "protected_recents", p.recents));
    LH_TRY(lh_h5_put_i64(w->h5, name.text, "sliding", lh_kv_slides(&kv->shape, layer)));
    return LH_OK;
}

static lh_status write_numbers(writer *w, const lh_cache_extra *extra)
{
    const lh_kv *kv = w->kv;
    char model[24];
    snprintf(model, sizeof model, "%016llx", (unsigned long long)extra->model);
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"layers", kv->shape.layers},
                   {"heads", kv->shape.heads.heads},
                   {"kv_heads", kv->shape.heads.kv_heads},
                   {"head_dim", kv->shape.head_dim},
                   {"window", kv->shape.window},
                   {"entries", kv->numbers.budget}, /* C */
                   {"prompt_tokens", kv->prompt.tokens},
                   {"seen_tokens", kv->timeline.seen},
                   {"steps", kv->timeline.steps},
                   {"evictions", kv->timeline.evictions},
                   {"budgets_made", kv->timeline.budgets_made},
                   {"seed", (int64_t)extra->seed}};
    LH_TRY(lh_h5_group(w->h5, "/state"));
    LH_TRY(lh_h5_put_string(w->h5, "/state", "model", model));
    LH_TRY(lh_h5_put_string(w->h5, "/state", "positions", lh_kv_uses_slots(&kv->numbers) ? "slot" : "original"));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        LH_TRY(lh_h5_put_i64(w->h5, "/state", numbers[i].name, numbers[i].value));
    if (kv->policy.proxies.kind == LH_PROXIES_QUESTION)
        LH_TRY(lh_h5_put_i64(w->h5, "/state", "question_tokens", kv->policy.proxies.question));
    return LH_OK;
}

static lh_status write_head(writer *w, const char *path, const lh_cache_extra *extra)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    char *text = NULL;
    LH_TRY_DONE(
        lh_h5_create(&w->h5, path, &(lh_h5_header){.kind = "cache", .schema = LH_CACHE_SCHEMA, .run = extra->run}));
    LH_TRY_DONE(lh_policy_json(&w->kv->policy, &json));
    LH_TRY_DONE(lh_profiles_put_json(w->kv->shape.profiles, &w->kv->policy, json));
    text = json_dumps(json, JSON_COMPACT);
    if (!text) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
    LH_TRY_DONE(lh_h5_put_text(w->h5, "/policy", text, (int64_t)strlen(text)));
    LH_TRY_DONE(write_numbers(w, extra));
    LH_TRY_DONE(
        lh_h5_put(w->h5, "/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {extra->n}}, extra->tokens));
    LH_TRY_DONE(
        lh_h5_put(w->h5, "/logits", &(lh_h5_shape){.type = LH_F32, .rank = 1, .dims = {extra->vocab}}, extra->logits));
done:
    free(text);
    json_decref(json);
    return st;
}

lh_status lh_cache_save(lh_kv *kv, const char *path, const lh_cache_extra *extra)
{
    lh_status st = LH_OK;
    writer w = {.kv = kv};
    int64_t *lens = kv->arrays.lens;
    int root = kv->shape.heads.rank == 0;
    w.local = lh_kv_fetch_lens(kv);
    if (w.local == LH_OK) w.local = lh_calloc(&w.mine, CHUNK_BYTES, 1);
    if (w.local == LH_OK && root) w.local = lh_calloc(&w.all, CHUNK_BYTES, 1);
    if (w.local == LH_OK && root) w.local = write_head(&w, path, extra);
    LH_TRY_DONE(lh_comm_agree(kv->exec.comm, w.local));
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        const lh_arena *arena = &kv->layers[l].arena;
        LH_TRY_DONE(lh_kv_gather_lens(kv, arena->len + kv->shape.heads.counted_first - kv->shape.heads.kv_first, lens));
        if (root && w.local == LH_OK) w.local = write_layer_head(&w, l, lens);
        for (array_kind kind = POSITIONS; kind <= STATS; kind++) LH_TRY_DONE(pass_array(&w, l, kind, lens));
        LH_TRY_DONE(pass_ring(&w, l));
    }
    if (root && w.local == LH_OK) {
        w.local = lh_h5_commit(w.h5);
        w.h5 = NULL;
    }
    LH_TRY_DONE(lh_comm_agree(kv->exec.comm, w.local));
done:
    close_array(&w);
    lh_h5_close(w.h5);
    lh_free(w.mine);
    lh_free(w.all);
    return st;
}
