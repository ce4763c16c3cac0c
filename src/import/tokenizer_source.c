/* tokenizer_source.c - reads the tokenizer of a path, which is recognised by its first bytes. */
#include "import/tokenizer_source.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "import/checkpoint.h"
#include "import/import_hints.h"
#include "import/random_shapes.h"
#include "import/vocab_gguf.h"
#include "import/vocab_sentencepiece.h"
#include "text/tokenizer_meta.h"

enum { JSON_BYTES = 1 << 30, SENTENCEPIECE_BYTES = 1 << 25 };

static int has_ending(const char *path, const char *ending)
{
    const size_t n = strlen(path), m = strlen(ending);
    return n > m && strcmp(path + n - m, ending) == 0;
}

/* Appends the tokenizer.json at `path`, or the one made of the model of SentencePiece that is there. */
static lh_status read_file(const char *path, lh_buf *json)
{
    lh_status st = LH_OK;
    lh_buf file = {0};
    LH_TRY_DONE(lh_hint_lfs(path));
    if (!has_ending(path, ".model")) {
        LH_TRY_DONE(lh_file_read_regular(json, path, JSON_BYTES));
        goto done;
    }
    LH_TRY_DONE(lh_file_read_regular(&file, path, SENTENCEPIECE_BYTES));
    LH_TRY_DONE(lh_vocab_sentencepiece(path, &file, json));
done:
    lh_buf_clear(&file);
    return st;
}

/* The tokenizer at `path` with its companion files in `folder`. If it does not exist, *tok stays NULL and nothing is
 * appended. */
static lh_status read_tokenizer(const char *path, const char *folder, lh_tokenizer **tok, lh_buf *json, lh_buf *meta)
{
    int64_t start = json->bytes, meta_start = meta->bytes, added = 0;
    if (!lh_file_exists(path)) return LH_OK;
    LH_TRY(read_file(path, json));
    LH_TRY(lh_tokenizer_parse(tok, path, json->data + start, json->bytes - start, NULL, 0));
    LH_TRY(lh_tokenizer_add_missing(*tok, folder, json, start, &added));
    if (added) {
        lh_tokenizer_close(*tok);
        *tok = NULL;
        LH_TRY(lh_tokenizer_parse(tok, path, json->data + start, json->bytes - start, NULL, 0));
    }
    LH_TRY(lh_tokenizer_meta_folder(*tok, folder, meta));
    LH_TRY(lh_tokenizer_apply_meta(*tok, path, meta->data + meta_start, meta->bytes - meta_start));
    return LH_OK;
}

static lh_status read_folder(const char *folder, lh_tokenizer **tok, lh_buf *json, lh_buf *meta)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
    lh_status st = LH_OK;
    char *path = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !*tok; i++) {
        lh_free(path);
        path = NULL;
        LH_TRY_DONE(lh_path_join(&path, folder, names[i]));
        LH_TRY_DONE(read_tokenizer(path, folder, tok, json, meta));
    }
done:
    lh_free(path);
    return st;
}

static lh_status read_gguf(const char *path, lh_buf *json, lh_buf *meta)
{
    lh_status st = LH_OK;
    lh_gguf *gguf = NULL;
    LH_TRY_DONE(lh_gguf_open(&gguf, path));
    LH_TRY_DONE(lh_vocab_gguf(gguf, path, json, meta));
done:
    lh_gguf_close(gguf);
    return st;
}

lh_status lh_tokenizer_source(lh_tokenizer **out, const char *src, lh_buf *json, lh_buf *meta)
{
    lh_status st = LH_OK;
    lh_tokenizer *tok = NULL;
    int64_t start = json->bytes;
    if (lh_file_is_folder(src)) {
        LH_TRY_DONE(read_folder(src, &tok, json, meta));
    } else {
        LH_TRY_DONE(read_gguf(src, json, meta));
        if (json->bytes > start) /* found now, not when the checkpoint is opened */
            LH_TRY_DONE(lh_tokenizer_parse(&tok, src, json->data + start, json->bytes - start, NULL, 0));
    }
    *out = tok;
    tok = NULL;
done:
    lh_tokenizer_close(tok);
    return st;
}

