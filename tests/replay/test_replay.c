/* Laws of a replay, on a made trace: what can be worked out by hand, what a whole budget changes, and that all budgets
 * at once give what each gives alone. tests/cli/test_cli_trace.c compares with runs and with numpy. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab/replay/replay.h"
#include "lab/trace/segment.h"
#include "lab/trace/trace_file.h"
#include "replay/trace_maker.h"
#include "suite.h"

enum { CELLS = 80 };

/* Means of some figures: [policies, budgets]. */
typedef struct means {
    double mass[CELLS], hits[CELLS], l2[CELLS], values[CELLS], projected[CELLS], bound[CELLS], kept[CELLS];
    int64_t policies, budgets;
} means;

/* file: for all figures; NULL: none. */
typedef struct made_replay {
    const char *policies, *budgets, *file;
    made_kind kind;
} made_replay;

static void run_made(const made_replay *made, means *out)
{
    static const struct {
        const char *figure;
        size_t at;
    } figures[] = {{"mass", offsetof(means, mass)},          {"hits", offsetof(means, hits)},
                   {"perturbation-l2", offsetof(means, l2)}, {"perturbation-projected", offsetof(means, projected)},
                   {"bound-values", offsetof(means, bound)}, {"budgets", offsetof(means, kept)},
                   {"values", offsetof(means, values)}};
    const lh_analysis *analyses[64] = {NULL};
    const char *path = "made.h5";
    lh_policy_list list = {0};
    lh_replay *r = NULL;
    lh_comm *comm = NULL;
    for (int i = 0; lh_analysis_at(i); i++) analyses[i] = lh_analysis_at(i);
    ck_assert_int_eq(lh_comm_open_self(&comm), LH_OK);
    ck_assert_int_eq(made_trace_write(path, made->kind), LH_OK);
    ck_assert_int_eq(
        lh_policy_list_resolve(&list, &(lh_policy_options){.policy = made->policies, .budget = made->budgets}), LH_OK);
    ck_assert_msg(lh_replay_run(&r, &(lh_replay_request){.traces = &path,
                                                         .trace_count = 1,
                                                         .policies = &list,
                                                         .analyses = analyses,
                                                         .judge_rows = MADE_AFTER,
                                                         .comm = comm}) == LH_OK,
                  "%s", lh_error_message());
    out->policies = lh_replay_study(r)->policy_count;
    out->budgets = lh_replay_study(r)->budget_count;
    ck_assert_int_le(out->policies * out->budgets, CELLS);
    for (size_t f = 0; f < sizeof figures / sizeof *figures; f++)
        ck_assert_int_eq(lh_replay_mean(r, figures[f].figure, (double *)(void *)((char *)out + figures[f].at)), LH_OK);
    if (made->file) ck_assert_int_eq(lh_replay_write(r, made->file), LH_OK);
    lh_replay_close(r);
    lh_policy_list_clear(&list);
    lh_comm_close(comm);
    remove(path);
}

static void run_replay(const char *policies, const char *budgets, made_kind kind, means *out)
{
    run_made(&(made_replay){policies, budgets, NULL, kind}, out);
}

/* All figures of a replay of streaming at budgets of 4, 12 and 20 entries. */
static void read_figures(made_kind kind, lh_figures *out)
{
    const char *file = "made.a.h5";
    means m;
    lh_h5 *h5 = NULL;
    run_made(&(made_replay){"streaming", "4,12,20", file, kind}, &m);
    ck_assert_int_eq(lh_h5_open(&h5, file, &(lh_h5_header){"analysis", 1, NULL}), LH_OK);
    ck_assert_int_eq(lh_figures_read(out, h5), LH_OK);
    lh_h5_close(h5);
    remove(file);
}

static const lh_figure *figure_of(const lh_figures *figures, const char *name)
{
    for (int64_t i = 0; i < figures->count; i++)
        if (strcmp(figures->list[i].name, name) == 0) return &figures->list[i];
    ck_abort_msg("there is no figure '%s'", name);
}

/* Row i after the prompt sees the prompt and i + 1 entries more, and gives each the same. These policies evict while
 * decoding: after the question, and after every token, down to the budget. */
