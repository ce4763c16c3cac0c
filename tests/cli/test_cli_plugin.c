/* Scores from shared objects: plug-ins that compute the score of a built-in policy keep the same entries, in every
 * command and on any number of ranks; files that are no plug-ins, and plug-ins that fail, end the run with one message.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/program.h"
#include "cli/same_files.h"
#include "cli/tiny.h"
#include "suite.h"

#define GENERATE "generate -m random:tiny -f text -n 1 -q --deterministic --budget 64 "

static void keep(int ranks, const char *file, const char *policy)
{
    program_result r = {0};
    program_run(&r, ranks, GENERATE "--keep-sets %s.h5 %s", file, policy);
    program_exits(&r, 0);
    program_clear(&r);
}

/* The policy of the plug-in and its parts, and the built-in policy. */
static const struct {
    const char *plugin, *same;
} pairs[] = {
    {"--policy ./keydiff.so", "--policy keydiff@kvpress"},
    {"--policy ./keydiff.so --head-budget adaptive --alpha 0.3 --safeguard floor --fit values",
     "--policy keydiff@kvpress --head-budget adaptive --alpha 0.3 --safeguard floor --fit values"},
    {"--policy './snapkv.so --temperature 1' --head-budget adaptive", "--policy snapkv --head-budget adaptive"},
    {"--policy ./snapkv.so --evict every:2 --rows last:40 -n 5", "--policy snapkv --evict every:2 --rows last:40 -n 5"},
    {"--policy ./sums.so --gain", "--policy snapkv --gain"},
    {"--policy ./older.so", "--policy ./odd.so"},
};

START_TEST(test_a_policy_anew_keeps_what_the_policy_keeps)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const int ranks = (int)(i % 4) + 1;
        keep(1, "one", pairs[i].same);
        keep(ranks, "anew", pairs[i].plugin);
        same_arrays("keep-sets", "one.h5", "anew.h5");
        if (ranks > 1) continue;
        for (int more = 2; more <= 4; more++) {
            keep(more, "anew", pairs[i].plugin);
            same_arrays("keep-sets", "one.h5", "anew.h5");
        }
    }
}
END_TEST

/* The line of a table after its first word, of the policy. */
static const char *row_of(const char *text, const char *policy)
{
    const char *line = text;
    while ((line = strstr(line, policy)) && line[strlen(policy)] != ' ') line++;
    ck_assert_msg(line != NULL, "no line of %s in\n%s", policy, text);
    return line + strlen(policy) + strspn(line + strlen(policy), " |");
}

static void same_rows(const char *text, const char *a, const char *b)
{
    const char *x = row_of(text, a), *y = row_of(text, b);
    ck_assert_msg(strncmp(x, y, strcspn(x, "\n")) == 0, "%s and %s differ:\n%s", a, b, text);
}

START_TEST(test_traces_replays_and_evaluations_have_it)
{
    program_result r = {0};
    program_run(&r, 3,
                "trace -m random:tiny -f text -n 2 -q --policy './snapkv.so --temperature 2' --budget 64 -o t.h5");
    program_exits(&r, 0);
    program_run(&r, 2,
                "replay t.h5 -q --policy './snapkv.so,./keydiff.so,snapkv,keydiff@kvpress' --budget 64 --analyse mass");
    program_exits(&r, 0);
    same_rows(r.out.data, "keydiff-anew", "keydiff@kvpress");
    same_rows(r.out.data, "snapkv-anew", "snapkv");
    program_run(&r, 4,
                "eval fidelity -m random:tiny --text text --length 100 --count 2 -n 4 -q --policy "
                "'./keydiff.so --sinks 2,keydiff@kvpress --sinks 2' --budget 64");
    program_exits(&r, 0);
    same_rows(r.out.data, "keydiff-anew --sinks 2", "keydiff@kvpress --sinks 2");
    program_clear(&r);
}
END_TEST

