#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "cli/program.h"
#include "suite.h"

static const char *const commands[] = {"import", "info",  "verify", "tokenize", "plan",   "generate",
                                       "status", "merge", "trace",  "replay",   "report", "help"};
enum { COMMANDS = sizeof commands / sizeof *commands };

START_TEST(test_every_command_explains_itself_without_ranks)
{
    program_result r = {0};
    program_run(&r, 1, "--help");
    program_exits(&r, 0);
    for (int i = 0; i < COMMANDS; i++) ck_assert_ptr_nonnull(strstr(r.out.data, commands[i]));
    for (int i = 0; i < COMMANDS; i++) {
        program_run(&r, 1, "%s --help", commands[i]);
        program_exits(&r, 0);
        ck_assert_int_eq(program_lines(r.out.data, "usage: longhaul "), 1);
        ck_assert_int_eq(program_lines(r.out.data, "examples:"), 1);
        ck_assert_int_eq(program_lines(r.out.data, "common options:"), 1);
        ck_assert_str_eq(r.err.data, "");
    }
    program_clear(&r);
}
END_TEST

/* Two screens of fifty lines; the parts of policies are one word away. */
START_TEST(test_help_is_short_and_all_of_it_is_there)
{
    static const char *const few[] = {"generate --help", "help generate", "plan -h", "generate help"},
                             *const all[] = {"generate --help all", "help generate --all", "plan --help=all",
                                             "plan help all"};
    program_result r = {0};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        program_run(&r, 1, "%s", few[i]);
        program_exits(&r, 0);
        ck_assert_int_le(program_lines(r.out.data, ""), 100);
        ck_assert_int_eq(program_lines(r.out.data, "      --pool-size "), 0);
        ck_assert_int_eq(program_lines(r.out.data, "      --policy "), 1);
        program_run(&r, 1, "%s", all[i]);
        program_exits(&r, 0);
        ck_assert_int_eq(program_lines(r.out.data, "      --pool-size "), 1);
    }
    /* without parts of policies there is one help, which names the tasks */
    program_run(&r, 1, "eval --help");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "TASK is needle"));
    ck_assert_ptr_null(strstr(r.out.data, "--help all"));
    program_run(&r, 1, "eval help");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "TASK is needle"));
    program_run(&r, 2, "2>&1");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "first steps:"), 1); /* rank 0 speaks */
    ck_assert_int_eq(program_lines(r.out.data, "  longhaul "), 4);
    ck_assert_int_eq(program_lines(r.out.data, "  generate "), 1);
    program_clear(&r);
}
END_TEST

START_TEST(test_help_wins_over_what_is_wrong_beside_it)
{
    program_result r = {0};
    program_run(&r, 1, "generate --no-such-option --help");
    program_exits(&r, 0);
    program_run(&r, 2, "generate -h");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "usage: longhaul "), 1); /* rank 0 speaks */
    program_clear(&r);
}
END_TEST

START_TEST(test_policies_explain_themselves_without_a_model)
{
    program_result r = {0};
    program_run(&r, 2, "generate --policy help");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "  snapkv  "), 1); /* rank 0 speaks */
    ck_assert_ptr_nonnull(strstr(r.out.data, "(arXiv 2407.11550)"));
    ck_assert_int_eq(program_lines(r.out.data, "  ada-snapkv, adakv  "), 1); /* and what papers call it */
    program_run(&r, 1, "plan --policy=nacl --random-share 0.5 --help");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "  --proxies 1%  "), 1);
    ck_assert_int_eq(program_lines(r.out.data, "  --random-share 0.5  "), 1);
    ck_assert_int_eq(program_lines(r.out.data, "while decoding: "), 1);
    for (const char *line = strstr(r.out.data, "  --"); line && *line == ' '; line += strcspn(line, "\n") + 1)
        ck_assert_msg(strcspn(line, "\n") <= 96, "too long: %.*s", (int)strcspn(line, "\n"), line);
    program_run(&r, 2, "generate --policy snapkv --pool-size 4 --help");
    program_exits(&r, 2);
    ck_assert_ptr_nonnull(strstr(r.err.data, "must be odd"));
    program_run(&r, 1, "info --policy help"); /* takes no policy */
    program_exits(&r, 2);
    program_clear(&r);
}
END_TEST

