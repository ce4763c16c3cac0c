#include "model/score_weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/h5.h"
#include "base/hash.h"
#include "base/log.h"
#include "evict/evict.h"

enum { SCHEMA = 1 };
static const char kind[] = "score-weights", array[] = "/weights", of_model[] = "model";

void lh_score_weights_clear(lh_score_weights *w)
{
    lh_free(w->at);
    lh_free(w->layer_shares);
    *w = (lh_score_weights){0};
}

static int64_t count_of(const lh_score_weights *w)
{
    return w->layers * w->kv_heads * w->numbers;
}

/* For heads of some number of dimensions. */
static lh_status check_numbers(const lh_score_weights *w, const char *path)
{
    const int64_t fixed = lh_learnt_numbers(0), each = lh_learnt_numbers(1) - fixed;
    if (w->numbers > fixed && (w->numbers - fixed) % each == 0) return LH_OK;
    LH_FAIL(LH_EFILE,
            "'%s' has %lld numbers for each KV head, which are not those of this version: make it again with 'longhaul "
            "learn'",
            path, (long long)w->numbers);
}

/* In units of 10^-9, so that all ranks and machines divide budgets by the same integers. */
static lh_status add_shares(lh_score_weights *w, const char *path)
{
    int64_t sum = 0;
    LH_TRY(lh_calloc(&w->layer_shares, w->layers, sizeof *w->layer_shares));
    for (int64_t i = 0; i < w->layers * w->kv_heads; i++) {
        const float share = *lh_score_weights_share(w, i);
        if (!(share >= 0 && share <= 1))
            LH_FAIL(LH_EFILE, "'%s' holds %g for the share of layer %lld, KV head %lld, it must be between 0 and 1",
                    path, (double)share, (long long)(i / w->kv_heads), (long long)(i % w->kv_heads));
        w->layer_shares[i / w->kv_heads] += llround((double)share * 1e9);
    }
    for (int64_t l = 0; l < w->layers; l++) sum += w->layer_shares[l];
    if (!sum) LH_FAIL(LH_EFILE, "'%s' holds shares of layers that are all 0", path);
    return LH_OK;
}

/* ---- the file ---- */

static lh_status read_array(lh_score_weights *w, lh_h5 *h5)
{
    char *identity = NULL;
    lh_h5_shape shape;
    lh_status st = LH_OK;
    LH_TRY_DONE(lh_h5_get(h5, array, &(lh_h5_shape){.type = LH_F32, .rank = 3, .dims = {-1, -1, -1}}, &shape, &w->at));
    w->layers = shape.dims[0];
    w->kv_heads = shape.dims[1];
    w->numbers = shape.dims[2];
    LH_TRY_DONE(check_numbers(w, lh_h5_path(h5)));
    for (int64_t i = 0; i < count_of(w); i++)
        if (!isfinite(w->at[i]))
            LH_FAIL_DONE(LH_EFILE, "'%s' holds a weight that is not finite, for layer %lld, KV head %lld",
                         lh_h5_path(h5), (long long)(i / w->numbers / w->kv_heads),
                         (long long)(i / w->numbers % w->kv_heads));
    LH_TRY_DONE(add_shares(w, lh_h5_path(h5)));
    LH_TRY_DONE(lh_h5_get_string(h5, "/", of_model, &identity));
    if (!identity || sscanf(identity, "%16" SCNx64, &w->model) != 1)
        LH_FAIL_DONE(LH_EFILE, "'%s' does not say which model its weights are for", lh_h5_path(h5));
    w->hash = lh_hash64(w->at, count_of(w) * (int64_t)sizeof *w->at);
    if (!w->hash) w->hash = 1;
done:
    lh_free(identity);
    return st;
}

lh_status lh_score_weights_read(lh_score_weights *out, const char *path)
{
    lh_h5 *h5 = NULL;
    lh_score_weights w = {0};
    lh_status st = LH_OK;
    LH_TRY_DONE(lh_h5_open(&h5, path, &(lh_h5_header){.kind = kind, .schema = SCHEMA}));
    LH_TRY_DONE(read_array(&w, h5));
    *out = w;
    w = (lh_score_weights){0};
done:
    lh_score_weights_clear(&w);
    lh_h5_close(h5);
    return st;
}

