#include "lab/eval/qa_data.h"

#include <string.h>

#include "base/mem.h"
#include "lab/eval/data_lines.h"

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

/* The first of the members that is there. */
static const json_t *member(const json_t *object, const char *name, const char *other)
{
    const json_t *value = json_object_get(object, name);
    return value || !other ? value : json_object_get(object, other);
}

static lh_status read_answers(lh_qa_record *out, const lh_data_line *line)
{
    const json_t *answers = member(line->object, "answers", "answer");
    if (json_is_object(answers)) answers = json_object_get(answers, "text");
    const int one = json_is_string(answers);
    if (!one && !json_is_array(answers))
        LH_FAIL(LH_EINPUT, "%s: \"answers\" must be a list of texts, such as [\"Paris\"]", line->where);
    if (!one) LH_TRY(lh_data_texts(&out->answers, &out->answer_count, line, answers, "an answer"));
    if (out->answer_count) return LH_OK;
    if (!out->answers) LH_TRY(lh_calloc(&out->answers, 1, sizeof *out->answers));
    /* an empty list: no answer is right, as in SQuAD 2.0 */
    LH_TRY(one ? lh_data_text(&out->answers[0], line, answers, "an answer") : lh_strdup(&out->answers[0], ""));
    out->answer_count = 1;
    return LH_OK;
}

static lh_status read_record(lh_qa_record *out, const lh_data_line *line)
{
    const json_t *object = line->object;
    if (!json_is_object(object))
        LH_FAIL(LH_EINPUT,
                "%s: every line must be an object, such as {\"context\": …, \"question\": …, \"answers\": [\"Paris\"]}",
                line->where);
    if (json_is_array(json_object_get(object, "data")))
        LH_FAIL(
            LH_EINPUT,
            "%s holds a whole data set, as SQuAD's own files do: write its questions one a line, as {\"context\": …, "
            "\"question\": …, \"answers\": [\"Paris\"]}",
            line->where);
    LH_TRY(lh_data_text(&out->context, line, member(object, "context", NULL), "\"context\""));
    LH_TRY(lh_data_text(&out->question, line, member(object, "question", "input"), "\"question\""));
    if (!*out->context || !*out->question)
        LH_FAIL(LH_EINPUT, "%s: \"%s\" is empty", line->where, *out->context ? "question" : "context");
    LH_TRY(read_answers(out, line));
    return lh_data_id(&out->id, line);
}

/* Adds the record of a line. */
static lh_status take_question(void *self, const lh_data_line *line)
{
    lh_status st = LH_OK;
    lh_qa_data *out = self;
    lh_qa_record record = {.line = line->number};
    LH_TRY_DONE(read_record(&record, line));
    LH_TRY_DONE(lh_realloc(&out->at, out->n + 1, sizeof *out->at));
    out->at[out->n++] = record;
    record = (lh_qa_record){0};
done:
    clear_record(&record);
    return st;
}

lh_status lh_qa_data_read(lh_qa_data *out, const char *path, int64_t max)
{
    lh_status st = LH_OK;
    lh_qa_data data = {0};
    LH_TRY_DONE(lh_data_lines_read(path, max, &data.hash, take_question, &data));
    if (data.n == 0) LH_FAIL_DONE(LH_EINPUT, "'%s' has no questions: one JSON object a line", path);
    *out = data;
    data = (lh_qa_data){0};
done:
    lh_qa_data_clear(&data);
    return st;
}
