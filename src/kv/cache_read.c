#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/h5.h"
#include "base/json.h"
#include "kv/cache_impl.h"

static const int64_t most_entries = INT64_C(1) << 40; /* of a budget, as its option may say */

struct lh_cache_file {
    lh_h5 *h5;
    lh_policy plan;
    lh_profiles profiles; /* that it names */
    lh_timeline timeline;
    int64_t layers, heads, kv_heads, head_dim, window, entries, prompt_tokens, budgets_made;
    int32_t *tokens;
    float *logits;
    char *model_text;
    lh_cache_extra extra;
};

/* ---- open ---- */

static lh_status read_policy(lh_cache_file *f)
{
    lh_status st = LH_OK;
    char *text = NULL;
    int64_t bytes = 0;
    json_t *json = NULL;
    const char *path = lh_h5_path(f->h5);
    LH_TRY_DONE(lh_h5_get_text(f->h5, "/policy", &text, &bytes));
    if (lh_json_parse(&json, path, text, bytes) != LH_OK)
        LH_FAIL_DONE(LH_EFILE, "the policy in %s", lh_error_message());
    LH_TRY_DONE(lh_profiles_get_json(&f->profiles, json, path));
    LH_TRY_DONE(lh_policy_from_json(&f->plan, json, path));
done:
    json_decref(json);
    lh_free(text);
    return st;
}

static lh_status read_numbers(lh_cache_file *f)
{
    int64_t seed = 0;
    const struct {
        const char *name;
        int64_t *out, least, most;
    } numbers[] = {{"layers", &f->layers, 1, 1000},
                   {"heads", &f->heads, 1, 1 << 20},
                   {"kv_heads", &f->kv_heads, 1, 1 << 20},
                   {"head_dim", &f->head_dim, 1, 1 << 20},
                   {"window", &f->window, 0, INT64_MAX},
                   {"entries", &f->entries, 1, INT64_MAX},
                   {"prompt_tokens", &f->prompt_tokens, 1, INT32_MAX},
                   {"seen_tokens", &f->timeline.seen, 1, INT32_MAX},
                   {"steps", &f->timeline.steps, 0, INT32_MAX},
                   {"evictions", &f->timeline.evictions, 0, INT32_MAX},
                   {"budgets_made", &f->budgets_made, 0, 1},
                   {"seed", &seed, INT64_MIN, INT64_MAX}};
    if (!lh_h5_has(f->h5, "/state")) LH_FAIL(LH_EFILE, "'%s' has no group '/state'", lh_h5_path(f->h5));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        *numbers[i].out = -1;
        LH_TRY(lh_h5_get_i64(f->h5, "/state", numbers[i].name, numbers[i].out));
        if (*numbers[i].out < numbers[i].least || *numbers[i].out > numbers[i].most)
            LH_FAIL(LH_EFILE, "'%s': '%s' of '/state' is missing or %lld, it must be between %lld and %lld",
                    lh_h5_path(f->h5), numbers[i].name, (long long)*numbers[i].out, (long long)numbers[i].least,
                    (long long)numbers[i].most);
    }
    LH_TRY(lh_h5_get_string(f->h5, "/state", "model", &f->model_text));
    if (!f->model_text || sscanf(f->model_text, "%16" SCNx64, &f->extra.model) != 1)
        LH_FAIL(LH_EFILE, "'%s' does not say which model it belongs to", lh_h5_path(f->h5));
    f->extra.seed = (uint64_t)seed;
    f->timeline.budgets_made = (int)f->budgets_made;
    return LH_OK;
}

/* Of the prompt, where the policy observes them. */
static lh_status read_question(lh_cache_file *f)
{
    int64_t tokens = 0;
    if (f->plan.proxies.kind != LH_PROXIES_QUESTION) return LH_OK;
    LH_TRY(lh_h5_get_i64(f->h5, "/state", "question_tokens", &tokens));
    if (tokens < 1 || tokens > f->prompt_tokens)
        LH_FAIL(LH_EFILE, "'%s': 'question_tokens' of '/state' is missing or %lld, it must be between 1 and %lld",
                lh_h5_path(f->h5), (long long)tokens, (long long)f->prompt_tokens);
    lh_policy_ask(&f->plan, tokens);
    return LH_OK;
}

static lh_status check_finite(const lh_cache_file *f, const char *name, const float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            LH_FAIL(LH_EFILE, "'%s': '%s' holds a value that is not finite", lh_h5_path(f->h5), name);
    return LH_OK;
}

