/* Results as CSV, JSON, HDF5 and text, and the texts that tasks read. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/output.h"
#include "base/table.h"
#include "base/temporary.h"
#include "lab/eval/input_files.h"
#include "lab/eval/measures.h"
#include "lab/eval/task_scores.h"
#include "suite.h"

static const lh_column columns[] = {{"policy", "", LH_COLUMN_LABEL},
                                    {"tokens", "tokens", LH_COLUMN_I64},
                                    {"share", "share of 1", LH_COLUMN_F64},
                                    {"answer", "", LH_COLUMN_TEXT},
                                    {NULL, NULL, LH_COLUMN_TEXT}};

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

static void add(lh_table *table, const char *policy, int64_t tokens, double share, const char *answer)
{
    OK(lh_table_add(table, (lh_cell[]){{.text = policy}, {.number = tokens}, {.value = share}, {.text = answer}}));
}

static lh_table some_table(void)
{
    lh_table table;
    lh_table_init(&table, columns);
    add(&table, "snapkv", 7, 0.5, "plain");
    add(&table, "full", INT64_C(1) << 40, (double)NAN, "a \"quoted\", long\nanswer");
    add(&table, "snapkv", -1, 1.0 / 3, NULL);
    return table;
}

/* The folder of this program, below which tests make files. */
static void enter_folder(void)
{
    char folder[TEMPORARY_BYTES];
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(folder, "/tmp")));
    ck_assert_int_eq(chdir(folder), 0);
}

START_TEST(test_csv_quotes_what_needs_it)
{
    lh_table table = some_table();
    lh_buf text = {0};
    OK(lh_table_csv(&table, &text));
    ck_assert_str_eq(text.data, "policy,tokens,share,answer\n"
                                "snapkv,7,0.5,plain\n"
                                "full,1099511627776,,\"a \"\"quoted\"\", long\nanswer\"\n"
                                "snapkv,-1,0.333333333,\n");
    lh_buf_clear(&text);
    lh_table_clear(&table);
}
END_TEST

START_TEST(test_json_has_null_where_there_is_no_number)
{
    lh_table table = some_table();
    json_t *rows = NULL;
    OK(lh_table_json(&table, &rows));
    ck_assert_uint_eq(json_array_size(rows), 3);
    const json_t *row = json_array_get(rows, 1);
    ck_assert(json_is_null(json_object_get(row, "share")));
    ck_assert_int_eq(json_integer_value(json_object_get(row, "tokens")), INT64_C(1) << 40);
    ck_assert_str_eq(json_string_value(json_object_get(row, "answer")), "a \"quoted\", long\nanswer");
    json_decref(rows);
    lh_table_clear(&table);
}
END_TEST

START_TEST(test_an_analysis_file_gives_the_columns_back)
{
    enter_folder();
    lh_table table = some_table();
    lh_h5 *h5 = NULL;
    lh_h5_shape shape;
    int32_t *codes = NULL;
    int64_t *tokens = NULL, bytes;
    float *share = NULL;
    char *labels = NULL, *unit = NULL, *answers = NULL;
    OK(lh_h5_create(&h5, "a.h5", &(lh_h5_header){"analysis", 1, "{}"}));
    OK(lh_table_h5(&table, h5, "/task/rows"));
    OK(lh_h5_commit(h5));
    OK(lh_h5_open(&h5, "a.h5", &(lh_h5_header){"analysis", 1, NULL}));
    OK(lh_h5_get(h5, "/task/rows/policy", &(lh_h5_shape){LH_I32, 1, {3}}, &shape, &codes));
    OK(lh_h5_get(h5, "/task/rows/tokens", &(lh_h5_shape){LH_I64, 1, {3}}, &shape, &tokens));
    OK(lh_h5_get(h5, "/task/rows/share", &(lh_h5_shape){LH_F32, 1, {3}}, &shape, &share));
    OK(lh_h5_get_text(h5, "/task/rows/answer", &answers, &bytes));
    OK(lh_h5_get_string(h5, "/task/rows/policy", "labels", &labels));
    OK(lh_h5_get_string(h5, "/task/rows/tokens", "unit", &unit));
    ck_assert(codes[0] == 0 && codes[1] == 1 && codes[2] == 0);
    ck_assert(tokens[1] == INT64_C(1) << 40 && tokens[2] == -1);
    ck_assert(share[0] == 0.5f && isnan(share[1]) && share[2] == (float)(1.0 / 3));
    ck_assert_str_eq(labels, "[\"snapkv\",\"full\"]");
    ck_assert_str_eq(unit, "tokens");
    ck_assert_str_eq(answers, "[\"plain\",\"a \\\"quoted\\\", long\\nanswer\",\"\"]");
    lh_h5_close(h5);
    lh_free(codes);
    lh_free(tokens);
    lh_free(share);
    lh_free(labels);
    lh_free(unit);
    lh_free(answers);
    lh_table_clear(&table);
    unlink("a.h5");
}
END_TEST

