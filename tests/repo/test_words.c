/* Rules for the texts of this repository: no file too long to read, no script that cannot be started, no postponed work
 * without the number of an issue, no path of a machine. And the language: comments of src/ and pages of docs/ name
 * their nouns. Elliptic phrases ("those of the others") are counted per 1,000 words, room by room. This file is not
 * read, because it holds the words that it looks for. */
#include <check.h>
#include <ctype.h>
#include <fts.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "suite.h"

enum { LONGEST_FILE = 800, LONGEST_LINE = 120, ROOMS = 64, NAME = 64 };

/* Phrases per 1,000 words: ggml, llm.c, hiredis, libsc and ds4 have 0.4 to 0.9 in their comments. */
static const double MAX_IN_SOURCE = 3, MAX_IN_DOCS = 4;

static const char elliptic[] = "\\b(those of|that of|of theirs|whose|of which|of these|of its own|of their "
                               "own|nobody|alike|beside|whoever|whatever|"
                               "what it|what they|what is|what comes|what was|where it is|what a|what the|in place "
                               "of|for (which|whom)|without one|"
                               "the others|by (which|whom)|to come|goes on|go on|is left|as (it|they) "
                               "(is|are|do|does|has|have)|such as it|none is|"
                               "of one|at once|apart)\\b";

static const char *const put_off[] = {"TODO", "FIXME"};
static const char *const machine[] = {"/work/", "/tmp/w/", "/root/", "/home/", "shared/design"};

/* ---- faults of lines ---- */

/* True if the word is followed by the number of an issue, such as (#12). */
static int has_issue(const char *after)
{
    return after[0] == '(' && after[1] == '#' && isdigit((unsigned char)after[2]);
}

/* The fault of a line, or NULL. */
static const char *fault_of(const char *line)
{
    for (size_t i = 0; i < sizeof put_off / sizeof *put_off; i++) {
        const char *at = strstr(line, put_off[i]);
        if (at && !has_issue(at + strlen(put_off[i]))) return put_off[i];
    }
    for (size_t i = 0; i < sizeof machine / sizeof *machine; i++)
        if (strstr(line, machine[i])) return machine[i];
    return NULL;
}

static int ends_with(const char *name, const char *const *ends)
{
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && ends[i]; i++)
        if (strcmp(dot, ends[i]) == 0) return 1;
    return 0;
}

static int is_code(const char *name)
{
    static const char *const ends[] = {".c", ".h", ".cu", ".cuh", NULL};
    return ends_with(name, ends);
}

static int is_text(const char *name)
{
    static const char *const ends[] = {".in", ".sh", ".py", ".md", ".txt", ".cmake", ".json", ".sbatch", NULL};
    return is_code(name) || ends_with(name, ends);
}

/* Characters of a line of UTF-8, without its end. */
static int columns_of(const char *line)
{
    int n = 0;
    for (; *line && *line != '\n'; line++) n += ((unsigned char)*line & 0xc0) != 0x80;
    return n;
}

/* mode: of the file. A script with an interpreter in its first line is started by its name alone in the manual. */
static void check_file(const char *path, const char *name, mode_t mode)
{
    static char line[1 << 16];
    int lines = 0;
    const int page = strncmp(name, "docs/", 5) == 0 || strcmp(name, "README.md") == 0;
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "cannot open %s", name);
    while (fgets(line, sizeof line, f)) {
        const char *fault = fault_of(line);
        lines++;
        ck_assert_msg(lines > 1 || strncmp(line, "#!", 2) != 0 || (mode & S_IXUSR),
                      "%s begins with '#!' and is not executable: git update-index --chmod=+x", name);
        ck_assert_msg(!fault, "%s:%d has '%s'", name, lines, fault);
        ck_assert_msg(!page || columns_of(line) <= LONGEST_LINE, "%s:%d has more than %d columns", name, lines,
                      LONGEST_LINE);
    }
    fclose(f);
    ck_assert_msg(!is_code(name) || lines <= LONGEST_FILE, "%s has %d lines, more than %d", name, lines, LONGEST_FILE);
}