/* Command lines that are wrong usage, and a part of the message of each. */
static const struct {
    const char *line, *part;
} refused[] = {
    {"generat -m x.h5", "unknown command 'generat', did you mean 'generate'?"},
    {"frobnicate", "unknown command 'frobnicate'"},
    {"generate", "'longhaul generate' needs '--model FILE'"},
    {"generate -m x.h5 --max-mew 4", "unknown option '--max-mew', did you mean '--max-new'?"},
    {"generate -m x.h5 --max-tokens 4", "unknown option '--max-tokens', here it is '--max-new'"},
    {"generate -m x.h5 -t 4", "unknown option '-t', here it is '--threads'"},
    {"generate -m x.h5 -c 4096", "unknown option '-c': a cache has room for the prompt"},
    {"generate -m x.h5 -ngl 99", "unknown option '-ngl', here it is '--device'"},
    {"plan -m x.h5 --ctx-size 4096", "unknown option '--ctx-size', here it is '--context'"},
    {"generate -m x.h5 --compression-ratio 0.7", "'--budget': the share that stays: a ratio of 0.7 is '--budget 30%'"},
    {"generate -m x.h5 --policy adakv", "policy 'adakv' needs a budget"},
    {"generate -m x.h5 --max-new many", "option '--max-new' got 'many'"},
    {"generate -m x.h5 -p a --prompt-tokens b", "'--prompt' and '--prompt-tokens' both set the prompt"},
    {"generate -m x.h5 -f a --prompt-tokens b", "'--prompt-file' and '--prompt-tokens' both set the prompt"},
    {"generate -m x.h5 -f a --questions q --scenario question-aware", "and several are given"},
    {"generate -m x.h5 -p a --policy snapvk --budget 8", "did you mean 'snapkv'"},
    {"generate -m x.h5 -p a --policy snapkv", "needs a budget"},
    {"generate -m x.h5 -p a --budget 0", "--budget '0'"},
    {"generate -m x.h5 -p a --budget 120%", "--budget '120%'"},
    {"generate -m x.h5 -p a --pool-size 7", "needs a budget"},
    {"generate -m x.h5 -p a --budget 8 --policy streaming --pool-size 7", "--pool-size"},
    {"generate -m x.h5 -p a --policy full --sinks 4", "would ignore '--sinks'"},
    {"generate -m x.h5 -p a --system s --chat=off", "'--system' has no effect with '--chat=off'"},
    {"generate -m x.h5 -p a --chat-template chatml --chat off", "'--chat-template' has no effect with '--chat=off'"},
    {"eval needle -m x.h5 --haystack x --chat=maybe", "option '--chat' got 'maybe', it must be one of auto, on, off"},
    {"generate -m x.h5 -p a --chat=maybe", "option '--chat' got 'maybe', it must be one of auto, on, off"},
    {"generate -m x.h5 --prompt-tokens a --system s", "'--prompt-tokens' are ids already and '--system'"},
    {"generate -m x.h5 -p a --messages m.json", "'--prompt' and '--messages' both set the prompt"},
    {"generate -m x.h5 --messages m.json --chat off", "'--messages' has no effect with '--chat=off'"},
    {"generate -m x.h5 --messages m.json --system s", "the system message as the first"},
    {"generate -m x.h5 --load-cache c.h5 --messages m.json", "'--messages' is a whole chat"},
    {"generate -m x.h5 --prompt-tokens a --chat", "'--prompt-tokens' are ids"},
    {"generate -m x.h5 -p a --logprobs", "'--logprobs' are part of the JSON object"},
    {"generate -m x.h5 -p a --logits-last 2", "'--logits-last'"},
    {"generate -m x.h5 --load-cache c.h5 --budget 5 --question q", "with the policy it was made with"},
    {"generate -m x.h5 --load-cache c.h5 --chat --system s --question q", "'--system' is the beginning of a chat"},
    {"generate -m x.h5 -p a --save-cache x.h5", "'--save-cache' and '--model' are both 'x.h5'"},
    {"generate -m x.h5 -p a --logits k.h5 --keep-sets k.h5", "'--keep-sets' and '--logits' are both 'k.h5'"},
    {"generate -m x.h5 -p a --question-file q --logits q", "'--logits' and '--question-file' are both 'q'"},
    {"generate -m x.h5 -p a --stop ''", "'--stop' got no text"},
    {"generate -m x.h5 -p a --threads 100000", "option '--threads' got '100000'"},
    {"generate -m x.h5 -p a -v -q", "'--verbose' and '--quiet'"},
    {"generate -m x.h5 -p a --top-k 5", "'--top-k' chooses tokens to draw from"},
    {"generate -m x.h5 -p a --top-p 0.9 --temperature 0", "give '--temperature'"},
    {"generate -m x.h5 -p a --min-p 0.1", "'--min-p' chooses"},
    {"generate -m x.h5 -p a --top-p 0 --temperature 1", "--top-p must be above 0"},
    {"generate -m x.h5 -p a --comm-timeout -1", "option '--comm-timeout' got '-1'"},
    {"generate -m x.h5 -p a extra", "'extra' follows no option (usage: longhaul generate -m FILE [-p TEXT"},
    {"generate m.h5 hi", "'m.h5' follows no option (usage: longhaul generate -m FILE [-p TEXT"},
    {"generate -m x.h5 -p a --device gpu", "option '--device' got 'gpu', here it is 'cuda' (one of auto, "},
    {"plan -m x.h5 --context 8k --device cuda:0", "here it is 'cuda': every rank takes the device of its local"},
    {"generate -m x.h5 -p a --dtype bfloat16", "option '--dtype' got 'bfloat16', here it is 'bf16' (one of auto"},
    {"generate -m x.h5 -p a --dtype half", "here it is 'bf16': computing in float16 is not supported"},
    {"generate -m x.h5 -p a --kv-dtype float32", "option '--kv-dtype' got 'float32', here it is 'f32'"},
    {"import a -o x.h5 --dtype float16", "option '--dtype' got 'float16', here it is 'f16' (one of "},
    {"run m.gguf", "unknown command 'run', here it is 'longhaul chat': '-m MODEL' names the model"},
    {"perplexity -m x.h5", "unknown command 'perplexity', here it is 'longhaul eval ppl'"},
    {"serve -m x.h5", "unknown command 'serve', here it is 'longhaul batch': there is no server"},
    {"quantize a b", "here it is 'longhaul import': '--quantize' makes blocks"},
    {"download org/model", "'hf download ORG/MODEL --local-dir FOLDER' fetches the folder that it reads"},
    {"version", "unknown command 'version', here it is 'longhaul --version'"},
    {"import -o x.h5", "nothing to import"},
    {"import a --random tiny -o x.h5", "both set the source"},
    {"import --random tinny -o x.h5", "'tinny'"},
    {"import a -o x.h5 --dtype f64", "option '--dtype' got 'f64'"},
    {"tokenize -m x -p a -f b", "both set the text"},
    {"tokenize -m x --decode --chat", "'--chat' has no effect with '--decode'"},
    {"tokenize -m x --chat --text --count", "'--text' shows the text and '--count'"},
    {"tokenize -m x --text", "'--text' shows a rendered chat"},
    {"plan -m x.h5 --context 10 --device cuda", "--device cpu always works"},
    {"plan -m x.h5", "'longhaul plan' needs '--context TOKENS'"},
    {"plan -m x.h5 --context 0", "option '--context' got '0'"},
    {"info a b", "'b' is one argument too many"},
    {"verify", "nothing to verify"},
    {"--verbose info", "options come after a command"},
    {"help frobnicate", "unknown command 'frobnicate'"},
};

