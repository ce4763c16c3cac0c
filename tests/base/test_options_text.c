#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/options.h"
#include "base/output.h"
#include "base/temporary.h"
#include "suite.h"

struct values {
    int64_t max_new;
    const char *model;
    lh_strings stops;
    int dtype, json;
    const char *gain;
};

static const char *const dtypes[] = {"auto", "f32", "bf16", NULL};
static const char *const switches[] = {"off", "on", NULL};

#define FIELD(member) LH_FIELD(struct values, member)
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'm',
     .required = 1,
     .name = "model",
     FIELD(model),
     .arg = "FILE",
     .help = "The model."},
    {.type = LH_OPT_I64,
     .letter = 'n',
     .name = "max-new",
     FIELD(max_new),
     .arg = "TOKENS",
     .def = "128",
     .min = 1,
     .max = 1 << 30,
     .help = "Tokens to generate at most, which this text explains in so many words that they need a second line."},
    {.type = LH_OPT_LIST,
     .name = "stop",
     FIELD(stops),
     .arg = "TEXT",
     .help = ".Begins with a dot \\ and a backslash."},
    {.type = LH_OPT_ENUM, .name = "dtype", FIELD(dtype), .def = "auto", .choices = dtypes, .help = "Type."},
    {.type = LH_OPT_FLAG, .name = "json", FIELD(json), .help = "Print JSON."},
    {.type = LH_OPT_SWITCH, .name = "gain", FIELD(gain), .choices = switches, .help = "Gain."},
    {0}};
static const lh_option_table table = {"trying", rows};
static const lh_option_group groups[] = {{&table, 0}, {0}};
static const lh_example examples[] = {
    {"longhaul try -m m.h5", "try it"}, {"longhaul try -m n.h5", "and this one?"}, {0}};
static const lh_syntax syntax = {.program = "longhaul",
                                 .name = "try",
                                 .usage = "-m FILE [options]",
                                 .summary = "Tries",
                                 .text = "One paragraph.\n\nAnother one.",
                                 .groups = groups,
                                 .examples = examples};

START_TEST(test_help_teaches_usage_options_defaults_and_examples)
{
    lh_buf help = {0};
    ck_assert_int_eq(lh_options_help(&help, &syntax, LH_HELP_SHORT), LH_OK);
    ck_assert_str_eq(
        help.data, "usage: longhaul try -m FILE [options]\n\nTries.\n\nOne paragraph.\n\nAnother one.\n\ntrying:\n"
                   "  -m, --model FILE            The model. (required)\n"
                   "  -n, --max-new TOKENS        Tokens to generate at most, which this text explains in so many\n"
                   "                              words that they need a second line. (default: 128)\n"
                   "      --stop TEXT             .Begins with a dot \\ and a backslash. May be given several times.\n"
                   "      --dtype auto|f32|bf16   Type. (default: auto)\n"
                   "      --json                  Print JSON.\n"
                   "      --gain[=off]            Gain.\n"
                   "\nexamples:\n  # try it\n  longhaul try -m m.h5\n"
                   "  # and this one?\n  longhaul try -m n.h5\n");
    lh_buf_clear(&help);
}
END_TEST

static const lh_option long_rows[] = {
    {.type = LH_OPT_FLAG, .name = "json", FIELD(json), .help = "Print JSON. It is explained at length."},
    {.type = LH_OPT_I64, .name = "n", FIELD(max_new), .def = "1", .help = "A share of 0.5; or more."},
    {.type = LH_OPT_ENUM, .name = "dtype", FIELD(dtype), .detail = 1, .choices = dtypes, .help = "Type."},
    {.type = LH_OPT_FLAG, .name = "part-a", FIELD(json), .detail = 1, .help = "Part."},
    {.type = LH_OPT_FLAG, .name = "part-b", FIELD(json), .detail = 1, .help = "Part."},
    {.type = LH_OPT_FLAG, .name = "part-c", FIELD(json), .detail = 1, .help = "Part."},
    {0}};
static const lh_option_table long_table = {"trying", long_rows};
static const lh_option_group long_groups[] = {{&long_table, 0}, {0}};
static const lh_example long_examples[] = {
    {"longhaul try --policy 'keydiff --pool avg --pool-size 15 --budget 20%' --json --dtype auto --json --dtype f32 "
     "--json",
     "a line that is longer than any window, with options inside of quotes, which must stay together"},
    {0}};
static const lh_syntax long_syntax = {.program = "longhaul",
                                      .name = "try",
                                      .usage = "[options]",
                                      .summary = "Tries",
                                      .text = "One paragraph.",
                                      .groups = long_groups,
                                      .examples = long_examples};

START_TEST(test_short_help_is_a_sentence_an_option)
{
    lh_buf help = {0}, all = {0};
    ck_assert_int_eq(lh_options_help(&help, &long_syntax, LH_HELP_SHORT), LH_OK);
    ck_assert_int_eq(lh_options_help(&all, &long_syntax, LH_HELP_ALL), LH_OK);
    ck_assert(strstr(help.data, "Print JSON.\n") && !strstr(help.data, "--dtype auto|") &&
              !strstr(help.data, "One par"));
    ck_assert_ptr_nonnull(strstr(help.data, " A share of 0.5. (default: 1)\n"));
    const char *comment = strstr(help.data, "\n  # a line");
    ck_assert(comment && strstr(comment + 1, "\n  # ")); /* each of its lines is one */
    ck_assert_ptr_nonnull(strstr(help.data, "\n'longhaul try --help all' explains more"));
    ck_assert(strstr(all.data, "Print JSON. It is explained") && strstr(all.data, "--dtype auto|"));
    ck_assert(strstr(all.data, "One paragraph.") && !strstr(all.data, "--help all"));
    lh_buf_clear(&help);
    lh_buf_clear(&all);
}
END_TEST

