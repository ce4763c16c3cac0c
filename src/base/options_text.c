/* options_text.c - --help, man page, Markdown and shell completion from the tables of options.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/minmax.h"
#include "base/options.h"

enum { COLUMNS = 96, COLUMNS_MIN = 40, COLUMNS_MAX = 120, HELP_AT = 30 };

/* ---- --help ---- */

static int columns(void)
{
    struct winsize size = {0};
    const char *given = getenv("COLUMNS");
    int64_t n = given ? strtoll(given, NULL, 10) : 0;
    if (n <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) n = size.ws_col;
    return n <= 0 ? COLUMNS : (int)lh_max_i64(COLUMNS_MIN, lh_min_i64(n, COLUMNS_MAX));
}

/* Column at which explanations begin: narrow windows have little space after the names. */
static int help_at(void)
{
    return columns() < 2 * HELP_AT ? 8 : HELP_AT;
}

/* Appends the words of `text` in lines of at most `width` columns. */
static lh_status wrap_to(lh_buf *out, const char *text, int at, int used, int width)
{
    int column = used, first = 1;
    while (*text) {
        int n = (int)strcspn(text, " \n");
        if (n) {
            if (!first && column + 1 + n > width) {
                LH_TRY(lh_buf_printf(out, "\n%*s", at, ""));
                column = at;
                first = 1;
            }
            LH_TRY(lh_buf_printf(out, "%s%.*s", first ? "" : " ", n, text));
            column += n + !first;
            first = 0;
            text += n;
        } else if (strncmp(text, "\n\n", 2) == 0) {
            LH_TRY(lh_buf_printf(out, "\n\n%*s", at, ""));
            column = at;
            first = 1;
            text += 2;
        } else {
            text++;
        }
    }
    LH_TRY(lh_buf_puts(out, "\n"));
    return LH_OK;
}

lh_status lh_options_wrap(lh_buf *out, const char *text, int at, int used)
{
    return wrap_to(out, text, at, used, columns());
}

/* "TOKENS", or the choices of an enumeration. */
static lh_status argument(lh_buf *out, const lh_option *row)
{
    if (row->type == LH_OPT_FLAG) return LH_OK;
    if (row->type == LH_OPT_SWITCH && !row->def) {
        LH_TRY(lh_buf_puts(out, "[=off]"));
        return LH_OK;
    }
    if (row->type == LH_OPT_SWITCH) {
        for (int i = 0; row->choices[i]; i++) LH_TRY(lh_buf_printf(out, "%s%s", i ? "|" : "[=", row->choices[i]));
        return lh_buf_puts(out, "]");
    }
    if (!row->choices || row->arg) {
        LH_TRY(lh_buf_printf(out, " %s", row->arg ? row->arg : "VALUE"));
        return LH_OK;
    }
    for (int i = 0; row->choices[i]; i++) LH_TRY(lh_buf_printf(out, "%s%s", i ? "|" : " ", row->choices[i]));
    if (row->type == LH_OPT_WORD_OR_FILE) LH_TRY(lh_buf_puts(out, "|FILE"));
    return LH_OK;
}

/* The first sentence, up to its semicolon. */
static lh_status explain_shortly(lh_buf *out, const lh_option *row)
{
    const char *end = strpbrk(row->help, ".;");
    while (end && end[1] && end[1] != ' ') end = strpbrk(end + 1, ".;");
    return lh_buf_printf(out, "%.*s.", end ? (int)(end - row->help) : (int)strlen(row->help), row->help);
}

static lh_status explain_at_length(lh_buf *out, const lh_option *row)
{
    LH_TRY(lh_buf_puts(out, row->help));
    if (row->type == LH_OPT_LIST) LH_TRY(lh_buf_puts(out, " May be given several times."));
    return LH_OK;
}

static const char *required_mark(const lh_syntax *s, const lh_option_group *group, const lh_option *row)
{
    return row->required && group->table != s->optional ? " (required)" : "";
}

/* Help, mark and default. Short help leaves out a default of 0, which usually has a meaning that the whole text
 * explains. */
static lh_status explain(lh_buf *out, const lh_option *row, const char *mark, lh_help help)
{
    LH_TRY(help == LH_HELP_SHORT ? explain_shortly(out, row) : explain_at_length(out, row));
    LH_TRY(lh_buf_puts(out, mark));
    if (row->def && (help == LH_HELP_ALL || strcmp(row->def, "0") != 0))
        LH_TRY(lh_buf_printf(out, " (default: %s)", *row->def ? row->def : "empty"));
    return LH_OK;
}

