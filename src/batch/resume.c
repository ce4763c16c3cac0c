#include "batch/resume.h"

#include <stdlib.h>
#include <string.h>

#include "base/identity.h"
#include "base/json.h"
#include "base/minmax.h"
#include "batch/answer.h"
#include "batch/context_file.h"
#include "batch/ids.h"

enum { NAMED = 5, SHOWN = 60 };

/* ---- the run ---- */

/* LH_EUSAGE if a line was written by another run. */
static lh_status compare_run(const char *path, const json_t *was, const json_t *is)
{
    lh_identity_difference d;
    if (lh_identity_differs(was, is, LH_BATCH_DIGITS, &d))
        LH_FAIL(LH_EUSAGE,
                "'%s' was made by another run: '%s' was %s and is %s; give the same options, or name another output",
                path, d.name, d.was, d.is);
    return LH_OK;
}

static lh_status check_runs(const lh_batch_records *records, const json_t *run)
{
    for (int64_t k = 0; k < records->run_count; k++) LH_TRY(compare_run(records->map.path, records->runs[k], run));
    return LH_OK;
}

/* ---- requests ---- */

int64_t lh_batch_resume_find(const lh_batch_input *input, const lh_batch_record *record)
{
    int64_t i = record->custom_id ? lh_batch_input_find(input, record->custom_id) : -1;
    if (i < 0) i = lh_batch_input_find_number(input, record->number); /* of a line that is no JSON, for example */
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

/* ---- contexts ---- */

/* Files that were looked at, by name. */
typedef struct files {
    const char *root;
    lh_ids *numbers;  /* names are those below */
    char **names;     /* [n] */
    uint64_t *hashes; /* [n] of the texts; 0: there is none that can be read */
    int64_t n, cap;
    lh_buf text;
} files;

static void close_files(files *f)
{
    lh_ids_close(f->numbers);
    for (int64_t k = 0; k < f->n; k++) lh_free(f->names[k]);
    lh_free(f->names);
    lh_free(f->hashes);
    lh_buf_clear(&f->text);
}

/* Reads a file that was not looked at before. */
static lh_status add_file(files *f, const char *name)
{
    if (f->n == f->cap) {
        f->cap = lh_max_i64(16, 2 * f->cap);
        LH_TRY(lh_realloc(&f->names, f->cap, sizeof *f->names));
        LH_TRY(lh_realloc(&f->hashes, f->cap, sizeof *f->hashes));
    }
    LH_TRY(lh_strdup(&f->names[f->n], name));
    f->hashes[f->n] = 0;
    const lh_status st = lh_batch_context_read(&f->text, f->root, name);
    if (st == LH_ENOMEM) return st;
    if (st == LH_OK) f->hashes[f->n] = lh_batch_context_hash(&f->text);
    lh_error_clear();
    f->n++;
    return LH_OK;
}

/* Number of the file that a line names; -1: it names none. */
static lh_status find_file(files *f, const lh_batch_line *line, int64_t *out)
{
    *out = -1;
    if (!line->context_file) return LH_OK;
    *out = lh_ids_find(f->numbers, line->context_file);
    if (*out >= 0) return LH_OK;
    *out = f->n;
    LH_TRY(add_file(f, line->context_file));
    lh_ids_add(f->numbers, f->names[*out], *out);
    return LH_OK;
}

/* LH_EUSAGE where the text of a context is not the one that records were made from. */
static lh_status check_contexts(const lh_batch_resumed *r, const lh_batch_records *records)
{
    lh_status st = LH_OK;
    files f = {.root = r->context_root};
    lh_buf list = {0};
    int64_t changed = -1, lines = 0, file = -1;
    LH_TRY_DONE(lh_ids_open(&f.numbers, records->n));
    for (int64_t k = 0; k < records->n; k++) {
        const lh_batch_record *record = &records->at[k];
        if (!record->context) continue; /* it has none, or was written before there was such a hash */
        LH_TRY_DONE(find_file(&f, lh_batch_input_line(r->input, lh_batch_resume_find(r->input, record)), &file));
        if (file < 0 || f.hashes[file] == record->context) continue;
        if (changed < 0) changed = file;
        if (changed == file) LH_TRY_DONE(name_record(&list, lines++, record));
    }
    if (changed >= 0)
        LH_FAIL_DONE(LH_EUSAGE,
                     "the context file '%s' %s after %lld requests about it were answered in '%s': %s. Restore it, or "
                     "name another output",
                     f.names[changed], f.hashes[changed] ? "changed" : "is gone or cannot be read", (long long)lines,
                     records->map.path, list.data);
done:
    lh_buf_clear(&list);
    close_files(&f);
    return st;
}

/* LH_EUSAGE: `changed` records answer no line of the input any more. first: one of them, an
 * error only if all are; list: names of some. */
static lh_status fail_changed(const lh_batch_input *input, const lh_batch_records *records, int64_t changed,
                              const lh_batch_record *first, const char *list)
{
    const char *path = lh_batch_input_path(input), *output = records->map.path;
    if (lh_batch_input_is_elsewhere(input, first->hash))
        LH_FAIL(LH_EUSAGE,
                "'%s' answers %lld requests of another part of '%s': %s. Give the '--shard' that it was made with, or "
                "name another output; lines that were added before others change the parts, too",
                output, (long long)changed, path, list);
    LH_FAIL(LH_EUSAGE,
            "'%s' changed after %lld of its requests were answered in '%s': %s. Restore them, or name another output%s",
            path, (long long)changed, output, list,
            first->failed ? "; '--retry-failed' tries requests that failed again, as they are now" : "");
}

lh_status lh_batch_resume(const lh_batch_resumed *resumed, const lh_batch_records *records, unsigned char *done)
{
    lh_status st = LH_OK;
    const lh_batch_input *input = resumed->input;
    int64_t changed = 0;
    const lh_batch_record *first = NULL; /* of those, an answer before an error */
    lh_buf list = {0};
    LH_TRY_DONE(check_runs(records, resumed->run));
    for (int64_t k = 0; k < records->n; k++) {
        const lh_batch_record *record = &records->at[k];
        const int64_t i = lh_batch_resume_find(input, record);
        if (i < 0) {
            LH_TRY_DONE(name_record(&list, changed++, record));
            if (!first || (first->failed && !record->failed)) first = record;
            continue;
        }
        if (done[i])
            LH_FAIL_DONE(LH_EFILE, "'%s' is damaged: its line %lld answers line %lld of '%s' again. Delete that line",
                         records->map.path, (long long)k + 1, (long long)record->number, lh_batch_input_path(input));
        done[i] = 1;
    }
    if (changed) LH_TRY_DONE(fail_changed(input, records, changed, first, list.data));
    if (resumed->context_root) LH_TRY_DONE(check_contexts(resumed, records));
done:
    lh_buf_clear(&list);
    return st;
}