/* ---- language ---- */

/* Blanks everything but comments, and the stars at the beginnings of their lines. */
static void keep_comments(char *text)
{
    char *at = text;
    while (*at) {
        if (*at == '"' || *at == '\'') { /* a literal */
            const char quote = *at;
            do {
                if (*at == '\\' && at[1]) *at++ = ' ';
                *at++ = ' ';
            } while (*at && *at != quote && *at != '\n');
            if (*at) *at++ = ' ';
        } else if (strncmp(at, "/*", 2) == 0 || strncmp(at, "//", 2) == 0) {
            const int block = at[1] == '*';
            at[0] = at[1] = ' ';
            for (at += 2; *at && (block ? strncmp(at, "*/", 2) != 0 : *at != '\n'); at++)
                if (*at == '*' || *at == '\n') *at = ' ';
            if (block && *at) at[0] = at[1] = ' ';
        } else {
            *at++ = ' ';
        }
    }
}

/* Blanks blocks of code in Markdown. */
static void keep_prose(char *text)
{
    for (char *at = text; (at = strstr(at, "```"));) {
        char *end = strstr(at + 3, "```");
        end = end ? end + 3 : at + strlen(at);
        while (at < end) *at++ = ' ';
    }
}

static int64_t count_words(const char *text)
{
    int64_t n = 0;
    for (int within = 0; *text; text++) {
        const int letter = isalpha((unsigned char)*text) || (within && strchr("'_-", *text));
        n += letter && !within;
        within = letter;
    }
    return n;
}

static int64_t count_phrases(const regex_t *phrases, char *text)
{
    int64_t n = 0;
    regmatch_t at;
    char *to = text; /* runs of white space count as one blank */
    for (const char *from = text; *from; from++)
        if (!isspace((unsigned char)*from))
            *to++ = *from;
        else if (to == text || to[-1] != ' ')
            *to++ = ' ';
    *to = '\0';
    for (; regexec(phrases, text, 1, &at, 0) == 0; text += at.rm_eo) n++;
    return n;
}

typedef struct room {
    char name[NAME];
    int64_t words, phrases;
} room;
static room rooms[ROOMS];

/* The room of a file of src/ or docs/, or NULL: "src/kv", "src/lab/eval", "docs". */
static room *room_of(const char *name)
{
    size_t bytes = 4;
    if (strncmp(name, "docs/", 5) != 0 && strncmp(name, "src/", 4) != 0) return NULL;
    if (*name == 's') {
        const char *from = name + (strncmp(name, "src/lab/", 8) == 0 ? 8 : 4);
        bytes = (size_t)(from - name) + strcspn(from, "/");
        if (!name[bytes]) return NULL;
    }
    ck_assert_uint_lt(bytes, NAME);
    for (int i = 0; i < ROOMS; i++) {
        if (!*rooms[i].name) memcpy(rooms[i].name, name, bytes);
        if (strlen(rooms[i].name) == bytes && memcmp(rooms[i].name, name, bytes) == 0) return &rooms[i];
    }
    ck_abort_msg("more than %d rooms", ROOMS);
}

static void read_language(const char *path, const char *name, const regex_t *phrases)
{
    struct stat info;
    room *r = room_of(name);
    if (!r || !(is_code(name) || strncmp(name, "docs/", 5) == 0)) return;
    FILE *f = fopen(path, "r");
    ck_assert(f && fstat(fileno(f), &info) == 0);
    char *text = calloc((size_t)info.st_size + 1, 1);
    ck_assert(text && fread(text, 1, (size_t)info.st_size, f) == (size_t)info.st_size);
    fclose(f);
    if (is_code(name))
        keep_comments(text);
    else
        keep_prose(text);
    r->words += count_words(text);
    r->phrases += count_phrases(phrases, text);
    free(text);
}

/* ---- the walk ---- */