static lh_status help_row(lh_buf *out, const lh_option *row, const char *mark, lh_help help)
{
    lh_status st = LH_OK;
    const int at = help_at();
    lh_buf left = {0}, right = {0};
    if (row->letter)
        LH_TRY_DONE(lh_buf_printf(&left, "  -%c, --%s", row->letter, row->name));
    else
        LH_TRY_DONE(lh_buf_printf(&left, "      --%s", row->name));
    LH_TRY_DONE(argument(&left, row));
    LH_TRY_DONE(explain(&right, row, mark, help));
    if (left.bytes + 2 > at)
        LH_TRY_DONE(lh_buf_printf(out, "%s\n%*s", left.data, at, ""));
    else
        LH_TRY_DONE(lh_buf_printf(out, "%-*s", at, left.data));
    LH_TRY_DONE(lh_options_wrap(out, right.data, at, at));
done:
    lh_buf_clear(&left);
    lh_buf_clear(&right);
    return st;
}

/* True if the whole help is much longer than a screen: it has the parts of policies. */
enum { FEW_DETAILS = 3 };
static int is_long(const lh_syntax *s)
{
    int details = 0;
    const lh_option *row;
    for (const lh_option_group *g = s->groups; g->table; g++)
        for (int64_t i = 0; (row = lh_option_row(g->table, i)); i++) details += row->detail;
    return details > FEW_DETAILS;
}

/* A command line, continued with backslashes before options that would not fit. */
static lh_status wrap_command(lh_buf *out, const char *line)
{
    enum { INDENT = 2, CONTINUED = 6, MARK = 2 };
    const int width = columns();
    int column = INDENT;
    LH_TRY(lh_buf_puts(out, "  "));
    while (*line) {
        int n = 1, quoted = 0;
        /* up to the next space before an option, outside of quotes */
        for (; line[n] && !(line[n] == ' ' && line[n + 1] == '-' && !quoted); n++) quoted ^= line[n] == '\'';
        if (column > INDENT && column + n + MARK > width) {
            LH_TRY(lh_buf_printf(out, " \\\n%*s", CONTINUED - 1, ""));
            column = CONTINUED - 1;
        }
        LH_TRY(lh_buf_printf(out, "%.*s", n, line));
        column += n;
        line += n;
    }
    return lh_buf_puts(out, "\n");
}

static lh_status help_examples(lh_buf *out, const lh_example *examples)
{
    LH_TRY(lh_buf_puts(out, "\nexamples:\n"));
    for (const lh_example *e = examples; e->line; e++) {
        const int64_t from = out->bytes;
        LH_TRY(lh_buf_puts(out, "    "));
        LH_TRY(lh_options_wrap(out, e->what, 4, 4));
        for (char *line = out->data + from; *line; line += strcspn(line, "\n") + 1) line[2] = '#';
        LH_TRY(wrap_command(out, e->line));
    }
    return LH_OK;
}

lh_status lh_options_help(lh_buf *out, const lh_syntax *s, lh_help help)
{
    const lh_option *row;
    const int shorter = help == LH_HELP_SHORT && is_long(s);
    if (!shorter) help = LH_HELP_ALL;
    LH_TRY(lh_buf_printf(out, "usage: %s %s %s\n\n%s.\n", s->program, s->name, s->usage, s->summary));
    if (s->text && !shorter) {
        LH_TRY(lh_buf_puts(out, "\n"));
        LH_TRY(lh_options_wrap(out, s->text, 0, 0));
    }
    for (const lh_option_group *g = s->groups; g->table; g++) {
        LH_TRY(lh_buf_printf(out, "\n%s:\n", g->table->heading));
        for (int64_t i = 0; (row = lh_option_row(g->table, i)); i++)
            if (row->help && !(shorter && row->detail)) LH_TRY(help_row(out, row, required_mark(s, g, row), help));
    }
    if (s->examples) LH_TRY(help_examples(out, s->examples));
    if (shorter)
        LH_TRY(lh_buf_printf(out, "\n'%s %s --help all' explains more, and has the parts of policies.\n", s->program,
                             s->name));
    return LH_OK;
}

/* ---- Markdown ---- */

/* Text in which nothing is markup. */
static lh_status markdown_text(lh_buf *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("*<`|", *text)) LH_TRY(lh_buf_puts(out, "\\"));
        LH_TRY(lh_buf_append(out, text, 1));
    }
    return LH_OK;
}

/* Long lists of choices follow the help text. */
enum { ARGUMENT_MAX = 48 };

