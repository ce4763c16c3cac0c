/* cmd_report.c - `report`: analyses as one page, as CSV and SVG files or as tables. */
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/output.h"
#include "lab/report/report.h"
#include "shell/shell.h"

enum { MAX_FILES = 64 };

struct files {
    const char *output, *csv, *svg;
    int format;
};

struct values {
    lh_shell_common common;
    struct files files;
};

typedef enum format { FORMAT_HTML, FORMAT_MD, FORMAT_TEX } format;
static const char *const formats[] = {"html", "md", "tex", NULL};

/* Endings of the files of each format; the first one is named in messages. */
static const char *const endings[][4] = {[FORMAT_HTML] = {".html", ".htm", ".xhtml", NULL},
                                         [FORMAT_MD] = {".md", ".markdown", ".txt", NULL},
                                         [FORMAT_TEX] = {".tex", NULL}};

static lh_status (*const writers[])(const lh_report *report, lh_buf *out) = {
    [FORMAT_HTML] = lh_report_page, [FORMAT_MD] = lh_report_markdown, [FORMAT_TEX] = lh_report_latex};

/* The option for a name that promises another format. */
static const char *const hints[][2] = {{".pdf", " (a browser prints the page as PDF)"},
                                       {".svg", ", or give '--svg FOLDER' for the figures"},
                                       {".csv", ", or give '--csv FOLDER' for the numbers"},
                                       {NULL, ""}};

#define FIELD(member) LH_FIELD(struct files, member)
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'o',
     .name = "output",
     FIELD(output),
     .arg = "FILE",
     .writes = 1,
     .makes = "text",
     .help = "The page (.html) or the tables (.md, .tex); '-' is stdout, the default for tables."},
    {.type = LH_OPT_ENUM,
     .name = "format",
     FIELD(format),
     .arg = "FORMAT",
     .def = "html",
     .choices = formats,
     .help =
         "html: a page that needs nothing else and works offline. md: tables in Markdown. tex: tables in LaTeX, with "
         "booktabs."},
    {.type = LH_OPT_STR,
     .name = "csv",
     FIELD(csv),
     .arg = "FOLDER",
     .writes = 1,
     .help = "Also write every figure and table as a CSV file."},
    {.type = LH_OPT_STR,
     .name = "svg",
     FIELD(svg),
     .arg = "FOLDER",
     .writes = 1,
     .help = "Also write every figure as an SVG file."},
    {0}};
#undef FIELD
static const lh_option_table table = {"outputs", rows};
static const lh_option_group groups[] = {
    {&table, offsetof(struct values, files)}, {&lh_shell_common_options, offsetof(struct values, common)}, {0}};
static const lh_example examples[] = {
    {"longhaul report a.h5 -o report.html", "an analysis as a page"},
    {"longhaul report short.h5 long.h5 needle.h5 -o report.html --csv figures/",
     "several side by side, and their numbers"},
    {"longhaul report a.h5 --format tex --svg figures/", "tables and figures for a paper"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "report",
    .usage = "FILE… -o FILE [options]",
    .summary = "Draw analyses: figures and tables in one page that works offline",
    .text =
        "FILEs are analyses, as 'replay' and 'eval' write them with '-o'. Figures of one name are drawn side by side. "
        "The page begins "
        "with a summary: which policy is best at which budget. Its figures respond to pointer and arrow keys; without "
        "scripts they are drawings.",
    .max_args = MAX_FILES,
    .reads_args = 1,
    .groups = groups,
    .examples = examples};

static lh_status write_document(const lh_report *report, const struct files *files)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(writers[files->format](report, &text));
    if (files->output)
        LH_TRY_DONE(lh_file_write(files->output, text.data, text.bytes));
    else
        LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

/* 1 if a name ends as one of the format does, or has no ending. */
static int has_ending(const char *ending, format of)
{
    int found = !*ending;
    for (const char *const *e = endings[of]; *e && !found; e++) found = strcasecmp(*e, ending) == 0;
    return found;
}

/* A name such as x.pdf would promise another format than the written one. */
static lh_status check_ending(const struct files *files)
{
    if (!files->output) return LH_OK;
    const char *base = lh_path_name(files->output);
    const char *dot = strrchr(base, '.'), *ending = dot && dot > base ? dot : "";
    if (has_ending(ending, (format)files->format)) return LH_OK;
    for (int f = 0; formats[f]; f++)
        if (has_ending(ending, (format)f))
            LH_FAIL(LH_EUSAGE, "'-o %s' is written as %s: give '--format %s', or name it '%.*s%s'", files->output,
                    formats[files->format], formats[f], (int)(ending - files->output), files->output,
                    endings[files->format][0]);
    int hint = 0;
    while (hints[hint][0] && strcasecmp(hints[hint][0], ending) != 0) hint++;
    LH_FAIL(LH_EUSAGE, "'-o %s' would hold %s: name it '%.*s%s'%s", files->output, formats[files->format],
            (int)(ending - files->output), files->output, endings[files->format][0], hints[hint][1]);
}

static lh_status run_report(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    const struct files *files = &v->files;
    const int document = files->output || files->format != FORMAT_HTML;
    const char *paths[MAX_FILES];
    lh_report *report = NULL;
    int64_t n = 0;
    if (!lh_shell_first()) goto done;
    while (lh_options_arg(call->options, n)) {
        paths[n] = lh_options_arg(call->options, n);
        n++;
    }
    if (!n) LH_FAIL_DONE(LH_EUSAGE, "nothing to draw: give analyses, such as 'replay … -o a.h5' writes");
    if (!document && !files->csv && !files->svg)
        LH_FAIL_DONE(
            LH_EUSAGE,
            "nothing to write: give '-o FILE', '--format md', '--format tex', '--csv FOLDER' or '--svg FOLDER'");
    LH_TRY_DONE(check_ending(files));
    if (files->output) LH_TRY_DONE(lh_file_claim(files->output, 1 << 20));
    for (int64_t i = 0; i < n; i++) LH_TRY_DONE(lh_shell_probe(paths[i]));
    LH_TRY_DONE(lh_report_open(&report, paths, n));
    if (lh_report_is_empty(report))
        LH_FAIL_DONE(LH_EFILE, "'%s' holds neither figures nor tables, as those of 'replay' and 'eval' do", paths[0]);
    if (document) LH_TRY_DONE(write_document(report, files));
    if (files->csv) LH_TRY_DONE(lh_report_csv(report, files->csv));
    if (files->svg) LH_TRY_DONE(lh_report_svg(report, files->svg));
done:
    if (st != LH_OK && files->output) lh_partial_drop(files->output);
    lh_report_close(report);
    return st;
}

const lh_command lh_command_report = {&syntax, sizeof(struct values), run_report, NULL};