START_TEST(test_even_attention_keeps_the_share_of_the_entries)
{
    const int budgets[] = {6, 12, 18};
    means m;
    run_replay("streaming,random,h2o", "6,12,18", MADE_EVEN, &m);
    for (int64_t p = 0; p < m.policies; p++)
        for (int b = 0; b < 3; b++) {
            double mass = 0;
            for (int i = 0; i < MADE_AFTER; i++) {
                const int all = i < MADE_QUESTION || p == m.policies - 1; /* the oracle evicts the prompt alone */
                const int own = all ? i + 1 : 1;
                mass += (budgets[b] + own) / (MADE_PROMPT + i + 1.0) / MADE_AFTER;
            }
            ck_assert_double_eq_tol(m.mass[p * 3 + b], mass, 1e-6);
            ck_assert_double_eq_tol(m.kept[p * 3 + b], budgets[b], 1e-9);
        }
}
END_TEST

START_TEST(test_a_whole_budget_changes_nothing)
{
    means m; /* of the prompt and of what comes after it */
    run_replay("streaming,snapkv --window 4,h2o,ada-snapkv --window 4", "33", MADE_RANDOM, &m);
    for (int64_t c = 0; c < m.policies; c++) {
        ck_assert_double_eq_tol(m.mass[c], 1, 1e-6);
        ck_assert_double_eq(m.hits[c], 1);
        ck_assert_double_eq(m.l2[c], 0);
        ck_assert_double_eq(m.values[c], 0);
        ck_assert_double_eq(m.projected[c], 0);
    }
}
END_TEST

/* Two-stage selections and draws do not contain each other at growing budgets: their classes are others. */
START_TEST(test_all_budgets_at_once_are_those_of_each_alone)
{
    static const char *const each[] = {"4", "6", "7", "9", "12", "15", "20"};
    static const char policies[] =
        "h2o,snapkv --window 4,ada-snapkv --window 4,critical-snapkv --window 4,nacl,random,roco,"
        "ada-snapkv --window 4 --layer-budget adaptive";
    means all, one;
    run_replay(policies, "4,6,7,9,12,15,20", MADE_RANDOM, &all);
    for (int b = 0; b < 7; b++) {
        run_replay(policies, each[b], MADE_RANDOM, &one);
        for (int64_t p = 0; p < all.policies; p++) {
            ck_assert_double_eq_tol(all.mass[p * 7 + b], one.mass[p], 1e-6);
            ck_assert_double_eq(all.hits[p * 7 + b], one.hits[p]);
            ck_assert_double_eq_tol(all.l2[p * 7 + b], one.l2[p], 1e-6);
            ck_assert_double_eq_tol(all.values[p * 7 + b], one.values[p], 1e-6);
            ck_assert_double_eq_tol(all.projected[p * 7 + b], one.projected[p], 1e-5);
        }
    }
}
END_TEST

/* AdaKV, theorem 4; every entry counts the same where attention is even. */
START_TEST(test_adaptive_budgets_never_raise_the_bound)
{
    for (int kind = MADE_RANDOM; kind <= MADE_EVEN; kind++) {
        lh_figures all = {0};
        read_figures((made_kind)kind, &all);
        const lh_figure *bound = figure_of(&all, "allocation"), *ratio = figure_of(&all, "allocation-ratio");
        const int64_t n = lh_figure_count(ratio);
        ck_assert_int_eq(lh_figure_count(bound), 2 * n);
        for (int64_t i = 0; i < n; i++) {
            const double uniform = (double)bound->values[i], adaptive = (double)bound->values[n + i];
            ck_assert(uniform > 0 && adaptive > 0 && adaptive <= uniform);
            ck_assert_double_eq_tol((double)ratio->values[i], adaptive / uniform, 1e-6);
            if (kind == MADE_EVEN) ck_assert_double_eq_tol(adaptive, uniform, 1e-6 * uniform);
        }
        lh_figures_clear(&all);
    }
}
END_TEST

/* It is a factor on logits, here of 0: row r of the last 8 gives 1 / (r + 1) to each entry up to its own. */
START_TEST(test_a_gain_does_not_change_even_attention)
{
    lh_figures all = {0};
    double score[MADE_PROMPT] = {0}, sum = 0, entropy = 0;
    read_figures(MADE_EVEN, &all);
    const lh_figure *spread = figure_of(&all, "gain-spread");
    const int64_t n = lh_figure_count(spread) / LH_STUDY_SCORES;
    for (int row = MADE_PROMPT - MADE_WINDOW; row < MADE_PROMPT; row++)
        for (int j = 0; j <= row; j++) score[j] += 1.0 / (row + 1), sum += 1.0 / (row + 1);
    for (int j = 0; j < MADE_PROMPT; j++) entropy -= score[j] / sum * log(score[j] / sum);
    for (int64_t i = 2 * n; i < 3 * n; i++) ck_assert_double_eq_tol((double)spread->values[i], exp(entropy), 1e-4);
    lh_figures_clear(&all);
}
END_TEST