/* The plug-in checks the rows that it gets. */
START_TEST(test_a_score_of_hidden_states_keeps_the_same_on_any_ranks)
{
    static const char *const parts[] = {
        "--policy ./hidden.so --question why",
        "--policy './hidden.so --window 5' --head-budget adaptive --layer-budget adaptive --fit values"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        keep(1, "one", parts[i]);
        for (int ranks = 2 + (int)i; ranks <= 4 - (int)i; ranks++) {
            keep(ranks, "more", parts[i]);
            same_arrays("keep-sets", "one.h5", "more.h5");
        }
    }
}
END_TEST

/* A prefill that goes on recomputes the rows of the layers that are left. */
START_TEST(test_a_score_of_hidden_states_goes_on_from_a_checkpoint)
{
#define RESUMED "--policy ./hidden.so --head-budget adaptive --layer-budget adaptive"
    program_result r = {0};
    keep(1, "whole", RESUMED);
    for (int ranks = 1; ranks <= 3; ranks += 2) {
        program_file("stop", "");
        program_run(&r, ranks, GENERATE RESUMED " --keep-sets on.h5 --resume p.h5 --checkpoint-every 0");
        program_exits(&r, 8);
        program_must(unlink("stop") == 0, "stop");
        program_run(&r, 5 - ranks,
                    "generate -m random:tiny -f text -n 1 --deterministic --budget 64 " RESUMED
                    " --keep-sets on.h5 --resume p.h5 --checkpoint-every 0");
        program_exits(&r, 0);
        ck_assert_msg(strstr(r.err.data, "the prefill goes on at layer ") != NULL, "%s", r.err.data);
        same_arrays("keep-sets", "whole.h5", "on.h5");
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_a_score_of_hidden_states_shares_a_prefill)
{
#define FIDELITY "eval fidelity -m random:tiny --text text --length 100 --count 2 -n 4 -q --deterministic --budget 40 "
    program_result alone = {0}, shared = {0};
    program_run(&alone, 1, FIDELITY "--policy ./hidden.so");
    program_exits(&alone, 0);
    program_run(&shared, 3, FIDELITY "--policy 'snapkv,./hidden.so,./hidden.so --window 5,knorm'");
    program_exits(&shared, 0);
    const char *a = row_of(alone.out.data, "hidden"), *b = row_of(shared.out.data, "hidden");
    ck_assert_msg(strncmp(a, b, strcspn(a, "\n")) == 0, "%s\n%s", alone.out.data, shared.out.data);
    program_clear(&alone);
    program_clear(&shared);
}
END_TEST

START_TEST(test_hidden_states_are_of_the_prompt_alone)
{
    static const char once[] = "'a score of hidden states' does not go with '--evict every:M or block:N'";
    program_result r = {0};
    program_refuses(2, 2, once, GENERATE "--policy ./hidden.so --evict every:2");
    program_refuses(1, 2, once,
                    "batch -m random:tiny -i in.jsonl --check --budget 8 --policy './hidden.so --evict block:4'");
    program_refuses(3, 2, once,
                    "eval fidelity -m random:tiny --text text --policy './hidden.so --evict every:1' --budget 8");
    program_run(&r, 2, "trace -m random:tiny -f text -n 2 -q --policy ./hidden.so --budget 64 -o hidden.t.h5");
    program_exits(&r, 0);
    program_refuses(2, 2, "it observes hidden states, which traces do not hold",
                    "replay hidden.t.h5 --policy ./hidden.so,snapkv --budget 64 -q");
    program_clear(&r);
}
END_TEST

/* A cache names the plug-in, and code is loaded only where the command line says so. */
START_TEST(test_a_cache_goes_on_with_it)
{
    program_result r = {0};
    program_run(&r, 1, GENERATE "--policy ./snapkv.so --save-cache once.h5");
    program_exits(&r, 0);
    program_run(&r, 2, "generate -m random:tiny --load-cache once.h5 --question why -n 2 -q");
    program_exits(&r, 0); /* nothing is scored again */
    program_run(&r, 1, GENERATE "--policy './odd.so --size 7' --evict every:1 --save-cache again.h5");
    program_exits(&r, 0);
    program_refuses(2, 2, "by the score 'odd'", "generate -m random:tiny --load-cache again.h5 --question why -n 2 -q");
    program_run(&r, 2, "generate -m random:tiny --load-cache again.h5 --plugin odd.so --question why -n 2 --json -q");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "\"size\":7"));
    ck_assert_int_eq(r.err.bytes, 0);
    program_run(&r, 1, "generate -m random:tiny --load-cache again.h5 --plugin other/odd.so --question why -n 2 -q");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.err.data, "'again.h5' was written with another build of the plug-in 'odd'"));
    program_clear(&r);
}
END_TEST

