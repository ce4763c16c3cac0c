/* info.c - a description of a file of longhaul as JSON, for `longhaul info`: attributes and arrays, or the description
 * of its kind. Checkpoints have family, sizes, types and tokenizer. */
#include <string.h>

#include "base/h5.h"
#include "base/json.h"
#include "import/checkpoint.h"
#include "import/verify.h"

static const char *const rope_names[LH_ROPE_KINDS] = {"default", "linear", "dynamic", "yarn", "llama3", "longrope"};

typedef struct counter {
    const lh_checkpoint *ck;
    int64_t parameters;
} counter;

static lh_status count(void *self, lh_weight weight, int64_t layer)
{
    counter *c = self;
    int64_t rows, cols;
    (void)layer;
    lh_weight_shape(lh_checkpoint_config(c->ck), weight, &rows, &cols);
    c->parameters += rows * cols;
    return LH_OK;
}

static lh_status put_sizes(json_t *object, const lh_config *c)
{
    const struct {
        const char *key;
        int64_t value;
    } rows[] = {{"layers", c->layers},     {"hidden", c->hidden}, {"heads", c->heads}, {"kv_heads", c->kv_heads},
                {"head_dim", c->head_dim}, {"ff", c->ff},         {"vocab", c->vocab}, {"positions", c->max_positions}};
    const int64_t experts = c->experts.count;
    int64_t sliding = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        LH_TRY(lh_json_set(object, rows[i].key, json_integer(rows[i].value)));
    if (experts) LH_TRY(lh_json_set(object, "experts", json_integer(experts)));
    if (experts) LH_TRY(lh_json_set(object, "experts_per_token", json_integer(c->experts.top_k)));
    for (int64_t l = 0; l < c->layers; l++) sliding += c->sliding[l];
    LH_TRY(lh_json_set(object, "window", c->window ? json_integer(c->window) : json_null()));
    LH_TRY(lh_json_set(object, "sliding_layers", json_integer(sliding)));
    LH_TRY(lh_json_set(object, "rope", json_string(rope_names[c->rope_global.kind])));
    LH_TRY(lh_json_set(object, "tied", json_boolean(c->tied)));
    return LH_OK;
}

static lh_status put_tokenizer(json_t *object, const lh_checkpoint *ck)
{
    lh_status st = LH_OK;
    int64_t bytes = 0;
    lh_tokenizer *tok = NULL;
    const char *text = lh_checkpoint_tokenizer(ck, &bytes), *format = NULL;
    LH_TRY_DONE(lh_checkpoint_open_tokenizer(ck, &tok));
    if (tok) format = lh_tokenizer_chat_format(tok);
    LH_TRY_DONE(lh_json_set(object, "tokenizer", json_boolean(text != NULL)));
    LH_TRY_DONE(lh_json_set(object, "tokenizer_bytes", json_integer(bytes)));
    LH_TRY_DONE(
        lh_json_set(object, "chat_format", format ? lh_json_text(format, (int64_t)strlen(format)) : json_null()));
done:
    lh_tokenizer_close(tok);
    return st;
}

lh_status lh_checkpoint_describe(json_t *object, lh_h5 *h5, const json_t *arrays)
{
    lh_status st = LH_OK;
    lh_checkpoint *ck = NULL;
    char identity[17];
    (void)arrays; /* hundreds, which follow from the sizes */
    LH_TRY_DONE(lh_checkpoint_open(&ck, lh_h5_path(h5)));
    const lh_config *c = lh_checkpoint_config(ck);
    counter total = {.ck = ck};
    LH_TRY_DONE(lh_checkpoint_each(c, count, &total));
    snprintf(identity, sizeof identity, "%016llx", (unsigned long long)lh_checkpoint_identity(ck));
    LH_TRY_DONE(lh_json_set(object, "family", json_string(lh_config_family_name(c))));
    LH_TRY_DONE(lh_json_set(object, "dtype", json_string(lh_dtype_name(lh_checkpoint_dtype(ck)))));
    LH_TRY_DONE(lh_json_set(object, "parameters", json_integer(total.parameters)));
    LH_TRY_DONE(put_sizes(object, c));
    LH_TRY_DONE(
        lh_json_set(object, "kv_bytes_per_token_bf16", json_integer(c->layers * c->kv_heads * c->head_dim * 2 * 2)));
    LH_TRY_DONE(put_tokenizer(object, ck));
    LH_TRY_DONE(lh_json_set(object, "identity", json_string(identity)));
done:
    lh_checkpoint_close(ck);
    return st;
}

lh_status lh_info_json(const char *path, const lh_file_kind *const *kinds, json_t **out)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    json_t *object = json_object(), *arrays = NULL;
    const lh_h5_header any = {0};
    LH_TRY_DONE(lh_h5_probe(path));
    LH_TRY_DONE(lh_h5_open(&h5, path, &any));
    LH_TRY_DONE(lh_json_set(object, "file", lh_json_text(path, (int64_t)strlen(path))));
    LH_TRY_DONE(lh_h5_describe(h5, object, &arrays));
    const lh_file_kind *kind = lh_file_kind_find(kinds, lh_h5_kind(h5));
    if (kind && kind->describe)
        LH_TRY_DONE(kind->describe(object, h5, arrays));
    else
        LH_TRY_DONE(lh_json_set(object, "arrays", json_incref(arrays)));
    *out = object;
    object = NULL;
done:
    json_decref(arrays);
    json_decref(object);
    lh_h5_close(h5);
    return st;
}
