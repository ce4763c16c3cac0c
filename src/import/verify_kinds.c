#include "import/verify_kinds.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/analysis/figures.h"
#include "lab/analysis/summary.h"
#include "lab/analysis/tables.h"

/* As the options and the reader of caches have them. */
enum { LAYERS_MAX = 1000, BIAS_LIMIT = 10 /* biases are below 2^10 */ };
static const int64_t BUDGET_MAX = INT64_C(1) << 40;

typedef struct name {
    char text[96];
} name;

static const char *layer_name(name *out, int64_t layer, const char *object)
{
    snprintf(out->text, sizeof out->text, "/layers/%03" PRId64 "%s%s", layer, *object ? "/" : "", object);
    return out->text;
}

static lh_status must_have(lh_h5 *h5, const char *object)
{
    if (!lh_h5_has(h5, object))
        LH_FAIL(LH_EFILE, "'%s' has no '%s', which every file of the kind '%s' has", lh_h5_path(h5), object,
                lh_h5_kind(h5));
    return LH_OK;
}

static lh_status must_be_within(lh_h5 *h5, const char *object, const char *attr, int64_t max, int64_t *out)
{
    *out = -1;
    LH_TRY(lh_h5_get_i64(h5, object, attr, out));
    if (*out < 1 || *out > max)
        LH_FAIL(LH_EFILE, "'%s': '%s' of '%s' is missing or %" PRId64 ", it must be between 1 and %" PRId64,
                lh_h5_path(h5), attr, object, *out, max);
    return LH_OK;
}

static lh_status get_list(lh_h5 *h5, const char *object, lh_dtype type, int64_t *n, void *out)
{
    lh_h5_shape shape;
    LH_TRY(lh_h5_get(h5, object, &(lh_h5_shape){.type = type, .rank = 1, .dims = {-1}}, &shape, out));
    *n = shape.dims[0];
    return LH_OK;
}

/* ---- caches ---- */

static lh_status check_biases(lh_h5 *h5, int64_t layer)
{
    lh_status st = LH_OK;
    name n;
    int64_t count = 0;
    float *biases = NULL;
    if (!lh_h5_has(h5, layer_name(&n, layer, "bias"))) return LH_OK;
    LH_TRY_DONE(get_list(h5, n.text, LH_F32, &count, &biases));
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(biases[i]) < ldexpf(1.0f, BIAS_LIMIT)))
            LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' holds a bias that is not finite or not below 2^%d, at entry %" PRId64,
                         n.text, lh_h5_path(h5), BIAS_LIMIT, i);
done:
    lh_free(biases);
    return st;
}

static lh_status check_cache_layer(lh_h5 *h5, int64_t layer, int64_t kv_heads)
{
    static const char *const objects[] = {"offsets", "k", "v"};
    lh_status st = LH_OK;
    name n;
    int64_t budget, heads = 0, *offsets = NULL;
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        LH_TRY_DONE(must_have(h5, layer_name(&n, layer, objects[i])));
    LH_TRY_DONE(must_be_within(h5, layer_name(&n, layer, ""), "budget", BUDGET_MAX, &budget));
    LH_TRY_DONE(get_list(h5, layer_name(&n, layer, "offsets"), LH_I64, &heads, &offsets));
    if (heads != kv_heads + 1)
        LH_FAIL_DONE(LH_EFILE, "'%s': '%s' has %" PRId64 " numbers, %" PRId64 " KV heads have %" PRId64, lh_h5_path(h5),
                     n.text, heads, kv_heads, kv_heads + 1);
    LH_TRY_DONE(check_biases(h5, layer));
done:
    lh_free(offsets);
    return st;
}

static lh_status check_cache(lh_h5 *h5)
{
    int64_t layers, kv_heads;
    LH_TRY(must_be_within(h5, "/state", "layers", LAYERS_MAX, &layers));
    LH_TRY(must_be_within(h5, "/state", "kv_heads", 1 << 20, &kv_heads));
    for (int64_t l = 0; l < layers; l++) LH_TRY(check_cache_layer(h5, l, kv_heads));
    return LH_OK;
}

/* The layers that are done. */
static lh_status check_prefill(lh_h5 *h5)
{
    int64_t layers, done, kv_heads;
    LH_TRY(must_be_within(h5, "/state", "layers", LAYERS_MAX, &layers));
    LH_TRY(must_be_within(h5, "/state", "layers_done", layers - 1, &done));
    LH_TRY(must_be_within(h5, "/state", "kv_heads", 1 << 20, &kv_heads));
    for (int64_t l = 0; l < done; l++) LH_TRY(check_cache_layer(h5, l, kv_heads));
    return LH_OK;
}

/* ---- keep sets ---- */

/* Of foreign numbers, which may be any: without overflow. */
static int64_t length_of(const int64_t *offsets, int64_t head)
{
    return (int64_t)((uint64_t)offsets[head + 1] - (uint64_t)offsets[head]);
}