#define LINE(id, policy)                                                                                \
    "{\"custom_id\":\"" id "\",\"url\":\"/v1/completions\",\"method\":\"POST\",\"body\":{\"prompt\":\"" \
    "one two three four five six seven eight nine ten eleven twelve\",\"max_tokens\":2},\"policy\":" policy "}\n"

#define ANSWERED "\"status_code\":200"

START_TEST(test_requests_name_only_what_was_loaded)
{
    static const char *const refused[] = {"policy './odd.so' is a file, and none may be named here",
                                          "policy './odd.so' is a file, and none may be named here",
                                          "'policy' has no option 'plugin'", "unknown option '--plugin'"};
    program_result r = {0};
    program_file("in.jsonl", LINE("a", "\"odd --size 5\"") LINE("b", "{\"policy\":\"odd\",\"size\":5,\"budget\":8}")
                                 LINE("c", "\"./odd.so\"") LINE("d", "\"./odd.so --size 5\"")
                                     LINE("e", "{\"policy\":\"snapkv\",\"plugin\":\"./odd.so\"}")
                                         LINE("f", "\"snapkv --plugin ./odd.so\""));
    program_run(&r, 2,
                "batch -m random:tiny -i in.jsonl -o loaded.jsonl --budget 16 --plugin odd.so -q; cat loaded.jsonl");
    program_exits(&r, 0); /* of cat */
    const char *first = strstr(r.out.data, ANSWERED), *second = first ? strstr(first + 1, ANSWERED) : NULL;
    ck_assert_msg(second && !strstr(second + 1, ANSWERED), "not two answers in\n%s", r.out.data);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        ck_assert_msg(strstr(r.out.data, refused[i]) != NULL, "not '%s' in\n%s", refused[i], r.out.data);
    program_run(&r, 1, "batch -m random:tiny -i in.jsonl -o not.jsonl --budget 16 -q; cat not.jsonl");
    ck_assert_ptr_nonnull(strstr(r.out.data, "policy 'odd' is unknown"));
    ck_assert_ptr_null(strstr(r.out.data, ANSWERED));
    program_clear(&r);
}
END_TEST

START_TEST(test_help_explains_it)
{
    program_result r = {0};
    program_run(&r, 1, "generate --policy './odd.so --size 4' --help");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "--size 4 "));
    ck_assert_ptr_nonnull(strstr(r.out.data, "--does nothing"));
    program_run(&r, 1, "chat --policy help");
    ck_assert_ptr_nonnull(strstr(r.out.data, "--policy ./FILE.so"));
    program_run(&r, 1, "plan -m random:tiny --context 4096 --policy './odd.so --real -2.50' --budget 64");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "policy odd --real -2.5 --budget 64"));
    program_clear(&r);
}
END_TEST

