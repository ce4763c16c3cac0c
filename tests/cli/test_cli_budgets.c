/* Budgets of heads and layers that are learnt from traces: what they gain where they were made, at the same total;
 * that they are the same on any number of ranks; and jobs/tune.sh, which learns them from a folder. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "lab/analysis/figures.h"
#include "suite.h"

#define TRACE                                                                              \
    "trace -m tiny.h5 --chat=off -n 24 --ignore-eos --deterministic -q --trace-window 64 " \
    "--trace-rows 0 "
#define TRACES "replay one.h5 two.h5 --threads 1 -q "
enum { LAYERS = 3, HEADS = 4, KV_HEADS = 2 };

static const lh_figure *figure_of(const lh_figures *figures, const char *name)
{
    for (int64_t i = 0; i < figures->count; i++)
        if (strcmp(figures->list[i].name, name) == 0) return &figures->list[i];
    ck_abort_msg("there is no figure '%s'", name);
}

/* Of a policy of an analysis of one budget: the loss that budgets are made by, and entries per KV head and layer. */
typedef struct outcome {
    double loss, entries;
} outcome;

static outcome outcome_of(const lh_figures *figures, int64_t policy)
{
    const float *squared = figure_of(figures, "perturbation-squared")->values + policy * LAYERS * HEADS,
                *output = figure_of(figures, "output-projected")->values,
                *budgets = figure_of(figures, "budgets")->values + policy * LAYERS * KV_HEADS;
    outcome o = {0};
    for (int l = 0; l < LAYERS; l++) {
        double scale = 0;
        for (int h = 0; h < HEADS; h++) scale += (double)output[l * HEADS + h];
        for (int h = 0; h < HEADS; h++) o.loss += (double)squared[l * HEADS + h] / (scale * scale);
    }
    for (int i = 0; i < LAYERS * KV_HEADS; i++) o.entries += (double)budgets[i];
    return o;
}

/* By evictions with these budgets, not by the curves that they were made from. Between two points of a curve a head
 * that chooses by its own scores loses what lies between; where heads compete that is only nearly so. */
