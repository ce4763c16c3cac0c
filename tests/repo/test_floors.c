/* The rooms of src/ stand on floors: a file includes its own room and lower floors only; the commands include
 * longhaul.h and base only. longhaul.h itself stands on all of them. */
#include <check.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>

#include "suite.h"

static const struct {
    const char *room;
    int floor;
} rooms[] = {{"base", 0},  {"device", 1}, {"comm", 2},  {"kernels", 2}, {"policies", 3}, {"exec", 3}, {"kv", 4},
             {"model", 5}, {"engine", 6}, {"trace", 7}, {"eval", 7},    {"bench", 7},   {"batch", 7},    {"cli", 8}};

enum { LONGEST_FILE = 800, TOP_FLOOR = 7, NOWHERE = -1 };

static int floor_of(const char *room, size_t bytes)
{
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        if (strlen(rooms[i].room) == bytes && memcmp(rooms[i].room, room, bytes) == 0) return rooms[i].floor;
    return NOWHERE;
}

static int may_include(const char *file, const char *included)
{
    size_t room = strcspn(file, "/"), other = strcspn(included, "/");
    int floor = floor_of(file, room), lower = floor_of(included, other);
    if (strcmp(file, "longhaul.h") == 0) return lower != NOWHERE && lower <= TOP_FLOOR;
    ck_assert_msg(floor != NOWHERE, "%s is in no room", file);
    if (strcmp(included, "longhaul.h") == 0) return floor > TOP_FLOOR;
    if (room == other && memcmp(file, included, room) == 0) return 1;
    if (memcmp(file, "cli/", 4) == 0) return lower == 0;
    return lower != NOWHERE && lower < floor;
}

/* Checks one file; gives the number of its includes. */
static int check_file(const char *path, const char *name)
{
    char line[1024], included[1024];
    int n = 0, lines = 0;
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    for (; fgets(line, sizeof line, f); lines++) {
        if (sscanf(line, " # include \"%1023[^\"]\"", included) != 1) continue;
        ck_assert_msg(may_include(name, included), "src/%s includes \"%s\", which is above it or in no room", name,
                      included);
        n++;
    }
    fclose(f);
    ck_assert_msg(lines <= LONGEST_FILE, "src/%s has %d lines, more than %d", name, lines, LONGEST_FILE);
    return n;
}

START_TEST(test_every_file_includes_its_own_room_and_lower_floors_only)
{
    char *roots[] = {(char[]){SOURCE_DIR "/src"}, NULL};
    const size_t prefix = strlen(roots[0]) + 1;
    int files = 0, includes = 0;
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    ck_assert_ptr_nonnull(tree);
    for (FTSENT *e; (e = fts_read(tree));) {
        const char *dot = strrchr(e->fts_name, '.');
        if (e->fts_info != FTS_F || !dot) continue;
        if (strcmp(dot, ".c") != 0 && strcmp(dot, ".h") != 0 && strcmp(dot, ".cu") != 0) continue;
        includes += check_file(e->fts_path, e->fts_path + prefix);
        files++;
    }
    fts_close(tree);
    ck_assert_int_gt(files, 20); /* the walk found the sources */
    ck_assert_int_gt(includes, files);
}
END_TEST

START_TEST(test_the_rule_itself)
{
    ck_assert(may_include("kv/evict.c", "kv/kv.h") && may_include("kv/evict.c", "policies/policy.h"));
    ck_assert(!may_include("kv/evict.c", "model/config.h") && !may_include("comm/mpi.c", "kernels/ops.h"));
    ck_assert(may_include("cli/main.c", "longhaul.h") && may_include("cli/main.c", "base/log.h"));
    ck_assert(!may_include("cli/main.c", "engine/engine.h") && !may_include("kv/evict.c", "garden/tree.h"));
    ck_assert(!may_include("engine/engine.c", "longhaul.h") && !may_include("eval/needle.c", "longhaul.h"));
    ck_assert(may_include("longhaul.h", "engine/engine.h") && may_include("longhaul.h", "eval/needle.h"));
    ck_assert(!may_include("longhaul.h", "cli/cli.h") && may_include("eval/needle.c", "engine/session.h"));
    ck_assert(!may_include("kernels/ops.h", "comm/comm.h") && !may_include("trace/trace.h", "eval/eval.h"));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_rule_itself, test_every_file_includes_its_own_room_and_lower_floors_only,
                                  NULL};
    return suite_run("floors", tests);
}