START_TEST(test_what_is_no_plugin_is_refused)
{
    static const struct {
        int code;
        const char *part, *policy;
    } cases[] = {
        {3, "cannot open './missing.so'", "./missing.so"},
        {3, "is a folder", "./folder.so"},
        {3, "'text.so' cannot be loaded as a plug-in: file too short", "text.so"},
        {3, "'./none.so' is no plug-in: it has no symbol 'longhaul_plugin'", "./none.so"},
        {3, "'foreign.so' is a plug-in of interface 7, and this program has interface 1", "foreign.so"},
        {3, "its name 'snapkv' is the name of another policy", "./taken.so"},
        {3, "the name of the plug-in is 'My Score'", "./capitals.so"},
        {3, "the plug-in 'parts' sets '--windw', which is no part of a policy", "./parts.so"},
        {2, "option '--size' got '2.5', it must be an integer from 1 to 100", "'./odd.so --size 2.5'"},
        {2, "option '--real' got 'x', it must be a number", "'./odd.so --real x'"},
        {2, "must be one of nothing, nan, fail", "'./odd.so --does jump'"},
        {2, "unknown option '--sise', did you mean '--size'?", "'./odd.so --sise 3'"},
        {2, "policy 'odd': '--size' above 10", "'./odd.so --size 11'"},
        {2, "would ignore '--statistic'", "./odd.so --statistic sum"},
        {2, "would ignore '--window'", "./odd.so --window 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, GENERATE "--policy %s", cases[i].policy);
        program_refuses(1, cases[i].code, cases[i].part, line);
        if (i == 0) program_refuses(2, cases[i].code, cases[i].part, line);
    }
}
END_TEST

START_TEST(test_a_plugin_that_fails_ends_the_run_of_all_ranks)
{
    program_refuses(1, 2, "the scorer of the plug-in 'odd' gives the entry at 0 in KV head 0 of layer 0 a score of nan",
                    GENERATE "--policy './odd.so --does nan'");
    program_refuses(3, 8, "the scorer of the plug-in 'odd' fails at KV head 0 of layer 0",
                    GENERATE "--policy './odd.so --does fail'");
    program_refuses(2, 3, "fails at KV head 1 of layer 0: no scale of size 9", /* which rank 1 has */
                    GENERATE "--policy './odd.so --does fail-alone --size 9'");
}
END_TEST

START_TEST(test_ranks_have_the_same_plugin)
{
#define ONE " -n 1 " LONGHAUL " generate -m random:tiny -p a --policy ./odd.so --budget 8 "
    program_result r = {0};
    program_run(&r, 1, "--version; cd here; " MPIEXEC ONE ": -wdir ../other" ONE);
    program_exits(&r, 2);
    program_says(&r, "the files of plug-ins of rank 1");
    program_run(&r, 1, "--version; cd here; " MPIEXEC ONE ": -wdir ../nothing" ONE);
    program_exits(&r, 3);
    program_says(&r, "cannot open './odd.so'");
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *tests[] = {test_a_policy_anew_keeps_what_the_policy_keeps,
                            test_traces_replays_and_evaluations_have_it,
                            test_a_score_of_hidden_states_keeps_the_same_on_any_ranks,
                            test_a_score_of_hidden_states_goes_on_from_a_checkpoint,
                            test_a_score_of_hidden_states_shares_a_prefill,
                            test_hidden_states_are_of_the_prompt_alone,
                            test_a_cache_goes_on_with_it,
                            test_requests_name_only_what_was_loaded,
                            test_help_explains_it,
                            test_what_is_no_plugin_is_refused,
                            test_a_plugin_that_fails_ends_the_run_of_all_ranks,
                            test_ranks_have_the_same_plugin,
                            NULL};
    static const char *const files[] = {"keydiff", "snapkv",  "sums",     "odd",   "hidden", "older",
                                        "none",    "foreign", "capitals", "taken", "parts",  NULL};
    program_result r = {0};
    lh_buf text = {0};
    program_enter();
    tiny_sentences(&text);
    text.data[1500] = '\0';
    program_file("text", text.data);
    program_file("text.so", "no library");
    program_run(&r, 1,
                "--version && mkdir folder.so here other nothing && cp " PLUGINS "/odd.so here && cp " PLUGINS
                "/other.so other/odd.so");
    for (int i = 0; files[i]; i++) {
        char from[512], to[64];
        snprintf(from, sizeof from, PLUGINS "/%s.so", files[i]);
        snprintf(to, sizeof to, "%s.so", files[i]);
        program_must(symlink(from, to) == 0, to);
    }
    int code = r.code;
    program_clear(&r);
    lh_buf_clear(&text);
    if (code == 0) code = suite_run("cli plugin", tests);
    program_leave();
    return code;
}
