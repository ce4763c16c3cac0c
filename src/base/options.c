/* options.c - parses a command line by the tables of options.h, suggests the nearest name for a wrong one, and records
 * the resolved values as JSON. The texts for --help, man and completion are in options_text.c. */
#include "base/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/log.h"
#include "base/size_text.h"

struct lh_options {
    const lh_syntax *syntax;
    void *values;
    int64_t *given;    /* [n] times given, in the order of the groups */
    const char **last; /* [n] the last value, borrowed; NULL: none was given */
    const char **lost; /* [n] a different value that the last one replaced; NULL: none */
    int64_t n;
    lh_strings args;
};

/* An option and the address of its field. */
typedef struct bound_option {
    const lh_option *row;
    void *field;         /* NULL: no slot is left for its name */
    lh_named_text *slot; /* of a named option */
    int64_t number;
    int required;
} bound_option;

static const size_t field_bytes[LH_OPT_TYPES] = {
    [LH_OPT_FLAG] = sizeof(int),         [LH_OPT_I64] = sizeof(int64_t),
    [LH_OPT_TOKENS] = sizeof(int64_t),   [LH_OPT_F64] = sizeof(double),
    [LH_OPT_STR] = sizeof(const char *), [LH_OPT_LIST] = sizeof(lh_strings),
    [LH_OPT_ENUM] = sizeof(int),         [LH_OPT_WORD_OR_FILE] = sizeof(const char *),
    [LH_OPT_BYTES] = sizeof(int64_t),    [LH_OPT_SWITCH] = sizeof(const char *),
};

/* ---- iteration over all options of all groups ---- */

lh_named_text *lh_named_slot(lh_named_text *slots, int64_t n, const char *name)
{
    for (int64_t i = 0; i < n; i++)
        if (!slots[i].name || strcmp(slots[i].name, name) == 0) return &slots[i];
    return NULL;
}

const lh_option *lh_option_row(const lh_option_table *table, int64_t i)
{
    int64_t n = 0;
    while (n <= i && table->rows[n].name) n++;
    return n > i ? &table->rows[i] : table->rows[n].more ? table->rows[n].more(i - n) : NULL;
}

typedef struct walk {
    const lh_syntax *syntax;
    void *values;
    int64_t group, row, number;
} walk;

static int walk_next(walk *w, bound_option *out)
{
    for (; w->syntax->groups[w->group].table; w->group++, w->row = 0) {
        const lh_option_group *group = &w->syntax->groups[w->group];
        const lh_option *row = lh_option_row(group->table, w->row);
        if (!row) continue;
        assert(row->type < LH_OPT_TYPES && (row->named || row->bytes == field_bytes[row->type]));
        *out = (bound_option){.row = row,
                              .field = w->values ? (char *)w->values + group->at + row->at : NULL,
                              .number = w->number++,
                              .required = row->required && group->table != w->syntax->optional};
        if (row->named && out->field) {
            out->slot = lh_named_slot(out->field, (int64_t)(row->bytes / sizeof *out->slot), row->name);
            out->field = out->slot ? &out->slot->text : NULL;
        }
        w->row++;
        return 1;
    }
    return 0;
}

static int find_name(const lh_options *o, const char *name, size_t bytes, bound_option *out)
{
    walk w = {.syntax = o->syntax, .values = o->values};
    while (walk_next(&w, out))
        if (strlen(out->row->name) == bytes && memcmp(out->row->name, name, bytes) == 0) return 1;
    return 0;
}

static int find_letter(const lh_options *o, char letter, bound_option *out)
{
    walk w = {.syntax = o->syntax, .values = o->values};
    while (walk_next(&w, out))
        if (out->row->letter == letter) return 1;
    return 0;
}

/* ---- the nearest name ---- */

enum { WORD_BYTES = 64 };

