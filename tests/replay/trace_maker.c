#include "replay/trace_maker.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/h5.h"
#include "base/rng.h"

float made_number(int what, int layer, int element)
{
    const uint32_t key[2] = {7, (uint32_t)what}, counter[4] = {(uint32_t)element, (uint32_t)layer, 0, 0};
    uint32_t out[4];
    lh_philox(out, key, counter);
    return 2 * lh_uniform(out[0]) - 1;
}

/* The arrays of a layer; `what` is their index. */
typedef struct made_array {
    const char *name;
    int rank;
    int64_t dims[3];
} made_array;

static const made_array arrays[] = {
    {"prefill/queries", 3, {MADE_WINDOW, MADE_HEADS, MADE_DIM}},
    {"prefill/keys", 3, {MADE_KV_HEADS, MADE_PROMPT, MADE_DIM}},
    {"prefill/values", 3, {MADE_KV_HEADS, MADE_PROMPT, MADE_DIM}},
    {"decode/queries", 3, {MADE_AFTER, MADE_HEADS, MADE_DIM}},
    {"decode/keys", 3, {MADE_AFTER, MADE_KV_HEADS, MADE_DIM}},
    {"decode/values", 3, {MADE_AFTER, MADE_KV_HEADS, MADE_DIM}},
    {"output_projection", 2, {MADE_HIDDEN, MADE_HEADS *MADE_DIM}},
    {"prefill/lse", 2, {MADE_WINDOW, MADE_HEADS}},
    {"decode/lse", 2, {MADE_AFTER, MADE_HEADS}},
    {"columns/sums", 2, {MADE_KV_HEADS, MADE_PROMPT}},
    {"columns/squares", 2, {MADE_KV_HEADS, MADE_PROMPT}},
    {"columns/counts", 2, {MADE_KV_HEADS, MADE_PROMPT}},
    {"norms/projected", 2, {MADE_KV_HEADS, MADE_PROMPT}},
    {"prefill/outputs", 3, {MADE_WINDOW, MADE_HEADS, MADE_DIM}},
    {"decode/outputs", 3, {MADE_AFTER, MADE_HEADS, MADE_DIM}},
};

static lh_status put_array(lh_h5 *h5, int layer, int what, made_kind kind)
{
    const made_array *a = &arrays[what];
    float values[512];
    char name[64];
    lh_h5_shape shape = {.type = LH_F32, .rank = a->rank};
    lh_h5_storage storage = {kind == MADE_COMPRESSED ? LH_H5_DEFLATE : LH_H5_PLAIN, {1}};
    memcpy(shape.dims, a->dims, sizeof a->dims);
    for (int d = 1; d < a->rank; d++) storage.chunk[d] = a->dims[d];
    for (int i = 0; i < lh_h5_shape_count(&shape); i++) {
        values[i] = made_number(what, layer, i);
        if (strncmp(a->name, "columns/", 8) == 0 || strncmp(a->name, "norms/", 6) == 0) values[i] += 1;
        if (strstr(a->name, "lse")) values[i] = kind == MADE_NOT_FINITE ? (float)INFINITY : 3;
        if (strstr(a->name, "queries") && kind == MADE_EVEN) values[i] = 0;
    }
    snprintf(name, sizeof name, "/layers/%03d/%s", layer, a->name);
    return lh_h5_put_stored(h5, name, &shape, &storage, values);
}

static lh_status put_ints(lh_h5 *h5, const char *name, int n, int first, int step)
{
    int32_t values[MADE_PROMPT];
    for (int i = 0; i < n; i++) values[i] = first + i * step;
    return lh_h5_put(h5, name, &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {n}}, values);
}

static lh_status put_text(lh_h5 *h5, const char *name, const char *text)
{
    return lh_h5_put_text(h5, name, text, (int64_t)strlen(text));
}

lh_status made_trace_write(const char *path, made_kind kind)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    LH_TRY_DONE(lh_h5_create(&h5, path, &(lh_h5_header){"trace", 1, "{\"command\": \"trace\"}"}));
    LH_TRY_DONE(put_text(h5, "/model",
                         "{\"identity\":\"0\",\"layers\":2,\"heads\":4,\"kv_heads\":2,\"head_dim\":4,\"hidden\":6,"
                         "\"scale\":0.5,\"softcap\":0.0,\"window\":0,\"sliding\":[]}"));
    LH_TRY_DONE(put_text(h5, "/recording",
                         "{\"level\":\"keys\",\"dtype\":\"f32\",\"prompt_tokens\":24,\"window\":8,\"column_rows\":24,"
                         "\"seed\":0,\"asked\":0,\"questions\":[2],\"layers\":[0,1]}"));
    LH_TRY_DONE(put_text(h5, "/policy", "{\"name\":\"full\"}"));
    LH_TRY_DONE(put_text(h5, "/answers", "[{\"text\":\"an answer\",\"question\":\"a question\"}]"));
    LH_TRY_DONE(put_ints(h5, "/tokens", MADE_PROMPT, 1, 1));
    LH_TRY_DONE(put_ints(h5, "/rows", MADE_WINDOW, MADE_PROMPT - MADE_WINDOW, 1));
    LH_TRY_DONE(put_ints(h5, "/chunk_tokens", 1, 16, 0));
    LH_TRY_DONE(put_ints(h5, "/decode/positions", MADE_AFTER, MADE_PROMPT, 1));
    LH_TRY_DONE(put_ints(h5, "/decode/answers", MADE_AFTER, 0, 0));
    LH_TRY_DONE(put_ints(h5, "/decode/tokens", MADE_AFTER, 5, 1));
    for (int l = 0; l < MADE_LAYERS; l++)
        for (int a = 0; a < (int)(sizeof arrays / sizeof *arrays); a++) LH_TRY_DONE(put_array(h5, l, a, kind));
    lh_h5 *whole = h5;
    h5 = NULL;
    LH_TRY_DONE(lh_h5_commit(whole));
done:
    lh_h5_close(h5);
    return st;
}