static lh_status budget_cell(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    (void)self;
    return lh_buf_printf(out, "%s%%", choice->budget);
}

START_TEST(test_a_grid_has_policies_down_and_budgets_across)
{
    lh_policy_list list;
    lh_buf text = {0};
    OK(lh_policy_list_resolve(&list,
                              &(lh_policy_options){.policy = "snapkv,h2o --budget 9,tova", .budget = "128,50%"}));
    OK(lh_grid_print(&list, &(lh_grid){NULL, budget_cell}, &text));
    ck_assert_str_eq(text.data, "| policy | all |  128 |  50% |  9 |\n"
                                "|--------|----:|-----:|-----:|---:|\n"
                                "| full   |   % |      |      |    |\n"
                                "| snapkv |     | 128% | 50%% |    |\n"
                                "| h2o    |     |      |      | 9% |\n"
                                "| tova   |     | 128% | 50%% |    |\n");
    lh_buf_clear(&text);
    lh_policy_list_clear(&list);
}
END_TEST

static double mean_of(const lh_table *means, int64_t row, const char *name)
{
    int64_t c = 0;
    while (strcmp(means->columns[c].name, name) != 0) c++;
    return lh_table_row(means, row)[c].value;
}

/* Two prompts of one task, the second with a right answer without tokens, and one of another task. */
START_TEST(test_means_of_scores_are_over_prompts_and_their_average_over_tasks)
{
    static const char *const tasks[] = {"vt", "vt", "fwe"};
    static const double scores[] = {100, 40, 20};
    static const lh_answer_likelihood right[] = {{4, 3, 2}, {0}, {2, 0, 6}};
    static const double expected[][4] = {{70, 0.5, 0.5, 0.75}, {20, 0, 3, 0}, {45, 0.25, 1.75, 0.375}};
    static const char *const names[] = {"score", "exact", "answer_nll", "answer_best"};
    enum { LENGTH = 64 };
    lh_policy_list list;
    lh_table means;
    lh_buf text = {0};
    OK(lh_policy_list_resolve(&list, &(lh_policy_options){.policy = "full"}));
    const lh_eval_setup setup = {.policies = &list, .model = "m"};
    lh_task_scores all = {.setup = &setup, .task_count = 2, .length_count = 1};
    OK(lh_calloc((void *)&all.tasks, 2, sizeof *all.tasks));
    OK(lh_calloc(&all.lengths, 1, sizeof *all.lengths));
    all.tasks[0] = "vt";
    all.tasks[1] = "fwe";
    all.lengths[0] = LENGTH;
    lh_table_init(&all.answers, lh_task_score_columns);
    for (int i = 0; i < 3; i++)
        OK(lh_task_scores_add(&all.answers, &(lh_task_score){.choice = &list.at[0],
                                                             .length = LENGTH,
                                                             .task = tasks[i],
                                                             .expected = "a",
                                                             .answer = "b",
                                                             .value = scores[i],
                                                             .right = &right[i],
                                                             .figures = &(lh_eval_figures){0}}));
    OK(lh_task_scores_means(&all, &means));
    ck_assert_int_eq(means.n, 3);
    for (int t = 0; t < 3; t++)
        for (int m = 0; m < 4; m++) ck_assert_double_eq(mean_of(&means, t, names[m]), expected[t][m]);
    /* Wilson's intervals are 17.427 to 96.268 and 0.953 to 86.654: 45 - sqrt((70 - 17.427)^2 + (20 - 0.953)^2) / 2 */
    ck_assert_double_eq_tol(mean_of(&means, 2, "ci_low"), 17.0415692, 1e-6);
    ck_assert_double_eq_tol(mean_of(&means, 2, "ci_high"), 80.8215097, 1e-6);
    OK(lh_task_scores_print(&all, &text));
    ck_assert_ptr_nonnull(strstr(text.data, "| task        |         full |\n"));
    ck_assert_ptr_nonnull(strstr(text.data, "| vt          | 70.0 (17–96) |\n| fwe         |  20.0 (1–87) |\n"
                                            "| average     | 45.0 (17–81) |\n| answer_nll  |         1.75 |\n"
                                            "| answer_best |         0.38 |\n"));
    lh_buf_clear(&text);
    lh_table_clear(&means);
    lh_task_scores_clear(&all);
    lh_policy_list_clear(&list);
}
END_TEST