/* The budget of a head, where there is one, is the number of its positions. */
static lh_status check_kept(lh_h5 *h5, int64_t layer, const char *part)
{
    lh_status st = LH_OK;
    name n;
    char object[32];
    int64_t heads = 0, bounds = 0, *offsets = NULL;
    int32_t *budgets = NULL;
    snprintf(object, sizeof object, "%s/positions", part);
    LH_TRY_DONE(must_have(h5, layer_name(&n, layer, object)));
    snprintf(object, sizeof object, "%s/offsets", part);
    LH_TRY_DONE(get_list(h5, layer_name(&n, layer, object), LH_I64, &bounds, &offsets));
    snprintf(object, sizeof object, "%s/budgets", part);
    if (!lh_h5_has(h5, layer_name(&n, layer, object))) goto done; /* others need not write them */
    LH_TRY_DONE(get_list(h5, n.text, LH_I32, &heads, &budgets));
    if (bounds != heads + 1)
        LH_FAIL_DONE(LH_EFILE, "'%s': '%s' has %" PRId64 " heads, the offsets beside it have %" PRId64, lh_h5_path(h5),
                     n.text, heads, bounds - 1);
    for (int64_t h = 0; h < heads; h++)
        if (budgets[h] != length_of(offsets, h))
            LH_FAIL_DONE(LH_EFILE, "'%s': '%s' says that head %" PRId64 " keeps %d entries, its offsets say %" PRId64,
                         lh_h5_path(h5), n.text, h, budgets[h], length_of(offsets, h));
done:
    lh_free(offsets);
    lh_free(budgets);
    return st;
}

static lh_status check_keep_sets(lh_h5 *h5)
{
    name n;
    int64_t layer = 0;
    do {
        LH_TRY(check_kept(h5, layer, "kept"));
        if (lh_h5_has(h5, layer_name(&n, layer, "final"))) LH_TRY(check_kept(h5, layer, "final"));
    } while (lh_h5_has(h5, layer_name(&n, ++layer, "")));
    return LH_OK;
}

/* ---- analyses ---- */

static lh_status count_object(void *self, lh_h5 *h5, const char *object)
{
    (void)h5, (void)object;
    ++*(int64_t *)self;
    return LH_OK;
}

/* A group with attributes is what an evaluation leaves that was interrupted before its first result. */
static lh_status check_analysis(lh_h5 *h5)
{
    lh_status st = LH_OK;
    lh_figures figures = {0};
    lh_tables tables = {0};
    int64_t found = 0;
    json_t *object = json_object(), *arrays = NULL, *summary = NULL, *member;
    const char *key;
    LH_TRY_DONE(lh_h5_each_array(h5, count_object, &found));
    LH_TRY_DONE(lh_h5_each_text(h5, count_object, &found));
    LH_TRY_DONE(lh_h5_describe(h5, object, &arrays));
    json_object_foreach(object, key, member) found += key[0] == '/';
    if (!found) LH_FAIL_DONE(LH_EFILE, "'%s' holds no results", lh_h5_path(h5));
    LH_TRY_DONE(lh_figures_read(&figures, h5));
    LH_TRY_DONE(lh_tables_read(&tables, h5));
    LH_TRY_DONE(lh_summary_read(&summary, h5));
done:
    json_decref(summary);
    lh_figures_clear(&figures);
    lh_tables_clear(&tables);
    json_decref(object);
    json_decref(arrays);
    return st;
}

/* ---- the table ---- */

typedef struct rule {
    const char *kind;
    int64_t schema; /* the newest */
    const char *objects[6];
    lh_status (*check)(lh_h5 *h5); /* NULL: none */
} rule;

static const rule rules[] = {{"checkpoint", 1, {"/config", "/weights/embed", "/weights/norm"}, NULL},
                             {"cache", 1, {"/tokens", "/policy", "/logits", "/state", "/layers"}, check_cache},
                             {"prefill", 1, {"/tokens", "/policy", "/identity", "/state", "/hidden"}, check_prefill},
                             {"keep-sets", 1, {"/tokens", "/layers/000/kept"}, check_keep_sets},
                             {"analysis", 1, {NULL}, check_analysis},
                             {"trace", 1, {"/model", "/recording", "/policy", "/tokens", "/rows"}, NULL},
                             {"trace-segment", 1, {NULL}, NULL}};

lh_status lh_verify_kind(lh_h5 *h5, int64_t schema)
{
    const rule *found = NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].kind, lh_h5_kind(h5)) == 0) found = &rules[i];
    if (!found)
        LH_FAIL(LH_EFILE,
                "'%s' is of the kind '%s', which this version does not know: checkpoint, cache, prefill, "
                "keep-sets, analysis and trace are known",
                lh_h5_path(h5), lh_h5_kind(h5));
    if (schema > found->schema)
        LH_FAIL(LH_EFILE, "'%s' has schema %" PRId64 ": this version reads up to %" PRId64 ", a newer one wrote it",
                lh_h5_path(h5), schema, found->schema);
    for (int i = 0; found->objects[i]; i++) LH_TRY(must_have(h5, found->objects[i]));
    return found->check ? found->check(h5) : LH_OK;
}
