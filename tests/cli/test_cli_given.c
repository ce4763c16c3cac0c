/* Keep sets that are given in place of a policy: what a policy kept, given back, is that policy. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/h5.h"
#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define GENERATE "generate -m tiny.h5 --chat=off -f text -n 20 --ignore-eos --deterministic --json "
#define NEEDLE                                                                                               \
    "eval needle -m tiny.h5 --haystack hay --length 200 --depth 0.2,0.9 -n 5 -q --deterministic --chat=off " \
    "--policy 'ada-snapkv --window 8' --budget 40 "
#define THIRD "200-question-aware-depth0_9-seed0" /* prompt of NEEDLE */
enum { LAYERS = 3 };

static char *ids_of(const char *name)
{
    json_error_t error;
    json_t *o = json_load_file(name, 0, &error);
    ck_assert_msg(o != NULL, "no JSON: %s", error.text);
    char *ids = json_dumps(json_object_get(o, "token_ids"), JSON_COMPACT);
    json_decref(o);
    return ids;
}

/* The positions of all layers, one after the other. */
static void read_kept(lh_buf *out, const char *path)
{
    lh_h5 *h5 = NULL;
    lh_h5_shape shape;
    int32_t *positions = NULL;
    out->bytes = 0;
    ck_assert_int_eq(lh_h5_open(&h5, path, &(lh_h5_header){.kind = "keep-sets", .schema = 1}), LH_OK);
    for (int l = 0; l < LAYERS; l++) {
        char name[64];
        snprintf(name, sizeof name, "/layers/%03d/kept/positions", l);
        ck_assert_int_eq(
            lh_h5_get(h5, name, &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {-1}}, &shape, &positions), LH_OK);
        ck_assert_int_eq(lh_buf_append(out, positions, shape.dims[0] * 4), LH_OK);
        lh_free(positions);
    }
    lh_h5_close(h5);
}

static int empty_heads(const char *path)
{
    lh_h5 *h5 = NULL;
    lh_h5_shape shape;
    int64_t *offsets = NULL;
    int empty = 0;
    ck_assert_int_eq(lh_h5_open(&h5, path, &(lh_h5_header){.kind = "keep-sets", .schema = 1}), LH_OK);
    for (int l = 0; l < LAYERS; l++) {
        char name[64];
        snprintf(name, sizeof name, "/layers/%03d/kept/offsets", l);
        ck_assert_int_eq(lh_h5_get(h5, name, &(lh_h5_shape){.type = LH_I64, .rank = 1, .dims = {-1}}, &shape, &offsets),
                         LH_OK);
        for (int64_t g = 0; g + 1 < shape.dims[0]; g++) empty += offsets[g] == offsets[g + 1];
        lh_free(offsets);
    }
    lh_h5_close(h5);
    return empty;
}

START_TEST(test_what_a_policy_kept_is_that_policy)
{
    static const char *const policies[] = {"snapkv --window 8 --budget 50", "ada-snapkv --window 8 --budget 30%",
                                           "streaming --evict never --budget 25",
                                           "knorm --head-budget adaptive --evict never --budget 1", "full"};
    program_result r = {0};
    lh_buf kept = {0}, again = {0};
    int empty = 0;
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        program_run(&r, 1, GENERATE "--policy %s --keep-sets k.h5 > one", policies[p]);
        program_exits(&r, 0);
        read_kept(&kept, "k.h5");
        empty += empty_heads("k.h5");
        for (int ranks = 1; ranks <= 4; ranks++) {
            program_run(&r, ranks, GENERATE "--keep-sets-from k.h5 --keep-sets again.h5 > more");
            program_exits(&r, 0);
            char *one = ids_of("one"), *more = ids_of("more");
            ck_assert_str_eq(one, more);
            read_kept(&again, "again.h5");
            ck_assert(kept.bytes == again.bytes && memcmp(kept.data, again.data, (size_t)kept.bytes) == 0);
            free(one);
            free(more);
        }
    }
    ck_assert_int_gt(empty, 0); /* a head may keep nothing */
    /* questions, from the same sets */
    program_run(&r, 2, GENERATE "--keep-sets-from k.h5 --question 'Who?' --question 'When?' > more");
    program_exits(&r, 0);
    lh_buf_clear(&kept);
    lh_buf_clear(&again);
    program_clear(&r);
}
END_TEST