static void put(const char *name, const char *text)
{
    OK(lh_file_write(name, text, (int64_t)strlen(text)));
}

START_TEST(test_texts_of_a_folder_come_in_the_order_of_their_names)
{
    enter_folder();
    lh_texts texts;
    lh_buf all = {0};
    ck_assert_int_eq(mkdir("folder", 0777) | mkdir("folder/c.txt", 0777) | mkdir("empty", 0777), 0);
    put("folder/b.txt", "second");
    put("folder/a.md", "first");
    put("folder/Z.txt", "capitals come first");
    put("folder/LICENSE", "no text of the haystack");
    put("folder/.hidden.txt", "no text of the haystack, either");
    put("folder/d.MD", "last");
    OK(lh_texts_read(&texts, "--text", "folder"));
    OK(lh_texts_join(&texts, &all));
    ck_assert_str_eq(all.data, "capitals come first\n\nfirst\n\nsecond\n\nlast");
    lh_texts_clear(&texts);
    lh_buf_clear(&all);
    OK(lh_texts_read(&texts, "--text", "folder/LICENSE")); /* a file is a text, whatever its name */
    ck_assert_int_eq(texts.n, 1);
    lh_texts_clear(&texts);
    put("nothing.txt", "");
    put("wide.txt", "\xFF\xFE of UTF-16");
    OK(lh_file_write("zero.txt", "a\0b", 3));
    static const struct {
        const char *path, *part;
    } bad[] = {{"empty", "has no text"},
               {"nothing.txt", "is empty"},
               {"zero.txt", "zero byte"},
               {"not-there", "not-there"},
               {"wide.txt", "'wide.txt' is UTF-16"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(lh_texts_read(&texts, "--text", bad[i].path), LH_EINPUT);
        ck_assert_msg(strstr(lh_error_message(), bad[i].part) != NULL, "%s", lh_error_message());
    }
    ck_assert_int_eq(system("rm -r folder empty nothing.txt zero.txt wide.txt"), 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_csv_quotes_what_needs_it,
                                  test_json_has_null_where_there_is_no_number,
                                  test_an_analysis_file_gives_the_columns_back,
                                  test_a_grid_has_policies_down_and_budgets_across,
                                  test_means_of_scores_are_over_prompts_and_their_average_over_tasks,
                                  test_texts_of_a_folder_come_in_the_order_of_their_names,
                                  NULL};
    return suite_run("tables", tests);
}