static lh_status markdown_row(lh_buf *out, const lh_option *row)
{
    lh_status st = LH_OK;
    lh_buf taken = {0}, plain = {0}, item = {0};
    LH_TRY_DONE(argument(&taken, row));
    const int listed = taken.bytes > ARGUMENT_MAX && row->choices;
    LH_TRY_DONE(lh_buf_puts(&item, "- `"));
    if (row->letter) LH_TRY_DONE(lh_buf_printf(&item, "-%c`, `", row->letter));
    LH_TRY_DONE(lh_buf_printf(&item, "--%s%s`: ", row->name, listed ? " WORD" : taken.bytes ? taken.data : ""));
    LH_TRY_DONE(explain(&plain, row, row->required ? " (required)" : "", LH_HELP_ALL));
    LH_TRY_DONE(markdown_text(&item, plain.data));
    for (int i = 0; listed && row->choices[i]; i++)
        LH_TRY_DONE(lh_buf_printf(&item, "%s `%s`", i ? "," : " One of", row->choices[i]));
    LH_TRY_DONE(wrap_to(out, item.data, 2, 0, COLUMNS_MAX));
done:
    lh_buf_clear(&taken);
    lh_buf_clear(&plain);
    lh_buf_clear(&item);
    return st;
}

lh_status lh_options_markdown(lh_buf *out, const lh_option_table *table)
{
    const lh_option *row;
    for (int64_t i = 0; (row = lh_option_row(table, i)); i++)
        if (row->help) LH_TRY(markdown_row(out, row));
    return LH_OK;
}

/* ---- the man page ---- */

/* Text in which nothing is a request or an escape of troff. */
static lh_status troff(lh_buf *out, const char *text)
{
    for (int start = 1; *text; text++) {
        if (start && (*text == '.' || *text == '\'')) LH_TRY(lh_buf_puts(out, "\\&"));
        start = *text == '\n';
        if (strncmp(text, "\n\n", 2) == 0) {
            LH_TRY(lh_buf_puts(out, "\n.PP\n"));
            text++;
        } else if (*text == '\\') {
            LH_TRY(lh_buf_puts(out, "\\e"));
        } else if (*text == '-') {
            LH_TRY(lh_buf_puts(out, "\\-"));
        } else {
            LH_TRY(lh_buf_append(out, text, 1));
        }
    }
    return LH_OK;
}

static lh_status man_row(lh_buf *out, const lh_option *row, const char *mark)
{
    lh_status st = LH_OK;
    lh_buf arg = {0}, text = {0};
    LH_TRY_DONE(argument(&arg, row));
    LH_TRY_DONE(explain(&text, row, mark, LH_HELP_ALL));
    LH_TRY_DONE(lh_buf_puts(out, ".TP\n"));
    if (row->letter) LH_TRY_DONE(lh_buf_printf(out, "\\fB\\-%c\\fR, ", row->letter));
    LH_TRY_DONE(lh_buf_puts(out, "\\fB\\-\\-"));
    LH_TRY_DONE(troff(out, row->name));
    LH_TRY_DONE(lh_buf_puts(out, "\\fR"));
    if (arg.data) LH_TRY_DONE(lh_buf_puts(out, *arg.data == ' ' ? " \\fI" : "\\fI"));
    if (arg.data) LH_TRY_DONE(troff(out, arg.data + (*arg.data == ' ')));
    if (arg.data) LH_TRY_DONE(lh_buf_puts(out, "\\fR"));
    LH_TRY_DONE(lh_buf_puts(out, "\n"));
    LH_TRY_DONE(troff(out, text.data));
    LH_TRY_DONE(lh_buf_puts(out, "\n"));
done:
    lh_buf_clear(&arg);
    lh_buf_clear(&text);
    return st;
}

static int is_shared(const lh_option_table *const *shared, const lh_option_table *table)
{
    while (*shared && *shared != table) shared++;
    return *shared != NULL;
}

/* The options of a command: its own tables in full, shared tables by their names. */
static lh_status man_groups(lh_buf *out, const lh_syntax *s, const lh_option_table *const *shared)
{
    const lh_option *row;
    const char *before = ".PP\nAlso the shared options";
    for (const lh_option_group *g = s->groups; g->table; g++) {
        if (is_shared(shared, g->table)) continue;
        LH_TRY(lh_buf_printf(out, ".PP\n\\fI%s:\\fR\n", g->table->heading));
        for (int64_t i = 0; (row = lh_option_row(g->table, i)); i++)
            if (row->help) LH_TRY(man_row(out, row, required_mark(s, g, row)));
    }
    for (const lh_option_group *g = s->groups; g->table; g++) {
        if (!is_shared(shared, g->table)) continue;
        LH_TRY(lh_buf_printf(out, "%s \\fI%s\\fR", before, g->table->heading));
        before = ",";
    }
    return lh_buf_puts(out, *before == ',' ? ".\n" : "");
}

