/* logits_file.c - collects rows of logits in memory and writes them as HDF5 at the end of the run. */
#include "engine/logits_file.h"

#include "base/h5.h"
#include "base/mem.h"

struct lh_logits_file {
    int64_t vocab;
    lh_buf rows;         /* [n, vocab] f32 */
    lh_tokens positions; /* [n] */
};

lh_status lh_logits_file_open(lh_logits_file **out, int64_t vocab)
{
    LH_TRY(lh_calloc(out, 1, sizeof **out));
    (*out)->vocab = vocab;
    return LH_OK;
}

void lh_logits_file_close(lh_logits_file *file)
{
    if (!file) return;
    lh_buf_clear(&file->rows);
    lh_tokens_clear(&file->positions);
    lh_free(file);
}

lh_status lh_logits_file_add(lh_logits_file *file, const float *rows, int64_t n, int64_t first)
{
    LH_TRY(lh_buf_append(&file->rows, rows, n * file->vocab * (int64_t)sizeof(float)));
    for (int64_t i = 0; i < n; i++) LH_TRY(lh_tokens_push(&file->positions, (int32_t)(first + i)));
    return LH_OK;
}

lh_status lh_logits_file_write(const lh_logits_file *file, const char *path, const lh_tokens *tokens, const char *run)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    int64_t n = file->positions.n;
    LH_TRY_DONE(lh_h5_create(&h5, path, &(lh_h5_header){"analysis", 1, run}));
    LH_TRY_DONE(lh_h5_put(h5, "/logits", &(lh_h5_shape){LH_F32, 2, {n, file->vocab}}, file->rows.data));
    LH_TRY_DONE(lh_h5_put(h5, "/tokens", &(lh_h5_shape){LH_I32, 1, {tokens->n}}, tokens->ids));
    LH_TRY_DONE(lh_h5_put(h5, "/positions", &(lh_h5_shape){LH_I32, 1, {n}}, file->positions.ids));
    st = lh_h5_commit(h5);
    h5 = NULL;
    if (st != LH_OK) goto done;
done:
    lh_h5_close(h5);
    return st;
}
