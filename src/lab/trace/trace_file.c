#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/minmax.h"
#include "lab/trace/segment.h"
#include "lab/trace/trace_file.h"

/* ---- texts of the file ---- */

lh_status lh_trace_json(const lh_trace_file *f, const char *name, json_t **out)
{
    lh_status st = LH_OK;
    char *text = NULL;
    int64_t bytes = 0;
    LH_TRY_DONE(lh_h5_get_text(f->h5, name, &text, &bytes));
    if (lh_json_parse(out, lh_h5_path(f->h5), text, bytes) != LH_OK)
        LH_FAIL_DONE(LH_EFILE, "the text '%s' in %s", name, lh_error_message());
done:
    lh_free(text);
    return st;
}

typedef struct wanted_number {
    const char *name;
    int64_t min, max;
    int64_t *out;
} wanted_number;

static lh_status take_numbers(const lh_trace_file *f, const json_t *json, const char *text, const wanted_number *w)
{
    for (; w->name; w++) {
        const json_t *value = json_object_get(json, w->name);
        *w->out = json_integer_value(value);
        if (!json_is_integer(value) || *w->out < w->min || *w->out > w->max)
            LH_FAIL(LH_EFILE, "'%s' of '%s' in '%s' is missing or not an integer between %lld and %lld", w->name, text,
                    lh_h5_path(f->h5), (long long)w->min, (long long)w->max);
    }
    return LH_OK;
}

/* A list of layers, as flags. */
static lh_status take_layers(const lh_trace_file *f, const json_t *list, const char *text, uint8_t *flags)
{
    size_t i;
    json_t *value;
    if (!json_is_array(list)) LH_FAIL(LH_EFILE, "'%s' of '%s' is no list of layers", text, lh_h5_path(f->h5));
    json_array_foreach(list, i, value)
    {
        int64_t layer = json_is_integer(value) ? json_integer_value(value) : -1;
        if (layer < 0 || layer >= f->shape.layers)
            LH_FAIL(LH_EFILE, "'%s' of '%s' names a layer that the model does not have", text, lh_h5_path(f->h5));
        flags[layer] = 1;
    }
    return LH_OK;
}

static lh_status read_model(lh_trace_file *f)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    int64_t heads = 0, kv_heads = 0;
    const wanted_number numbers[] = {{"layers", 1, 1 << 16, &f->shape.layers},
                                     {"heads", 1, 1 << 16, &heads},
                                     {"kv_heads", 1, 1 << 16, &kv_heads},
                                     {"head_dim", 1, 1 << 12, &f->shape.head_dim},
                                     {"hidden", 1, 1 << 24, &f->shape.hidden},
                                     {"window", 0, INT32_MAX, &f->shape.window},
                                     {NULL, 0, 0, NULL}};
    LH_TRY_DONE(lh_trace_json(f, "/model", &json));
    LH_TRY_DONE(take_numbers(f, json, "/model", numbers));
    f->shape.scale = (float)json_number_value(json_object_get(json, "scale"));
    f->shape.softcap = (float)json_number_value(json_object_get(json, "softcap"));
    if (!(f->shape.scale > 0) || !(f->shape.softcap >= 0))
        LH_FAIL_DONE(LH_EFILE, "'/model' of '%s' has a scale of logits that is not positive", lh_h5_path(f->h5));
    if (lh_heads_of(&f->shape.heads, heads, kv_heads, 0, 1) != LH_OK)
        LH_FAIL_DONE(LH_EFILE, "'/model' of '%s' has %lld heads and %lld KV heads", lh_h5_path(f->h5), (long long)heads,
                     (long long)kv_heads);
    LH_TRY_DONE(lh_calloc(&f->sliding, f->shape.layers, 1));
    LH_TRY_DONE(lh_calloc(&f->recorded, f->shape.layers, 1));
    LH_TRY_DONE(take_layers(f, json_object_get(json, "sliding"), "/model: sliding", f->sliding));
    f->shape.sliding = f->sliding;
done:
    json_decref(json);
    return st;
}

