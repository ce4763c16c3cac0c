/* The rooms of src/ stand on floors: a file includes its own room, lower floors, and at most one further room of its
 * own floor. The laboratory, src/lab/, is a wing: it includes the rooms of the engine except batch, and only main, on
 * the top floor, includes it. The public headers, include/longhaul/, are the ground: all may include them, as
 * <longhaul/longhaul.h>. */
#include <check.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>

#include "suite.h"

typedef struct room {
    const char *name;
    int floor;
    const char *beside; /* a room of the same floor that it may include, or NULL */
} room;

static const room rooms[] = {
    {"base", 0, NULL},          {"text", 1, NULL},        {"device", 1, NULL},     {"import", 2, NULL},
    {"comm", 2, NULL},          {"kernels", 2, NULL},     {"policies", 3, NULL},   {"exec", 3, NULL},
    {"cache", 4, NULL},         {"evict", 4, "cache"},    {"kv", 5, NULL},         {"model", 6, NULL},
    {"engine", 7, NULL},        {"api", 8, NULL},         {"shell", 8, NULL},      {"batch", 9, NULL},
    {"lab/analysis", 10, NULL}, {"lab/trace", 11, NULL},  {"lab/eval", 11, NULL},  {"lab/bench", 11, NULL},
    {"lab/report", 11, NULL},   {"lab/replay", 12, NULL}, {"lab/learn", 12, NULL}, {"main", 13, NULL}};

static int is_lab(const char *file)
{
    return strncmp(file, "lab/", 4) == 0;
}

/* The room of a file named from src/; NULL: none. */
static const room *room_of(const char *file)
{
    const char *from = is_lab(file) ? file + 4 : file;
    const size_t bytes = (size_t)(from - file) + strcspn(from, "/");
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        if (strlen(rooms[i].name) == bytes && memcmp(rooms[i].name, file, bytes) == 0) return &rooms[i];
    return NULL;
}

static int may_include(const char *file, const char *included)
{
    const room *own = room_of(file), *other = room_of(included);
    ck_assert_msg(own != NULL, "%s is in no room", file);
    if (!other || own == other) return own == other;
    if (is_lab(file) && strcmp(other->name, "batch") == 0) return 0;
    return other->floor < own->floor || (own->beside && strcmp(own->beside, other->name) == 0);
}

/* Checks one file; returns the number of its includes. */
static int check_file(const char *path, const char *name)
{
    char line[1024], included[1024];
    int n = 0;
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, " # include \"%1023[^\"]\"", included) != 1) continue;
        ck_assert_msg(may_include(name, included), "src/%s includes \"%s\", which is above it or in no room", name,
                      included);
        n++;
    }
    fclose(f);
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
        if (strcmp(dot, ".c") != 0 && strcmp(dot, ".h") != 0 && strcmp(dot, ".cu") != 0 && strcmp(dot, ".cuh") != 0)
            continue;
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
    ck_assert(may_include("kv/prefill.c", "kv/kv.h") && may_include("kv/prefill.c", "policies/policy.h"));
    ck_assert(!may_include("kv/prefill.c", "model/model.h") && !may_include("comm/mpi.c", "kernels/ops.h"));
    ck_assert(may_include("import/import.c", "text/tokenizer.h") && !may_include("text/bpe.c", "import/gguf.h"));
    ck_assert(may_include("evict/evict.c", "cache/arena.h") && !may_include("cache/arena.c", "evict/evict.h"));
    ck_assert(may_include("main/main.c", "base/log.h"));
    ck_assert(may_include("main/main.c", "engine/engine.h") && !may_include("kv/prefill.c", "garden/tree.h"));
    ck_assert(may_include("engine/engine.c", "base/status.h") && !may_include("engine/engine.c", "api/members.h"));
    ck_assert(may_include("lab/eval/needle.c", "shell/shell.h") &&
              may_include("lab/eval/needle.c", "engine/session.h"));
    ck_assert(!may_include("kernels/ops.h", "comm/comm.h"));
    ck_assert(!may_include("lab/bench/bench.h", "lab/eval/needle.h"));
    ck_assert(!may_include("lab/eval/needle.c", "batch/run.h") && !may_include("batch/run.c", "lab/bench/bench.h"));
    ck_assert(!may_include("engine/engine.c", "lab/trace/recorder.h"));
    ck_assert(!may_include("lab/eval/needle.c", "main/command_list.h"));
    ck_assert(may_include("main/cmd_generate.c", "lab/trace/recorder.h"));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_rule_itself, test_every_file_includes_its_own_room_and_lower_floors_only,
                                  NULL};
    return suite_run("floors", tests);
}
