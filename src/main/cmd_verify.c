/* cmd_verify.c - `verify`: reads a whole file and reports damaged parts. */
#include <string.h>

#include "base/json.h"
#include "base/progress.h"
#include "engine/threads.h"
#include "import/import.h"
#include "main/file_kinds.h"
#include "shell/shell.h"

struct values {
    lh_shell_common common;
    const char *source;
    lh_shell_format format;
};

static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .name = "source",
     LH_FIELD(struct values, source),
     .arg = "FILE|FOLDER",
     .help = "Also compare the weights of a checkpoint with the folder or GGUF file that it was imported from: blocks "
             "byte by byte, other weights after the conversion to their stored type."},
    {0}};
static const lh_option_table table = {"checkpoint", rows};
static const lh_option_group groups[] = {{&table, 0},
                                         {&lh_shell_format_options, offsetof(struct values, format)},
                                         {&lh_shell_common_options, offsetof(struct values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"longhaul verify m.h5", "check a checkpoint for damage"},
    {"longhaul verify m.h5 --source model.Q4_K_M.gguf", "and that it has the weights of this file"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "verify",
    .usage = "FILE [options]",
    .summary = "Verify a file: structure, shapes, checksums, finite values",
    .text = "Reads the whole file and detects any flipped bit; loading checks structure and finite values only.",
    .max_args = 1,
    .reads_args = 1,
    .groups = groups,
    .examples = examples};

/* Called in the child process that reads: it may print, but changes to memory are lost. */
static lh_status show_progress(void *self, int64_t done_bytes, int64_t total_bytes)
{
    lh_progress *p = self;
    p->total = total_bytes;
    lh_progress_update(p, done_bytes);
    return LH_OK;
}

/* Compares a checkpoint with its source; *bytes: compared. */
static lh_status compare_source(const lh_verify_report *report, const char *path, const char *source, int64_t *bytes)
{
    lh_status st = LH_OK;
    lh_threads *threads = NULL;
    lh_progress progress;
    lh_progress_init(&progress, "comparing", "bytes", 0);
    if (strcmp(report->kind, "checkpoint") != 0)
        LH_FAIL_DONE(LH_EUSAGE, "'--source' is for checkpoints: '%s' is of the kind '%s'", path, report->kind);
    LH_TRY_DONE(lh_threads_open_alone(&threads, 0));
    LH_TRY_DONE(lh_import_compare(source, path, &(lh_import_progress){&progress, show_progress}, bytes));
done:
    lh_progress_clear(&progress);
    lh_threads_close(threads);
    return st;
}

static lh_status print_report(const lh_verify_report *report, const char *path, const struct values *v,
                              int64_t compared)
{
    lh_status st = LH_OK;
    json_t *object = NULL;
    lh_buf text = {0};
    if (v->format.json) {
        object = json_pack("{s:o, s:o, s:b, s:I, s:I, s:I}", "file", lh_json_text(path, (int64_t)strlen(path)), "kind",
                           lh_json_text(report->kind, (int64_t)strlen(report->kind)), "whole", 1, "arrays",
                           (json_int_t)report->arrays, "bytes", (json_int_t)report->bytes, "hashes",
                           (json_int_t)report->hashes);
        if (!object) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the report");
        if (v->source) LH_TRY_DONE(lh_json_set(object, "compared_bytes", json_integer(compared)));
        LH_TRY_DONE(lh_shell_write_json(object));
    } else {
        LH_TRY_DONE(lh_buf_printf(&text, "%s is whole: %s, %lld arrays, %.1f MiB read, %lld checksums compared\n", path,
                                  report->kind, (long long)report->arrays, (double)report->bytes / (1 << 20),
                                  (long long)report->hashes));
        if (v->source)
            LH_TRY_DONE(lh_buf_printf(&text, "its weights are those of %s: %.1f MiB compared\n", v->source,
                                      (double)compared / (1 << 20)));
        LH_TRY_DONE(lh_shell_write_plain(&text));
    }
done:
    json_decref(object);
    lh_buf_clear(&text);
    return st;
}

static lh_status run_verify(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    const char *path = lh_options_arg(call->options, 0);
    lh_verify_report report;
    int64_t compared = 0;
    lh_progress progress;
    lh_progress_init(&progress, "verifying", "bytes", 0);
    if (!path) LH_FAIL(LH_EUSAGE, "nothing to verify: give a file");
    if (!lh_shell_first()) return st;
    st = lh_verify(path, file_kinds, &(lh_import_progress){&progress, show_progress}, &report);
    lh_progress_clear(&progress);
    LH_TRY(st);
    if (strcmp(report.kind, "trace") == 0) LH_TRY(lh_trace_verify(path));
    if (v->source) LH_TRY(compare_source(&report, path, v->source, &compared));
    LH_TRY(print_report(&report, path, v, compared));
    return st;
}

const lh_command lh_command_verify = {&syntax, sizeof(struct values), run_verify, NULL};