/* Folders that are not ours to judge: build folders, git's folder, and inputs of tests that came from elsewhere. */
static int is_skipped(const FTSENT *e)
{
    return e->fts_level > 0 && (e->fts_name[0] == '.' || strncmp(e->fts_name, "build", 5) == 0 ||
                                strcmp(e->fts_name, "corpus") == 0 || strcmp(e->fts_name, "data") == 0);
}

typedef void visitor(const FTSENT *file, const char *name, void *self);

/* Calls `visit` for every text but this one; returns their number. */
static int each_text(visitor *visit, void *self)
{
    char *roots[] = {(char[]){SOURCE_DIR}, NULL};
    const size_t prefix = strlen(roots[0]) + 1;
    int files = 0;
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    ck_assert_ptr_nonnull(tree);
    for (FTSENT *e; (e = fts_read(tree));) {
        if (e->fts_info == FTS_D && is_skipped(e)) fts_set(tree, e, FTS_SKIP);
        if (e->fts_info != FTS_F || !is_text(e->fts_name)) continue;
        if (strcmp(e->fts_path + prefix, "tests/repo/test_words.c") == 0) continue;
        visit(e, e->fts_path + prefix, self);
        files++;
    }
    fts_close(tree);
    return files;
}

static void visit_lines(const FTSENT *file, const char *name, void *self)
{
    (void)self;
    check_file(file->fts_path, name, file->fts_statp->st_mode);
}

START_TEST(test_texts_are_short_and_hold_no_loose_ends)
{
    ck_assert_int_gt(each_text(visit_lines, NULL), 50); /* the walk found the sources */
}
END_TEST

static void visit_language(const FTSENT *file, const char *name, void *self)
{
    read_language(file->fts_path, name, self);
}

START_TEST(test_every_sentence_has_its_noun)
{
    regex_t phrases;
    int too_many = 0;
    memset(rooms, 0, sizeof rooms);
    ck_assert_int_eq(regcomp(&phrases, elliptic, REG_EXTENDED | REG_ICASE), 0);
    each_text(visit_language, &phrases);
    regfree(&phrases);
    ck_assert_int_gt(rooms[0].words, 0);
    for (int i = 0; i < ROOMS && *rooms[i].name; i++) {
        const double density = 1000.0 * (double)rooms[i].phrases / (double)(rooms[i].words + 1),
                     max = strcmp(rooms[i].name, "docs") == 0 ? MAX_IN_DOCS : MAX_IN_SOURCE;
        if (density > max)
            fprintf(stderr, "%s: %.1f elliptic phrases per 1,000 words, at most %.0f\n", rooms[i].name, density, max);
        too_many += density > max;
    }
    ck_assert_int_eq(too_many, 0);
}
END_TEST

START_TEST(test_the_rules_themselves)
{
    char line[64], code[] = "int x; /* those of\n * one, \"at once\" */ f(\"the others\"); // nobody\n";
    regex_t phrases;
    ck_assert_ptr_null(fault_of("an ordinary line, /tmp/longhaul and ../shared/data"));
    for (size_t i = 0; i < sizeof put_off / sizeof *put_off; i++) {
        snprintf(line, sizeof line, "/* %s later */", put_off[i]);
        ck_assert_ptr_eq(fault_of(line), put_off[i]);
        snprintf(line, sizeof line, "/* %s(#12): later */", put_off[i]);
        ck_assert_ptr_null(fault_of(line));
    }
    for (size_t i = 0; i < sizeof machine / sizeof *machine; i++) {
        snprintf(line, sizeof line, "open \"%sx\"", machine[i]);
        ck_assert_ptr_eq(fault_of(line), machine[i]);
    }
    ck_assert_int_eq(regcomp(&phrases, elliptic, REG_EXTENDED | REG_ICASE), 0);
    keep_comments(code);
    ck_assert_int_eq(count_words(code), 6);
    ck_assert_int_eq(count_phrases(&phrases, code), 3); /* not the literal */
    regfree(&phrases);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_rules_themselves, test_texts_are_short_and_hold_no_loose_ends,
                                  test_every_sentence_has_its_noun, NULL};
    return suite_run("words", tests);
}