/* A tokenizer.json or tokenizer.model given by its path. */
static lh_status open_file(const char *src, lh_tokenizer **tok, lh_buf *json, lh_buf *meta)
{
    lh_status st = LH_OK;
    char *folder = NULL;
    if (!lh_file_exists(src)) LH_FAIL_DONE(LH_EINPUT, "cannot open '%s': %s", src, strerror(errno));
    LH_TRY_DONE(lh_path_folder(&folder, src));
    LH_TRY_DONE(read_tokenizer(src, folder, tok, json, meta));
done:
    lh_free(folder);
    return st;
}

static lh_status open_checkpoint(const char *src, lh_tokenizer **tok)
{
    lh_status st = LH_OK;
    lh_checkpoint *ck = NULL;
    LH_TRY_DONE(lh_checkpoint_open_model(&ck, src, NULL));
    LH_TRY_DONE(lh_checkpoint_open_tokenizer(ck, tok));
done:
    lh_checkpoint_close(ck);
    return st;
}

/* Appends the names of a folder's tokenizer files that are not read, and what to do about them; nothing: it has none.
 */
static lh_status put_unread(const char *folder, lh_buf *out)
{
    static const char *const names[] = {"tekken.json", "tiktoken.model", "qwen.tiktoken",
                                        "vocab.json",  "merges.txt",     "vocab.txt"};
    lh_status st = LH_OK;
    char *path = NULL;
    int unread = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lh_free(path);
        path = NULL;
        LH_TRY_DONE(lh_path_join(&path, folder, names[i]));
        if (!lh_file_exists(path)) continue;
        LH_TRY_DONE(lh_buf_printf(out, "%s'%s'", unread++ ? ", " : ", and these are not read: ", names[i]));
    }
    if (unread)
        LH_TRY_DONE(lh_buf_puts(out, " (AutoTokenizer.from_pretrained(…).save_pretrained(…) writes a tokenizer.json)"));
done:
    lh_free(path);
    return st;
}

lh_status lh_tokenizer_missing(const char *src, lh_buf *out)
{
    const int is_folder = lh_file_is_folder(src);
    LH_TRY(
        lh_buf_printf(out, "'%s' has no %s", src, is_folder ? "'tokenizer.json' or 'tokenizer.model'" : "tokenizer"));
    return is_folder ? put_unread(src, out) : LH_OK;
}

static lh_status fail_without(const char *src)
{
    lh_status st = LH_OK;
    lh_buf missing = {0};
    LH_TRY_DONE(lh_tokenizer_missing(src, &missing));
    LH_FAIL_DONE(LH_EINPUT, "%s", missing.data);
done:
    lh_buf_clear(&missing);
    return st;
}

lh_status lh_tokenizer_open(lh_tokenizer **out, const char *src)
{
    lh_status st = LH_OK;
    lh_tokenizer *tok = NULL;
    lh_buf json = {0}, meta = {0};
    if (lh_file_is_folder(src)) {
        LH_TRY_DONE(read_folder(src, &tok, &json, &meta));
    } else if (lh_random_shape_of(src) || lh_h5_is_file(src)) {
        LH_TRY_DONE(open_checkpoint(src, &tok));
    } else if (lh_file_begins_with(src, "GGUF", 4)) {
        LH_TRY_DONE(read_gguf(src, &json, &meta));
        if (json.bytes) LH_TRY_DONE(lh_tokenizer_parse(&tok, src, json.data, json.bytes, meta.data, meta.bytes));
    } else {
        LH_TRY_DONE(open_file(src, &tok, &json, &meta));
    }
    if (!tok) LH_TRY_DONE(fail_without(src));
    *out = tok;
    tok = NULL;
done:
    lh_tokenizer_close(tok);
    lh_buf_clear(&json);
    lh_buf_clear(&meta);
    return st;
}