/* More of them than were recorded, or than leave entries to compare, are none. */
START_TEST(test_correlations_are_those_of_recorded_rows)
{
    lh_figures all = {0};
    read_figures(MADE_RANDOM, &all);
    static const char *const names[] = {"proxies", "proxies-ranks"};
    for (int f = 0; f < 2; f++) {
        const lh_figure *figure = figure_of(&all, names[f]);
        const int64_t each = lh_figure_count(figure) / LH_STUDY_PROXIES;
        for (int64_t i = 0; i < lh_figure_count(figure); i++) {
            if (lh_study_proxies[i / each] > MADE_WINDOW)
                ck_assert(isnan(figure->values[i]));
            else
                ck_assert(fabsf(figure->values[i]) <= 1.000001f);
        }
    }
    lh_figures_clear(&all);
}
END_TEST

/* The oracle ranks by the very rows that judge: nothing keeps more of their attention with as many entries a head. And
 * CriticalKV's bound is above the perturbation. */
START_TEST(test_nothing_keeps_more_than_the_oracle)
{
    means m;
    run_replay("h2o,snapkv --window 4,streaming,keydiff,random", "4,8,12", MADE_RANDOM, &m);
    for (int64_t p = 0; p < m.policies; p++)
        for (int b = 0; b < 3; b++) {
            ck_assert_double_le(m.mass[p * 3 + b],
                                m.mass[(m.policies - 1) * 3 + b] + 0.02); /* lse of the maker is rough */
            ck_assert_double_le(m.projected[p * 3 + b], m.bound[p * 3 + b] + 1e-6);
        }
}
END_TEST

/* What `info` draws: one entry of 24 is "1%", and every bin holds one. */
START_TEST(test_a_trace_is_drawn_by_its_columns)
{
    enum { SUMS = 9 }; /* among the arrays of the maker, which adds 1 */
    lh_trace_file trace = {0};
    lh_figures figures = {0};
    ck_assert_int_eq(made_trace_write("drawn.h5", MADE_RANDOM), LH_OK);
    ck_assert_int_eq(lh_trace_file_open(&trace, "drawn.h5"), LH_OK);
    ck_assert_msg(lh_trace_figures(&trace, &figures) == LH_OK, "%s", lh_error_message());
    ck_assert_int_eq(figures.count, 3); /* it has neither timings nor norms of entries: these are NaN */
    ck_assert_str_eq(figures.list[0].name, "attention-positions");
    ck_assert_str_eq(figures.list[1].name, "attention-most");
    for (int l = 0; l < MADE_LAYERS; l++) {
        double all = 0, most = 0;
        for (int h = 0; h < MADE_KV_HEADS; h++) {
            double max = 0;
            for (int t = 0; t < MADE_PROMPT; t++) {
                const double a = 1 + (double)made_number(SUMS, l, h * MADE_PROMPT + t);
                max = fmax(max, a);
                all += a;
            }
            most += max;
        }
        ck_assert_double_eq_tol((double)figures.list[1].values[l], most / all, 1e-5);
        const double both = 2 + (double)made_number(SUMS, l, 7) + (double)made_number(SUMS, l, MADE_PROMPT + 7);
        ck_assert_double_eq_tol((double)figures.list[0].values[l * MADE_PROMPT + 7], both / all * MADE_PROMPT, 1e-4);
    }
    ck_assert(isnan((double)figures.list[2].values[0]));
    lh_figures_clear(&figures);
    lh_trace_file_close(&trace);
}
END_TEST

/* The policies divide by it: the file is at fault, not the weights of a model. */
START_TEST(test_what_is_not_finite_is_named_with_its_file)
{
    const char *path = "made.h5";
    lh_trace_file trace = {0};
    lh_trace_layer layer = {0};
    ck_assert_int_eq(made_trace_write(path, MADE_NOT_FINITE), LH_OK);
    ck_assert_int_eq(lh_trace_file_open(&trace, path), LH_OK);
    ck_assert_int_eq(lh_trace_layer_read(&layer, &trace, 1), LH_EFILE);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "log-sum-exp of layer 1 of 'made.h5' is not finite"));
    lh_trace_layer_clear(&layer);
    lh_trace_file_close(&trace);
    ck_assert_int_eq(lh_trace_verify(path), LH_EFILE);
    remove(path);
}
END_TEST

/* ---- segments ---- */

