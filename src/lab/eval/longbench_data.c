/* longbench_data.c - reads records: {"dataset", "context", "input", "answers": […], "all_classes": […] or null}. */
#include "lab/eval/longbench_data.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "lab/eval/data_lines.h"

static void clear_texts(char **texts, int64_t n)
{
    for (int64_t i = 0; i < n; i++) lh_free(texts[i]);
    lh_free(texts);
}

static void clear_record(lh_longbench_record *record)
{
    clear_texts(record->answers, record->answer_count);
    clear_texts(record->classes, record->class_count);
    lh_free(record->context);
    lh_free(record->input);
    *record = (lh_longbench_record){0};
}

void lh_longbench_data_clear(lh_longbench_data *data)
{
    for (int64_t i = 0; i < data->n; i++) clear_record(&data->at[i]);
    lh_free(data->at);
    *data = (lh_longbench_data){0};
}

/* ---- one record ---- */

static lh_status read_list(const lh_data_line *line, const char *key, char ***out, int64_t *n)
{
    const json_t *list = json_object_get(line->object, key);
    if (json_array_size(list) == 0) LH_FAIL(LH_EINPUT, "%s: \"%s\" must be a list of texts", line->where, key);
    return lh_data_texts(out, n, line, list, "an item of a list");
}

/* The set of a record; those of LongBench-E may be named with "_e". */
static lh_status find_set(const lh_data_line *line, const lh_longbench_set **out)
{
    const char *name = json_string_value(json_object_get(line->object, "dataset"));
    size_t bytes = name ? strlen(name) : 0;
    if (bytes > 2 && strcmp(name + bytes - 2, "_e") == 0) bytes -= 2;
    for (const lh_longbench_set *set = lh_longbench_sets; name && set->name; set++)
        if (strlen(set->name) == bytes && memcmp(set->name, name, bytes) == 0) {
            *out = set;
            return LH_OK;
        }
    LH_FAIL(LH_EINPUT, "%s: \"dataset\" must be a data set of LongBench, not '%s'", line->where, name ? name : "");
}

static lh_status read_record(lh_longbench_record *out, const lh_data_line *line)
{
    LH_TRY(lh_data_text(&out->context, line, json_object_get(line->object, "context"), "\"context\""));
    LH_TRY(lh_data_text(&out->input, line, json_object_get(line->object, "input"), "\"input\""));
    LH_TRY(read_list(line, "answers", &out->answers, &out->answer_count));
    if (out->set->score == lh_longbench_classification)
        LH_TRY(read_list(line, "all_classes", &out->classes, &out->class_count));
    return LH_OK;
}

/* ---- files ---- */

/* What is read so far. */
typedef struct reader {
    lh_longbench_data *out;
    const lh_longbench_choice *choice;
    int64_t counts[LH_LONGBENCH_SETS];
} reader;

/* Adds the record of a line, if it is wanted. */
static lh_status take_record(void *self, const lh_data_line *line)
{
    lh_status st = LH_OK;
    reader *r = self;
    lh_longbench_record record = {.line = line->number};
    LH_TRY_DONE(find_set(line, &record.set));
    int64_t *count = &r->counts[record.set - lh_longbench_sets];
    if (!r->choice->wanted[record.set - lh_longbench_sets] || !record.set->score) goto done;
    if (r->choice->max && *count == r->choice->max) goto done;
    LH_TRY_DONE(read_record(&record, line));
    LH_TRY_DONE(lh_realloc(&r->out->at, r->out->n + 1, sizeof *r->out->at));
    r->out->at[r->out->n++] = record;
    record = (lh_longbench_record){0};
    (*count)++;
done:
    clear_record(&record);
    return st;
}

static lh_status read_file(reader *r, const char *path)
{
    uint64_t hash;
    LH_TRY(lh_data_lines_read(path, 0, &hash, take_record, r));
    const uint64_t pair[] = {r->out->hash, hash};
    r->out->hash = lh_hash64(pair, sizeof pair);
    return LH_OK;
}

/* Puts the records into the order of the sets. */
static lh_status sort_records(lh_longbench_data *data)
{
    lh_longbench_record *sorted = NULL;
    int64_t n = 0;
    LH_TRY(lh_calloc(&sorted, data->n, sizeof *sorted));
    for (const lh_longbench_set *set = lh_longbench_sets; set->name; set++)
        for (int64_t i = 0; i < data->n; i++)
            if (data->at[i].set == set) sorted[n++] = data->at[i];
    lh_free(data->at);
    data->at = sorted;
    return LH_OK;
}

static int is_extended(const char *path)
{
    static const char ending[] = "_e.jsonl";
    const size_t bytes = strlen(path);
    return bytes >= strlen(ending) && strcmp(path + bytes - strlen(ending), ending) == 0;
}

lh_status lh_longbench_data_read(lh_longbench_data *out, const char *path, const lh_longbench_choice *choice)
{
    lh_status st = LH_OK;
    static const char *const endings[] = {".jsonl", NULL};
    lh_paths paths = {0};
    reader r = {.out = out, .choice = choice};
    if (lh_file_is_folder(path))
        LH_TRY_DONE(lh_folder_list(&paths, NULL, path, endings));
    else
        LH_TRY_DONE(read_file(&r, path));
    for (int64_t i = 0; i < paths.n; i++)
        if (!is_extended(paths.at[i])) LH_TRY_DONE(read_file(&r, paths.at[i]));
    if (out->n == 0)
        LH_FAIL_DONE(LH_EINPUT, "'%s' has no record of a data set of LongBench that can be asked: JSON lines", path);
    LH_TRY_DONE(sort_records(out));
done:
    lh_paths_clear(&paths);
    return st;
}

/* ---- scores ---- */

lh_status lh_longbench_score(const lh_longbench_record *record, const char *answer, double *score)
{
    lh_status st = LH_OK;
    lh_buf counted = {0};
    *score = 0;
    if (record->set->first_line) answer += strspn(answer, "\n");
    LH_TRY_DONE(lh_buf_puts(&counted, ""));
    LH_TRY_DONE(
        lh_buf_append(&counted, answer, (int64_t)(record->set->first_line ? strcspn(answer, "\n") : strlen(answer))));
    for (int64_t i = 0; i < record->answer_count; i++) {
        double one = 0;
        LH_TRY_DONE(record->set->score(
            counted.data, &(lh_longbench_truth){record->answers[i], record->classes, record->class_count}, &one));
        *score = fmax(*score, 100 * one);
    }
done:
    lh_buf_clear(&counted);
    return st;
}
