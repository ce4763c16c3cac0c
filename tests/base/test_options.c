#include <check.h>
#include <math.h>
#include <string.h>

#include "base/options.h"
#include "suite.h"

struct common {
    int verbose, quiet;
};

struct shared {
    int64_t max_new, context, seed;
    double alpha;
    int64_t memory;
    const char *model, *prompt;
    lh_strings questions;
    int dtype;
    const char *pool, *gain, *place;
};

struct values {
    int before;
    struct common common;
    struct shared shared;
};

static const char *const dtypes[] = {"auto", "f32", "bf16", NULL};
static const char *const pools[] = {"none", "max", NULL};
static const char *const switches[] = {"off", "on", NULL};

#define FIELD(member) LH_FIELD(struct common, member)
static const lh_option common_rows[] = {
    {.type = LH_OPT_FLAG, .letter = 'v', .name = "verbose", FIELD(verbose), .help = "Say more."},
    {.type = LH_OPT_FLAG, .letter = 'q', .name = "quiet", FIELD(quiet), .help = "Say less."},
    {0}};
#undef FIELD
#define FIELD(member) LH_FIELD(struct shared, member)
static const lh_option shared_rows[] = {
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
     .help = "Tokens to generate at most."},
    {.type = LH_OPT_TOKENS,
     .name = "context",
     FIELD(context),
     .arg = "TOKENS",
     .min = 1,
     .max = INT32_MAX,
     .help = "Length."},
    {.type = LH_OPT_I64, .name = "seed", FIELD(seed), .arg = "N", .help = "Seed."},
    {.type = LH_OPT_F64,
     .name = "alpha",
     FIELD(alpha),
     .arg = "X",
     .def = "0.5",
     .low = 0,
     .high = 1,
     .help = "Share."},
    {.type = LH_OPT_BYTES, .name = "memory", FIELD(memory), .arg = "SIZE", .help = "Room."},
    {.type = LH_OPT_STR, .name = "prompt", FIELD(prompt), .arg = "TEXT", .help = "What to read."},
    {.type = LH_OPT_LIST, .name = "question", FIELD(questions), .arg = "TEXT", .help = "What to ask."},
    {.type = LH_OPT_ENUM, .name = "dtype", FIELD(dtype), .def = "auto", .choices = dtypes, .help = "Type."},
    {.type = LH_OPT_STR, .name = "pool", FIELD(pool), .choices = pools, .help = "Pool."},
    {.type = LH_OPT_SWITCH, .name = "gain", FIELD(gain), .choices = switches, .help = "Gain."},
    {.type = LH_OPT_STR,
     .name = "place",
     FIELD(place),
     .arg = "own|text:FILE",
     .file_prefix = "text:",
     .help = "Place."},
    {0}};
static const lh_option_table common_table = {"common", common_rows}, shared_table = {"model", shared_rows};
static const lh_option_group groups[] = {
    {&shared_table, offsetof(struct values, shared)}, {&common_table, offsetof(struct values, common)}, {0}};
static const lh_syntax syntax = {.program = "longhaul",
                                 .name = "try",
                                 .usage = "[SRC] -m FILE",
                                 .summary = "tries",
                                 .max_args = 1,
                                 .groups = groups};

enum { MOST = 16 };

