#include "batch/resume.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "batch/answer.h"

enum { NAMED = 5, SHOWN = 60 };

/* ---- the run ---- */

/* Appends a value as lines hold it. */
static lh_status write_value(lh_buf *out, const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII | JSON_SORT_KEYS |
                                               JSON_REAL_PRECISION(LH_BATCH_DIGITS))
                       : NULL;
    const lh_status st = lh_buf_puts(out, text ? text : "none");
    free(text);
    return st;
}

/* LH_EUSAGE if a member differs. */
static lh_status compare_member(const char *path, const char *name, const json_t *was, const json_t *is)
{
    lh_status st = LH_OK;
    lh_buf old = {0}, now = {0};
    LH_TRY_DONE(write_value(&old, was));
    LH_TRY_DONE(write_value(&now, is));
    if (strcmp(old.data, now.data) != 0)
        LH_FAIL_DONE(LH_EUSAGE,
                     "'%s' was made by another run: '%s' was %.*s and is %.*s; give the same options, or name another "
                     "output",
                     path, name, SHOWN, old.data, SHOWN, now.data);
done:
    lh_buf_clear(&old);
    lh_buf_clear(&now);
    return st;
}

static lh_status compare_run(const char *path, const lh_skimmed *text, const json_t *is)
{
    lh_status st = LH_OK;
    json_t *was = NULL;
    const char *name;
    json_t *value;
    LH_TRY_DONE(lh_json_parse(&was, path, text->text, text->bytes));
    json_object_foreach((json_t *)(uintptr_t)is, name, value)
        LH_TRY_DONE(compare_member(path, name, json_object_get(was, name), value));
    json_object_foreach(was, name, value) LH_TRY_DONE(compare_member(path, name, value, json_object_get(is, name)));
done:
    json_decref(was);
    return st;
}

/* Lines of one run have the same bytes there, so that few are parsed. */
static lh_status check_runs(const lh_batch_records *records, const json_t *run)
{
    const lh_skimmed *seen = NULL;
    for (int64_t i = 0; i < records->n; i++) {
        const lh_skimmed *text = &records->at[i].run;
        if (seen && seen->bytes == text->bytes && memcmp(seen->text, text->text, (size_t)text->bytes) == 0) continue;
        LH_TRY(compare_run(records->map.path, text, run));
        seen = text;
    }
    return LH_OK;
}

/* ---- requests ---- */

int64_t lh_batch_resume_find(const lh_batch_input *input, const lh_batch_record *record)
{
    const int64_t i = record->custom_id ? lh_batch_input_find(input, record->custom_id)
                                        : lh_batch_input_find_number(input, record->number);
    if (i < 0 || lh_batch_input_line(input, i)->hash != record->hash) return -1;
    return !record->custom_id && lh_batch_input_line(input, i)->custom_id ? -1 : i;
}

/* Appends "line 3 ('a')" to a list of the first few. */
static lh_status name_record(lh_buf *list, int64_t n, const lh_batch_record *record)
{
    if (n >= NAMED) return n == NAMED ? lh_buf_puts(list, ", …") : LH_OK;
    LH_TRY(lh_buf_printf(list, "%sline %lld", n ? ", " : "", (long long)record->number));
    return record->custom_id ? lh_buf_printf(list, " ('%.*s')", SHOWN, record->custom_id) : LH_OK;
}

lh_status lh_batch_resume(const lh_batch_input *input, const lh_batch_records *records, const json_t *run,
                          unsigned char *done)
{
    lh_status st = LH_OK;
    int64_t changed = 0;
    lh_buf list = {0};
    LH_TRY_DONE(check_runs(records, run));
    for (int64_t k = 0; k < records->n; k++) {
        const lh_batch_record *record = &records->at[k];
        const int64_t i = lh_batch_resume_find(input, record);
        if (i < 0) {
            LH_TRY_DONE(name_record(&list, changed++, record));
            continue;
        }
        if (done[i])
            LH_FAIL_DONE(LH_EFILE, "'%s' is damaged: its line %lld answers line %lld of '%s' again. Delete that line",
                         records->map.path, (long long)k + 1, (long long)record->number, lh_batch_input_path(input));
        done[i] = 1;
    }
    if (changed)
        LH_FAIL_DONE(LH_EUSAGE,
                     "'%s' changed after %lld of its requests were answered in '%s': %s. Restore them, or name another "
                     "output",
                     lh_batch_input_path(input), (long long)changed, records->map.path, list.data);
done:
    lh_buf_clear(&list);
    return st;
}