START_TEST(test_usage_is_refused_with_one_message_on_any_number_of_ranks)
{
    program_result r = {0};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int ranks = i % 8 == 0 ? 2 : 1; /* starting ranks takes its time */
        program_run(&r, ranks, "%s", refused[i].line);
        ck_assert_msg(r.code == 2, "'%s' gives %d; stderr:\n%s", refused[i].line, r.code, r.err.data);
        program_says(&r, refused[i].part);
        ck_assert_str_eq(r.out.data, "");
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_what_stands_for_options_of_other_tools_exists)
{
    program_result r = {0};
    char option[64];
    program_run(&r, 1, "help --completion");
    program_exits(&r, 0);
    for (const lh_foreign_option *f = lh_foreign_options; f->word; f++) {
        snprintf(option, sizeof option, "--%s ", f->ours);
        ck_assert_msg(strstr(r.out.data, option), "no command has '--%s', which stands for '%s'", f->ours, f->word);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_the_version_is_told)
{
    program_result r = {0};
    static const char *const ways[] = {"--version", "-V"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        program_run(&r, 1, "%s", ways[i]);
        program_exits(&r, 0);
        ck_assert_int_eq(program_lines(r.out.data, "longhaul 0."), 1);
    }
    program_clear(&r);
}
END_TEST

/* docs/options.md is a copy: 'longhaul help --markdown > docs/options.md' after a change of options. */
START_TEST(test_the_page_of_options_is_current)
{
    program_result r = {0};
    program_run(&r, 1, "help --markdown > options.md && cmp options.md " SOURCE_DIR "/docs/options.md");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

START_TEST(test_manual_and_completion_name_every_command)
{
    program_result r = {0};
    char heading[64];
    program_run(&r, 1, "help --man");
    program_exits(&r, 0);
    for (int i = 0; i < COMMANDS; i++) {
        snprintf(heading, sizeof heading, ".BR longhaul\\-%s (1)", commands[i]);
        ck_assert_int_eq(program_lines(r.out.data, heading), 1);
    }
    for (int i = 0; i < COMMANDS; i++) {
        program_run(&r, 1, "help %s --man", commands[i]);
        program_exits(&r, 0);
        snprintf(heading, sizeof heading, ".SS \"longhaul %s", commands[i]);
        ck_assert_int_ge(program_lines(r.out.data, heading), 1);
    }
    program_run(&r, 1, "help eval --man");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "\\fB\\-m\\fR, \\fB\\-\\-model\\fR"), 1); /* shared options stand once */
    ck_assert_int_eq(program_lines(r.out.data, ".SS \"longhaul eval needle "), 1);
    program_file("a book", "");
    program_run(&r, 1,
                "help --completion > completion && bash -n completion && bash --norc -c '. ./completion; "
                "try() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _longhaul; (IFS=,; echo \"${COMPREPLY[*]}\"); }; "
                "try longhaul generate --pool-; try longhaul to; try longhaul help gen; try longhaul generate -f a; "
                "try longhaul generate --device = c; try longhaul generate --group =; try longhaul plan --threads 1; "
                "try longhaul generate --policy ada-; try longhaul plan --policy he; "
                "try longhaul eval needle --policy al; try longhaul eval fidelity --policy h2o,pyr; "
                "after() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _longhaul_launched \"$1\" \"${!#}\" x; "
                "(IFS=,; echo \"${COMPREPLY[*]}\"); }; "
                "after mpirun -n 2 build/longhaul generate --pool-; after srun longhaul to; after mpirun --bin; "
                "before() { COMPREPLY=(--bind-to); }; complete -F before mpirun; . ./completion; . ./completion; "
                "after mpirun --bin; after mpirun -n 2 longhaul ev'");
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, "--pool-size\ntokenize\ngenerate\na book\ncpu,cuda\nmean,max,sum\n\n"
                                 "ada-snapkv,ada-pyramid\nhelp\nall\nh2o,pyramidkv,h2o,pyramidkv@kvpress\n"
                                 "--pool-size\ntokenize\n\n--bind-to\neval\n");
    program_clear(&r);
}
END_TEST