static lh_status take_questions(lh_trace_file *f, const json_t *list)
{
    lh_trace_questions *q = &f->questions;
    if (!json_is_array(list))
        LH_FAIL(LH_EFILE, "'/recording' of '%s' has no list of questions: record the trace again with this version",
                lh_h5_path(f->h5));
    q->count = (int64_t)json_array_size(list);
    LH_TRY(lh_calloc(&q->tokens, q->count, sizeof *q->tokens));
    for (int64_t i = 0; i < q->count; i++) {
        const json_int_t n = json_integer_value(json_array_get(list, (size_t)i));
        if (n < 1 || n > INT32_MAX)
            LH_FAIL(LH_EFILE, "question %lld in '/recording' of '%s' is not a number of tokens", (long long)i,
                    lh_h5_path(f->h5));
        q->tokens[i] = (int32_t)n;
    }
    return LH_OK;
}

static lh_status read_recording(lh_trace_file *f)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    int64_t seed = 0;
    const wanted_number numbers[] = {
        {"prompt_tokens", 1, INT32_MAX, &f->prompt},    {"window", 1, INT32_MAX, &f->window},
        {"column_rows", 0, INT32_MAX, &f->column_rows}, {"seed", INT64_MIN, INT64_MAX, &seed},
        {"asked", 0, INT32_MAX, &f->questions.asked},   {NULL, 0, 0, NULL}};
    LH_TRY_DONE(lh_trace_json(f, "/recording", &json));
    LH_TRY_DONE(take_numbers(f, json, "/recording", numbers));
    f->seed = (uint64_t)seed;
    f->window = lh_min_i64(f->window, f->prompt);
    f->questions.asked = lh_min_i64(f->questions.asked, f->prompt);
    const char *level = json_string_value(json_object_get(json, "level"));
    f->level = level ? lh_trace_level_find(level) : NULL;
    if (!f->level) LH_FAIL_DONE(LH_EFILE, "'/recording' of '%s' has no level that is known", lh_h5_path(f->h5));
    f->shape.order = json_is_true(json_object_get(json, "deterministic")) ? LH_ORDER_FIXED : LH_ORDER_ANY;
    LH_TRY_DONE(take_questions(f, json_object_get(json, "questions")));
    LH_TRY_DONE(take_layers(f, json_object_get(json, "layers"), "/recording: layers", f->recorded));
done:
    json_decref(json);
    return st;
}

static lh_status read_policy(lh_trace_file *f)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    LH_TRY_DONE(lh_trace_json(f, "/policy", &json));
    LH_TRY_DONE(lh_profiles_get_json(&f->profiles, json, lh_h5_path(f->h5)));
    LH_TRY_DONE(lh_policy_from_json(&f->policy, json, lh_h5_path(f->h5)));
done:
    json_decref(json);
    return st;
}

/* ---- arrays ---- */

/* Integers between min and max; -1 as count: any, which it then is. */
typedef struct wanted_ints {
    const char *name;
    int64_t *count;
    int64_t min, max;
    int32_t **out;
} wanted_ints;

static lh_status take_ints(lh_trace_file *f, const wanted_ints *w)
{
    lh_h5_shape shape;
    LH_TRY(lh_h5_get(f->h5, w->name, &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {*w->count}}, &shape, w->out));
    *w->count = shape.dims[0];
    for (int64_t i = 0; i < *w->count; i++)
        if ((*w->out)[i] < w->min || (*w->out)[i] > w->max)
            LH_FAIL(LH_EFILE, "element %lld of '%s' in '%s' is %d, it must be between %lld and %lld", (long long)i,
                    w->name, lh_h5_path(f->h5), (*w->out)[i], (long long)w->min, (long long)w->max);
    return LH_OK;
}

static lh_status check_rows(const lh_trace_file *f)
{
    int ok = f->row_count >= f->window;
    for (int64_t i = 1; i < f->row_count && ok; i++) ok = f->rows[i] > f->rows[i - 1];
    for (int64_t i = 0; i < f->window && ok; i++)
        ok = f->rows[f->row_count - f->window + i] == f->prompt - f->window + i;
    if (!ok)
        LH_FAIL(LH_EFILE, "'/rows' of '%s' does not ascend, or does not end with the last %lld positions of the prompt",
                lh_h5_path(f->h5), (long long)f->window);
    return LH_OK;
}

