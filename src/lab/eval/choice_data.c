#include "lab/eval/choice_data.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "lab/eval/data_lines.h"

static void clear_record(lh_choice_record *r)
{
    for (int64_t i = 0; i < r->choice_count; i++) lh_free(r->choices[i]);
    lh_free(r->choices);
    lh_free(r->id);
    lh_free(r->context);
    lh_free(r->prompt);
    *r = (lh_choice_record){0};
}

void lh_choice_data_clear(lh_choice_data *data)
{
    for (int64_t i = 0; i < data->n; i++) clear_record(&data->at[i]);
    lh_free(data->at);
    *data = (lh_choice_data){0};
}

static lh_status read_prompt(lh_choice_record *out, const lh_data_line *line)
{
    lh_status st = LH_OK;
    const json_t *query = json_object_get(line->object, "query"), *context = json_object_get(line->object, "context");
    char *question = NULL;
    if (context) LH_TRY_DONE(lh_data_text(&out->context, line, context, "\"context\""));
    if (!context) LH_TRY_DONE(lh_strdup(&out->context, ""));
    LH_TRY_DONE(lh_data_text(&question, line, query ? query : json_object_get(line->object, "question"),
                             query ? "\"query\"" : "\"question\""));
    if (!*question) LH_FAIL_DONE(LH_EINPUT, "%s: \"%s\" is empty", line->where, query ? "query" : "question");
    const char *before = *out->context ? "\n\n" : "";
    LH_TRY_DONE(query ? lh_asprintf(&out->prompt, "%s%s", before, question)
                      : lh_asprintf(&out->prompt, "%sQuestion: %s\nAnswer:", before, question));
done:
    lh_free(question);
    return st;
}

static lh_status read_choices(lh_choice_record *out, const lh_data_line *line)
{
    const json_t *choices = json_object_get(line->object, "choices");
    if (json_is_object(choices)) choices = json_object_get(choices, "text");
    if (!json_is_array(choices) || json_array_size(choices) < 2)
        LH_FAIL(LH_EINPUT, "%s: \"choices\" must be a list of two texts or more, such as [\"Paris\", \"Rome\"]",
                line->where);
    LH_TRY(lh_data_texts(&out->choices, &out->choice_count, line, choices, "a choice"));
    for (int64_t i = 0; i < out->choice_count; i++)
        if (!*out->choices[i]) LH_FAIL(LH_EINPUT, "%s: a choice is empty", line->where);
    return LH_OK;
}

/* The index of a label, -1 if there is none. */
static int64_t find_label(const lh_data_line *line, const char *wanted)
{
    const json_t *labels = json_object_get(json_object_get(line->object, "choices"), "label");
    for (size_t i = 0; i < json_array_size(labels); i++) {
        const char *label = json_string_value(json_array_get(labels, i));
        if (label && wanted && strcmp(label, wanted) == 0) return (int64_t)i;
    }
    return -1;
}

/* An index, also as HellaSwag writes it: a text. -1 if it is none. */
static int64_t read_index(const json_t *value)
{
    const char *text = json_string_value(value);
    char *end;
    if (json_is_integer(value)) return json_integer_value(value);
    if (!text || !*text) return -1;
    const long long index = strtoll(text, &end, 10);
    return *end ? -1 : index;
}

static lh_status read_right(lh_choice_record *out, const lh_data_line *line)
{
    static const char *const names[] = {"answer", "gold", "label"};
    const json_t *key = json_object_get(line->object, "answerKey"), *value = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !value; i++) value = json_object_get(line->object, names[i]);
    out->right = key ? find_label(line, json_string_value(key)) : read_index(value);
    if (key && out->right < 0)
        LH_FAIL(LH_EINPUT, "%s: \"answerKey\" must be one of the labels of \"choices\"", line->where);
    if (out->right < 0 || out->right >= out->choice_count)
        LH_FAIL(LH_EINPUT, "%s: \"answer\" must be the index of the right choice, from 0 to %lld", line->where,
                (long long)out->choice_count - 1);
    return LH_OK;
}

static lh_status read_record(lh_choice_record *out, const lh_data_line *line)
{
    if (!json_is_object(line->object))
        LH_FAIL(LH_EINPUT,
                "%s: every line must be an object, such as {\"question\": …, \"choices\": [\"Paris\", \"Rome\"], "
                "\"answer\": 0}",
                line->where);
    LH_TRY(read_prompt(out, line));
    LH_TRY(read_choices(out, line));
    LH_TRY(read_right(out, line));
    return lh_data_id(&out->id, line);
}

/* Adds the record of a line. */
static lh_status take_choice(void *self, const lh_data_line *line)
{
    lh_status st = LH_OK;
    lh_choice_data *out = self;
    lh_choice_record record = {.line = line->number};
    LH_TRY_DONE(read_record(&record, line));
    LH_TRY_DONE(lh_realloc(&out->at, out->n + 1, sizeof *out->at));
    out->at[out->n++] = record;
    record = (lh_choice_record){0};
done:
    clear_record(&record);
    return st;
}

lh_status lh_choice_data_read(lh_choice_data *out, const char *path, int64_t max)
{
    lh_status st = LH_OK;
    lh_choice_data data = {0};
    LH_TRY_DONE(lh_data_lines_read(path, max, &data.hash, take_choice, &data));
    if (data.n == 0) LH_FAIL_DONE(LH_EINPUT, "'%s' has no questions: one JSON object a line", path);
    *out = data;
    data = (lh_choice_data){0};
done:
    lh_choice_data_clear(&data);
    return st;
}