START_TEST(test_info_alone_tells_build_ranks_and_tables)
{
    program_result r = {0};
    program_run(&r, 2, "info");
    program_exits(&r, 0);
    static const char *const parts[] = {"version: 0.", "backends:", "ada-snapkv:", "attend_decode:", "chatml", "tiny:"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(r.out.data, parts[i]), "no '%s' in:\n%s", parts[i], r.out.data);
    ck_assert_int_eq(program_lines(r.out.data, "    host: "), 2); /* two ranks */
    program_clear(&r);
}
END_TEST

START_TEST(test_output_that_cannot_be_written_is_said)
{
    program_result r = {0};
    program_run(&r, 1, "--help > /dev/full");
    program_exits(&r, 6);
    program_says(&r, "cannot write to standard output");
    program_run(&r, 1, "info --log-file no/such/folder/x");
    program_exits(&r, 6);
    program_says(&r, "no/such/folder/x");
    program_run(&r, 1, "info >&-");
    program_exits(&r, 6);
    program_says(&r, "cannot write to standard output");
    /* A line for a stderr that is closed or full goes to the log, and not into the file that is written. */
    program_run(&r, 1, "import --random tiny -o m.h5 --log-file log 2>/dev/full && grep -q wrote log");
    program_exits(&r, 0);
    program_run(&r, 1,
                "import --random tiny --force -o m.h5 --log-file %%r 2>&- && grep -q wrote 0 && " LONGHAUL
                " verify m.h5");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_every_command_explains_itself_without_ranks,
                                  test_help_is_short_and_all_of_it_is_there,
                                  test_help_wins_over_what_is_wrong_beside_it,
                                  test_policies_explain_themselves_without_a_model,
                                  test_usage_is_refused_with_one_message_on_any_number_of_ranks,
                                  test_what_stands_for_options_of_other_tools_exists,
                                  test_the_version_is_told,
                                  test_manual_and_completion_name_every_command,
                                  test_the_page_of_options_is_current,
                                  test_info_alone_tells_build_ranks_and_tables,
                                  test_output_that_cannot_be_written_is_said,
                                  NULL};
    program_enter();
    int code = suite_run("cli usage", tests);
    program_leave();
    return code;
}
