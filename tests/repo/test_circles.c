/* No circle of files in src/: where a file calls a function that another one alone defines, no chain of such calls
 * leads back. A header, its source and the sources named for it (h5.h, h5.c, h5_array.c) count as one: the inside of
 * one implementation is its own affair. Names are read as text, after comments and strings are blanked out. */
#include <check.h>
#include <ctype.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

enum { UNITS = 1024, DEFINITIONS = 8192, NAME = 128 };

typedef struct source {
    char *text;
    int unit;
} source;

typedef struct definition {
    char name[NAME];
    int unit; /* -1: defined in several units, as for backends */
} definition;

typedef struct house {
    char units[UNITS][NAME]; /* "base/h5" */
    source sources[UNITS];
    definition definitions[DEFINITIONS];
    int units_n, sources_n, definitions_n;
    char calls[UNITS][UNITS]; /* 1: straight or by way of others */
} house;

static house h;

/* ---- units ---- */

/* 1 if src/`stem` has a header. */
static int has_header(const char *stem)
{
    char path[2048];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, SOURCE_DIR "/src/%s%s", stem, i ? ".cuh" : ".h");
        FILE *f = fopen(path, "r");
        if (f) fclose(f);
        if (f) return 1;
    }
    return 0;
}

/* The stem of the nearest header: "base/h5" of "base/h5_array.c"; its own stem where there is none. */
static void unit_of(const char *file, char out[NAME])
{
    char stem[NAME];
    ck_assert_int_lt(strlen(file), NAME);
    strcpy(stem, file);
    *strchr(strrchr(stem, '/'), '.') = '\0';
    strcpy(out, stem);
    while (!has_header(stem)) {
        char *last = strrchr(stem, '_');
        if (!last || strchr(last, '/')) return;
        *last = '\0';
    }
    strcpy(out, stem);
}

static int add_unit(const char *name)
{
    for (int i = 0; i < h.units_n; i++)
        if (strcmp(h.units[i], name) == 0) return i;
    ck_assert_int_lt(h.units_n, UNITS);
    strcpy(h.units[h.units_n], name);
    return h.units_n++;
}

/* ---- text ---- */

/* Comments, the insides of strings and preprocessor lines become spaces. */
static void blank(char *text)
{
    for (char *c = text; *c;) {
        size_t n = 1;
        if (strncmp(c, "/*", 2) == 0) {
            const char *end = strstr(c + 2, "*/");
            n = end ? (size_t)(end + 2 - c) : strlen(c);
        } else if (strncmp(c, "//", 2) == 0) {
            n = strcspn(c, "\n");
        } else if (*c == '#' && (c == text || c[-1] == '\n')) {
            while (c[n] && !(c[n] == '\n' && c[n - 1] != '\\')) n++;
        } else if (*c == '"' || *c == '\'') {
            while (c[n] && c[n] != *c) n += c[n] == '\\' && c[n + 1] ? 2 : 1;
            memset(c + 1, ' ', n - 1);
            c += n + (c[n] != '\0');
            continue;
        } else {
            c++;
            continue;
        }
        memset(c, ' ', n);
        c += n;
    }
}

/* The next lh_ identifier from `at` on, its end in *end; NULL after the last. */
static const char *next_name(const char *at, const char **end)
{
    for (const char *start = at; (at = strstr(at, "lh_")); at++) {
        if (at > start && (isalnum((unsigned char)at[-1]) || at[-1] == '_')) continue;
        *end = at + strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        return at;
    }
    return NULL;
}

static void add_definition(const char *name, size_t bytes, int unit)
{
    ck_assert_int_lt(h.definitions_n, DEFINITIONS);
    ck_assert_int_lt(bytes, NAME);
    definition *d = &h.definitions[h.definitions_n++];
    memcpy(d->name, name, bytes);
    d->unit = unit;
}

/* One declaration outside of functions, [start, body): a function's, unless it is static. */
static void read_declaration(const char *start, const char *body, int unit)
{
    const char *end = NULL, *name = next_name(start, &end);
    start += strspn(start, " \n");
    if (strncmp(start, "static", 6) == 0 || strncmp(start, "typedef", 7) == 0) return;
    for (; name && name < body; name = next_name(end, &end))
        if (*end == '(') {
            add_definition(name, (size_t)(end - name), unit);
            return;
        }
}

static void read_definitions(const source *s)
{
    const char *start = s->text;
    int depth = 0;
    for (const char *c = s->text; *c; c++) {
        if (*c == '{' && depth == 0 && strncmp(start + strspn(start, " \n"), "extern \"", 8) == 0) {
            start = c + 1; /* extern "C" { holds functions like a file */
        } else if (*c == '{') {
            if (depth++ == 0) read_declaration(start, c, s->unit);
        } else if (*c == '}') {
            if (depth > 0) depth--;
            if (depth == 0) start = c + 1;
        } else if (*c == ';' && depth == 0) {
            start = c + 1;
        }
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const definition *)a)->name, ((const definition *)b)->name);
}