START_TEST(test_made_budgets_lose_no_more_than_uniform_ones)
{
    static const struct {
        const char *policy;
        int of_layers; /* it divides the budget of a layer itself */
    } cases[] = {{"snapkv --window 8", 0}, {"streaming --evict never", 0}, {"h2o", 0},
                 {"keydiff", 0},           {"ada-snapkv --window 8", 1},   {"tova --evict never", 1}};
    program_result r = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *p = cases[i].policy;
        lh_figures figures;
        lh_h5 *h5 = NULL;
        program_run(&r, 1, TRACES "--policy '%s' --budget 25%% --make-budgets b.csv", p);
        program_exits(&r, 0);
        program_run(&r, 1,
                    TRACES
                    "--policy '%s,%s --layer-budget b.csv %s' --budget 25%% --analyse perturbation,budgets -o b.h5",
                    p, p, cases[i].of_layers ? "" : "--head-budget b.csv");
        program_exits(&r, 0);
        ck_assert_int_eq(lh_h5_open(&h5, "b.h5", &(lh_h5_header){"analysis", 1, NULL}), LH_OK);
        ck_assert_int_eq(lh_figures_read(&figures, h5), LH_OK);
        const outcome uniform = outcome_of(&figures, 0), made = outcome_of(&figures, 1);
        ck_assert_msg(made.loss <= uniform.loss * (cases[i].of_layers ? 1.02 : 1), "%s: %g, uniform %g", p, made.loss,
                      uniform.loss);
        ck_assert_double_eq(made.entries, uniform.entries);
        lh_figures_clear(&figures);
        lh_h5_close(h5);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_made_budgets_are_the_same_on_any_number_of_ranks)
{
    program_result r = {0};
    program_run(&r, 1, TRACES "--policy 'snapkv --window 8' --budget 30 --make-budgets one.csv");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.out.data, "--layer-budget one.csv --head-budget one.csv"), "%s", r.out.data);
    for (int ranks = 2; ranks <= 4; ranks++) {
        program_run(&r, ranks, TRACES "--policy 'snapkv --window 8' --budget 30 --make-budgets more.csv");
        program_exits(&r, 0);
        program_run(&r, 1, "--version > version; cmp one.csv more.csv");
        program_exits(&r, 0);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_what_makes_no_budgets_is_refused)
{
    static const struct {
        int code;
        const char *part, *line;
    } cases[] = {
        {2, "'prompt.h5' has no rows after the prompt",
         "replay prompt.h5 --policy snapkv --budget 20% --make-budgets no.csv"},
        {4, "no trace has layer 1",
         "replay some.h5 --policy streaming --evict never --budget 20% --make-budgets no.csv"},
        {2, "for one policy at one budget", "replay one.h5 --policy snapkv,h2o --budget 20% --make-budgets no.csv"},
        {2, "for one policy at one budget", "replay one.h5 --policy snapkv --budget 20%,30% --make-budgets no.csv"},
        {2, "give '--budget', such as 10%", "replay one.h5 --policy snapkv --make-budgets no.csv"},
        {2, "add '--layer-budget uniform'", "replay one.h5 --policy pyramidkv --budget 20% --make-budgets no.csv"},
        {2, "add '--values 0'", "replay one.h5 --policy vase --budget 20% --make-budgets no.csv"},
        {2, "lacks", "replay one.h5 --policy snapkv --budget 20% --analyse mass --make-budgets no.csv"},
        {2, "evicts nothing", "replay one.h5 --policy 'snapkv --window 8' --budget 100% --make-budgets no.csv"},
        {2, "protects all of this budget", "replay one.h5 --policy snapkv --budget 16 --make-budgets no.csv"},
        {2, "cannot be combined with '--scores'", "replay one.h5 --scores s.h5 --budget 20% --make-budgets no.csv"},
        {3, "'four.csv' has weights of 4 layers, the model has 3",
         "generate -m tiny.h5 -p a --budget 8 --layer-budget four.csv"},
    };
    program_result r = {0};
    program_run(&r, 1, TRACE "-n 1 -f text -o prompt.h5");
    program_exits(&r, 0);
    program_run(&r, 1, TRACE "--trace-layers 0,2 -f text -o some.h5");
    program_exits(&r, 0);
    program_file("four.csv", "layer,head,weight\n0,0,1\n1,0,1\n2,0,1\n3,0,1\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        program_refuses(1 + (int)(i % 2), cases[i].code, cases[i].part, cases[i].line);
    program_run(&r, 1, "--version > version; test -e no.csv");
    program_exits(&r, 1);
    program_clear(&r);
}
END_TEST

/* The script, on texts of its own and on one alone. */
#define TUNE(settings) \
    "--version > version; " settings " LONGHAUL=" LONGHAUL " bash " SOURCE_DIR "/jobs/tune.sh tiny.h5 texts "
START_TEST(test_a_folder_of_texts_makes_budgets)
{
    program_result r = {0};
    program_run(
        &r, 1, "--version > version; mv texts/b.txt texts/b.TXT && touch texts/.c.txt texts/d.pdf && mkdir texts/e.md");
    program_run(&r, 1, TUNE("CONTEXT=150") "25%% 2");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.out.data, " and left out: texts/d.pdf\n"), "%s", r.out.data);
    ck_assert_msg(strstr(r.out.data, "\nlearnt budgets "), "%s", r.out.data);
    program_run(&r, 1,
                "generate -m tiny.h5 --chat=off -f text -n 4 --budget 25%% --policy longhaul --head-budget "
                "tune/budgets.csv --layer-budget tune/budgets.csv -q");
    program_exits(&r, 0);
    program_run(&r, 1, "--version > version; rm texts/b.TXT && test -e tune/6.trace.h5");
    program_exits(&r, 0);
    program_run(&r, 1, TUNE("CONTEXT=150 POLICY='keydiff --evict never'"));
    program_exits(&r, 0);
    program_run(&r, 1, "--version > version; grep -e 'keydiff --evict never --budget 10%%' tune/budgets.csv");
    program_exits(&r, 0);
    program_run(&r, 1, TUNE("POLICY='snapkv,h2o'"));
    program_exits(&r, 1);
    ck_assert_msg(strstr(r.err.data, "POLICY is one policy, not a list"), "%s", r.err.data);
    program_run(&r, 1, TUNE("CONTEXT=9000"));
    program_exits(&r, 1);
    ck_assert_msg(strstr(r.err.data, "has the 9128 tokens of a passage"), "%s", r.err.data);
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_made_budgets_lose_no_more_than_uniform_ones,
                                  test_made_budgets_are_the_same_on_any_number_of_ranks,
                                  test_what_makes_no_budgets_is_refused, test_a_folder_of_texts_makes_budgets, NULL};
    lh_buf text = {0};
    program_enter();
    tiny_write("tiny");
    tiny_sentences(&text);
    program_must(mkdir("texts", 0777) == 0, "a folder of texts");
    program_file("texts/a.txt", text.data);
    program_file("texts/b.txt", text.data + text.bytes / 2);
    text.data[300] = 0;
    program_file("text", text.data);
    program_file("short", text.data + 60);
    lh_buf_clear(&text);
    program_result r = {0};
    program_run(&r, 1,
                "import tiny -o tiny.h5 -q && " LONGHAUL " " TRACE "-f text -o one.h5 && " LONGHAUL " " TRACE
                "-f short -o two.h5");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli budgets", tests);
    program_leave();
    return code;
}
