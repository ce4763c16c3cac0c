#include "batch/retry.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/journal.h"
#include "base/output.h"

/* Records [from, to) of an output. */
typedef struct part {
    const lh_batch_records *records;
    int64_t from, to;
} part;

/* Takes the records of errors off the list, and with `input` those of lines that are done. */
static void forget(lh_batch_records *r, const lh_batch_input *input, const unsigned char *done)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->at[i].failed || (input && done[lh_batch_resume_find(input, &r->at[i])]))
            lh_free(r->at[i].custom_id);
        else
            r->at[n++] = r->at[i];
    }
    r->n = n;
    r->failed = 0;
}

static lh_status write_parts(lh_journal *file, const part *parts, int n)
{
    for (int p = 0; p < n; p++)
        for (int64_t i = parts[p].from; i < parts[p].to; i++) {
            const lh_batch_record *record = &parts[p].records->at[i];
            LH_TRY(lh_journal_append(file, parts[p].records->map.data + record->at, record->bytes));
        }
    return LH_OK;
}

/* Replaces a file, of which there is one writer, as a whole; its permissions stay. */
static lh_status replace(const char *path, const part *parts, int n)
{
    lh_status st = LH_OK;
    struct stat info;
    lh_journal file = {.fd = -1};
    char *partial = NULL;
    LH_TRY_DONE(lh_partial_open(&partial, path));
    LH_TRY_DONE(lh_journal_open(&file, partial));
    if (stat(path, &info) == 0 && fchmod(file.fd, info.st_mode & 0777) != 0)
        LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", partial, strerror(errno));
    LH_TRY_DONE(write_parts(&file, parts, n));
    LH_TRY_DONE(lh_partial_commit(path));
done:
    lh_journal_close(&file);
    if (st != LH_OK && partial) lh_partial_drop(path);
    lh_free(partial);
    return st;
}

/* The records before the first whose place in the input is another one. */
static int64_t count_in_order(const lh_batch_input *input, const lh_batch_records *records)
{
    int64_t k = 0;
    while (k < records->n && lh_batch_resume_find(input, &records->at[k]) == k) k++;
    return k;
}

lh_status lh_batch_retry_failed(const lh_batch_retry *r, int *changed)
{
    lh_status st = LH_OK;
    const lh_batch_input *input = r->resumed->input;
    lh_batch_records records = {.n = 0}, held = {.n = 0};
    unsigned char *done = NULL, *waiting = NULL;
    LH_TRY_DONE(lh_batch_records_read(&records, r->path));
    if (lh_file_exists(r->held_path)) LH_TRY_DONE(lh_batch_records_read(&held, r->held_path));
    *changed = records.failed + held.failed > 0;
    if (!*changed) goto done;
    forget(&records, NULL, NULL);
    forget(&held, NULL, NULL);
    LH_TRY_DONE(lh_calloc(&done, lh_batch_input_count(input), 1));
    LH_TRY_DONE(lh_calloc(&waiting, lh_batch_input_count(input), 1));
    LH_TRY_DONE(lh_batch_resume(r->resumed, &records, done));
    LH_TRY_DONE(lh_batch_resume(r->resumed, &held, waiting));
    forget(&held, input, done); /* a held line that is in the output, too, waits no more */
    const int64_t kept = r->ordered ? count_in_order(input, &records) : records.n;
    const part ahead[] = {{&held, 0, held.n}, {&records, kept, records.n}}, all = {&records, 0, kept};
    if (held.n || kept < records.n || lh_file_exists(r->held_path)) LH_TRY_DONE(replace(r->held_path, ahead, 2));
    LH_TRY_DONE(replace(r->path, &all, 1));
done:
    lh_batch_records_clear(&records);
    lh_batch_records_clear(&held);
    lh_free(done);
    lh_free(waiting);
    return st;
}
