/* file_kinds.c - the files of caches, prefills and keep sets for `verify`: their objects, and the numbers that say how
 * many there are. */
#include "cache/file_kinds.h"

#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "cache/file_layout.h"

enum { LAYERS_MAX = 1000, HEADS_MAX = 1 << 20 };
static const int64_t BUDGET_MAX = INT64_C(1) << 40;

static lh_status check_number(lh_h5 *h5, const char *object, const char *attr, int64_t max, int64_t *out)
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
    lh_layer_name n;
    int64_t count = 0;
    float *biases = NULL;
    if (!lh_h5_has(h5, lh_layer_array(&n, layer, "bias"))) return LH_OK;
    LH_TRY_DONE(get_list(h5, n.text, LH_F32, &count, &biases));
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(biases[i]) < ldexpf(1.0f, LH_BIAS_LIMIT)))
            LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' holds a bias that is not finite or not below 2^%d, at entry %" PRId64,
                         n.text, lh_h5_path(h5), LH_BIAS_LIMIT, i);
done:
    lh_free(biases);
    return st;
}

static lh_status check_cache_layer(lh_h5 *h5, int64_t layer, int64_t kv_heads)
{
    static const char *const objects[] = {"offsets", "k", "v"};
    lh_status st = LH_OK;
    lh_layer_name n;
    int64_t budget, heads = 0, *offsets = NULL;
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        LH_TRY_DONE(lh_verify_has(h5, lh_layer_array(&n, layer, objects[i])));
    LH_TRY_DONE(check_number(h5, lh_layer_array(&n, layer, NULL), "budget", BUDGET_MAX, &budget));
    LH_TRY_DONE(get_list(h5, lh_layer_array(&n, layer, "offsets"), LH_I64, &heads, &offsets));
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
    LH_TRY(check_number(h5, "/state", "layers", LAYERS_MAX, &layers));
    LH_TRY(check_number(h5, "/state", "kv_heads", HEADS_MAX, &kv_heads));
    for (int64_t l = 0; l < layers; l++) LH_TRY(check_cache_layer(h5, l, kv_heads));
    return LH_OK;
}

static lh_status check_prefill(lh_h5 *h5)
{
    int64_t layers, done, kv_heads;
    LH_TRY(check_number(h5, "/state", "layers", LAYERS_MAX, &layers));
    LH_TRY(check_number(h5, "/state", "layers_done", layers - 1, &done));
    LH_TRY(check_number(h5, "/state", "kv_heads", HEADS_MAX, &kv_heads));
    for (int64_t l = 0; l < done; l++) LH_TRY(check_cache_layer(h5, l, kv_heads));
    return LH_OK;
}

/* ---- keep sets ---- */

/* Without overflow for any foreign numbers. */
static int64_t length_of(const int64_t *offsets, int64_t head)
{
    return (int64_t)((uint64_t)offsets[head + 1] - (uint64_t)offsets[head]);
}

/* Positions ascend within a head and are never negative. */
static lh_status check_positions(lh_h5 *h5, const char *name, const int64_t *offsets, int64_t heads)
{
    lh_status st = LH_OK;
    int64_t n = 0;
    int32_t *positions = NULL;
    LH_TRY_DONE(get_list(h5, name, LH_I32, &n, &positions));
    for (int64_t h = 0; h < heads; h++) {
        int64_t last = -1;
        for (int64_t i = offsets[h]; i >= 0 && i < offsets[h + 1] && i < n; i++) {
            if (positions[i] <= last)
                LH_FAIL_DONE(LH_EFILE,
                             "'%s' of '%s' must ascend within a head: entry %" PRId64 " of head %" PRId64 " does not",
                             name, lh_h5_path(h5), i - offsets[h], h);
            last = positions[i];
        }
    }
done:
    lh_free(positions);
    return st;
}

/* Budgets, which other writers may leave out, are the numbers of positions. */
static lh_status check_budgets(lh_h5 *h5, const char *name, const int64_t *offsets, int64_t heads)
{
    lh_status st = LH_OK;
    int64_t n = 0;
    int32_t *budgets = NULL;
    if (!lh_h5_has(h5, name)) goto done;
    LH_TRY_DONE(get_list(h5, name, LH_I32, &n, &budgets));
    if (n != heads)
        LH_FAIL_DONE(LH_EFILE, "'%s': '%s' has %" PRId64 " heads, its offsets have %" PRId64, lh_h5_path(h5), name, n,
                     heads);
    for (int64_t h = 0; h < heads; h++)
        if (budgets[h] != length_of(offsets, h))
            LH_FAIL_DONE(LH_EFILE, "'%s': '%s' says that head %" PRId64 " keeps %d entries, its offsets say %" PRId64,
                         lh_h5_path(h5), name, h, budgets[h], length_of(offsets, h));
done:
    lh_free(budgets);
    return st;
}

static lh_status check_kept(lh_h5 *h5, int64_t layer, const char *part)
{
    lh_status st = LH_OK;
    lh_layer_name positions, other;
    char array[32];
    int64_t bounds = 0, *offsets = NULL;
    snprintf(array, sizeof array, "%s/positions", part);
    LH_TRY_DONE(lh_verify_has(h5, lh_layer_array(&positions, layer, array)));
    snprintf(array, sizeof array, "%s/offsets", part);
    LH_TRY_DONE(get_list(h5, lh_layer_array(&other, layer, array), LH_I64, &bounds, &offsets));
    LH_TRY_DONE(check_positions(h5, positions.text, offsets, bounds - 1));
    snprintf(array, sizeof array, "%s/budgets", part);
    LH_TRY_DONE(check_budgets(h5, lh_layer_array(&other, layer, array), offsets, bounds - 1));
done:
    lh_free(offsets);
    return st;
}

static lh_status check_keep_sets(lh_h5 *h5)
{
    lh_layer_name n;
    int64_t layer = 0;
    do {
        LH_TRY(check_kept(h5, layer, "kept"));
        if (lh_h5_has(h5, lh_layer_array(&n, layer, "final"))) LH_TRY(check_kept(h5, layer, "final"));
    } while (lh_h5_has(h5, lh_layer_array(&n, ++layer, NULL)));
    return LH_OK;
}

const lh_file_kind lh_cache_kind = {.name = "cache",
                                    .schema = LH_CACHE_SCHEMA,
                                    .objects = {"/tokens", "/policy", "/logits", "/state", "/layers"},
                                    .check = check_cache};
const lh_file_kind lh_prefill_kind = {.name = "prefill",
                                      .schema = LH_CACHE_SCHEMA,
                                      .objects = {"/tokens", "/policy", "/identity", "/state", "/hidden"},
                                      .check = check_prefill};
const lh_file_kind lh_keep_sets_kind = {.name = "keep-sets",
                                        .schema = LH_KEEP_SETS_SCHEMA,
                                        .objects = {"/tokens", "/layers/000/kept"},
                                        .check = check_keep_sets};