/* Case is ignored: papers write names with capitals. */
static int same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Edit distance (insert, delete, replace, swap neighbours) of words shorter than WORD_BYTES. */
static int64_t distance(const char *a, const char *b)
{
    int64_t rows[3][WORD_BYTES + 1];
    int64_t n = (int64_t)strlen(a), m = (int64_t)strlen(b);
    if (n > WORD_BYTES || m > WORD_BYTES) return WORD_BYTES;
    for (int64_t j = 0; j <= m; j++) rows[0][j] = j;
    for (int64_t i = 1; i <= n; i++) {
        int64_t *now = rows[i % 3], *up = rows[(i + 2) % 3], *upup = rows[(i + 1) % 3];
        now[0] = i;
        for (int64_t j = 1; j <= m; j++) {
            int64_t best = up[j - 1] + !same(a[i - 1], b[j - 1]);
            if (up[j] + 1 < best) best = up[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]) && upup[j - 2] + 1 < best)
                best = upup[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *lh_nearest(const char *word, const char *const *names)
{
    const char *best = NULL;
    int64_t n = (int64_t)strlen(word), nearest = 2 + n / 4;
    if (n < 2) return NULL;
    for (int64_t i = 0; names[i]; i++) {
        int64_t d = distance(word, names[i]);
        if (n >= 3 && strncasecmp(names[i], word, (size_t)n) == 0) d = 0; /* the beginning of a name */
        if (d < nearest && d < (int64_t)strlen(names[i])) {
            nearest = d;
            best = names[i];
        }
    }
    return best;
}

/* ---- options of neighbouring tools ---- */

static const char context[] = "a cache has room for the prompt and '--max-new'";
static const char ranks[] = "start as many ranks: mpirun -n N";

const lh_foreign_option lh_foreign_options[] = {
    /* length */
    {"--max-tokens", "max-new", NULL, 0},
    {"--max-new-tokens", "max-new", NULL, 0},
    {"--max-length", "max-new", "the prompt does not count", 0},
    {"--n-predict", "max-new", NULL, 0},
    {"--predict", "max-new", NULL, 0},
    {"--ctx-size", "context", NULL, 0},
    {"--ctx-size", "max-new", context, 1},
    {"-c", "max-new", context, 1},
    {"--max-model-len", "context", NULL, 0},
    {"--max-model-len", "max-new", context, 1},
    /* the machine */
    {"-t", "threads", NULL, 0},
    {"--tensor-parallel-size", "tp", ranks, 0},
    {"-tp", "tp", ranks, 0},
    {"--n-gpu-layers", "device", "'--device cuda' puts all layers on the GPU", 0},
    {"-ngl", "device", "'--device cuda' puts all layers on the GPU", 0},
    {"--gpu-memory-utilization", "memory", "a size, such as 70G", 0},
    {"--kv-cache-dtype", "kv-dtype", NULL, 0},
    {"--cache-type-k", "kv-dtype", "of keys and values", 0},
    {"--ubatch-size", "chunk", NULL, 0},
    {"--max-num-batched-tokens", "chunk", NULL, 0},
    /* text */
    {"--file", "prompt-file", NULL, 0},
    {"--system-prompt", "system", NULL, 0},
    {"--apply-chat-template", "chat", NULL, 0},
    /* sampling */
    {"-s", "seed", NULL, 0},
    {"--temp", "temperature", NULL, 0},
    {"--do-sample", "temperature", "above 0 samples", 0},
    {"--repetition-penalty", "repeat-penalty", NULL, 0},
    /* eviction */
    {"--compression-ratio", "budget", "the share that stays: a ratio of 0.7 is '--budget 30%'", 0},
    {"--max-capacity-prompts", "budget", NULL, 0},
    {"--press", "policy", "'--policy help' lists all", 0},
    {"--method", "policy", "'--policy help' lists all", 0},
    {"--window-size", "window", NULL, 0},
    {"--kernel-size", "pool-size", NULL, 0},
    {"--start-size", "sinks", NULL, 0},
    {"--n-sink", "sinks", NULL, 0},
    {"--recent-size", "recents", NULL, 0},
    {0},
};

static const char no_f16[] = "computing in float16 is not supported";

const lh_foreign_value lh_foreign_values[] = {
    {"gpu", "cuda", NULL},    {"cuda:0", "cuda", "every rank takes the device of its local rank"},
    {"float32", "f32", NULL}, {"float", "f32", NULL},
    {"fp32", "f32", NULL},    {"bfloat16", "bf16", NULL},
    {"float16", "f16", NULL}, {"float16", "bf16", no_f16},
    {"half", "f16", NULL},    {"half", "bf16", no_f16},
    {"fp16", "f16", NULL},    {"fp16", "bf16", no_f16},
    {"f16", "bf16", no_f16},  {0},
};

/* The row of another tool's option if this command has a replacement, else NULL. word: with its dashes. */
static const lh_foreign_option *find_foreign(const lh_options *o, const char *word, size_t bytes)
{
    bound_option p;
    for (const lh_foreign_option *f = lh_foreign_options; f->word; f++)
        if (strlen(f->word) == bytes && memcmp(f->word, word, bytes) == 0 && find_name(o, f->ours, strlen(f->ours), &p))
            return f;
    return NULL;
}

static lh_status fail_foreign(const lh_foreign_option *f)
{
    if (f->needless) LH_FAIL(LH_EUSAGE, "unknown option '%s': %s", f->word, f->note);
    LH_FAIL(LH_EUSAGE, "unknown option '%s', here it is '--%s'%s%s", f->word, f->ours, f->note ? ": " : "",
            f->note ? f->note : "");
}

/* word: without its dashes. */
static lh_status fail_unknown(const lh_options *o, const char *word, size_t bytes)
{
    lh_status st = LH_OK;
    const char **names = NULL;
    char *name = NULL;
    walk w = {.syntax = o->syntax};
    bound_option p;
    LH_TRY_DONE(lh_strndup(&name, word, (int64_t)bytes));
    LH_TRY_DONE(lh_calloc(&names, o->n + 1, sizeof *names));
    while (walk_next(&w, &p)) names[p.number] = p.row->name;
    const char *near = lh_nearest(name, names);
    const int helps = *o->syntax->program != '\0'; /* options in a text belong to no program */
    if (helps && near)
        LH_FAIL_DONE(LH_EUSAGE, "unknown option '--%s', did you mean '--%s'? ('%s %s --help' lists all)", name, near,
                     o->syntax->program, o->syntax->name);
    if (helps)
        LH_FAIL_DONE(LH_EUSAGE, "unknown option '--%s', '%s %s --help' lists all", name, o->syntax->program,
                     o->syntax->name);
    LH_FAIL_DONE(LH_EUSAGE, near ? "unknown option '--%s', did you mean '--%s'?" : "unknown option '--%s'", name, near);
done:
    lh_free(names);
    lh_free(name);
    return st;
}

/* ---- values ---- */

static lh_status set_i64(const lh_option *row, const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    int bad = end == text || *end || errno == ERANGE;
    if (bad && row->min == row->max)
        LH_FAIL(LH_EUSAGE, "option '--%s' got '%s', it must be an integer", row->name, text);
    if (bad || (row->min != row->max && (value < row->min || value > row->max))) {
        if (row->max == INT64_MAX)
            LH_FAIL(LH_EUSAGE, "option '--%s' got '%s', it must be an integer of %lld or more", row->name, text,
                    (long long)row->min);
        LH_FAIL(LH_EUSAGE, "option '--%s' got '%s', it must be an integer between %lld and %lld", row->name, text,
                (long long)row->min, (long long)row->max);
    }
    *out = value;
    return LH_OK;
}

int lh_token_count_read(const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    int64_t unit = strcmp(end, "k") == 0 || strcmp(end, "K") == 0 ? 1 << 10 : strcmp(end, "M") == 0 ? 1 << 20 : 1;
    if (end == text || (unit == 1 && *end) || errno == ERANGE || value < 0 || value > INT64_MAX / unit) return 0;
    *out = value * unit;
    return 1;
}

static lh_status set_tokens(const lh_option *row, const char *text, int64_t *out)
{
    int64_t value = 0;
    if (!lh_token_count_read(text, &value) || value < row->min || value > row->max)
        LH_FAIL(LH_EUSAGE,
                "option '--%s' got '%s', it must be a number of tokens between %lld and %lld, such as 4096, 128k or 1M "
                "(of 1024)",
                row->name, text, (long long)row->min, (long long)row->max);
    *out = value;
    return LH_OK;
}

static lh_status set_f64(const lh_option *row, const char *text, double *out)
{
    char *end = NULL;
    double value = strtod(text, &end);
    int bad = end == text || *end || !isfinite(value);
    if (bad && row->low == row->high)
        LH_FAIL(LH_EUSAGE, "option '--%s' got '%s', it must be a number", row->name, text);
    if (bad || (row->low != row->high && (value < row->low || value > row->high)))
        LH_FAIL(LH_EUSAGE, "option '--%s' got '%s', it must be a number between %g and %g", row->name, text, row->low,
                row->high);
    *out = value;
    return LH_OK;
}

static lh_status set_bytes(const lh_option *row, const char *text, int64_t *out)
{
    if (!lh_size_read(out, text))
        LH_FAIL(
            LH_EUSAGE,
            "option '--%s' got '%s', it must be a size with a unit, such as 512M, 80G or 80GiB (of 1024), or 80GB (of "
            "1000)",
            row->name, text);
    return LH_OK;
}

/* The row of another tool's value if `choices` have a replacement, else NULL. */
static const lh_foreign_value *find_foreign_value(const char *text, const char *const *choices)
{
    for (const lh_foreign_value *f = lh_foreign_values; f->word; f++)
        for (int i = 0; strcmp(f->word, text) == 0 && choices[i]; i++)
            if (strcmp(choices[i], f->ours) == 0) return f;
    return NULL;
}

lh_status lh_choice_find(int *out, const char *option, const char *const *choices, const char *text)
{
    lh_status st = LH_OK;
    lh_buf list = {0};
    for (int i = 0; choices[i]; i++) {
        if (strcmp(choices[i], text) == 0) {
            *out = i;
            goto done;
        }
        LH_TRY_DONE(lh_buf_printf(&list, "%s%s", i ? ", " : "", choices[i]));
    }
    const lh_foreign_value *foreign = find_foreign_value(text, choices);
    if (foreign)
        LH_FAIL_DONE(LH_EUSAGE, "option '--%s' got '%s', here it is '%s'%s%s (one of %s)", option, text, foreign->ours,
                     foreign->note ? ": " : "", foreign->note ? foreign->note : "", list.data);
    const char *near = lh_nearest(text, choices);
    if (near)
        LH_FAIL_DONE(LH_EUSAGE, "option '--%s' got '%s', did you mean '%s'? (one of %s)", option, text, near,
                     list.data);
    LH_FAIL_DONE(LH_EUSAGE, "option '--%s' got '%s', it must be one of %s", option, text, list.data);
done:
    lh_buf_clear(&list);
    return st;
}

int lh_option_is_choice(const lh_option *row, const char *word)
{
    for (int i = 0; row->choices && row->choices[i]; i++)
        if (strcmp(row->choices[i], word) == 0) return 1;
    return 0;
}

static lh_status set_text(const lh_option *row, const char *text, const char **out)
{
    int choice = 0;
    if (row->choices) LH_TRY(lh_choice_find(&choice, row->name, row->choices, text));
    *out = row->choices ? row->choices[choice] : text;
    return LH_OK;
}

static lh_status push(lh_strings *list, const char *text)
{
    LH_TRY(lh_realloc(&list->at, list->n + 1, sizeof *list->at));
    list->at[list->n++] = text;
    return LH_OK;
}

static lh_status set_value(const bound_option *p, const char *text)
{
    if (!p->field) LH_FAIL(LH_EUSAGE, "option '--%s' is one too many: leave out others of its kind", p->row->name);
    if (p->slot) p->slot->name = p->row->name;
    switch (p->row->type) {
    case LH_OPT_FLAG: *(int *)p->field = 1; return LH_OK;
    case LH_OPT_I64: return set_i64(p->row, text, p->field);
    case LH_OPT_TOKENS: return set_tokens(p->row, text, p->field);
    case LH_OPT_F64: return set_f64(p->row, text, p->field);
    case LH_OPT_BYTES: return set_bytes(p->row, text, p->field);
    case LH_OPT_STR:
    case LH_OPT_SWITCH: return set_text(p->row, text, p->field);
    case LH_OPT_WORD_OR_FILE: *(const char **)p->field = text; return LH_OK;
    case LH_OPT_LIST: return push(p->field, text);
    default: return lh_choice_find(p->field, p->row->name, p->row->choices, text);
    }
}

static void set_defaults(const lh_options *o)
{
    walk w = {.syntax = o->syntax, .values = o->values};
    bound_option p;
    while (walk_next(&w, &p)) {
        if (p.row->named)
            memset((char *)p.field - offsetof(lh_named_text, text), 0, p.row->bytes); /* the first slot: none is used */
        else
            memset(p.field, 0, p.row->bytes);
        if (!p.row->def) continue;
        assert(p.row->type != LH_OPT_FLAG && p.row->type != LH_OPT_LIST);
        lh_status st = set_value(&p, p.row->def);
        assert(st == LH_OK);
        (void)st;
    }
}

/* ---- the command line ---- */

typedef struct line {
    char **argv;
    int argc, at;
} line;

/* The value of the option in argv[at - 1]: after '=' (or after the letter), or the next argument. */
static lh_status take_value(const lh_options *o, const lh_option *row, const char *joined, line *l, const char **out)
{
    bound_option p;
    *out = joined;
    if (joined) return LH_OK;
    if (l->at >= l->argc)
        LH_FAIL(LH_EUSAGE, "option '--%s' needs a value: '--%s %s'", row->name, row->name,
                row->arg ? row->arg : "VALUE");
    const char *next = l->argv[l->at];
    if (strncmp(next, "--", 2) == 0 && find_name(o, next + 2, strcspn(next + 2, "="), &p))
        LH_FAIL(LH_EUSAGE,
                "option '--%s' needs a value, but option '%s' follows (write '--%s=%s' if that is the value)",
                row->name, next, row->name, next);
    *out = next;
    l->at++;
    return LH_OK;
}

/* True if every value of the option names a file or folder. */
static int takes_files(const lh_option *row)
{
    return row->arg && !row->file_prefix && (strstr(row->arg, "FILE") || strstr(row->arg, "FOLDER"));
}

/* True if the value is an input or names an input: a second value would leave the first unread. */
static int is_input(const lh_option *row)
{
    if (row->type != LH_OPT_STR || row->writes || !row->arg) return 0;
    return takes_files(row) || strcmp(row->arg, "TEXT") == 0;
}

/* A further value of an option: inputs are refused, settings replaced. */
static lh_status note_value(lh_options *o, const bound_option *p, const char *value)
{
    const char *last = o->last[p->number];
    if (last && is_input(p->row))
        LH_FAIL(LH_EUSAGE, "option '--%s' is given twice, as '%.60s' and as '%.60s': it takes one value", p->row->name,
                last, value);
    if (last && value && strcmp(last, value) != 0) o->lost[p->number] = last;
    o->last[p->number] = value;
    return LH_OK;
}

static lh_status apply_option(lh_options *o, const bound_option *p, const char *joined, line *l)
{
    const char *value = NULL;
    if (p->row->type == LH_OPT_FLAG) {
        if (joined) LH_FAIL(LH_EUSAGE, "option '--%s' takes no value, but got '%s'", p->row->name, joined);
    } else if (p->row->type == LH_OPT_SWITCH) {
        value = joined ? joined : "on";
        if (!joined && l->at < l->argc && lh_option_is_choice(p->row, l->argv[l->at])) value = l->argv[l->at++];
    } else {
        LH_TRY(take_value(o, p->row, joined, l, &value));
    }
    LH_TRY(note_value(o, p, value));
    LH_TRY(set_value(p, value));
    o->given[p->number]++;
    return LH_OK;
}

static lh_status take_long(lh_options *o, const char *word, line *l)
{
    size_t bytes = strcspn(word, "=");
    bound_option p;
    if (!find_name(o, word, bytes, &p)) {
        const lh_foreign_option *foreign = find_foreign(o, word - 2, bytes + 2);
        if (foreign) LH_TRY(fail_foreign(foreign));
        LH_TRY(fail_unknown(o, word, bytes));
    }
    LH_TRY(apply_option(o, &p, word[bytes] ? word + bytes + 1 : NULL, l));
    return LH_OK;
}

/* A letter, several flags, a letter with its value, or, as in other tools, a word after a single dash. */
static lh_status take_letters(lh_options *o, const char *letters, line *l)
{
    bound_option p;
    const lh_foreign_option *word = letters[1] ? find_foreign(o, letters - 1, strlen(letters) + 1) : NULL;
    if (word) LH_TRY(fail_foreign(word));
    for (; *letters; letters++) {
        const lh_foreign_option *foreign = find_foreign(o, (const char[]){'-', *letters}, 2);
        int known = find_letter(o, *letters, &p);
        if (!known && foreign) LH_TRY(fail_foreign(foreign));
        if (!known)
            LH_FAIL(LH_EUSAGE, "unknown option '-%c', '%s %s --help' lists all", *letters, o->syntax->program,
                    o->syntax->name);
        if (p.row->type != LH_OPT_FLAG) {
            LH_TRY(apply_option(o, &p, letters[1] ? letters + 1 : NULL, l));
            return LH_OK;
        }
        LH_TRY(apply_option(o, &p, NULL, l));
    }
    return LH_OK;
}

static lh_status check_complete(const lh_options *o)
{
    walk w = {.syntax = o->syntax, .values = o->values};
    bound_option p;
    while (walk_next(&w, &p))
        if (p.row->alone && o->given[p.number]) return LH_OK;
    w = (walk){.syntax = o->syntax, .values = o->values};
    while (walk_next(&w, &p))
        if (p.required && !o->given[p.number])
            LH_FAIL(LH_EUSAGE, "'%s %s' needs '--%s %s' (usage: %s %s %s)", o->syntax->program, o->syntax->name,
                    p.row->name, p.row->arg ? p.row->arg : "VALUE", o->syntax->program, o->syntax->name,
                    o->syntax->usage);
    return LH_OK;
}

lh_status lh_options_parse(lh_options **out, const lh_syntax *syntax, void *values, int argc, char **argv)
{
    lh_status st = LH_OK;
    lh_options *o = NULL;
    line l = {argv, argc, 0};
    walk w = {.syntax = syntax};
    bound_option p;
    LH_TRY_DONE(lh_calloc(&o, 1, sizeof *o));
    o->syntax = syntax;
    while (walk_next(&w, &p)) o->n++;
    LH_TRY_DONE(lh_calloc(&o->given, o->n, sizeof *o->given));
    LH_TRY_DONE(lh_calloc(&o->last, o->n, sizeof *o->last));
    LH_TRY_DONE(lh_calloc(&o->lost, o->n, sizeof *o->lost));
    o->values = values;
    set_defaults(o);
    for (int open = 1; l.at < argc;) {
        const char *word = argv[l.at++];
        if (open && strcmp(word, "--") == 0) {
            open = 0;
        } else if (open && strncmp(word, "--", 2) == 0) {
            LH_TRY_DONE(take_long(o, word + 2, &l));
        } else if (open && word[0] == '-' && word[1]) {
            LH_TRY_DONE(take_letters(o, word + 1, &l));
        } else if (syntax->max_args == 0) {
            LH_FAIL_DONE(LH_EUSAGE, "'%s' follows no option (usage: %s %s %s)", word, syntax->program, syntax->name,
                         syntax->usage);
        } else if (o->args.n == syntax->max_args) {
            LH_FAIL_DONE(LH_EUSAGE, "'%s' is one argument too many (usage: %s %s %s)", word, syntax->program,
                         syntax->name, syntax->usage);
        } else {
            LH_TRY_DONE(push(&o->args, word));
        }
    }
    LH_TRY_DONE(check_complete(o));
    *out = o;
    o = NULL;
done:
    lh_options_close(o);
    return st;
}

void lh_options_close(lh_options *options)
{
    if (!options) return;
    walk w = {.syntax = options->syntax, .values = options->values};
    bound_option p;
    while (options->values && walk_next(&w, &p)) {
        if (p.row->type != LH_OPT_LIST) continue;
        lh_strings *list = p.field;
        lh_free(list->at);
        *list = (lh_strings){0};
    }
    lh_free(options->args.at);
    lh_free(options->given);
    lh_free(options->last);
    lh_free(options->lost);
    lh_free(options);
}

void lh_options_note_replaced(const lh_options *o)
{
    walk w = {.syntax = o->syntax, .values = o->values};
    bound_option p;
    while (walk_next(&w, &p)) {
        const char *lost = o->lost[p.number];
        if (lost && p.row->type != LH_OPT_LIST)
            lh_info("'--%s %.60s' replaces the '--%s %.60s' before it", p.row->name, o->last[p.number], p.row->name,
                    lost);
    }
}

int64_t lh_options_given(const lh_options *options, const char *name)
{
    bound_option p;
    int found = find_name(options, name, strlen(name), &p);
    assert(found);
    return found ? options->given[p.number] : 0;
}

const char *lh_options_arg(const lh_options *options, int64_t i)
{
    return i < options->args.n ? options->args.at[i] : NULL;
}

lh_help lh_options_help_asked(int argc, char **argv)
{
    if (argc == 1 && strcmp(argv[0], "help") == 0) return LH_HELP_SHORT;
    if (argc == 2 && strcmp(argv[0], "help") == 0 && strcmp(argv[1], "all") == 0) return LH_HELP_ALL;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help=all") == 0) return LH_HELP_ALL;
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) continue;
        return i + 1 < argc && strcmp(argv[i + 1], "all") == 0 ? LH_HELP_ALL : LH_HELP_SHORT;
    }
    return LH_HELP_NONE;
}