START_TEST(test_help_asked_for_is_short_or_all)
{
    static const struct {
        char *words[4];
        lh_help help;
    } cases[] = {{{"--json"}, LH_HELP_NONE},           {{"--json", "--help"}, LH_HELP_SHORT},
                 {{"-h", "all"}, LH_HELP_ALL},         {{"--help=all"}, LH_HELP_ALL},
                 {{"--", "--help"}, LH_HELP_NONE},     {{"--help", "--json"}, LH_HELP_SHORT},
                 {{"a", "--help", "all"}, LH_HELP_ALL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = 0;
        while (cases[i].words[n]) n++;
        ck_assert_int_eq(lh_options_help_asked(n, (char **)(uintptr_t)cases[i].words), cases[i].help);
    }
}
END_TEST

START_TEST(test_help_fits_in_its_columns)
{
    static const char *const widths[] = {"", "44", "60", "80", "120"};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        lh_buf help = {0};
        setenv("COLUMNS", widths[i], 1);
        ck_assert_int_eq(lh_options_help(&help, &syntax, LH_HELP_ALL), LH_OK);
        ck_assert_int_eq(lh_options_help(&help, &long_syntax, LH_HELP_ALL), LH_OK);
        for (const char *line = help.data; *line; line += strcspn(line, "\n") + 1) {
            const int quoted = strchr(line, '\'') && strchr(line, '\'') < strchr(line, '\n');
            ck_assert_msg(quoted || strcspn(line, "\n") <= (*widths[i] ? (size_t)atoi(widths[i]) : 96), "%s:\n%s",
                          widths[i], line);
        }
        if (i == 2)
            ck_assert_msg(strstr(help.data,
                                 "--pool-size 15 --budget 20%' \\\n      --json --dtype auto --json --dtype f32 "
                                 "--json\n") != NULL,
                          "%s", help.data);
        lh_buf_clear(&help);
    }
    unsetenv("COLUMNS");
}
END_TEST

START_TEST(test_troff_requests_in_texts_are_harmless)
{
    static const lh_option_table *const none[] = {NULL};
    lh_buf man = {0};
    ck_assert_int_eq(lh_options_man(&man, &syntax, none), LH_OK);
    ck_assert_ptr_nonnull(strstr(man.data, "\n\\&.Begins with a dot \\e and a backslash."));
    ck_assert_ptr_nonnull(strstr(man.data, "\\fB\\-n\\fR, \\fB\\-\\-max\\-new\\fR \\fITOKENS\\fR\n"));
    ck_assert_ptr_nonnull(strstr(man.data, "\\fIauto|f32|bf16\\fR"));
    ck_assert_ptr_nonnull(strstr(man.data, "\\fB\\-\\-gain\\fR\\fI[=off]\\fR\n"));
    ck_assert_ptr_nonnull(strstr(man.data, "\ntry it:\n"));
    ck_assert_ptr_nonnull(strstr(man.data, "longhaul try \\-m m.h5"));
    ck_assert_ptr_nonnull(strstr(man.data, "\nand this one?\n"));
    lh_buf_clear(&man);
}
END_TEST

/* The case is put into a function and bash is asked, as a terminal would. */
static void completes(const char *previous, const char *begun, const char *want)
{
    lh_buf script = {0};
    char answer[256] = "";
    ck_assert_int_eq(lh_buf_puts(&script, "f() { local cur=$2 prev=$1 words=; COMPREPLY=()\n    case try in\n"), LH_OK);
    ck_assert_int_eq(lh_options_completion(&script, &syntax), LH_OK);
    ck_assert_int_eq(lh_buf_printf(&script,
                                   "    esac\n COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\nf '%s' '%s'\n"
                                   "echo -n \"${COMPREPLY[*]}\"\n",
                                   previous, begun),
                     LH_OK);
    char path[TEMPORARY_BYTES], command[128];
    int fd = mkstemp(temporary_name(path, "/tmp"));
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(lh_file_write(path, script.data, script.bytes), LH_OK);
    snprintf(command, sizeof command, "bash --norc %s", path);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    size_t n = fread(answer, 1, sizeof answer - 1, pipe);
    answer[n] = '\0';
    ck_assert_int_eq(pclose(pipe), 0);
    ck_assert_str_eq(answer, want);
    unlink(path);
    lh_buf_clear(&script);
}

START_TEST(test_bash_completes_options_choices_and_paths)
{
    completes("try", "--m", "--model --max-new");
    completes("--dtype", "", "auto f32 bf16");
    completes("--dtype", "b", "bf16");
    completes("-m", "/et", "/etc");
    completes("--max-new", "", "");
    completes("--json", "--st", "--stop");
    completes("--gain", "--st", "--stop");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_help_teaches_usage_options_defaults_and_examples,
                                  test_short_help_is_a_sentence_an_option,
                                  test_help_asked_for_is_short_or_all,
                                  test_help_fits_in_its_columns,
                                  test_troff_requests_in_texts_are_harmless,
                                  test_bash_completes_options_choices_and_paths,
                                  NULL};
    return suite_run("options_text", tests);
}
