/* options_text.c - --help, man page and shell completion from the tables of options.h. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"

enum { COLUMNS = 96, HELP_AT = 30 };

/* ---- --help ---- */

lh_status lh_options_wrap(lh_buf *out, const char *text, int at, int used)
{
    int column = used, first = 1;
    while (*text) {
        int n = (int)strcspn(text, " \n");
        if (n) {
            if (!first && column + 1 + n > COLUMNS) {
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

/* Help, then from the table: default, repeatable, required. */
static lh_status explain(lh_buf *out, const lh_option *row)
{
    LH_TRY(lh_buf_puts(out, row->help));
    if (row->type == LH_OPT_LIST) LH_TRY(lh_buf_puts(out, " May be given several times."));
    if (row->required) LH_TRY(lh_buf_puts(out, " (required)"));
    if (row->def) LH_TRY(lh_buf_printf(out, " (default: %s)", *row->def ? row->def : "empty"));
    return LH_OK;
}

static lh_status help_row(lh_buf *out, const lh_option *row)
{
    lh_status st = LH_OK;
    lh_buf left = {0}, right = {0};
    if (row->letter)
        LH_TRY_DONE(lh_buf_printf(&left, "  -%c, --%s", row->letter, row->name));
    else
        LH_TRY_DONE(lh_buf_printf(&left, "      --%s", row->name));
    LH_TRY_DONE(argument(&left, row));
    LH_TRY_DONE(explain(&right, row));
    if (left.bytes + 2 > HELP_AT)
        LH_TRY_DONE(lh_buf_printf(out, "%s\n%*s", left.data, HELP_AT, ""));
    else
        LH_TRY_DONE(lh_buf_printf(out, "%-*s", HELP_AT, left.data));
    LH_TRY_DONE(lh_options_wrap(out, right.data, HELP_AT, HELP_AT));
done:
    lh_buf_clear(&left);
    lh_buf_clear(&right);
    return st;
}

lh_status lh_options_help(lh_buf *out, const lh_syntax *s)
{
    LH_TRY(lh_buf_printf(out, "usage: %s %s %s\n\n%s.\n", s->program, s->name, s->usage, s->summary));
    if (s->text) {
        LH_TRY(lh_buf_puts(out, "\n"));
        LH_TRY(lh_options_wrap(out, s->text, 0, 0));
    }
    for (const lh_option_group *g = s->groups; g->table; g++) {
        LH_TRY(lh_buf_printf(out, "\n%s:\n", g->table->heading));
        for (const lh_option *row = g->table->rows; row->name; row++)
            if (row->help) LH_TRY(help_row(out, row));
    }
    if (s->examples) LH_TRY(lh_buf_puts(out, "\nexamples:\n"));
    for (const lh_example *e = s->examples; e && e->line; e++)
        LH_TRY(lh_buf_printf(out, "  # %s\n  %s\n", e->what, e->line));
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

static lh_status man_row(lh_buf *out, const lh_option *row)
{
    lh_status st = LH_OK;
    lh_buf arg = {0}, text = {0};
    LH_TRY_DONE(argument(&arg, row));
    LH_TRY_DONE(explain(&text, row));
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

lh_status lh_options_man(lh_buf *out, const lh_syntax *s)
{
    LH_TRY(lh_buf_printf(out, ".SS \"%s %s %s\"\n", s->program, s->name, s->usage));
    LH_TRY(troff(out, s->summary));
    LH_TRY(lh_buf_puts(out, ".\n"));
    if (s->text) {
        LH_TRY(lh_buf_puts(out, ".PP\n"));
        LH_TRY(troff(out, s->text));
        LH_TRY(lh_buf_puts(out, "\n"));
    }
    for (const lh_option_group *g = s->groups; g->table; g++) {
        LH_TRY(lh_buf_printf(out, ".PP\n\\fI%s:\\fR\n", g->table->heading));
        for (const lh_option *row = g->table->rows; row->name; row++)
            if (row->help) LH_TRY(man_row(out, row));
    }
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
    LH_TRY(lh_buf_printf(out, "    %s)\n        case \"$prev\" in\n", s->name));
    for (const lh_option_group *g = s->groups; g->table; g++)
        for (const lh_option *row = g->table->rows; row->name; row++) LH_TRY(completion_row(out, row));
    LH_TRY(lh_buf_puts(out, "        esac\n        words=\"--help"));
    for (const lh_option_group *g = s->groups; g->table; g++)
        for (const lh_option *row = g->table->rows; row->name; row++) LH_TRY(lh_buf_printf(out, " --%s", row->name));
    LH_TRY(lh_buf_puts(out, "\" ;;\n"));
    return LH_OK;
}