/* ---- the record ---- */

static json_t *json_texts(const lh_strings *list)
{
    json_t *array = json_array();
    for (int64_t i = 0; array && i < list->n; i++)
        json_array_append_new(array, lh_json_text(list->at[i], (int64_t)strlen(list->at[i])));
    return array;
}

static json_t *json_value(const bound_option *p, int64_t given)
{
    const lh_option *row = p->row;
    if (row->type == LH_OPT_FLAG) return json_boolean(*(const int *)p->field);
    if (row->type == LH_OPT_LIST) return json_texts(p->field);
    if (!given && !row->def) return json_null();
    switch (row->type) {
    case LH_OPT_I64:
    case LH_OPT_TOKENS:
    case LH_OPT_BYTES: return json_integer(*(const int64_t *)p->field);
    case LH_OPT_F64: return json_real(*(const double *)p->field);
    case LH_OPT_ENUM: return json_string(row->choices[*(const int *)p->field]);
    default: break;
    }
    const char *text = *(const char *const *)p->field;
    return lh_json_text(text, (int64_t)strlen(text));
}

/* The file that a value of the option names; NULL: none. */
static const char *file_in(const lh_option *row, const char *text)
{
    const size_t before = row->file_prefix ? strlen(row->file_prefix) : 0;
    if (row->type == LH_OPT_WORD_OR_FILE) return lh_option_is_choice(row, text) ? NULL : text;
    if (before) return strncmp(text, row->file_prefix, before) == 0 && text[before] ? text + before : NULL;
    return takes_files(row) ? text : NULL;
}