/* Parse up to MOST words, NULL after the last. */
static lh_status parse(lh_options **out, struct values *values, const char *const *words)
{
    char *argv[MOST];
    int argc = 0;
    memset(values, 0x55, sizeof *values);
    for (; words[argc]; argc++) argv[argc] = (char *)(uintptr_t)words[argc];
    *out = NULL;
    return lh_options_parse(out, &syntax, values, argc, argv);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void refuses(const char *const *words, const char *part)
{
    struct values v;
    lh_options *o = NULL;
    ck_assert_int_eq(parse(&o, &v, words), LH_EUSAGE);
    ck_assert_ptr_null(o);
    ck_assert_msg(strstr(lh_error_message(), part), "'%s' does not say \"%s\"", lh_error_message(), part);
}

START_TEST(test_what_is_not_given_is_the_default)
{
    struct values v;
    lh_options *o;
    ck_assert_int_eq(parse(&o, &v, WORDS("-m", "x.h5")), LH_OK);
    ck_assert_int_eq(v.shared.max_new, 128);
    ck_assert_int_eq(v.shared.seed, 0);
    ck_assert(v.shared.alpha == 0.5);
    ck_assert_str_eq(v.shared.model, "x.h5");
    ck_assert_ptr_null(v.shared.prompt);
    ck_assert_int_eq(v.shared.questions.n, 0);
    ck_assert_int_eq(v.shared.dtype, 0);
    ck_assert_ptr_null(v.shared.pool);
    ck_assert_ptr_null(v.shared.gain);
    ck_assert_int_eq(v.common.verbose, 0);
    ck_assert_int_eq(v.before, 0x55555555);
    ck_assert_int_eq(lh_options_given(o, "max-new"), 0);
    ck_assert_int_eq(lh_options_given(o, "model"), 1);
    ck_assert_ptr_null(lh_options_arg(o, 0));
    lh_options_close(o);
}
END_TEST

START_TEST(test_numbers_of_tokens_have_units)
{
    static const struct {
        const char *text;
        int64_t tokens; /* 0: refused */
    } cases[] = {{"1", 1},
                 {"4096", 4096},
                 {"128k", 131072},
                 {"128K", 131072},
                 {"1M", 1 << 20},
                 {"2047M", INT64_C(2047) << 20},
                 {"0", 0},
                 {"0k", 0},
                 {"-1k", 0},
                 {"2048M", 0},
                 {"1m", 0},
                 {"1G", 0},
                 {"1.5M", 0},
                 {"k", 0},
                 {"", 0},
                 {"128kB", 0},
                 {"1kk", 0},
                 {"9999999999999999999k", 0},
                 {"9223372036854775807M", 0},
                 {NULL, 0}};
    for (int i = 0; cases[i].text; i++) {
        struct values v;
        lh_options *o;
        if (!cases[i].tokens) {
            refuses(WORDS("-m", "x", "--context", cases[i].text), "such as 4096, 128k or 1M (of 1024)");
            continue;
        }
        ck_assert_int_eq(parse(&o, &v, WORDS("-m", "x", "--context", cases[i].text)), LH_OK);
        ck_assert_int_eq(v.shared.context, cases[i].tokens);
        lh_options_close(o);
    }
}
END_TEST

START_TEST(test_sizes_have_units)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } sizes[] = {{"640B", 640},
                 {"3K", 3 << 10},
                 {"512M", INT64_C(512) << 20},
                 {"80G", INT64_C(80) << 30},
                 {"80GiB", INT64_C(80) << 30},
                 {"80GB", INT64_C(80000000000)},
                 {"1.5T", INT64_C(3) << 39}};
    static const char *const bad[] = {"",      "G",    "0B",  "80",  "1e9", "-1G", "80X",
                                      "80GBs", "80Gi", "8 G", "nan", "inf", "9e30"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct values v;
        lh_options *o;
        ck_assert_int_eq(parse(&o, &v, WORDS("-mx", "--memory", sizes[i].text)), LH_OK);
        ck_assert_msg(v.shared.memory == sizes[i].bytes, "%s: %lld", sizes[i].text, (long long)v.shared.memory);
        lh_options_close(o);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(WORDS("-mx", "--memory", bad[i]), "it must be a size");
}
END_TEST