/* Answers follow each other; each begins with its question, and its positions continue the prompt's. */
static lh_status check_after(const lh_trace_file *f)
{
    const int32_t *answers = f->after_answers;
    for (int64_t i = 0, first = 0; i < f->after_count; i++) {
        if (i && answers[i] != answers[i - 1]) {
            if (answers[i] < answers[i - 1])
                LH_FAIL(LH_EFILE,
                        "element %lld of '/decode/answers' in '%s' is %d after %d, answers must follow each other",
                        (long long)i, lh_h5_path(f->h5), answers[i], answers[i - 1]);
            first = i;
        }
        if (f->after_positions[i] != f->prompt + i - first)
            LH_FAIL(LH_EFILE, "element %lld of '/decode/positions' in '%s' is %d, it must be %lld", (long long)i,
                    lh_h5_path(f->h5), f->after_positions[i], (long long)(f->prompt + i - first));
        if (f->questions.count && answers[i] >= f->questions.count)
            LH_FAIL(LH_EFILE, "element %lld of '/decode/answers' in '%s' is %d, there are %lld questions", (long long)i,
                    lh_h5_path(f->h5), answers[i], (long long)f->questions.count);
    }
    return LH_OK;
}

int lh_trace_next_answer(const lh_trace_file *f, lh_trace_answer_rows *rows)
{
    rows->first = rows->end;
    if (rows->first == f->after_count) return 0;
    const int32_t number = f->after_answers[rows->first];
    while (rows->end < f->after_count && f->after_answers[rows->end] == number) rows->end++;
    rows->block = f->questions.count ? lh_min_i64(f->questions.tokens[number], rows->end - rows->first) : 0;
    return 1;
}

static lh_status read_after(lh_trace_file *f)
{
    f->after_count = -1;
    if (!lh_h5_has(f->h5, "/decode/positions")) {
        f->after_count = 0; /* nothing was generated, or the run was killed */
        return LH_OK;
    }
    LH_TRY(
        take_ints(f, &(wanted_ints){"/decode/positions", &f->after_count, f->prompt, INT32_MAX, &f->after_positions}));
    LH_TRY(take_ints(f, &(wanted_ints){"/decode/answers", &f->after_count, 0, INT32_MAX, &f->after_answers}));
    return check_after(f);
}

/* Layers that the recording names and the file has: a killed run leaves fewer. */
static void find_layers(lh_trace_file *f)
{
    char name[LH_SEGMENT_NAME];
    for (int64_t l = 0; l < f->shape.layers; l++) {
        snprintf(name, sizeof name, "/layers/%03lld/prefill/queries", (long long)l);
        f->recorded[l] = f->recorded[l] && lh_h5_has(f->h5, name);
    }
}

static lh_status read_chunk(lh_trace_file *f)
{
    int64_t one = 1;
    int32_t *chunk = NULL;
    if (!lh_h5_has(f->h5, "/chunk_tokens")) return LH_OK;
    lh_status st = take_ints(f, &(wanted_ints){"/chunk_tokens", &one, 1, INT32_MAX, &chunk});
    if (st == LH_OK) f->chunk = chunk[0];
    lh_free(chunk);
    return st;
}

/* Reads the type of the entries from the first layer that has entries. */
static lh_status read_type(lh_trace_file *f)
{
    lh_h5_array *array = NULL;
    char name[LH_SEGMENT_NAME];
    for (int64_t l = 0; l < f->shape.layers; l++) {
        snprintf(name, sizeof name, "/layers/%03lld/prefill/keys", (long long)l);
        if (!f->recorded[l] || !lh_h5_has(f->h5, name)) continue;
        LH_TRY(lh_h5_array_open(&array, f->h5, name));
        const lh_dtype type = lh_h5_array_shape(array)->type;
        lh_h5_array_close(array);
        if (type != LH_F32 && type != LH_BF16)
            LH_FAIL(LH_EFILE, "'%s' of '%s' is of type %s, keys are f32 or bf16", name, lh_h5_path(f->h5),
                    lh_dtype_name(type));
        f->shape.types = (lh_kv_types){type, type, type};
        return LH_OK;
    }
    return LH_OK;
}

lh_status lh_trace_file_open(lh_trace_file *f, const char *path)
{
    *f = (lh_trace_file){0};
    LH_TRY(lh_h5_open(&f->h5, path, &(lh_h5_header){"trace", LH_TRACE_SCHEMA, NULL}));
    LH_TRY(read_model(f));
    LH_TRY(read_recording(f));
    LH_TRY(read_policy(f));
    lh_policy_ask(&f->policy, f->questions.asked);
    LH_TRY(take_ints(f, &(wanted_ints){"/tokens", &f->prompt, 0, INT32_MAX, &f->tokens}));
    f->row_count = -1;
    LH_TRY(take_ints(f, &(wanted_ints){"/rows", &f->row_count, 0, f->prompt - 1, &f->rows}));
    LH_TRY(check_rows(f));
    LH_TRY(read_after(f));
    LH_TRY(read_chunk(f));
    find_layers(f);
    return read_type(f);
}

