/* texts.c - reads a text, or all texts of a folder in the order of their names. */
#include "lab/eval/texts.h"

#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "text/text_check.h"
#include "text/text_files.h"

static const int64_t TEXT_BYTES = INT64_C(1) << 32;

static lh_status read_one(lh_texts *out, const char *path)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_file_read(&text, path, TEXT_BYTES));
    LH_TRY_DONE(lh_text_check_file(path, text.data, text.bytes));
    if (text.bytes && memchr(text.data, '\0', (size_t)text.bytes))
        LH_FAIL_DONE(LH_EINPUT, "'%s' holds a zero byte: it is not text", path);
    LH_TRY_DONE(lh_realloc(&out->at, out->n + 1, sizeof *out->at));
    out->at[out->n++] = text;
    text = (lh_buf){0};
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status read_folder(lh_texts *out, const char *folder)
{
    lh_status st = LH_OK;
    lh_paths paths = {0};
    LH_TRY_DONE(lh_text_files(&paths, folder));
    for (int64_t i = 0; i < paths.n; i++) LH_TRY_DONE(read_one(out, paths.at[i]));
done:
    lh_paths_clear(&paths);
    return st;
}

lh_status lh_texts_read(lh_texts *out, const char *what, const char *path)
{
    lh_status st = LH_OK;
    lh_texts texts = {0};
    int64_t bytes = 0;
    if (lh_file_is_folder(path))
        LH_TRY_DONE(read_folder(&texts, path));
    else
        LH_TRY_DONE(read_one(&texts, path));
    for (int64_t i = 0; i < texts.n; i++) bytes += texts.at[i].bytes;
    if (bytes == 0) LH_FAIL_DONE(LH_EINPUT, "'%s' of %s is empty", path, what);
    *out = texts;
    texts = (lh_texts){0};
done:
    lh_texts_clear(&texts);
    return st;
}

void lh_texts_clear(lh_texts *texts)
{
    for (int64_t i = 0; i < texts->n; i++) lh_buf_clear(&texts->at[i]);
    lh_free(texts->at);
    *texts = (lh_texts){0};
}

uint64_t lh_texts_hash(const lh_texts *texts)
{
    uint64_t pair[2] = {0};
    for (int64_t i = 0; i < texts->n; i++) {
        pair[1] = lh_hash64(texts->at[i].data, texts->at[i].bytes);
        pair[0] = lh_hash64(pair, sizeof pair);
    }
    return pair[0];
}

lh_status lh_texts_encode(const lh_texts *texts, const lh_tokenizer *tok, lh_tokens *ids, int64_t *starts)
{
    starts[0] = ids->n;
    for (int64_t t = 0; t < texts->n; t++) {
        const lh_buf *text = &texts->at[t];
        if (text->bytes) LH_TRY(lh_tokenizer_encode(tok, text->data, text->bytes, LH_ENCODE_PLAIN, ids));
        starts[t + 1] = ids->n;
    }
    return LH_OK;
}

lh_status lh_texts_join(const lh_texts *texts, lh_buf *out)
{
    LH_TRY(lh_buf_puts(out, ""));
    for (int64_t i = 0; i < texts->n; i++) {
        if (i) LH_TRY(lh_buf_puts(out, "\n\n"));
        LH_TRY(lh_buf_append(out, texts->at[i].data ? texts->at[i].data : "", texts->at[i].bytes));
    }
    return LH_OK;
}