lh_status lh_options_man_shared(lh_buf *out, const lh_option_table *table)
{
    const lh_option *row;
    LH_TRY(lh_buf_printf(out, ".SS \"%s\"\n", table->heading));
    for (int64_t i = 0; (row = lh_option_row(table, i)); i++)
        if (row->help) LH_TRY(man_row(out, row, row->required ? " (required)" : ""));
    return LH_OK;
}

lh_status lh_options_man(lh_buf *out, const lh_syntax *s, const lh_option_table *const *shared)
{
    LH_TRY(lh_buf_printf(out, ".SS \"%s %s %s\"\n", s->program, s->name, s->usage));
    LH_TRY(troff(out, s->summary));
    LH_TRY(lh_buf_puts(out, ".\n"));
    if (s->text) {
        LH_TRY(lh_buf_puts(out, ".PP\n"));
        LH_TRY(troff(out, s->text));
        LH_TRY(lh_buf_puts(out, "\n"));
    }
    LH_TRY(man_groups(out, s, shared));
    for (const lh_example *e = s->examples; e && e->line; e++) {
        LH_TRY(lh_buf_puts(out, ".PP\n"));
        LH_TRY(troff(out, e->what));
        LH_TRY(lh_buf_printf(out, "%s\n.PP\n.nf\n.RS\n", strchr(e->what, '?') ? "" : ":"));
        LH_TRY(troff(out, e->line));
        LH_TRY(lh_buf_puts(out, "\n.RE\n.fi\n"));
    }
    return LH_OK;
}

/* ---- completion ---- */

static int is_path(const lh_option *row)
{
    return row->arg && (strncmp(row->arg, "FILE", 4) == 0 || strncmp(row->arg, "FOLDER", 6) == 0);
}

/* Completion of words, or of the next word of a list, after its last comma. */
static lh_status propose(lh_buf *out, const lh_option *row)
{
    int list = row->arg && strcmp(row->arg, "LIST") == 0;
    LH_TRY(lh_buf_printf(out, "COMPREPLY=($(compgen %s-W \"", list ? "-P \"${cur%\"${cur##*,}\"}\" " : ""));
    for (int i = 0; row->word(i); i++) LH_TRY(lh_buf_printf(out, "%s%s", i ? " " : "", row->word(i)));
    LH_TRY(lh_buf_printf(out, "\" -- \"%s\")); ", list ? "${cur##*,}" : "$cur"));
    return LH_OK;
}

/* One line of `case "$prev"`: what may follow this option. */
static lh_status completion_row(lh_buf *out, const lh_option *row)
{
    if (row->type == LH_OPT_FLAG || row->type == LH_OPT_SWITCH) return LH_OK;
    LH_TRY(lh_buf_printf(out, "            --%s", row->name));
    if (row->letter) LH_TRY(lh_buf_printf(out, "|-%c", row->letter));
    LH_TRY(lh_buf_puts(out, ") "));
    if (row->choices) {
        int file = row->type == LH_OPT_WORD_OR_FILE;
        LH_TRY(lh_buf_puts(out, file ? "mapfile -t COMPREPLY < <(compgen -f -W \"" : "COMPREPLY=($(compgen -W \""));
        for (int i = 0; row->choices[i]; i++) LH_TRY(lh_buf_printf(out, "%s%s", i ? " " : "", row->choices[i]));
        LH_TRY(lh_buf_puts(out, file ? "\" -- \"$cur\"); " : "\" -- \"$cur\")); "));
    } else if (row->word) {
        LH_TRY(propose(out, row));
    } else if (is_path(row)) {
        LH_TRY(lh_buf_puts(out, "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); "));
    }
    LH_TRY(lh_buf_puts(out, "return ;;\n"));
    return LH_OK;
}

lh_status lh_options_completion(lh_buf *out, const lh_syntax *s)
{
    const lh_option *row;
    LH_TRY(lh_buf_printf(out, "    %s)\n        case \"$prev\" in\n", s->name));
    for (const lh_option_group *g = s->groups; g->table; g++)
        for (int64_t i = 0; (row = lh_option_row(g->table, i)); i++) LH_TRY(completion_row(out, row));
    LH_TRY(lh_buf_puts(out, "        esac\n        words=\"--help"));
    for (const lh_option_group *g = s->groups; g->table; g++)
        for (int64_t i = 0; (row = lh_option_row(g->table, i)); i++) LH_TRY(lh_buf_printf(out, " --%s", row->name));
    LH_TRY(lh_buf_puts(out, "\" ;;\n"));
    return LH_OK;
}
