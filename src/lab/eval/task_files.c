/* task_files.c - reads the records of `eval tasks`: finds the format of a record by its members, makes its question
 * from the prompt of its benchmark, and checks it. */
#include "lab/eval/task_files.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "lab/eval/input_files.h"

static void clear_texts(char **texts, int64_t n)
{
    for (int64_t i = 0; i < n; i++) lh_free(texts[i]);
    lh_free(texts);
}

static void clear_record(lh_task_record *r)
{
    clear_texts(r->answers, r->answer_count);
    clear_texts(r->choices, r->choice_count);
    lh_free(r->task);
    lh_free(r->where);
    lh_free(r->head);
    lh_free(r->context);
    lh_free(r->question);
    lh_free(r->prefix);
    *r = (lh_task_record){0};
}

void lh_task_records_clear(lh_task_records *records)
{
    for (int64_t i = 0; i < records->n; i++) clear_record(&records->at[i]);
    lh_free(records->at);
    *records = (lh_task_records){0};
}

/* ---- members ---- */

/* The first member of `names`, alternatives separated by '|', that the object has; NULL if it has none. */
static const json_t *member(const json_t *object, const char *names)
{
    while (names && *names) {
        char name[32] = "";
        const size_t bytes = strcspn(names, "|");
        memcpy(name, names, bytes);
        const json_t *value = json_object_get(object, name);
        if (value && !json_is_null(value)) return value;
        names += bytes + (names[bytes] == '|');
    }
    return NULL;
}

/* A copy of a text or of a number as text. */
static lh_status copy_text(char **out, const lh_data_line *line, const json_t *value, const char *what)
{
    if (json_is_integer(value)) return lh_asprintf(out, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) return lh_asprintf(out, "%.15g", json_real_value(value));
    return lh_data_text(out, line, value, what);
}

static lh_status copy_member(char **out, const lh_data_line *line, const char *names)
{
    lh_status st = LH_OK;
    char *what = NULL;
    LH_TRY_DONE(lh_asprintf(&what, "\"%.*s\"", (int)strcspn(names, "|"), names));
    LH_TRY_DONE(copy_text(out, line, member(line->object, names), what));
done:
    lh_free(what);
    return st;
}

static lh_status copy_list(char ***out, int64_t *n, const lh_data_line *line, const json_t *list)
{
    const int64_t all = (int64_t)json_array_size(list);
    LH_TRY(lh_calloc(out, all ? all : 1, sizeof **out));
    for (; *n < all; (*n)++)
        LH_TRY(copy_text(&(*out)[*n], line, json_array_get(list, (size_t)*n), "an item of a list of texts"));
    return LH_OK;
}

/* A text, a list of texts, SQuAD's {"text": […]} or MiniLongBench's {"answers": […]}. An empty list is one empty text:
 * no answer is right, as in SQuAD 2.0. */
static lh_status read_answers(lh_task_record *out, const lh_data_line *line, const lh_task_format *format)
{
    const json_t *answers = member(line->object, format->answers);
    if (json_is_object(answers)) answers = member(answers, "text|answers");
    if (json_is_array(answers)) LH_TRY(copy_list(&out->answers, &out->answer_count, line, answers));
    if (out->answer_count) return LH_OK;
    if (!out->answers) LH_TRY(lh_calloc(&out->answers, 1, sizeof *out->answers));
    if (json_is_array(answers))
        LH_TRY(lh_strdup(&out->answers[0], ""));
    else if (json_is_string(answers) || json_is_number(answers))
        LH_TRY(copy_text(&out->answers[0], line, answers, "the answer"));
    else
        LH_FAIL(LH_EINPUT, "%s: \"%.*s\" must be a text or a list of texts, such as [\"Paris\"]", line->where,
                (int)strcspn(format->answers, "|"), format->answers);
    out->answer_count = 1;
    return LH_OK;
}

static lh_status read_choices(lh_task_record *out, const lh_data_line *line, const lh_task_format *format)
{
    const json_t *choices = member(line->object, format->choices);
    if (!choices) choices = member(member(line->object, format->answers), format->choices);
    if (json_is_array(choices)) return copy_list(&out->choices, &out->choice_count, line, choices);
    if (choices) LH_FAIL(LH_EINPUT, "%s: the choices must be a list of texts", line->where);
    return LH_OK;
}

/* ---- templates ---- */

