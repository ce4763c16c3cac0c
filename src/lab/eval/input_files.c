/* input_files.c - reads a text, or all texts of a folder in the order of their names, and records of JSON files. */
#include "lab/eval/input_files.h"

#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/text_check.h"

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

lh_status lh_texts_append(lh_texts *texts, lh_texts *more)
{
    LH_TRY(lh_realloc(&texts->at, texts->n + more->n, sizeof *texts->at));
    for (int64_t t = 0; t < more->n; t++) {
        texts->at[texts->n++] = more->at[t];
        more->at[t] = (lh_buf){0};
    }
    return LH_OK;
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

/* ---- JSON ---- */

static const int64_t DATA_BYTES = INT64_C(1) << 32;

lh_status lh_data_text(char **out, const lh_data_line *line, const json_t *value, const char *what)
{
    const char *text = json_string_value(value);
    if (!text) LH_FAIL(LH_EINPUT, "%s: %s must be a text", line->where, what);
    if (strlen(text) != json_string_length(value)) LH_FAIL(LH_EINPUT, "%s: %s holds a zero byte", line->where, what);
    return lh_strdup(out, text);
}

lh_status lh_data_texts(char ***out, int64_t *n, const lh_data_line *line, const json_t *list, const char *what)
{
    const int64_t all = (int64_t)json_array_size(list);
    *n = 0;
    LH_TRY(lh_calloc(out, all ? all : 1, sizeof **out));
    for (; *n < all; (*n)++) LH_TRY(lh_data_text(&(*out)[*n], line, json_array_get(list, (size_t)*n), what));
    return LH_OK;
}

lh_status lh_data_id(char **out, const lh_data_line *line)
{
    const json_t *id = json_object_get(line->object, "id");
    if (json_is_string(id)) return lh_strdup(out, json_string_value(id));
    if (json_is_integer(id)) return lh_asprintf(out, "%lld", (long long)json_integer_value(id));
    return lh_asprintf(out, "%lld", (long long)line->number);
}

static lh_status take_line(const char *path, int64_t number, const lh_buf *text, lh_data_taker take, void *self)
{
    lh_status st = LH_OK;
    json_t *object = NULL;
    char *where = NULL;
    LH_TRY_DONE(lh_asprintf(&where, "line %lld of '%s'", (long long)number, path));
    LH_TRY_DONE(lh_json_parse_line(&object, where, text->data, text->bytes));
    LH_TRY_DONE(take(self, &(lh_data_line){object, where, number}));
done:
    json_decref(object);
    lh_free(where);
    return st;
}

/* LH_EINPUT where the file has no JSON lines (text/text_check.h), or, naming the line and its byte, holds a zero byte.
 */
static lh_status check_text(const lh_buf *text, const char *path)
{
    LH_TRY(lh_text_check_lines(path, text->data, text->bytes));
    const char *zero = text->bytes ? memchr(text->data, '\0', (size_t)text->bytes) : NULL, *start = text->data;
    int64_t line = 1;
    if (!zero) return LH_OK;
    for (const char *at = text->data; at < zero; at++) {
        if (*at != '\n') continue;
        line++;
        start = at + 1;
    }
    LH_FAIL(LH_EINPUT, "line %lld of '%s': byte %lld is a zero byte: it is not text", (long long)line, path,
            (long long)(zero - start + 1));
}

/* Takes the lines of a text; its lines become strings. */
static lh_status take_lines(lh_buf *text, const char *path, int64_t max, lh_data_taker take, void *self)
{
    int64_t number = 0, taken = 0;
    LH_TRY(check_text(text, path));
    for (char *at = text->data, *end; at && *at && (max == 0 || taken < max); at = *end ? end + 1 : end) {
        end = at + strcspn(at, "\n");
        number++;
        if (strspn(at, " \t\r") >= (size_t)(end - at)) continue;
        LH_TRY(take_line(path, number, &(lh_buf){.data = at, .bytes = end - at}, take, self));
        taken++;
    }
    return LH_OK;
}

/* ---- records ---- */

/* The records of a file so far, and the function that takes them. */
typedef struct records {
    const char *path;
    int64_t max; /* 0: all */
    lh_data_taker take;
    void *self;
    int64_t n;
} records;

/* what: the unit of the file, in messages. */
static lh_status take_value(records *r, const char *what, const json_t *value)
{
    lh_status st = LH_OK;
    char *where = NULL;
    if (r->max && r->n == r->max) return LH_OK;
    r->n++;
    LH_TRY_DONE(lh_asprintf(&where, "%s %lld of '%s'", what, (long long)r->n, r->path));
    LH_TRY_DONE(r->take(r->self, &(lh_data_line){value, where, r->n}));
done:
    lh_free(where);
    return st;
}

/* The questions of a paragraph of SQuAD's data set, each with the context. */
static lh_status take_paragraph(records *r, const json_t *paragraph)
{
    lh_status st = LH_OK;
    json_t *record = NULL;
    const json_t *questions = json_object_get(paragraph, "qas");
    for (size_t q = 0; q < json_array_size(questions); q++) {
        const json_t *answers = json_object_get(json_array_get(questions, q), "answers");
        json_t *texts = json_array();
        for (size_t a = 0; a < json_array_size(answers); a++)
            json_array_append(texts, json_object_get(json_array_get(answers, a), "text"));
        json_decref(record);
        record = json_copy(json_array_get(questions, q));
        json_object_set(record, "context", json_object_get(paragraph, "context"));
        json_object_set_new(record, "answers", texts);
        LH_TRY_DONE(take_value(r, "question", record));
    }
done:
    json_decref(record);
    return st;
}

/* A file that is one JSON value: an array of records, an object with records as its values, SQuAD's data set, or one
 * record. */
static lh_status take_document(records *r, json_t *document)
{
    const json_t *articles = json_object_get(document, "data");
    json_t *value;
    const char *key;
    int are_objects = json_object_size(document) > 0;
    json_object_foreach(document, key, value) are_objects &= json_is_object(value);
    if (are_objects) json_object_foreach(document, key, value) LH_TRY(take_value(r, "record", value));
    for (size_t i = 0; i < json_array_size(document); i++) LH_TRY(take_value(r, "record", json_array_get(document, i)));
    for (size_t a = 0; a < json_array_size(articles); a++) {
        const json_t *paragraphs = json_object_get(json_array_get(articles, a), "paragraphs");
        for (size_t p = 0; p < json_array_size(paragraphs); p++)
            LH_TRY(take_paragraph(r, json_array_get(paragraphs, p)));
    }
    if (are_objects || json_is_array(document) || json_is_array(articles)) return LH_OK;
    return take_value(r, "line", document);
}

lh_status lh_data_records_read(const char *path, int64_t max, uint64_t *hash, lh_data_taker take, void *self)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    json_t *document = NULL;
    LH_TRY_DONE(lh_file_read(&text, path, DATA_BYTES));
    LH_TRY_DONE(lh_text_check_kind(path, text.data, text.bytes));
    *hash = lh_hash64(text.data, text.bytes);
    const int is_array = text.bytes && text.data[strspn(text.data, " \t\r\n")] == '[';
    st = lh_json_parse(&document, path, text.bytes ? text.data : "", text.bytes);
    if (st == LH_OK)
        st = take_document(&(records){path, max, take, self, 0}, document);
    else if (!is_array)
        st = take_lines(&text, path, max, take, self);
done:
    json_decref(document);
    lh_buf_clear(&text);
    return st;
}