void lh_trace_file_close(lh_trace_file *f)
{
    lh_h5_close(f->h5);
    lh_profiles_clear(&f->profiles);
    lh_free(f->recorded);
    lh_free(f->sliding);
    lh_free(f->tokens);
    lh_free(f->rows);
    lh_free(f->after_positions);
    lh_free(f->after_answers);
    lh_free(f->questions.tokens);
    *f = (lh_trace_file){0};
}

int64_t lh_trace_row_at(const lh_trace_file *t, int64_t position)
{
    int64_t low = 0, high = t->row_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (t->rows[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->row_count && t->rows[low] == position ? low : -1;
}

lh_status lh_trace_answers(const lh_trace_file *f, json_t **out)
{
    return lh_h5_has(f->h5, "/answers") ? lh_trace_json(f, "/answers", out) : LH_OK;
}

/* ---- one layer ---- */

/* An array of a layer, as f32 or in its stored type; a missing array stays NULL. */
typedef struct wanted_array {
    const char *array;
    void *out; /* void ** */
    int rank;
    int64_t dims[3];
    int as_stored;
    lh_dtype *type; /* stored type; NULL: not needed */
    int64_t *count; /* its elements, likewise */
} wanted_array;

static lh_status to_floats(void **data, lh_dtype from, int64_t n)
{
    float *floats = NULL;
    if (from == LH_F32) return LH_OK;
    LH_TRY(lh_calloc(&floats, n, sizeof *floats));
    lh_dtype_convert(floats, LH_F32, *data, from, n);
    lh_free(*data);
    *data = floats;
    return LH_OK;
}

static lh_status take_array(const lh_trace_file *f, int64_t layer, const wanted_array *w)
{
    lh_h5_array *array = NULL;
    char name[LH_SEGMENT_NAME];
    lh_h5_shape shape, want = {.rank = w->rank};
    void **out = w->out;
    snprintf(name, sizeof name, "/layers/%03lld/%s", (long long)layer, w->array);
    if (!lh_h5_has(f->h5, name)) return LH_OK;
    LH_TRY(lh_h5_array_open(&array, f->h5, name));
    want.type = lh_h5_array_shape(array)->type;
    lh_h5_array_close(array);
    if (want.type != LH_F32 && want.type != LH_BF16)
        LH_FAIL(LH_EFILE, "'%s' of '%s' is of type %s, it must be f32 or bf16", name, lh_h5_path(f->h5),
                lh_dtype_name(want.type));
    memcpy(want.dims, w->dims, sizeof w->dims);
    LH_TRY(lh_h5_get(f->h5, name, &want, &shape, out));
    if (w->type) *w->type = want.type;
    if (w->count) *w->count = lh_h5_shape_count(&shape);
    return w->as_stored ? LH_OK : to_floats(out, want.type, lh_h5_shape_count(&shape));
}

static lh_status check_finite(const lh_trace_layer *l, const lh_trace_file *f, const float *lse, int64_t rows)
{
    for (int64_t i = 0; lse && i < rows * f->shape.heads.heads; i++)
        if (!isfinite(lse[i]))
            LH_FAIL(LH_EFILE, "a log-sum-exp of layer %lld of '%s' is not finite", (long long)l->index,
                    lh_h5_path(f->h5));
    return LH_OK;
}

/* What every layer of the level has, and what policies divide by. */
static lh_status check_layer(const lh_trace_layer *l, const lh_trace_file *f)
{
    const int after = f->after_count > 0, entries = f->level->entries;
    const struct {
        int wanted;
        const void *there;
        const char *name;
    } arrays[] = {{1, l->rows.queries, "prefill/queries"},
                  {1, l->rows.lse, "prefill/lse"},
                  {entries, l->keys, "prefill/keys"},
                  {entries, l->values, "prefill/values"},
                  {entries, l->projection, "output_projection"},
                  {after, l->after.queries, "decode/queries"},
                  {after, l->after.lse, "decode/lse"},
                  {after && entries, l->after_keys, "decode/keys"},
                  {after && entries, l->after_values, "decode/values"}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (arrays[i].wanted && !arrays[i].there)
            LH_FAIL(LH_EFILE, "layer %lld of '%s' has no '%s', which a trace of level %s has", (long long)l->index,
                    lh_h5_path(f->h5), arrays[i].name, f->level->name);
    LH_TRY(check_finite(l, f, l->rows.lse, f->row_count));
    return check_finite(l, f, l->after.lse, f->after_count);
}

/* beta and positions of the scaling of queries. */
static lh_status take_query_scaling(lh_trace_layer *l, const lh_trace_file *f, const float *scaling)
{
    if (!(scaling[0] > 0 && isfinite(scaling[0]) && scaling[1] >= 1 && scaling[1] <= 0x1p24f))
        LH_FAIL(LH_EFILE, "'rotation/query_scaling' of layer %lld of '%s' is [%g, %g]: both must be greater than 0",
                (long long)l->index, lh_h5_path(f->h5), (double)scaling[0], (double)scaling[1]);
    l->query_scaling = (lh_query_scaling){.beta = scaling[0], .positions = (int32_t)scaling[1]};
    return LH_OK;
}

lh_status lh_trace_layer_read(lh_trace_layer *l, const lh_trace_file *f, int64_t layer)
{
    const lh_heads *h = &f->shape.heads;
    const int64_t q = h->heads, kv = h->kv_heads, d = f->shape.head_dim, n = f->row_count, m = f->after_count,
                  t = f->prompt;
    int64_t half = 0;
    float *scale = NULL, *scaling = NULL;
    const lh_dtype type = f->shape.types.prompt;
    lh_dtype types[4] = {type, type, type, type};
    const wanted_array arrays[] = {
        {"prefill/queries", &l->rows.queries, 3, {n, q, d}, 0, NULL, NULL},
        {"prefill/lse", &l->rows.lse, 2, {n, q}, 0, NULL, NULL},
        {"prefill/keys", &l->keys, 3, {kv, t, d}, 1, &types[0], NULL},
        {"prefill/values", &l->values, 3, {kv, t, d}, 1, &types[1], NULL},
        {"decode/queries", &l->after.queries, 3, {m, q, d}, 0, NULL, NULL},
        {"decode/lse", &l->after.lse, 2, {m, q}, 0, NULL, NULL},
        {"decode/keys", &l->after_keys, 3, {m, kv, d}, 1, &types[2], NULL},
        {"decode/values", &l->after_values, 3, {m, kv, d}, 1, &types[3], NULL},
        {"columns/sums", &l->sums, 2, {kv, t}, 0, NULL, NULL},
        {"columns/squares", &l->squares, 2, {kv, t}, 0, NULL, NULL},
        {"columns/counts", &l->counts, 2, {kv, t}, 0, NULL, NULL},
        {"norms/projected", &l->projected, 2, {kv, t}, 0, NULL, NULL},
        {"output_projection", &l->projection, 2, {f->shape.hidden, q * d}, 1, &l->projection_type, NULL},
        {"rotation/frequencies", &l->frequencies, 1, {-1}, 0, NULL, &half},
        {"rotation/scale", &scale, 1, {1}, 0, NULL, NULL},
        {"rotation/query_scaling", &scaling, 1, {2}, 0, NULL, NULL}};
    lh_status st = LH_OK;
    *l = (lh_trace_layer){.index = layer};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && st == LH_OK; i++)
        if (m || strncmp(arrays[i].array, "decode/", 7) != 0) st = take_array(f, layer, &arrays[i]);
    l->rotary = 2 * half;
    if (scale) l->rotation_scale = *scale;
    if (st == LH_OK && scaling) st = take_query_scaling(l, f, scaling);
    lh_free(scale);
    lh_free(scaling);
    LH_TRY(st);
    for (int i = 0; i < 4; i++)
        if (types[i] != type)
            LH_FAIL(LH_EFILE, "layer %lld of '%s' has keys and values of several types", (long long)layer,
                    lh_h5_path(f->h5));
    return check_layer(l, f);
}

void lh_trace_layer_clear(lh_trace_layer *l)
{
    void *const arrays[] = {l->rows.queries, l->rows.lse,   l->after.queries, l->after.lse,  l->keys,
                            l->values,       l->after_keys, l->after_values,  l->sums,       l->squares,
                            l->counts,       l->projected,  l->projection,    l->frequencies};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) lh_free(arrays[i]);
    *l = (lh_trace_layer){0};
}

lh_status lh_trace_verify(const char *path)
{
    lh_status st = LH_OK;
    lh_trace_file file = {0};
    LH_TRY_DONE(lh_trace_file_open(&file, path));
    for (int64_t l = 0; l < file.shape.layers; l++) {
        lh_trace_layer layer = {0};
        if (file.recorded[l]) st = lh_trace_layer_read(&layer, &file, l);
        lh_trace_layer_clear(&layer);
        LH_TRY_DONE(st);
    }
done:
    lh_trace_file_close(&file);
    return st;
}

lh_status lh_trace_identity(const lh_trace_file *f, uint64_t *identity)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    char *end = NULL;
    LH_TRY_DONE(lh_trace_json(f, "/model", &json));
    const char *digits = json_string_value(json_object_get(json, "identity"));
    *identity = digits ? strtoull(digits, &end, 16) : 0;
    if (!digits || strlen(digits) != 16 || *end)
        LH_FAIL_DONE(LH_EFILE, "'/model' of '%s' has no identity of 16 hexadecimal digits", lh_h5_path(f->h5));
done:
    json_decref(json);
    return st;
}