/* Appends "func_12(3)" of InfiniteBench's code_run, or its name alone. */
static lh_status put_call(lh_buf *out, const char *input, int with_argument)
{
    for (const char *at = strstr(input, "func_"); at; at = strstr(at + 1, "func_")) {
        const size_t name = 5 + strspn(at + 5, "0123456789");
        if (name == 5 || at[name] != '(') continue;
        const size_t sign = at[name + 1] == '-', bytes = name + 1 + sign + strspn(at + name + 1 + sign, "0123456789");
        if (bytes > name + 1 + sign && at[bytes] == ')')
            return lh_buf_append(out, at, (int64_t)(with_argument ? bytes + 1 : name));
    }
    return LH_OK;
}

/* Appends "the largest number", of "The largest number of …" in InfiniteBench's math_find. */
static lh_status put_target(lh_buf *out, const char *input)
{
    const char *begin = strstr(input, "The "), *end = NULL;
    for (const char *at = begin; at && (at = strstr(at + 1, " of")) != NULL;) end = at;
    if (!end) return LH_OK;
    LH_TRY(lh_buf_puts(out, "t"));
    return lh_buf_append(out, begin + 1, end - begin - 1);
}

/* Appends what stands for the name: a choice ("A" to "D"), a part of the input, or a member of the record. */
static lh_status put_named(lh_buf *out, const lh_data_line *line, const lh_task_row *row, const lh_task_record *record,
                           const char *name)
{
    lh_status st = LH_OK;
    char *text = NULL;
    const char *input = json_string_value(json_object_get(line->object, "input"));
    const int64_t letter = name[1] ? -1 : name[0] - 'A';
    if (letter >= 0 && letter < record->choice_count) return lh_buf_puts(out, record->choices[letter]);
    if (input && strcmp(name, "target") == 0) return put_target(out, input);
    if (input && (strcmp(name, "call") == 0 || strcmp(name, "function") == 0))
        return put_call(out, input, strcmp(name, "call") == 0);
    LH_TRY_DONE(copy_member(&text, line, name));
    const char *from = text;
    size_t bytes = strlen(text);
    if (row->strips) {
        while (bytes && isspace((unsigned char)*from)) from++, bytes--;
        while (bytes && isspace((unsigned char)from[bytes - 1])) bytes--;
    }
    LH_TRY_DONE(lh_buf_append(out, from, (int64_t)bytes));
done:
    lh_free(text);
    return st;
}

/* A new text: the template with every {name} replaced. */
static lh_status fill(char **out, const lh_data_line *line, const lh_task_row *row, const lh_task_record *record,
                      const char *template)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_buf_puts(&text, ""));
    while (*template) {
        char name[32] = "";
        size_t bytes = strcspn(template, "{");
        LH_TRY_DONE(lh_buf_append(&text, template, (int64_t)bytes));
        template += bytes;
        if (!*template) break;
        bytes = strcspn(++template, "}");
        memcpy(name, template, bytes);
        LH_TRY_DONE(put_named(&text, line, row, record, name));
        template += bytes + 1;
    }
    LH_TRY_DONE(lh_strdup(out, text.data));
done:
    lh_buf_clear(&text);
    return st;
}

/* ---- one record ---- */

static int has_signs(const json_t *object, const lh_task_format *format)
{
    for (int i = 0; i < 3 && format->signs[i]; i++)
        if (!json_object_get(object, format->signs[i])) return 0;
    return 1;
}

static const lh_task_row *find_row(const char *task)
{
    for (const lh_task_row *row = lh_task_rows; row->name; row++) {
        const size_t bytes = strlen(row->name);
        if (strncmp(task, row->name, bytes) == 0 && (task[bytes] == '\0' || task[bytes] == '_')) return row;
    }
    return NULL;
}

/* The text up to the beginning of the question is the context, the text from the beginning of the answer on the answer
 * prefix. LH_EINPUT if there is no question. */
static lh_status split_prompt(lh_task_record *out, const lh_data_line *line, const lh_task_row *row)
{
    char *question = NULL, *prefix = NULL;
    char tail[128] = "";
    const char *begins[] = {row->question_begins[0], row->question_begins[1], NULL};
    if (!begins[0]) {
        snprintf(tail, sizeof tail, "%.*s", (int)strcspn(row->tail, "{"), row->tail);
        begins[0] = tail;
    }
    for (int i = 0; begins[i]; i++)
        for (char *at = strstr(out->context, begins[i]); at; at = strstr(at + 1, begins[i]))
            if (at > question) question = at;
    if (!question)
        LH_FAIL(LH_EINPUT, "%s: its prompt has no question that begins with '%s', as prompts of '%s' have", line->where,
                begins[0], out->task);
    if (!out->prefix && row->prefix_begins) prefix = strstr(question, row->prefix_begins);
    if (prefix) LH_TRY(lh_strdup(&out->prefix, prefix));
    LH_TRY(lh_strndup(&out->question, question, prefix ? prefix - question : (int64_t)strlen(question)));
    *question = '\0';
    return LH_OK;
}

