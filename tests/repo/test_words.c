/* What no text of this repository may be: a file too long to read, or a script that cannot be started. And what it may
 * not hold: work put off without an issue that says so, paths of one machine, and, in the source, names and phrases
 * that the field has better words for. */
#include <check.h>
#include <ctype.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "suite.h"

enum { LONGEST_FILE = 800 };

/* Written in two halves, or this file would break its own rule. */
static const char *const put_off[] = {"TO"
                                      "DO",
                                      "FIX"
                                      "ME"};
static const char *const machine[] = {"/wo"
                                      "rk/",
                                      "/tmp/"
                                      "w/",
                                      "/ro"
                                      "ot/",
                                      "/ho"
                                      "me/",
                                      "shared/"
                                      "design"};

/* In src/ alone, in lower case; beside each what the field says. Also in two halves. */
static const struct {
    const char *word, *better;
} dialect[] = {{"whole num"
                "ber",
                "integer"},
               {"lh_mo"
                "st(",
                "lh_max_i64"},
               {"lh_lea"
                "st(",
                "lh_min_i64"},
               {"to zero by no"
                "body",
                "uninitialised"},
               {"comes to l"
                "ie",
                "is reallocated"},
               {"come to l"
                "ie",
                "is reallocated"},
               {"lh_ta"
                "lly",
                "candidate counts"},
               {"lh_gr"
                "ant",
                "safeguard"},
               {"lh_nar"
                "row",
                "refine the threshold"},
               {"lh_kv_ma"
                "rk",
                "snapshot"},
               {"rew"
                "ind",
                "restore"},
               {"lh_po"
                "ol_alloc",
                "arena"},
               {"chances"
                ".h",
                "probabilities"},
               {"is tu"
                "rned by",
                "is rotated by"},
               {"one beh"
                "ind the other",
                "one after the other"},
               {"behind the "
                "last",
                "after the last"},
               {"for want"
                " of",
                "because there is no"},
               {"affa"
                "ir",
                "is left to"},
               {"at ha"
                "nd",
                "current"},
               {"kv_mo"
                "ves",
                "the epoch of a cache"},
               {"lh_devices_w"
                "ish",
                "lh_device_request"},
               {"lh_watch_si"
                "t(",
                "lh_watch_attach"},
               {"lh_watch_spe"
                "ak",
                "lh_watch_claim_report"},
               {"word_ru"
                "ns",
                "n-grams"},
               {"lh_layers_nar"
                "row",
                "lh_layers_differ"},
               {"take shorter o"
                "nes",
                "reduce"},
               {"chat format that is kn"
                "own here",
                "a known chat format"}};

/* 1 when the word is followed by the number of an issue, as (#12). */
static int has_issue(const char *after)
{
    return after[0] == '(' && after[1] == '#' && isdigit((unsigned char)after[2]);
}

/* The first phrase of the list that a line of the source has, or NULL. */
static const char *dialect_of(const char *line)
{
    for (size_t i = 0; i < sizeof dialect / sizeof *dialect; i++)
        if (strcasestr(line, dialect[i].word)) return dialect[i].word;
    return NULL;
}

/* What is wrong with a line, or NULL. */
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

static int is_text(const char *name)
{
    static const char *const ends[] = {".c",  ".h",  ".cu",  ".cuh",   ".in",   ".sh",
                                       ".py", ".md", ".txt", ".cmake", ".json", ".sbatch"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (strcmp(dot, ends[i]) == 0) return 1;
    return 0;
}

/* mode: of the file. A script whose first line names its interpreter is started by its name alone in the manual. */
static void check_file(const char *path, const char *name, mode_t mode)
{
    static char line[1 << 16];
    const char *dot = strrchr(name, '.');
    int lines = 0, source = strncmp(name, "src/", 4) == 0,
        code = strcmp(dot, ".c") == 0 || strcmp(dot, ".h") == 0 || strncmp(dot, ".cu", 3) == 0;
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "cannot open %s", name);
    while (fgets(line, sizeof line, f)) {
        const char *fault = fault_of(line);
        if (!fault && source) fault = dialect_of(line);
        lines++;
        ck_assert_msg(lines > 1 || strncmp(line, "#!", 2) != 0 || (mode & S_IXUSR),
                      "%s begins with '#!' and is not executable: git update-index --chmod=+x", name);
        ck_assert_msg(!fault, "%s:%d has '%s'", name, lines, fault);
    }
    fclose(f);
    ck_assert_msg(!code || lines <= LONGEST_FILE, "%s has %d lines, more than %d", name, lines, LONGEST_FILE);
}

/* Folders that are not ours to judge: what was built, what git keeps, and inputs of tests that came from elsewhere. */
static int passed_over(const FTSENT *e)
{
    return e->fts_level > 0 && (e->fts_name[0] == '.' || strncmp(e->fts_name, "build", 5) == 0 ||
                                strcmp(e->fts_name, "corpus") == 0 || strcmp(e->fts_name, "data") == 0);
}

START_TEST(test_texts_are_short_and_hold_no_loose_ends)
{
    char *roots[] = {(char[]){SOURCE_DIR}, NULL};
    const size_t prefix = strlen(roots[0]) + 1;
    int files = 0;
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    ck_assert_ptr_nonnull(tree);
    for (FTSENT *e; (e = fts_read(tree));) {
        if (e->fts_info == FTS_D && passed_over(e)) fts_set(tree, e, FTS_SKIP);
        if (e->fts_info != FTS_F || !is_text(e->fts_name)) continue;
        check_file(e->fts_path, e->fts_path + prefix, e->fts_statp->st_mode);
        files++;
    }
    fts_close(tree);
    ck_assert_int_gt(files, 50); /* the walk found the sources */
}
END_TEST

START_TEST(test_the_rules_themselves)
{
    char line[64];
    ck_assert_ptr_null(fault_of("an ordinary line, /tmp/longhaul and ../shared/data"));
    ck_assert_ptr_null(dialect_of("an integer, the row maximum, restored from a snapshot"));
    for (size_t i = 0; i < sizeof dialect / sizeof *dialect; i++) {
        snprintf(line, sizeof line, "/* %s */", dialect[i].word);
        ck_assert_ptr_eq(dialect_of(line), dialect[i].word);
        ck_assert_ptr_null(dialect_of(dialect[i].better));
    }
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
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_rules_themselves, test_texts_are_short_and_hold_no_loose_ends, NULL};
    return suite_run("words", tests);
}