lh_status lh_score_weights_write(const lh_score_weights *w, const char *path, const char *run)
{
    lh_h5 *h5 = NULL;
    char identity[24];
    const lh_h5_shape shape = {.type = LH_F32, .rank = 3, .dims = {w->layers, w->kv_heads, w->numbers}};
    lh_status st = LH_OK;
    snprintf(identity, sizeof identity, "%016" PRIx64, w->model);
    LH_TRY_DONE(lh_h5_create(&h5, path, &(lh_h5_header){.kind = kind, .schema = SCHEMA, .run = run}));
    LH_TRY_DONE(lh_h5_put_string(h5, "/", of_model, identity));
    LH_TRY_DONE(lh_h5_put(h5, array, &shape, w->at));
    st = lh_h5_commit(h5);
    h5 = NULL;
done:
    lh_h5_close(h5);
    return st;
}

static lh_status check_file(lh_h5 *h5)
{
    lh_score_weights w = {0};
    const lh_status st = read_array(&w, h5);
    lh_score_weights_clear(&w);
    return st;
}

const lh_file_kind lh_score_weights_kind = {
    .name = kind, .schema = SCHEMA, .objects = {array, NULL}, .all_hashed = 1, .check = check_file};

/* ---- the weights of a model ---- */

lh_status lh_score_weights_name(char **out, const char *model)
{
    static const char end[] = ".h5";
    const size_t bytes = strlen(model), rest = bytes - strlen(end);
    lh_buf name = {0};
    *out = NULL;
    if (bytes <= strlen(end) || strcmp(model + rest, end) != 0) return LH_OK;
    LH_TRY(lh_buf_printf(&name, "%.*s.scores%s", (int)rest, model, end));
    *out = name.data;
    return LH_OK;
}

static lh_status check(const lh_score_weights *w, const char *path, const lh_score_weights_request *q)
{
    if (w->layers != q->layers || w->kv_heads != q->kv_heads || w->numbers != lh_learnt_numbers(q->head_dim))
        LH_FAIL(LH_EINPUT,
                "the score weights '%s' are for %lld layers of %lld KV heads with %lld numbers, this model needs %lld, "
                "%lld and %lld: make its own with 'longhaul learn'",
                path, (long long)w->layers, (long long)w->kv_heads, (long long)w->numbers, (long long)q->layers,
                (long long)q->kv_heads, (long long)lh_learnt_numbers(q->head_dim));
    if (!q->identity || w->model == q->identity) return LH_OK;
    if (!q->path)
        LH_FAIL(LH_EINPUT, "'%s' was learnt from other weights than this model has ('%s' uses it all the same)", path,
                lh_setting("score_weights"));
    lh_warn("the score weights '%s' were learnt from other weights than this model has", path);
    return LH_OK;
}

static lh_status load(lh_score_weights *out, const char *path, const lh_score_weights_request *request)
{
    LH_TRY(lh_score_weights_read(out, path));
    return check(out, path, request);
}

lh_status lh_score_weights_find(lh_score_weights *out, const lh_score_weights_request *request)
{
    lh_status st = LH_OK;
    const char *path = request->path;
    char *beside = NULL;
    *out = (lh_score_weights){0};
    if (!path && request->model) {
        LH_TRY_DONE(lh_score_weights_name(&beside, request->model));
        path = beside;
    }
    if (!path || (path == beside && access(path, F_OK) != 0)) goto done;
    st = load(out, path, request);
    if (st != LH_OK && st != LH_ENOMEM && path == beside) {
        lh_warn("the score weights beside the model are not used: %s", lh_error_message());
        lh_error_clear();
        lh_score_weights_clear(out);
        st = LH_OK;
    }
done:
    if (st != LH_OK) lh_score_weights_clear(out);
    lh_free(beside);
    return st;
}

int64_t lh_score_weights_bytes(const lh_config *config, const lh_heads *heads)
{
    return config->layers * heads->kv_count * lh_learnt_numbers(config->head_dim) * (int64_t)sizeof(float);
}

lh_status lh_score_weights_put(float **out, const lh_score_weights *w, const lh_exec *exec, const lh_heads *heads)
{
    const int64_t row = w->numbers * (int64_t)sizeof(float), own = heads->kv_count * w->numbers;
    LH_TRY(lh_device_alloc(lh_exec_device(exec), out, w->layers * heads->kv_count * row, LH_MEM_WEIGHTS));
    for (int64_t l = 0; l < w->layers; l++)
        lh_exec_put(exec, *out + l * own, w->at + (l * w->kv_heads + heads->kv_first) * w->numbers,
                    heads->kv_count * row);
    return lh_exec_take(exec);
}