static lh_status add_file(lh_named_file **out, int64_t *n, lh_named_file file)
{
    if (!file.path) return LH_OK;
    LH_TRY(lh_realloc(out, *n + 1, sizeof **out));
    (*out)[(*n)++] = file;
    return LH_OK;
}

lh_status lh_options_files(const lh_options *options, lh_named_file **out, int64_t *n)
{
    walk w = {.syntax = options->syntax, .values = options->values};
    bound_option p;
    *n = 0;
    while (walk_next(&w, &p)) {
        const lh_option *row = p.row;
        const int is_text = row->type == LH_OPT_STR || row->type == LH_OPT_WORD_OR_FILE;
        const char *text = is_text && p.field ? *(const char *const *)p.field : NULL;
        const lh_strings *several = row->type == LH_OPT_LIST ? p.field : NULL;
        lh_named_file file = {.option = row->name,
                              .replaces = row->replaces,
                              .makes = row->makes,
                              .beside = row->beside,
                              .writes = row->writes};
        for (int64_t i = 0; several && i < several->n; i++) {
            file.path = file_in(row, several->at[i]);
            LH_TRY(add_file(out, n, file));
        }
        file.path = text ? file_in(row, text) : NULL;
        LH_TRY(add_file(out, n, file));
    }
    for (int64_t i = 0; options->syntax->reads_args && i < options->args.n; i++)
        LH_TRY(add_file(out, n, (lh_named_file){.path = options->args.at[i]}));
    return LH_OK;
}

lh_status lh_options_json(const lh_options *options, json_t **out)
{
    lh_status st = LH_OK;
    json_t *values = json_object(), *given = json_array();
    walk w = {.syntax = options->syntax, .values = options->values};
    bound_option p;
    while (walk_next(&w, &p)) {
        json_object_set_new(values, p.row->name, json_value(&p, options->given[p.number]));
        if (options->given[p.number]) json_array_append_new(given, json_string(p.row->name));
    }
    json_t *record = json_pack("{s:s, s:o, s:O, s:O}", "command", options->syntax->name, "arguments",
                               json_texts(&options->args), "options", values, "given", given);
    if (!record) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate the record of the options");
    *out = record;
done:
    json_decref(values);
    json_decref(given);
    return st;
}
