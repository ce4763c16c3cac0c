#include "eval/qa_data.h"

#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"

static const int64_t DATA_BYTES = INT64_C(1) << 32;

static void clear_record(lh_qa_record *r)
{
    for (int64_t i = 0; i < r->answer_count; i++) lh_free(r->answers[i]);
    lh_free(r->answers);
    lh_free(r->id);
    lh_free(r->context);
    lh_free(r->question);
    *r = (lh_qa_record){0};
}

void lh_qa_data_clear(lh_qa_data *data)
{
    for (int64_t i = 0; i < data->n; i++) clear_record(&data->at[i]);
    lh_free(data->at);
    *data = (lh_qa_data){0};
}

/* A text that may not hold a zero byte. */
static lh_status copy_text(char **out, const json_t *value, const char *where, const char *what)
{
    const char *text = json_string_value(value);
    if (!text) LH_FAIL(LH_EINPUT, "%s: %s must be a text", where, what);
    if (strlen(text) != json_string_length(value)) LH_FAIL(LH_EINPUT, "%s: %s holds a zero byte", where, what);
    return lh_strdup(out, text);
}

/* The first of the members that is there. */
static const json_t *member(const json_t *object, const char *name, const char *other)
{
    const json_t *value = json_object_get(object, name);
    return value || !other ? value : json_object_get(object, other);
}

static lh_status read_answers(lh_qa_record *out, const json_t *answers, const char *where)
{
    if (json_is_object(answers)) answers = json_object_get(answers, "text");
    const int one = json_is_string(answers);
    const int64_t n = one ? 1 : (int64_t)json_array_size(answers);
    if (!one && !json_is_array(answers))
        LH_FAIL(LH_EINPUT, "%s: \"answers\" must be a list of texts, such as [\"Paris\"]", where);
    LH_TRY(lh_calloc(&out->answers, n ? n : 1, sizeof *out->answers));
    for (; out->answer_count < n; out->answer_count++) {
        const json_t *answer = one ? answers : json_array_get(answers, (size_t)out->answer_count);
        LH_TRY(copy_text(&out->answers[out->answer_count], answer, where, "an answer"));
    }
    if (n) return LH_OK;
    LH_TRY(lh_strdup(&out->answers[0], "")); /* no answer is right, as in SQuAD 2.0 */
    out->answer_count = 1;
    return LH_OK;
}

static lh_status read_id(lh_qa_record *out, const json_t *id)
{
    if (json_is_string(id)) return lh_strdup(&out->id, json_string_value(id));
    if (json_is_integer(id)) return lh_asprintf(&out->id, "%lld", (long long)json_integer_value(id));
    return lh_asprintf(&out->id, "%lld", (long long)out->line);
}

static lh_status read_record(lh_qa_record *out, const json_t *object, const char *where)
{
    if (!json_is_object(object))
        LH_FAIL(LH_EINPUT,
                "%s: every line must be an object, such as {\"context\": …, \"question\": …, \"answers\": [\"Paris\"]}",
                where);
    if (json_is_array(json_object_get(object, "data")))
        LH_FAIL(
            LH_EINPUT,
            "%s holds a whole data set, as SQuAD's own files do: write its questions one a line, as {\"context\": …, "
            "\"question\": …, \"answers\": [\"Paris\"]}",
            where);
    LH_TRY(copy_text(&out->context, member(object, "context", NULL), where, "\"context\""));
    LH_TRY(copy_text(&out->question, member(object, "question", "input"), where, "\"question\""));
    if (!*out->context || !*out->question)
        LH_FAIL(LH_EINPUT, "%s: \"%s\" is empty", where, *out->context ? "question" : "context");
    LH_TRY(read_answers(out, member(object, "answers", "answer"), where));
    LH_TRY(read_id(out, json_object_get(object, "id")));
    return LH_OK;
}

/* One line, which is added to *out. */
static lh_status read_line(lh_qa_data *out, const char *path, int64_t line, const lh_buf *text)
{
    lh_status st = LH_OK;
    lh_qa_record record = {.line = line};
    json_t *object = NULL;
    char *where = NULL;
    LH_TRY_DONE(lh_asprintf(&where, "line %lld of '%s'", (long long)line, path));
    LH_TRY_DONE(lh_json_parse_line(&object, where, text->data, text->bytes));
    LH_TRY_DONE(read_record(&record, object, where));
    LH_TRY_DONE(lh_realloc(&out->at, out->n + 1, sizeof *out->at));
    out->at[out->n++] = record;
    record = (lh_qa_record){0};
done:
    clear_record(&record);
    json_decref(object);
    lh_free(where);
    return st;
}

/* LH_EINPUT naming the line and its byte if the file holds a zero byte. */
static lh_status check_text(const lh_buf *text, const char *path)
{
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

lh_status lh_qa_data_read(lh_qa_data *out, const char *path, int64_t max)
{
    lh_status st = LH_OK;
    lh_qa_data data = {0};
    lh_buf text = {0};
    int64_t line = 0;
    LH_TRY_DONE(lh_file_read(&text, path, DATA_BYTES));
    LH_TRY_DONE(check_text(&text, path));
    data.hash = lh_hash64(text.data, text.bytes);
    for (char *at = text.data, *end; at && *at && (max == 0 || data.n < max); at = *end ? end + 1 : end) {
        end = at + strcspn(at, "\n");
        line++;
        if (strspn(at, " \t\r") < (size_t)(end - at))
            LH_TRY_DONE(read_line(&data, path, line, &(lh_buf){.data = at, .bytes = end - at}));
    }
    if (data.n == 0) LH_FAIL_DONE(LH_EINPUT, "'%s' has no questions: one JSON object a line", path);
    *out = data;
    data = (lh_qa_data){0};
done:
    lh_buf_clear(&text);
    lh_qa_data_clear(&data);
    return st;
}