START_TEST(test_given_sets_are_a_row_of_an_evaluation)
{
    program_result r = {0};
    program_run(&r, 1,
                NEEDLE
                "--keep-sets some > v && mkdir -p mine && cd some && for f in *; do cp $f ../mine/${f%%%%.*}.h5; "
                "done && ls ../mine");
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, "200-context-only-depth0_2-seed0.h5\n200-context-only-depth0_9-seed0.h5\n"
                                 "200-question-aware-depth0_2-seed0.h5\n200-question-aware-depth0_9-seed0.h5\n");
    program_run(&r, 1, NEEDLE "--depth 0.9 --keep-sets-from mine > v"); /* the same names in a run of other prompts */
    program_exits(&r, 0);
    for (int ranks = 1; ranks <= 4; ranks++) {
        program_run(
            &r, ranks,
            NEEDLE
            "--keep-sets-from mine/ --keep-sets both --answers a.csv > v && "
            "sed -n 's/^ada-snapkv --window 8,40,//p' a.csv > policy && sed -n 's/^mine,given,//p' a.csv > given && "
            "test $(wc -l < given) -ge 4 && cmp policy given && "
            "for f in both/*.01-*; do test -s both/$(basename $f .01-ada-snapkv_--window_8-40.h5).02-mine-given.h5 "
            "|| exit 1; done");
        program_exits(&r, 0);
    }
    program_run(&r, 1, "--version > v && rm mine/" THIRD ".h5");
    program_refuses(2, 4, "mine/" THIRD ".h5", NEEDLE "--keep-sets-from mine --csv o.csv");
    /* the finished prompts are kept, but not for other keep sets */
    program_run(&r, 1, "--version > v && cp some/" THIRD ".* mine/" THIRD ".h5");
    program_refuses(1, 2, "the data was", NEEDLE "--keep-sets-from mine --csv o.csv");
    /* files that are written again with the same contents are the same */
    program_run(&r, 1,
                "--version > v && rm o.csv.resume && mv mine right && cp -r right mine && cd mine && "
                "cp 200-question-aware-depth0_2-seed0.h5 " THIRD ".h5");
    program_exits(&r, 0);
    program_refuses(2, 4, "holds keep sets of", NEEDLE "--keep-sets-from mine --csv o.csv");
    program_run(&r, 1, "--version > v && test $(wc -l < o.csv.resume) = 3 && mkdir late && mv mine late");
    program_exits(&r, 0);
    program_refuses(1, 4, "holds keep sets of", NEEDLE "--keep-sets-from late/mine --csv o.csv");
    program_clear(&r);
}
END_TEST

/* As examples/keep_sets.py writes them. */
START_TEST(test_sets_of_another_program_are_whole_without_budgets)
{
    static const int64_t offsets[] = {0, 2, 3};
    static const int32_t positions[] = {0, 4, 7}, tokens[] = {5, 6, 7};
    program_result r = {0};
    lh_h5 *h5 = NULL;
    ck_assert_int_eq(lh_h5_create(&h5, "other.h5", &(lh_h5_header){.kind = "keep-sets", .schema = 1}), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/tokens", &(lh_h5_shape){LH_I32, 1, {3}}, tokens), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/layers/000/kept/offsets", &(lh_h5_shape){LH_I64, 1, {3}}, offsets), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/layers/000/kept/positions", &(lh_h5_shape){LH_I32, 1, {3}}, positions), LH_OK);
    ck_assert_int_eq(lh_h5_commit(h5), LH_OK);
    program_run(&r, 1, "verify other.h5");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

START_TEST(test_what_does_not_fit_is_refused)
{
    program_result r = {0};
    program_run(&r, 1, GENERATE "--policy streaming --budget 25 --keep-sets k.h5 > one");
    program_exits(&r, 0);
    static const struct {
        int code;
        const char *part, *line;
    } cases[] = {
        {4, "'k.h5' holds keep sets of another text: its token 0 is",
         "generate -m tiny.h5 --chat=off -p other --keep-sets-from k.h5"},
        {4, "'tiny.h5'", GENERATE "--keep-sets-from tiny.h5"},
        {2, "takes the place of a policy", GENERATE "--keep-sets-from k.h5 --budget 20"},
        {2, "takes the place of a policy", GENERATE "--keep-sets-from k.h5 --save-cache c.h5"},
        {2, "are both 'k.h5'", GENERATE "--keep-sets-from k.h5 --keep-sets k.h5"},
        {3, "the folder 'empty' has no keep sets", NEEDLE "--keep-sets-from empty"},
        {4, "another text", NEEDLE "--keep-sets-from k.h5"},
        {2, "has 'one/mine' and 'two/mine.h5', which would both be 'mine'",
         NEEDLE "--keep-sets-from one/mine/ --keep-sets-from two/mine.h5"},
        {2, "'--keep-sets-from one/h2o' would be 'h2o'", NEEDLE "--policy h2o --keep-sets-from one/h2o"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        program_refuses(1, cases[i].code, cases[i].part, cases[i].line);
    program_refuses(3, 4, "another text", NEEDLE "--keep-sets-from k.h5");
    program_clear(&r);
}
END_TEST

static void write_haystack(void)
{
    lh_buf hay = {0};
    for (int i = 0; i < 60; i++)
        program_must(lh_buf_printf(&hay, "Sentence %d speaks of thing %d. ", i, i * 7 % 31) == LH_OK, "memory");
    program_file("hay", hay.data);
    hay.data[250] = '\0';
    program_file("text", hay.data);
    lh_buf_clear(&hay);
}

int main(void)
{
    const TTest *const tests[] = {test_what_a_policy_kept_is_that_policy, test_given_sets_are_a_row_of_an_evaluation,
                                  test_sets_of_another_program_are_whole_without_budgets,
                                  test_what_does_not_fit_is_refused, NULL};
    program_enter();
    tiny_write("tiny");
    write_haystack();
    program_result r = {0};
    program_run(&r, 1, "import tiny -o tiny.h5 -q && mkdir empty");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli given", tests);
    program_leave();
    return code;
}