lh_status lh_cache_open(lh_cache_file **out, const char *path)
{
    lh_status st = LH_OK;
    lh_cache_file *f = NULL;
    lh_h5_shape shape;
    LH_TRY_DONE(lh_calloc(&f, 1, sizeof *f));
    LH_TRY_DONE(lh_h5_open(&f->h5, path, &(lh_h5_header){.kind = "cache", .schema = LH_CACHE_SCHEMA}));
    LH_TRY_DONE(read_policy(f));
    LH_TRY_DONE(read_numbers(f));
    LH_TRY_DONE(read_question(f));
    if (lh_profiles_check(&f->profiles, &f->plan, f->layers, f->kv_heads) != LH_OK)
        LH_FAIL_DONE(LH_EFILE, "the policy in '%s' does not fit: %s", path, lh_error_message());
    LH_TRY_DONE(
        lh_h5_get(f->h5, "/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {-1}}, &shape, &f->tokens));
    f->extra.n = shape.dims[0];
    if (f->extra.n < f->timeline.seen)
        LH_FAIL_DONE(LH_EFILE, "'%s' holds %lld tokens and says that %lld were seen", path, (long long)f->extra.n,
                     (long long)f->timeline.seen);
    for (int64_t t = 0; t < f->extra.n; t++)
        if (f->tokens[t] < 0) LH_FAIL_DONE(LH_EFILE, "'%s': token %lld is %d", path, (long long)t, f->tokens[t]);
    LH_TRY_DONE(
        lh_h5_get(f->h5, "/logits", &(lh_h5_shape){.type = LH_F32, .rank = 1, .dims = {-1}}, &shape, &f->logits));
    f->extra.vocab = shape.dims[0];
    LH_TRY_DONE(check_finite(f, "/logits", f->logits, f->extra.vocab));
    f->extra.tokens = f->tokens;
    f->extra.logits = f->logits;
    *out = f;
    f = NULL;
done:
    lh_cache_close(f);
    return st;
}

void lh_cache_close(lh_cache_file *f)
{
    if (!f) return;
    lh_h5_close(f->h5);
    lh_free(f->tokens);
    lh_free(f->logits);
    lh_free(f->model_text);
    lh_profiles_clear(&f->profiles);
    lh_free(f);
}

const lh_policy *lh_cache_policy(const lh_cache_file *f)
{
    return &f->plan;
}

const lh_profiles *lh_cache_profiles(const lh_cache_file *f)
{
    return &f->profiles;
}

lh_cache_extra lh_cache_extra_of(const lh_cache_file *f)
{
    return f->extra;
}

/* ---- restore ---- */

static lh_status check_fit(const lh_cache_file *f, const lh_kv *kv, uint64_t model)
{
    lh_status st = LH_OK;
    const lh_kv_shape *s = &kv->shape;
    lh_policy mine = kv->policy, theirs = f->plan;
    lh_buf text = {0};
    mine.by_default = theirs.by_default = 0;
    const struct {
        const char *name;
        int64_t file, wanted;
    } shape[] = {{"layers", f->layers, s->layers},
                 {"query heads", f->heads, s->heads.heads},
                 {"KV heads", f->kv_heads, s->heads.kv_heads},
                 {"dimensions a head", f->head_dim, s->head_dim},
                 {"keys a window", f->window, s->window}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        if (shape[i].file != shape[i].wanted)
            LH_FAIL_DONE(LH_EFILE, "'%s' holds a cache of %lld %s, the model has %lld", lh_h5_path(f->h5),
                         (long long)shape[i].file, shape[i].name, (long long)shape[i].wanted);
    if (f->extra.model != model)
        LH_FAIL_DONE(LH_EFILE, "'%s' is the cache of another model (%016llx, not %016llx)", lh_h5_path(f->h5),
                     (unsigned long long)f->extra.model, (unsigned long long)model);
    if (memcmp(&mine, &theirs, sizeof mine) != 0) {
        LH_TRY_DONE(lh_policy_text(&theirs, &text));
        LH_FAIL_DONE(LH_EUSAGE, "'%s' was made with the policy '%s': leave out '--policy', '--budget' and their parts",
                     lh_h5_path(f->h5), text.data);
    }
done:
    lh_buf_clear(&text);
    return st;
}

/* One layer of the file, opened. */
typedef struct layer_reader {
    const lh_cache_file *f;
    lh_kv *kv;
    int64_t layer;
    int64_t *offsets; /* [kv_heads + 1] */
    lh_h5_array *positions, *k, *v, *stats, *ring;
} layer_reader;

static void close_layer(layer_reader *r)
{
    lh_free(r->offsets);
    lh_h5_array_close(r->positions);
    lh_h5_array_close(r->k);
    lh_h5_array_close(r->v);
    lh_h5_array_close(r->stats);
    lh_h5_array_close(r->ring);
    r->offsets = NULL;
    r->positions = r->k = r->v = r->stats = r->ring = NULL;
}

static lh_status open_array(layer_reader *r, const char *array, const lh_h5_shape *want, lh_h5_array **out)
{
    lh_layer_name name;
    LH_TRY(lh_h5_array_open(out, r->f->h5, lh_layer_array(&name, r->layer, array)));
    const lh_h5_shape *got = lh_h5_array_shape(*out);
    if (got->type != want->type)
        LH_FAIL(LH_EFILE, "'%s': '%s' is %s, this run wants %s ('--kv-dtype')", lh_h5_path(r->f->h5), name.text,
                lh_dtype_name(got->type), lh_dtype_name(want->type));
    int same = got->rank == want->rank;
    for (int i = 0; same && i < want->rank; i++) same = got->dims[i] == want->dims[i];
    if (!same) LH_FAIL(LH_EFILE, "'%s': '%s' has not the shape that its offsets say", lh_h5_path(r->f->h5), name.text);
    return LH_OK;
}

/* Heads that nothing makes uneven hold as many entries as each other; in a sliding layer, what the next row sees at
 * most. */
static lh_status check_lengths(const layer_reader *r)
{
    const lh_kv *kv = r->kv;
    int slides = lh_kv_slides(&kv->shape, r->layer);
    for (int64_t g = 0; g < r->f->kv_heads; g++) {
        int64_t n = r->offsets[g + 1] - r->offsets[g];
        if (slides && n >= kv->shape.window)
            LH_FAIL(
                LH_EFILE, "'%s': head %lld of layer %lld holds %lld entries, more than the %lld that its window shows",
                lh_h5_path(r->f->h5), (long long)g, (long long)r->layer, (long long)n, (long long)kv->shape.window - 1);
        if (!slides && kv->policy.budgets.heads == LH_HEADS_UNIFORM && n != r->offsets[1])
            LH_FAIL(LH_EFILE, "'%s': the heads of layer %lld hold %lld and %lld entries, by '%s' they hold as many",
                    lh_h5_path(r->f->h5), (long long)r->layer, (long long)r->offsets[1], (long long)n, kv->policy.name);
    }
    return LH_OK;
}

static lh_status open_layer(layer_reader *r)
{
    const lh_cache_file *f = r->f;
    lh_layer_name name;
    lh_h5_shape shape;
    LH_TRY(lh_h5_get(f->h5, lh_layer_array(&name, r->layer, "offsets"),
                     &(lh_h5_shape){.type = LH_I64, .rank = 1, .dims = {f->kv_heads + 1}}, &shape, &r->offsets));
    for (int64_t g = 0; g <= f->kv_heads; g++) {
        int64_t n = g ? r->offsets[g] - r->offsets[g - 1] : 0;
        if ((g == 0 && r->offsets[0] != 0) || r->offsets[g] < 0 || n < 0 || n > f->timeline.seen)
            LH_FAIL(LH_EFILE, "'%s': '%s' does not rise from 0 by at most %lld a head", lh_h5_path(f->h5), name.text,
                    (long long)f->timeline.seen);
    }
    lh_h5_shape entries = {.type = LH_I32, .rank = 1, .dims = {r->offsets[f->kv_heads]}};
    LH_TRY(open_array(r, "positions", &entries, &r->positions));
    entries = (lh_h5_shape){.type = r->kv->shape.type, .rank = 2, .dims = {r->offsets[f->kv_heads], f->head_dim}};
    LH_TRY(open_array(r, "k", &entries, &r->k));
    LH_TRY(open_array(r, "v", &entries, &r->v));
    LH_TRY(check_lengths(r));
    int64_t budget = 0, stats = r->kv->layers[r->layer].arena.form.stats;
    entries = (lh_h5_shape){.type = LH_F32, .rank = 2, .dims = {r->offsets[f->kv_heads], stats}};
    if (stats) LH_TRY(open_array(r, "stats", &entries, &r->stats));
    lh_layer_array(&name, r->layer, NULL);
    LH_TRY(lh_h5_get_i64(f->h5, name.text, "budget", &budget));
    if (budget < 1 || budget > most_entries)
        LH_FAIL(LH_EFILE, "'%s': the budget of '%s' is missing or %lld, it must be between 1 and %lld",
                lh_h5_path(f->h5), name.text, (long long)budget, (long long)most_entries);
    r->kv->arrays.budgets[r->layer] = budget;
    if (r->kv->stats.norms >= 0) r->kv->layers[r->layer].normless = f->timeline.seen; /* norms are made again */
    return LH_OK;
}

/* Positions of a head: below what was seen, none twice, and without gaps where the cache stores none. */
static lh_status check_positions(layer_reader *r, const int32_t *positions, int64_t n)
{
    lh_status st = LH_OK;
    int32_t *sorted = NULL;
    const lh_arena *arena = &r->kv->layers[r->layer].arena;
    int rises = 1;
    for (int64_t i = 1; i < n; i++) rises &= positions[i] > positions[i - 1];
    if (!rises) {
        LH_TRY_DONE(lh_calloc(&sorted, n, sizeof *sorted));
        memcpy(sorted, positions, (size_t)n * sizeof *sorted);
        qsort(sorted, (size_t)n, sizeof *sorted, lh_kv_by_position);
    }
    const int32_t *p = sorted ? sorted : positions;
    for (int64_t i = 0; i < n; i++) {
        int wrong = p[i] < 0 || p[i] >= r->f->timeline.seen || (i && p[i] == p[i - 1]);
        if (wrong || (!arena->form.has_positions && positions[i] != i))
            LH_FAIL_DONE(LH_EFILE, "'%s': layer %lld holds an entry at position %d, which cannot be",
                         lh_h5_path(r->f->h5), (long long)r->layer, p[i]);
    }
done:
    lh_free(sorted);
    return st;
}

/* Keys or values of one head by way of `buffer`. */
typedef struct span {
    int64_t row, slot, entries;
} span;

static lh_status read_entries(layer_reader *r, lh_h5_array *array, void *dst, const span *s)
{
    lh_status st = LH_OK;
    lh_kv *kv = r->kv;
    int64_t dim = kv->shape.head_dim, bytes = lh_dtype_bytes(kv->shape.type), chunk = (4 << 20) / (dim * bytes) + 1;
    char *raw = NULL;
    float *values = NULL;
    LH_TRY_DONE(lh_calloc(&raw, chunk * dim, bytes));
    LH_TRY_DONE(lh_calloc(&values, chunk * dim, sizeof *values));
    for (int64_t at = 0; at < s->entries; at += chunk) {
        int64_t n = s->entries - at < chunk ? s->entries - at : chunk;
        LH_TRY_DONE(lh_h5_array_read(array, &(lh_h5_slab){.at = {s->row + at}, .count = {n, dim}}, raw));
        lh_dtype_convert(values, LH_F32, raw, kv->shape.type, n * dim);
        LH_TRY_DONE(check_finite(r->f, "keys and values", values, n * dim));
        LH_TRY_DONE(lh_stream_copy(kv->exec.stream, (char *)dst + (s->slot + at) * dim * bytes, raw, n * dim * bytes,
                                   LH_COPY_TO_DEVICE));
        LH_TRY_DONE(lh_stream_sync(kv->exec.stream));
    }
done:
    lh_free(raw);
    lh_free(values);
    return st;
}

/* Statistics of one head. */
static lh_status read_stats(layer_reader *r, const span *s)
{
    lh_status st = LH_OK;
    lh_arena *arena = &r->kv->layers[r->layer].arena;
    int64_t n = arena->form.stats;
    float *values = NULL;
    if (!n) goto done;
    LH_TRY_DONE(lh_calloc(&values, s->entries * n, sizeof *values));
    LH_TRY_DONE(lh_h5_array_read(r->stats, &(lh_h5_slab){.at = {s->row}, .count = {s->entries, n}}, values));
    LH_TRY_DONE(check_finite(r->f, "stats", values, s->entries * n));
    LH_TRY_DONE(lh_stream_copy(r->kv->exec.stream, arena->view.stats + s->slot * n, values,
                               s->entries * n * (int64_t)sizeof *values, LH_COPY_TO_DEVICE));
    LH_TRY_DONE(lh_stream_sync(r->kv->exec.stream));
done:
    lh_free(values);
    return st;
}

static lh_status read_head(layer_reader *r, int64_t h)
{
    lh_status st = LH_OK;
    lh_kv *kv = r->kv;
    lh_arena *arena = &kv->layers[r->layer].arena;
    int64_t row = r->offsets[kv->shape.heads.kv_first + h];
    span s = {.row = row, .slot = arena->offset[h], .entries = r->offsets[kv->shape.heads.kv_first + h + 1] - row};
    int32_t *positions = NULL;
    LH_TRY_DONE(lh_calloc(&positions, s.entries, sizeof *positions));
    LH_TRY_DONE(lh_h5_array_read(r->positions, &(lh_h5_slab){.at = {row}, .count = {s.entries}}, positions));
    LH_TRY_DONE(check_positions(r, positions, s.entries));
    if (arena->form.has_positions)
        LH_TRY_DONE(lh_stream_copy(kv->exec.stream, arena->view.positions + s.slot, positions,
                                   s.entries * (int64_t)sizeof *positions, LH_COPY_TO_DEVICE));
    LH_TRY_DONE(lh_stream_sync(kv->exec.stream));
    LH_TRY_DONE(read_entries(r, r->k, arena->view.k, &s));
    LH_TRY_DONE(read_entries(r, r->v, arena->view.v, &s));
    LH_TRY_DONE(read_stats(r, &s));
    arena->len[h] = s.entries;
done:
    lh_free(positions);
    return st;
}

static lh_status read_ring(layer_reader *r)
{
    lh_status st = LH_OK;
    lh_kv *kv = r->kv;
    const lh_heads *h = &kv->shape.heads;
    int64_t seen = r->f->timeline.seen, rows = lh_policy_rows(&kv->numbers, seen);
    int64_t width = h->q_count * kv->shape.head_dim;
    float *row = NULL, *ring = kv->layers[r->layer].ring.q;
    if (!ring) goto done;
    LH_TRY_DONE(open_array(
        r, "ring", &(lh_h5_shape){.type = LH_F32, .rank = 3, .dims = {rows, h->heads, kv->shape.head_dim}}, &r->ring));
    LH_TRY_DONE(lh_calloc(&row, width, sizeof *row));
    for (int64_t t = 0; t < rows; t++) {
        LH_TRY_DONE(lh_h5_array_read(
            r->ring, &(lh_h5_slab){.at = {t, h->q_first}, .count = {1, h->q_count, kv->shape.head_dim}}, row));
        LH_TRY_DONE(check_finite(r->f, "ring", row, width));
        int64_t slot = lh_ring_slot(&kv->layers[r->layer].ring, lh_policy_row_at(&kv->numbers, seen, t));
        LH_TRY_DONE(
            lh_stream_copy(kv->exec.stream, ring + slot * width, row, width * (int64_t)sizeof *row, LH_COPY_TO_DEVICE));
        LH_TRY_DONE(lh_stream_sync(kv->exec.stream));
    }
done:
    lh_free(row);
    return st;
}

static lh_status restore_layer(layer_reader *r)
{
    lh_status st = LH_OK;
    lh_kv *kv = r->kv;
    lh_arena *arena = &kv->layers[r->layer].arena;
    int64_t *caps = kv->arrays.kept;
    LH_TRY_DONE(open_layer(r));
    lh_layer_request request = {.layer = r->layer, .budget = kv->arrays.budgets[r->layer], .prompt = kv->prompt};
    for (int64_t h = 0; h < arena->view.heads; h++) {
        const int64_t *from = r->offsets + kv->shape.heads.kv_first + h;
        caps[h] = from[1] - from[0] + lh_kv_slack(&kv->shape, &kv->numbers, &request, from[1] - from[0]);
    }
    LH_TRY_DONE(lh_arena_alloc(arena, &kv->exec, caps));
    for (int64_t h = 0; h < arena->view.heads; h++) LH_TRY_DONE(read_head(r, h));
    LH_TRY_DONE(lh_arena_push_len(arena, &kv->exec));
    LH_TRY_DONE(read_ring(r));
done:
    close_layer(r);
    return st;
}

lh_status lh_cache_restore(lh_cache_file *f, lh_kv *kv, uint64_t model, int64_t more)
{
    LH_TRY(check_fit(f, kv, model));
    LH_TRY(lh_kv_begin_layers(kv, &(lh_prompt){.tokens = f->prompt_tokens, .more = more}));
    for (int64_t l = 0; l < kv->shape.layers; l++) LH_TRY(restore_layer(&(layer_reader){.f = f, .kv = kv, .layer = l}));
    kv->timeline = f->timeline;
    kv->timeline.phase = LH_KV_DECODE;
    return LH_OK;
}