static void read_calls(const source *s)
{
    definition key;
    const char *end = NULL;
    for (const char *name = next_name(s->text, &end); name; name = next_name(end, &end)) {
        if (end - name >= NAME) continue;
        memcpy(key.name, name, (size_t)(end - name));
        key.name[end - name] = '\0';
        const definition *d = bsearch(&key, h.definitions, (size_t)h.definitions_n, sizeof key, compare_names);
        if (d && d->unit >= 0 && d->unit != s->unit) h.calls[s->unit][d->unit] = 1;
    }
}

/* ---- the house ---- */

static void read_source(const char *path, const char *file)
{
    char unit[NAME];
    source *s = &h.sources[h.sources_n++];
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_le(h.sources_n, UNITS);
    fseek(f, 0, SEEK_END);
    const size_t bytes = (size_t)ftell(f);
    rewind(f);
    s->text = calloc(bytes + 1, 1);
    ck_assert(s->text && fread(s->text, 1, bytes, f) == bytes);
    fclose(f);
    blank(s->text);
    unit_of(file, unit);
    s->unit = add_unit(unit);
}

static void read_house(void)
{
    char *roots[] = {(char[]){SOURCE_DIR "/src"}, NULL};
    const size_t prefix = strlen(roots[0]) + 1;
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    ck_assert_ptr_nonnull(tree);
    for (FTSENT *e; (e = fts_read(tree));) {
        const char *dot = strrchr(e->fts_name, '.');
        if (e->fts_info == FTS_F && dot && (strcmp(dot, ".c") == 0 || strcmp(dot, ".cu") == 0))
            read_source(e->fts_path, e->fts_path + prefix);
    }
    fts_close(tree);
    for (int i = 0; i < h.sources_n; i++) read_definitions(&h.sources[i]);
    qsort(h.definitions, (size_t)h.definitions_n, sizeof *h.definitions, compare_names);
    for (int i = 1; i < h.definitions_n; i++)
        if (strcmp(h.definitions[i].name, h.definitions[i - 1].name) == 0 &&
            h.definitions[i].unit != h.definitions[i - 1].unit)
            h.definitions[i].unit = h.definitions[i - 1].unit = -1;
    for (int i = 0; i < h.sources_n; i++) read_calls(&h.sources[i]);
    for (int i = 0; i < h.sources_n; i++) free(h.sources[i].text);
}

/* From straight calls to chains of them. */
static void close_calls(void)
{
    for (int via = 0; via < h.units_n; via++)
        for (int from = 0; from < h.units_n; from++)
            for (int to = 0; h.calls[from][via] && to < h.units_n; to++)
                if (h.calls[via][to]) h.calls[from][to] = 1;
}

START_TEST(test_no_chain_of_calls_leads_back_to_its_file)
{
    int calls = 0;
    memset(&h, 0, sizeof h);
    read_house();
    for (int i = 0; i < h.units_n; i++)
        for (int k = 0; k < h.units_n; k++) calls += h.calls[i][k];
    ck_assert_int_gt(calls, h.units_n); /* the sources were read */
    close_calls();
    for (int i = 0; i < h.units_n; i++)
        for (int k = i + 1; k < h.units_n; k++)
            ck_assert_msg(!h.calls[i][k] || !h.calls[k][i], "src/%s and src/%s are in one circle of calls", h.units[i],
                          h.units[k]);
}
END_TEST

START_TEST(test_the_reading_itself)
{
    char text[] = "#define lh_a() \\\n lh_b()\n/* lh_c() { */\nextern \"C\" {\nint lh_d(int x)\n{\n    return "
                  "lh_e(\"lh_f\");\n}\n"
                  "}\nstatic int lh_g(void)\n{\n}\nint lh_i(int x);\nlh_j lh_k(lh_l *x)\n{\n}\n",
         unit[NAME];
    const char *end = NULL;
    memset(&h, 0, sizeof h);
    blank(text);
    read_definitions(&(source){text, 0});
    ck_assert_int_eq(h.definitions_n, 2);
    ck_assert_str_eq(h.definitions[0].name, "lh_d");
    ck_assert_str_eq(h.definitions[1].name, "lh_k");
    const char *name = next_name(text, &end);
    ck_assert(strncmp(name, "lh_d", 4) == 0 && strncmp(next_name(end, &end), "lh_e", 4) == 0);
    unit_of("base/h5_array.c", unit);
    ck_assert_str_eq(unit, "base/h5");
    unit_of("base/json.c", unit);
    ck_assert_str_eq(unit, "base/json");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_reading_itself, test_no_chain_of_calls_leads_back_to_its_file, NULL};
    return suite_run("circles", tests);
}
