/* checkpoint_write.c - writes a checkpoint: configuration and tokenizer first, then one tensor after another by rows,
 * each with its hash. The file gets its name only when it is complete and has been checked. */
#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "import/checkpoint.h"
#include "import/checkpoint_impl.h"

struct lh_checkpoint_writer {
    lh_h5 *h5;
    lh_config config;
    /* The current tensor. */
    lh_h5_array *array;
    lh_hasher *hasher;
    char name[LH_CHECKPOINT_NAME_BYTES];
    int64_t rows_done;
};

static lh_status put_meta(lh_checkpoint_writer *w, const lh_checkpoint_meta *meta)
{
    LH_TRY(lh_h5_put_text(w->h5, LH_CHECKPOINT_CONFIG, meta->config_json, (int64_t)strlen(meta->config_json)));
    if (meta->tokenizer) LH_TRY(lh_h5_put_text(w->h5, LH_CHECKPOINT_TOKENIZER, meta->tokenizer, meta->tokenizer_bytes));
    if (meta->tokenizer_meta)
        LH_TRY(lh_h5_put_text(w->h5, LH_CHECKPOINT_TOKENIZER_META, meta->tokenizer_meta,
                              (int64_t)strlen(meta->tokenizer_meta)));
    return LH_OK;
}

lh_status lh_checkpoint_create(lh_checkpoint_writer **out, const char *path, const lh_checkpoint_meta *meta)
{
    lh_status st = LH_OK;
    lh_checkpoint_writer *w = NULL;
    const char *text = meta->config_json;
    const lh_h5_header head = {.kind = "checkpoint", .schema = LH_CHECKPOINT_SCHEMA};
    LH_TRY_DONE(lh_calloc(&w, 1, sizeof *w));
    LH_TRY_DONE(lh_config_parse_text(&w->config, text, (int64_t)strlen(text), "config.json"));
    LH_TRY_DONE(lh_h5_create(&w->h5, path, &head));
    LH_TRY_DONE(put_meta(w, meta));
    *out = w;
    w = NULL;
done:
    lh_checkpoint_drop(w);
    return st;
}

lh_status lh_checkpoint_begin(lh_checkpoint_writer *w, lh_weight weight, int64_t layer, lh_dtype type)
{
    const lh_h5_shape shape = lh_checkpoint_shape(&w->config, weight, type);
    assert(!w->array && shape.rank > 0 && type <= LH_BF16);
    lh_checkpoint_name(w->name, weight, layer);
    LH_TRY(lh_hasher_open(&w->hasher));
    LH_TRY(lh_h5_array_create(&w->array, w->h5, w->name, &shape, NULL));
    w->rows_done = 0;
    return LH_OK;
}

lh_status lh_checkpoint_rows(lh_checkpoint_writer *w, const void *data, int64_t rows)
{
    const lh_h5_shape *shape = lh_h5_array_shape(w->array);
    int64_t cols = shape->rank > 1 ? shape->dims[1] : 1;
    assert(w->rows_done + rows <= shape->dims[0]);
    const lh_h5_slab part = {.at = {w->rows_done, 0}, .count = {rows, cols}};
    LH_TRY(lh_h5_array_write(w->array, &part, data));
    lh_hasher_add(w->hasher, data, rows * cols * lh_dtype_bytes(shape->type));
    w->rows_done += rows;
    return LH_OK;
}

lh_status lh_checkpoint_end(lh_checkpoint_writer *w)
{
    lh_status st = LH_OK;
    assert(w->array && w->rows_done == lh_h5_array_shape(w->array)->dims[0]);
    LH_TRY_DONE(lh_h5_put_hash(w->h5, w->name, lh_hasher_value(w->hasher)));
done:
    lh_hasher_close(w->hasher);
    lh_h5_array_close(w->array);
    w->hasher = NULL;
    w->array = NULL;
    return st;
}

static lh_status check_written(void *self, lh_weight weight, int64_t layer)
{
    lh_checkpoint_writer *w = self;
    char name[LH_CHECKPOINT_NAME_BYTES];
    lh_checkpoint_name(name, weight, layer);
    if (!lh_h5_has(w->h5, name)) LH_FAIL(LH_EINTERNAL, "'%s' was not written", name);
    return LH_OK;
}

lh_status lh_checkpoint_finish(lh_checkpoint_writer *w)
{
    lh_status st = LH_OK;
    LH_TRY_DONE(lh_checkpoint_each(&w->config, check_written, w));
    st = lh_h5_commit(w->h5);
    w->h5 = NULL;
    LH_TRY_DONE(st);
done:
    lh_checkpoint_drop(w);
    return st;
}

void lh_checkpoint_drop(lh_checkpoint_writer *w)
{
    if (!w) return;
    lh_h5_array_close(w->array);
    lh_hasher_close(w->hasher);
    lh_h5_close(w->h5);
    lh_config_clear(&w->config);
    lh_free(w);
}
