/* The files of a batch: inputs with their requests, and outputs that a run goes on with. */
#include <string.h>

#include "base/json.h"
#include "batch/answer.h"
#include "batch/documents.h"
#include "batch/input.h"
#include "batch/resume.h"
#include "fuzz.h"
#include "targets.h"

/* A line in front of which the file is named. */
static lh_status within(lh_status st, const char *path)
{
    return st == LH_OK ? st : lh_fail_within(st, "'%s'", path);
}

/* LH_EINTERNAL unless one line was written, which is a record. */
static lh_status check_written(const lh_buf *line, const char *path)
{
    json_t *record = json_loadb(line->data, (size_t)line->bytes - 1, JSON_ALLOW_NUL, NULL);
    const int is_record = json_is_string(json_object_get(record, "hash"));
    json_decref(record);
    if (!is_record) LH_FAIL(LH_EINTERNAL, "'%s' makes a line that is no record", path);
    return LH_OK;
}

/* Reads a request, and writes what would be its line; the status is that of the request. */
static lh_status read_request(const lh_batch_input *input, int64_t i, const json_t *run)
{
    static const lh_batch_defaults defaults = {.max_new = 16};
    const lh_batch_line *line = lh_batch_input_line(input, i);
    const char *path = lh_batch_input_path(input);
    lh_status st = LH_OK, read;
    lh_batch_request request;
    lh_buf out = {0};
    read = lh_batch_request_read(&request, lh_batch_input_line(input, i), &defaults);
    if (read == LH_OK) {
        const lh_batch_choice choice = {.text = line->text, .bytes = line->bytes};
        const lh_batch_answer answer = {.model = "m", .choices = &choice, .choice_count = 1, .kv = {.budget = -1}};
        const char *id = json_string_value(json_object_get(request.json, "custom_id"));
        if (!id || !line->custom_id || strcmp(id, line->custom_id) != 0)
            LH_FAIL_DONE(LH_EINTERNAL, "'%s' has another custom_id for the parser", path);
        fz_touch(request.prompt, request.prompt ? (int64_t)strlen(request.prompt) : 0);
        fz_touch(request.ids.ids, request.ids.n * (int64_t)sizeof *request.ids.ids);
        for (int64_t k = 0; k < request.stop_count; k++) fz_touch(request.stops[k], (int64_t)strlen(request.stops[k]));
        LH_TRY_DONE(lh_batch_answer_line(&request, &answer, run, &out));
    } else {
        LH_TRY_DONE(lh_batch_failure_line(line, read, run, &out));
    }
    LH_TRY_DONE(check_written(&out, path));
    st = within(read, path);
done:
    lh_batch_request_clear(&request);
    lh_buf_clear(&out);
    return st;
}

static lh_status run_batch(fz_case *c)
{
    lh_status st = LH_OK;
    lh_batch_input *input = NULL;
    json_t *run = json_pack("{s:s}", "model", "m");
    LH_TRY_DONE(lh_batch_input_open(&input, c->path));
    for (int64_t i = 0; i < lh_batch_input_count(input); i++) {
        const lh_status one = read_request(input, i, run);
        if (one != LH_OK) st = one;
        if (one == LH_EINTERNAL) goto done;
    }
done:
    lh_batch_input_close(input);
    json_decref(run);
    return st;
}

static lh_status run_batch_output(fz_case *c)
{
    lh_status st = LH_OK;
    lh_batch_records records;
    lh_buf text = {0};
    LH_TRY_DONE(lh_batch_records_read(&records, c->path));
    for (int64_t i = 0; i < records.n; i++) {
        const lh_batch_record *r = &records.at[i];
        if (r->custom_id) fz_touch(r->custom_id, (int64_t)strlen(r->custom_id));
        fz_touch(r->run, (int64_t)sizeof *r->run);
        if (r->failed) LH_TRY_DONE(lh_batch_record_error(&records, i, &text));
    }
done:
    lh_batch_records_clear(&records);
    lh_buf_clear(&text);
    return st;
}

/* Documents of a table become an input that reads well. */
static lh_status run_table(fz_case *c)
{
    lh_status st = LH_OK;
    char *path = NULL;
    lh_batch_input *input = NULL;
    LH_TRY_DONE(lh_asprintf(&path, "%s.requests", c->path));
    st = lh_batch_documents_write(&(lh_batch_documents){.from = c->path, .text = "{text}"}, path);
    if (st == LH_EUSAGE) st = LH_EINPUT; /* it has no such column */
    LH_TRY_DONE(st);
    st = lh_batch_input_open(&input, path);
    if (st == LH_EINPUT && strstr(lh_error_message(), "'custom_id' of 1 to"))
        goto done; /* the ids of all are too long */
    if (st != LH_OK) LH_FAIL_DONE(LH_EINTERNAL, "'%s' makes requests that cannot be read", c->path);
done:
    lh_batch_input_close(input);
    lh_free(path);
    return st;
}

const fz_target fz_batch = {.name = "batch",
                            .summary = "the input of a batch, and its requests",
                            .file = "in.jsonl",
                            .form = FZ_JSON,
                            .quick = 4000,
                            .share = 120000,
                            .corpus = "batch",
                            .run = run_batch};

const fz_target fz_batch_output = {.name = "batch-output",
                                   .summary = "the output of a batch, as a run that goes on reads it",
                                   .file = "out.jsonl",
                                   .form = FZ_TEXT,
                                   .quick = 3000,
                                   .share = 60000,
                                   .corpus = "batch-output",
                                   .run = run_batch_output};

const fz_target fz_table = {.name = "table",
                            .summary = "a table of documents",
                            .file = "t.csv",
                            .form = FZ_TEXT,
                            .quick = 2000,
                            .share = 20000,
                            .corpus = "table",
                            .run = run_table};
