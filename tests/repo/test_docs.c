/* Paths and links of README.md and docs/ lead to files that exist: `src/kv/prefill.c`, `src/kv/prefill.c: lh_kv_open`,
 * `tests/evict/test_evict_*.c`, [text](page.md#section). */
#include <check.h>
#include <fts.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"

enum { PATH = 1024 };

/* The text of a file, to be released with free(). */
static char *read_text(const char *path)
{
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "cannot open %s", path);
    fseek(f, 0, SEEK_END);
    const long bytes = ftell(f);
    rewind(f);
    char *text = calloc((size_t)bytes + 1, 1);
    ck_assert(text && fread(text, 1, (size_t)bytes, f) == (size_t)bytes);
    fclose(f);
    return text;
}

/* True if a path of the repository, which may hold '*', leads to a file. */
static int exists(const char *path)
{
    char whole[2 * PATH];
    glob_t found = {0};
    snprintf(whole, sizeof whole, "%s/%s", SOURCE_DIR, path);
    const int there = glob(whole, GLOB_BRACE, NULL, &found) == 0;
    globfree(&found);
    return there;
}

/* True for an example path of the documentation, with a word in capitals: src/main/cmd_NAME.c. */
static int is_example(const char *path)
{
    for (const char *c = path; c[0] && c[1]; c++)
        if (strncmp(c, "README", 6) == 0)
            c += 5;
        else if (c[0] >= 'A' && c[0] <= 'Z' && c[1] >= 'A' && c[1] <= 'Z')
            return 1;
    return strchr(path, '<') != NULL;
}

/* Checks `code spans` that begin with a folder of the repository; returns their number. */
static int check_paths(const char *page, const char *text)
{
    static const char *const folders[] = {"src/",  "tests/",    "tools/",   "jobs/",
                                          "docs/", "examples/", "include/", "cmake/"};
    char path[PATH];
    int n = 0;
    for (const char *at = text; (at = strchr(at, '`')); at++) {
        int known = 0;
        const size_t bytes = strcspn(at + 1, "`: \n,)");
        for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
            known |= strncmp(at + 1, folders[i], strlen(folders[i])) == 0;
        if (!known || bytes >= sizeof path) continue;
        memcpy(path, at + 1, bytes);
        path[bytes] = '\0';
        ck_assert_msg(is_example(path) || exists(path), "%s names `%s`, which does not exist", page, path);
        n++;
    }
    return n;
}

/* The anchor of a heading, as GitHub makes it. */
static void anchor_of(const char *heading, char *out, size_t size)
{
    size_t n = 0;
    for (const char *c = heading; *c && *c != '\n' && n + 1 < size; c++) {
        if (*c >= 'A' && *c <= 'Z')
            out[n++] = (char)(*c - 'A' + 'a');
        else if ((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '-' || *c == '_' || (*c & 0x80))
            out[n++] = *c;
        else if (*c == ' ')
            out[n++] = '-';
    }
    out[n] = '\0';
}

static int has_anchor(const char *path, const char *anchor)
{
    char *text = read_text(path), made[PATH];
    int found = 0;
    for (const char *at = text; at && !found; at = strchr(at, '\n')) {
        at += *at == '\n';
        const size_t marks = strspn(at, "#");
        if (marks && at[marks] == ' ') {
            anchor_of(at + marks + 1, made, sizeof made);
            found = strcmp(made, anchor) == 0;
        }
    }
    free(text);
    return found;
}

/* Checks links to files; returns their number. */
static int check_links(const char *page, const char *folder, const char *text)
{
    char link[PATH], path[2 * PATH];
    int n = 0;
    for (const char *at = text; (at = strstr(at, "](")); at++) {
        const size_t bytes = strcspn(at + 2, ")\n");
        if (bytes >= sizeof link || at[2 + bytes] != ')') continue;
        memcpy(link, at + 2, bytes);
        link[bytes] = '\0';
        if (strstr(link, "://") || strncmp(link, "mailto:", 7) == 0) continue;
        char *anchor = strchr(link, '#');
        if (anchor) *anchor++ = '\0';
        if (*link)
            snprintf(path, sizeof path, "%s/%s/%s", SOURCE_DIR, folder, link);
        else
            snprintf(path, sizeof path, "%s/%s", SOURCE_DIR, page);
        ck_assert_msg(access(path, R_OK) == 0, "%s links to %s, which does not exist", page, link);
        if (anchor) ck_assert_msg(has_anchor(path, anchor), "%s links to %s#%s: no such heading", page, link, anchor);
        n++;
    }
    return n;
}

START_TEST(test_paths_and_links_lead_to_files)
{
    glob_t pages = {0};
    int n = 0;
    ck_assert_int_eq(glob(SOURCE_DIR "/docs/*.md", 0, NULL, &pages), 0);
    ck_assert_int_eq(glob(SOURCE_DIR "/README.md", GLOB_APPEND, NULL, &pages), 0);
    for (size_t i = 0; i < pages.gl_pathc; i++) {
        const char *page = pages.gl_pathv[i] + strlen(SOURCE_DIR) + 1;
        char *text = read_text(pages.gl_pathv[i]);
        n += check_paths(page, text) + check_links(page, strncmp(page, "docs/", 5) == 0 ? "docs" : ".", text);
        free(text);
    }
    globfree(&pages);
    ck_assert_int_gt(n, 100);
}
END_TEST

START_TEST(test_the_rules_themselves)
{
    char anchor[PATH];
    anchor_of("What `plan` prints: ranks\n", anchor, sizeof anchor);
    ck_assert_str_eq(anchor, "what-plan-prints-ranks");
    ck_assert(exists("tests/repo/test_*.c") && !exists("tests/repo/test_nothing.c"));
    ck_assert(is_example("src/main/cmd_NAME.c") && !is_example("tests/repo/README.md"));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_rules_themselves, test_paths_and_links_lead_to_files, NULL};
    return suite_run("docs", tests);
}