lh_status lh_trace_run_tokens(const lh_trace_file *f, int64_t *tokens)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    LH_TRY_DONE(lh_trace_json(f, "/recording", &json));
    *tokens = json_integer_value(json_object_get(json, "run_tokens"));
    if (*tokens < f->prompt || *tokens > INT32_MAX)
        LH_FAIL_DONE(LH_EFILE, "'run_tokens' of '/recording' in '%s' is missing or not between %lld and %d",
                     lh_h5_path(f->h5), (long long)f->prompt, INT32_MAX);
done:
    json_decref(json);
    return st;
}

lh_status lh_trace_after_tokens(const lh_trace_file *f, int64_t vocab, int32_t **out)
{
    lh_h5_shape shape;
    LH_TRY(lh_h5_get(f->h5, "/decode/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {f->after_count}},
                     &shape, out));
    for (int64_t i = 0; i < f->after_count; i++)
        if ((*out)[i] < 0 || (*out)[i] >= vocab)
            LH_FAIL(LH_EFILE, "element %lld of '/decode/tokens' in '%s' is %d, the vocabulary has %lld tokens",
                    (long long)i, lh_h5_path(f->h5), (*out)[i], (long long)vocab);
    return LH_OK;
}

lh_status lh_trace_logits(const lh_trace_file *f, int64_t vocab, float **out)
{
    lh_h5_shape shape;
    return lh_h5_get(f->h5, "/logits", &(lh_h5_shape){.type = LH_F32, .rank = 2, .dims = {1, vocab}}, &shape, out);
}