/* Context, question and answer prefix. */
static lh_status read_texts(lh_task_record *out, const lh_data_line *line, const lh_task_format *format,
                            const lh_task_row *row)
{
    out->verbatim = format->has_template || format->prompt || member(line->object, format->prefix) != NULL;
    if (member(line->object, format->prefix)) LH_TRY(copy_member(&out->prefix, line, format->prefix));
    LH_TRY(copy_member(&out->context, line, format->prompt ? format->prompt : format->context));
    LH_TRY(format->has_template ? fill(&out->head, line, row, out, row->head) : lh_strdup(&out->head, ""));
    if (format->prompt)
        LH_TRY(split_prompt(out, line, row));
    else if (format->has_template)
        LH_TRY(fill(&out->question, line, row, out, row->tail));
    else
        LH_TRY(copy_member(&out->question, line, format->question));
    const int asks = *out->question || (out->prefix && *out->prefix); /* the question may be a part of the context */
    if (!*out->context || !asks)
        LH_FAIL(LH_EINPUT, "%s: the %s is empty", line->where, *out->context ? "question" : "context");
    return LH_OK;
}

/* The metric: of the command line, of the record, of its task, or "f1". */
static lh_status find_metric(lh_task_record *out, const lh_data_line *line, const lh_task_format *format,
                             const char *asked, const lh_task_row *row)
{
    const json_t *own = member(line->object, format->metric);
    const char *name = asked ? asked : own ? json_string_value(own) : row ? row->metric : "f1";
    out->metric = lh_task_metric_find(name ? name : "");
    if (out->metric) return LH_OK;
    LH_FAIL(LH_EINPUT, "%s: \"metric\" must be a name of the list in 'eval tasks --help'", line->where);
}

/* ---- files ---- */

typedef struct reader {
    lh_task_records *out;
    const lh_task_choice *choice;
    const char *path;
    int64_t file;
    int64_t wordless; /* records left out, since their metrics need Chinese words */
} reader;

/* The task of a record that does not name one: "niah_single_1" for "niah_single_1.jsonl",
 * "niah_single_1/validation.jsonl" and "MiniLongBench_niah_single_1.json". */
static lh_status name_by_path(char **out, const char *path)
{
    static const char *const general[] = {"validation.", "test.", "train.", "data.", NULL};
    const char *slash = strrchr(path, '/'), *begin = slash ? slash + 1 : path, *end = begin + strcspn(begin, ".");
    for (int i = 0; slash && slash > path && general[i]; i++) {
        if (strncmp(begin, general[i], strlen(general[i])) != 0) continue;
        end = slash;
        for (begin = slash; begin > path && begin[-1] != '/';) begin--;
        break;
    }
    const char *under = memchr(begin, '_', (size_t)(end - begin));
    if (under && strncmp(begin, "MiniLongBench", (size_t)(under - begin)) == 0) begin = under + 1;
    return lh_strndup(out, begin, end - begin);
}

static lh_status name_task(lh_task_record *out, const lh_data_line *line, const lh_task_format *format, const reader *r)
{
    if (format->fixed_task) return lh_strdup(&out->task, format->fixed_task);
    if (member(line->object, format->task)) return copy_member(&out->task, line, format->task);
    return name_by_path(&out->task, r->path);
}

/* True if the task is in the list, or there is none. */
static int is_wanted(const char *list, const char *task)
{
    const size_t bytes = strlen(task);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, task, bytes) == 0 && (at[bytes] == ',' || at[bytes] == '\0')) return 1;
    return list == NULL;
}

static int64_t count_records(const lh_task_records *records, const char *task)
{
    int64_t n = 0;
    for (int64_t i = 0; i < records->n; i++) n += strcmp(records->at[i].task, task) == 0;
    return n;
}

static lh_status read_record(lh_task_record *out, const lh_data_line *line, const lh_task_format *format,
                             const lh_task_row *row)
{
    if (!row && format->needs_row)
        LH_FAIL(LH_EINPUT, "%s: '%s' is no task of this benchmark; the name is the file's, unless the record has one",
                line->where, out->task);
    out->max_new = row ? row->max_new : 0;
    out->plain = row && row->plain && format->needs_row;
    out->first_line = row && row->first_line;
    if (format->max_new) LH_TRY(lh_json_i64(line->object, line->where, format->max_new, 1, 1 << 30, &out->max_new));
    if (format->length)
        LH_TRY(lh_json_i64(line->object, line->where, format->length, 1, INT64_C(1) << 40, &out->length));
    LH_TRY(read_choices(out, line, format));
    LH_TRY(read_texts(out, line, format, row));
    LH_TRY(read_answers(out, line, format));
    if (out->metric->needs_choices && out->choice_count == 0)
        LH_FAIL(LH_EINPUT, "%s: the metric '%s' needs a list of choices", line->where, out->metric->name);
    return LH_OK;
}