START_TEST(test_all_ways_of_writing_a_value_mean_the_same)
{
    static const char *const ways[][3] = {{"--max-new", "7"}, {"--max-new=7", "-q"}, {"-n", "7"},
                                          {"-n7", "-q"},      {"-vn7", "-q"},        {"-qn", "7"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct values v;
        lh_options *o;
        ck_assert_int_eq(parse(&o, &v, WORDS("-mx", ways[i][0], ways[i][1])), LH_OK);
        ck_assert_int_eq(v.shared.max_new, 7);
        lh_options_close(o);
    }
}
END_TEST

START_TEST(test_switches_are_on_or_say_what_they_are)
{
    static const struct {
        const char *word, *value;
    } ways[] = {{"--gain", "on"}, {"--gain=on", "on"}, {"--gain=off", "off"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct values v;
        lh_options *o;
        ck_assert_int_eq(parse(&o, &v, WORDS("-mx", ways[i].word, "src")), LH_OK);
        ck_assert_str_eq(v.shared.gain, ways[i].value);
        ck_assert_str_eq(lh_options_arg(o, 0), "src");
        lh_options_close(o);
    }
    for (int i = 0; i < 2; i++) { /* the word after it, if it is a choice */
        struct values v;
        lh_options *o;
        ck_assert_int_eq(parse(&o, &v, WORDS("-mx", "--gain", switches[i], "src")), LH_OK);
        ck_assert_str_eq(v.shared.gain, switches[i]);
        ck_assert_str_eq(lh_options_arg(o, 0), "src");
        lh_options_close(o);
    }
    refuses(WORDS("-mx", "--gain=yes"), "option '--gain' got 'yes', it must be one of off, on");
}
END_TEST

/* What the first one names would not be read. */
START_TEST(test_an_input_that_is_given_twice_is_refused)
{
    refuses(WORDS("-m", "a", "--model=b"), "option '--model' is given twice, as 'a' and as 'b': it takes one value");
    refuses(WORDS("-mx", "--prompt", "a", "--prompt", "a"), "option '--prompt' is given twice");
}
END_TEST

/* Files of `place` are what follows "text:"; other values are settings, of which the last one counts. */
START_TEST(test_a_value_names_a_file_after_its_prefix)
{
    static const struct {
        const char *first, *last, *file;
    } cases[] = {{"own", "again", NULL},   {"text:q.txt", "own", NULL}, {"own", "text:q.txt", "q.txt"},
                 {"own", "text:", NULL},   {"own", "q.txt", NULL},      {"own", "text:text:", "text:"},
                 {"own", "textual", NULL}, {"text:a", "text:b", "b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct values v;
        lh_options *o = NULL;
        lh_named_file *files = NULL;
        int64_t n = 0;
        ck_assert_int_eq(parse(&o, &v, WORDS("--place", cases[i].first, "--place", cases[i].last, "-m", "m.h5")),
                         LH_OK);
        ck_assert_str_eq(v.shared.place, cases[i].last);
        ck_assert_int_eq(lh_options_files(o, &files, &n), LH_OK);
        ck_assert_int_eq(n, 1 + (cases[i].file != NULL));
        ck_assert_str_eq(files[0].path, "m.h5");
        if (cases[i].file) ck_assert_str_eq(files[1].path, cases[i].file);
        lh_free(files);
        lh_options_close(o);
    }
}
END_TEST

START_TEST(test_the_last_of_several_settings_wins_and_lists_collect)
{
    struct values v;
    lh_options *o;
    ck_assert_int_eq(
        parse(&o, &v, WORDS("--model=b", "--question", "who?", "--question=", "--alpha", "1", "--alpha=0.25", "-vvq")),
        LH_OK);
    ck_assert_str_eq(v.shared.model, "b");
    ck_assert(v.shared.alpha == 0.25);
    ck_assert_int_eq(v.shared.questions.n, 2);
    ck_assert_str_eq(v.shared.questions.at[0], "who?");
    ck_assert_str_eq(v.shared.questions.at[1], "");
    ck_assert_int_eq(lh_options_given(o, "verbose"), 2);
    ck_assert_int_eq(v.common.quiet, 1);
    lh_options_close(o);
    ck_assert_int_eq(v.shared.questions.n, 0);
}
END_TEST

START_TEST(test_arguments_dashes_and_the_end_of_options)
{
    struct values v;
    lh_options *o;
    ck_assert_int_eq(parse(&o, &v, WORDS("-m", "-", "--prompt", "- a list", "--seed", "-5", "-")), LH_OK);
    ck_assert_str_eq(lh_options_arg(o, 0), "-");
    ck_assert_str_eq(v.shared.model, "-");
    ck_assert_str_eq(v.shared.prompt, "- a list");
    ck_assert_int_eq(v.shared.seed, -5);
    lh_options_close(o);
    ck_assert_int_eq(parse(&o, &v, WORDS("-mx", "--prompt=--max-new", "--", "--verbose")), LH_OK);
    ck_assert_str_eq(lh_options_arg(o, 0), "--verbose");
    ck_assert_str_eq(v.shared.prompt, "--max-new");
    ck_assert_int_eq(v.common.verbose, 0);
    lh_options_close(o);
    refuses(WORDS("-mx", "one", "two"), "'two' is one argument too many");
}
END_TEST

START_TEST(test_bad_values_say_what_would_be_right)
{
    static const char *const bad[] = {"", "abc", "12x", "1.5", "0", "-3", "1073741825", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(WORDS("-mx", "--max-new", bad[i]), "it must be an integer between 1 and 1073741824");
    refuses(WORDS("-mx", "--seed", "one"), "option '--seed' got 'one', it must be an integer");
    refuses(WORDS("-mx", "--seed", "9223372036854775808"), "must be an integer");
    refuses(WORDS("-mx", "--alpha", "1.01"), "option '--alpha' got '1.01', it must be a number between 0 and 1");
    refuses(WORDS("-mx", "--alpha", "nan"), "number between 0 and 1");
    refuses(WORDS("-mx", "--alpha", "half"), "number between 0 and 1");
    refuses(WORDS("-mx", "--dtype", "fp8"), "option '--dtype' got 'fp8', it must be one of auto, f32, bf16");
    refuses(WORDS("-mx", "--dtype", "f23"), "did you mean 'f32'?");
    refuses(WORDS("-mx", "--pool", "median"), "option '--pool' got 'median', it must be one of none, max");
    refuses(WORDS("-mx", "--verbose=1"), "'--verbose' takes no value");
    refuses(WORDS("-mx", "--max-new"), "'--max-new' needs a value: '--max-new TOKENS'");
    refuses(WORDS("-mx", "--prompt", "--max-new", "4"), "option '--max-new' follows");
}
END_TEST

START_TEST(test_unknown_options_name_the_nearest)
{
    refuses(WORDS("-mx", "--max-mew", "4"), "unknown option '--max-mew', did you mean '--max-new'?");
    refuses(WORDS("-mx", "--modle=4"), "unknown option '--modle', did you mean '--model'?");
    refuses(WORDS("-mx", "--verb"), "did you mean '--verbose'?");
    refuses(WORDS("-mx", "--frobnicate"), "unknown option '--frobnicate', 'longhaul try --help' lists");
    refuses(WORDS("-mx", "-z"), "unknown option '-z'");
    refuses(WORDS("-mx", "-vz"), "unknown option '-z'");
    refuses(WORDS("--verbose"), "'longhaul try' needs '--model FILE'");
}
END_TEST

START_TEST(test_options_of_other_tools_name_ours)
{
    refuses(WORDS("-mx", "--max-tokens", "4"), "unknown option '--max-tokens', here it is '--max-new'");
    refuses(WORDS("-mx", "--n-predict=4"), "unknown option '--n-predict', here it is '--max-new'");
    refuses(WORDS("-mx", "-c", "4096"), "unknown option '-c': a cache has room for the prompt and '--max-new'");
    refuses(WORDS("-mx", "-vs4"), "unknown option '-s', here it is '--seed'");
    /* one that this command has no option for is unknown, as any other */
    refuses(WORDS("-mx", "--tensor-parallel-size", "2"), "'--tensor-parallel-size', 'longhaul try --help' lists all");
    refuses(WORDS("-mx", "-t4"), "unknown option '-t', 'longhaul try --help' lists all");
    for (const lh_foreign_option *f = lh_foreign_options; f->word; f++) {
        ck_assert_msg(f->word[0] == '-' && f->ours[0] != '-', "'%s'", f->word);
        ck_assert_msg(strncmp(f->word, "--", 2) != 0 || strcmp(f->word + 2, f->ours) != 0, "'%s' is ours", f->word);
    }
}
END_TEST

START_TEST(test_nearest_prefers_small_slips_and_refuses_strangers)
{
    static const char *const names[] = {"snapkv", "pyramidkv", "streaming", "full", NULL};
    ck_assert_str_eq(lh_nearest("snapvk", names), "snapkv");
    ck_assert_str_eq(lh_nearest("pyramid-kv", names), "pyramidkv");
    ck_assert_str_eq(lh_nearest("stream", names), "streaming");
    ck_assert_str_eq(lh_nearest("ful", names), "full");
    ck_assert_str_eq(lh_nearest("SnapKV", names), "snapkv");
    ck_assert_str_eq(lh_nearest("StreamingLLM", names), "streaming");
    ck_assert_str_eq(lh_nearest("Pyramid", names), "pyramidkv");
    ck_assert_ptr_null(lh_nearest("quantum", names));
    ck_assert_ptr_null(lh_nearest("", names));
    ck_assert_ptr_null(lh_nearest("x", names));
}
END_TEST

START_TEST(test_the_record_holds_every_option_and_what_was_given)
{
    struct values v;
    lh_options *o;
    json_t *record = NULL, *want;
    ck_assert_int_eq(
        parse(&o, &v, WORDS("src", "--dtype", "bf16", "-m", "a\xff", "--question", "q", "-q", "--pool", "max")), LH_OK);
    ck_assert_int_eq(lh_options_json(o, &record), LH_OK);
    want = json_pack(
        "{s:s, s:[s], s:{s:s, s:i, s:n, s:n, s:f, s:n, s:n, s:[s], s:s, s:s, s:n, s:n, s:b, s:b}, s:[s,s,s,s,s]}",
        "command", "try", "arguments", "src", "options", "model", "a\xef\xbf\xbd", "max-new", 128, "context", "seed",
        "alpha", 0.5, "memory", "prompt", "question", "q", "dtype", "bf16", "pool", "max", "gain", "place", "verbose",
        0, "quiet", 1, "given", "model", "question", "dtype", "pool", "quiet");
    ck_assert_ptr_nonnull(want);
    ck_assert(json_equal(record, want));
    json_decref(record);
    json_decref(want);
    lh_options_close(o);
}
END_TEST

START_TEST(test_help_is_found_before_the_end_of_options)
{
    char *a[] = {"-m", "--help"}, *b[] = {"x", "-h"}, *c[] = {"--", "--help"}, *d[] = {"--prompt=--help"};
    ck_assert(lh_options_help_asked(2, a));
    ck_assert(lh_options_help_asked(2, b));
    ck_assert(!lh_options_help_asked(2, c));
    ck_assert(!lh_options_help_asked(1, d));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_what_is_not_given_is_the_default,
                                  test_numbers_of_tokens_have_units,
                                  test_sizes_have_units,
                                  test_all_ways_of_writing_a_value_mean_the_same,
                                  test_switches_are_on_or_say_what_they_are,
                                  test_an_input_that_is_given_twice_is_refused,
                                  test_a_value_names_a_file_after_its_prefix,
                                  test_the_last_of_several_settings_wins_and_lists_collect,
                                  test_arguments_dashes_and_the_end_of_options,
                                  test_bad_values_say_what_would_be_right,
                                  test_unknown_options_name_the_nearest,
                                  test_options_of_other_tools_name_ours,
                                  test_nearest_prefers_small_slips_and_refuses_strangers,
                                  test_the_record_holds_every_option_and_what_was_given,
                                  test_help_is_found_before_the_end_of_options,
                                  NULL};
    return suite_run("options", tests);
}