static lh_status read_heads(const lh_trace_file *f, const lh_trace_entries *to, const char *array, void *data)
{
    lh_status st = LH_OK;
    lh_h5_array *a = NULL;
    char name[LH_SEGMENT_NAME];
    snprintf(name, sizeof name, "/layers/%03lld/prefill/%s", (long long)to->layer, array);
    LH_TRY_DONE(lh_h5_array_open(&a, f->h5, name));
    LH_TRY_DONE(lh_h5_array_check(a));
    const lh_h5_shape *s = lh_h5_array_shape(a);
    const int64_t dims[] = {f->shape.heads.kv_heads, f->prompt, f->shape.head_dim};
    if (s->type != f->shape.types.prompt || s->rank != 3 || memcmp(s->dims, dims, sizeof dims) != 0)
        LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' is not %s of %lld heads, %lld tokens and %lld dimensions", name,
                     lh_h5_path(f->h5), lh_dtype_name(f->shape.types.prompt), (long long)dims[0], (long long)dims[1],
                     (long long)dims[2]);
    LH_TRY_DONE(lh_h5_array_read(a, &(lh_h5_slab){.at = {to->first}, .count = {to->count, dims[1], dims[2]}}, data));
    LH_TRY_DONE(lh_h5_array_checked(a));
done:
    lh_h5_array_close(a);
    return st;
}

lh_status lh_trace_read_entries(const lh_trace_file *f, const lh_trace_entries *to)
{
    LH_TRY(read_heads(f, to, "keys", to->keys));
    return read_heads(f, to, "values", to->values);
}