/* *scored: false if the metric needs Chinese words, which cannot be cut. LH_EINPUT for a task of the list. */
static lh_status can_score(reader *r, const lh_task_record *record, int *scored)
{
    *scored = !record->metric->needs_words || r->choice->has_words;
    if (*scored) return LH_OK;
    if (r->choice->tasks)
        LH_FAIL(LH_EINPUT, "%s: the metric of '%s' needs a dictionary of Chinese words: give '--jieba FOLDER'",
                record->where, record->task);
    r->wordless++;
    return LH_OK;
}

/* Adds the record of a line, if it is wanted. */
static lh_status take_record(void *self, const lh_data_line *line)
{
    lh_status st = LH_OK;
    reader *r = self;
    lh_task_record record = {.line = line->number, .file = r->file};
    const lh_task_format *format = lh_task_formats;
    int scored;
    if (!json_is_object(line->object))
        LH_FAIL_DONE(LH_EINPUT,
                     "%s: every record must be an object, such as {\"context\": …, \"question\": …, \"answers\": "
                     "[\"Paris\"]}",
                     line->where);
    while (!has_signs(line->object, format)) format++;
    LH_TRY_DONE(lh_strdup(&record.where, line->where));
    LH_TRY_DONE(name_task(&record, line, format, r));
    /* the name of a file says nothing about records of our own */
    const lh_task_row *row = format->needs_row || member(line->object, format->task) ? find_row(record.task) : NULL;
    if (!is_wanted(r->choice->tasks, record.task)) goto done;
    LH_TRY_DONE(find_metric(&record, line, format, r->choice->metric, row));
    LH_TRY_DONE(can_score(r, &record, &scored));
    if (!scored || (r->choice->max && count_records(r->out, record.task) >= r->choice->max)) goto done;
    LH_TRY_DONE(read_record(&record, line, format, row));
    LH_TRY_DONE(lh_realloc(&r->out->at, r->out->n + 1, sizeof *r->out->at));
    r->out->at[r->out->n++] = record;
    record = (lh_task_record){0};
done:
    clear_record(&record);
    return st;
}

static lh_status read_file(reader *r, const char *path)
{
    uint64_t hash;
    r->path = path;
    LH_TRY(lh_data_records_read(path, 0, &hash, take_record, r));
    r->file++;
    const uint64_t pair[] = {r->out->hash, hash};
    r->out->hash = lh_hash64(pair, sizeof pair);
    return LH_OK;
}

static lh_status read_path(reader *r, const char *path)
{
    lh_status st = LH_OK;
    static const char *const endings[] = {".json", ".jsonl", NULL};
    lh_paths paths = {0};
    if (!lh_file_is_folder(path)) return read_file(r, path);
    LH_TRY_DONE(lh_folder_list(&paths, NULL, path, endings));
    if (paths.n == 0) LH_FAIL_DONE(LH_EINPUT, "the folder '%s' has no '*.json' or '*.jsonl'", path);
    for (int64_t i = 0; i < paths.n; i++) LH_TRY_DONE(read_file(r, paths.at[i]));
done:
    lh_paths_clear(&paths);
    return st;
}

/* LH_EINPUT for a task of the list that has no record. */
static lh_status check_tasks(const lh_task_records *records, const char *list)
{
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        if (count_records(records, name) == 0)
            LH_FAIL(LH_EINPUT, "'--task' names '%s', of which the files have no record", name);
    }
    return LH_OK;
}

lh_status lh_task_records_read(lh_task_records *out, const lh_task_choice *choice)
{
    reader r = {.out = out, .choice = choice};
    for (int64_t i = 0; i < choice->paths->n; i++) LH_TRY(read_path(&r, choice->paths->at[i]));
    LH_TRY(check_tasks(out, choice->tasks));
    if (r.wordless)
        lh_info("%lld records are left out: their metrics need a dictionary of Chinese words, '--jieba FOLDER'",
                (long long)r.wordless);
    if (out->n == 0) LH_FAIL(LH_EINPUT, "'%s' has no record that can be asked", choice->paths->at[0]);
    return LH_OK;
}