/* What is wrong with the segments of a trace; all zero: nothing. */
typedef struct wrong_segments {
    const char *run;  /* the text /segments */
    int64_t at;       /* of the second slab, which is right at 3 */
    int overlaps;     /* 1: of four slabs, which reach as far as they hold elements, two lie over each other */
    int repeats_text; /* 1: a text is in two segments */
    int cut;          /* 1: the file of a segment ends early */
    const char *words;
} wrong_segments;

static void write_part(const char *name, int64_t at, const char *text, const char *value)
{
    lh_segment s = {0};
    lh_slab slab = {.name = "/layers/000/prefill/lse", .shape = {LH_F32, 2, {3, 2}}, .at = {at}};
    snprintf(s.name, sizeof s.name, "%s", name);
    if (at >= 0) {
        ck_assert_int_eq(lh_calloc(&slab.data, 6, sizeof(float)), LH_OK);
        ck_assert_int_eq(lh_segment_add(&s, &slab), LH_OK);
    }
    if (text) ck_assert_int_eq(lh_segment_add_text(&s, text, value), LH_OK);
    ck_assert_int_eq(lh_segment_write(&s, "joined.h5.segments", LH_H5_PLAIN), LH_OK);
    lh_segment_clear(&s);
}

/* Of a run of two ranks, of which each recorded three rows; or of four. */
static lh_status join_segments(const wrong_segments *w)
{
    int missing = 0;
    ck_assert(mkdir("joined.h5.segments", 0777) == 0);
    write_part("run", -1, "/segments", w->run ? w->run : w->overlaps ? "{\"ranks\": 4}" : "{\"ranks\": 2}");
    if (w->overlaps) write_part("prefill-l000-r002", 7, NULL, NULL);
    if (w->overlaps) write_part("prefill-l000-r003", 9, NULL, NULL);
    write_part("prefill-l000-r000", 0, "/model", "{}");
    write_part("prefill-l000-r001", w->at ? w->at : 3, w->repeats_text ? "/model" : NULL, "{}");
    if (w->cut) ck_assert_int_eq(truncate("joined.h5.segments/prefill-l000-r001.h5", 700), 0);
    lh_status st = lh_trace_check_segments("joined.h5");
    if (st == LH_OK) st = lh_trace_join("joined.h5", &missing);
    ck_assert_int_eq(system("rm -rf joined.h5.segments"), 0);
    return st;
}

START_TEST(test_segments_fill_their_arrays_or_are_refused)
{
    static const wrong_segments cases[] = {
        {.run = "{\"ranks\": 0}", .words = "'ranks' of '/segments'"},
        {.run = "{\"ranks\": -3}", .words = "'ranks' of '/segments'"},
        {.run = "{\"ranks\": \"two\"}", .words = "'ranks' of '/segments'"},
        {.run = "{}", .words = "'ranks' of '/segments'"},
        {.run = "[2]", .words = "'ranks' of '/segments'"},
        {.at = 50000000, .words = "the segments of '/layers/000/prefill/lse' in 'joined.h5.segments' hold 12 elements"},
        {.at = 4, .words = "by their places it has 14"},
        {.at = 2, .words = "by their places it has 10"},
        {.overlaps = 1, .words = "segments of '/layers/000/prefill/lse' in 'joined.h5.segments' lie over each other"},
        {.repeats_text = 1, .words = "is in another segment, too"},
        {.cut = 1, .words = "prefill-l000-r001.h5"}};
    lh_h5 *h5;
    ck_assert_msg(join_segments(&(wrong_segments){0}) == LH_OK, "%s", lh_error_message());
    ck_assert_int_eq(lh_h5_open(&h5, "joined.h5", &(lh_h5_header){"trace", 1, NULL}), LH_OK);
    ck_assert_int_eq(lh_h5_compare(h5), LH_OK);
    lh_h5_close(h5);
    remove("joined.h5");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(join_segments(&cases[i]), LH_EFILE);
        ck_assert_msg(strstr(lh_error_message(), cases[i].words) != NULL, "%s: %s", cases[i].words, lh_error_message());
        ck_assert(access("joined.h5", F_OK) != 0);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_even_attention_keeps_the_share_of_the_entries,
                                  test_a_whole_budget_changes_nothing,
                                  test_all_budgets_at_once_are_those_of_each_alone,
                                  test_nothing_keeps_more_than_the_oracle,
                                  test_adaptive_budgets_never_raise_the_bound,
                                  test_a_gain_does_not_change_even_attention,
                                  test_correlations_are_those_of_recorded_rows,
                                  test_a_trace_is_drawn_by_its_columns,
                                  test_what_is_not_finite_is_named_with_its_file,
                                  test_segments_fill_their_arrays_or_are_refused,
                                  NULL};
    return suite_run("replay", tests);
}
