/* Chinese words and the metrics of them, with a small dictionary and a model of nine characters: the words are jieba
 * 0.42.1's with these files, the scores qa_f1_zh_score and rouge_zh_score of LongBench (THUDM/LongBench 2e00731,
 * LongBench/metrics.py) on them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/program.h"
#include "lab/eval/segmenter.h"
#include "lab/eval/task_metrics.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

/* Of a word that is there twice the last line holds. */
static const char dictionary[] = "北京 50 ns\n大学 40 n\n北京大学 30 nt\n大学生 20 n\n学生 30 n\n前来 10 v\n应聘 5 v\n"
                                 "B超 3 n\nC++ 3 n\n的 100 uj\n他 90 r\n来到 20 v\n的 80 uj\n生前 40 t\n";
static const char start[] = "P={'B': -0.2627, 'E': -3.14e+100, 'M': -3.14e+100, 'S': -1.4653}\n";
static const char steps[] = "P={'B': {'E': -0.5108, 'M': -0.9163}, 'E': {'B': -0.5897, 'S': -0.8085},\n"
                            "'M': {'E': -0.3334, 'M': -1.2604}, 'S': {'B': -0.7212, 'S': -0.6659}}\n";
/* 网易杭研厦他的大来 */
static const char characters[] =
    "from __future__ import unicode_literals\n\n"
    "P={'B': {'\\u7f51': -7.187, '\\u6613': -8.842, '\\u676d': -8.515, '\\u7814': -6.454, '\\u53a6': -10.075, "
    "'\\u4ed6': -5.823, '\\u7684': -8.393, '\\u5927': -4.615, '\\u6765': -6.497},\n"
    "'M': {'\\u7f51': -8.878, '\\u6613': -7.394, '\\u676d': -9.853, '\\u7814': -8.275, '\\u53a6': -11.681, "
    "'\\u4ed6': -8.933, '\\u7684': -7.242, '\\u5927': -3.846, '\\u6765': -6.042},\n"
    "'E': {'\\u7f51': -7.966, '\\u6613': -7.174, '\\u676d': -11.538, '\\u7814': -8.508, '\\u53a6': -10.366, "
    "'\\u4ed6': -7.164, '\\u7684': -6.412, '\\u5927': -5.468, '\\u6765': -4.917},\n"
    "'S': {'\\u7f51': -8.332, '\\u6613': -8.69, '\\u676d': -10.061, '\\u7814': -10.711, '\\u53a6': -11.602, "
    "'\\u4ed6': -4.313, '\\u7684': -2.24, '\\u5927': -5.337, '\\u6765': -5.223}}\n";

static void write_files(void)
{
    program_must(system("mkdir -p jieba/finalseg") == 0, "folder");
    program_file("jieba/dict.txt", dictionary);
    program_file("jieba/finalseg/prob_start.py", start);
    program_file("jieba/finalseg/prob_trans.py", steps);
    program_file("jieba/finalseg/prob_emit.py", characters);
}

static lh_segmenter *open_segmenter(void)
{
    lh_segmenter *s = NULL;
    uint64_t hash = 0;
    write_files();
    OK(lh_segmenter_open(&s, "jieba", &hash));
    ck_assert(hash != 0);
    return s;
}

/* Appends a word and a bar. */
static lh_status put(void *self, const char *word, int64_t bytes)
{
    LH_TRY(lh_buf_append(self, word, bytes));
    return lh_buf_puts(self, "|");
}

START_TEST(test_words_are_those_of_jieba)
{
    static const char *const cases[][2] = {
        {"他来到网易杭研大厦", "他|来到|网易|杭|研大厦|"},
        {"北京大学生前来应聘", "北京|大学生|前来|应聘|"},
        {"B超和C++的 3.5%，.5 x_y\r\n完", "B超|和|C++|的| |3.5%|，|.|5| |x|_|y|\r\n|完|"},
        {"大大大的", "大大大|的|"},
        {"网易 abc易", "网易| |abc|易|"},
        {"", ""}};
    lh_segmenter *s = open_segmenter();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf words = {0};
        OK(lh_buf_puts(&words, ""));
        OK(lh_segmenter_cut(s, cases[i][0], put, &words));
        ck_assert_str_eq(words.data, cases[i][1]);
        lh_buf_clear(&words);
    }
    lh_segmenter_close(s);
}
END_TEST

START_TEST(test_scores_of_chinese_words_are_those_of_longbench)
{
    static const struct {
        const char *metric, *answer, *right;
        double score;
    } cases[] = {{"f1-chinese", "北京大学生前来应聘。", "北京的大学生，前来", 75},
                 {"f1-chinese", "网易杭研. 大厦", "杭研大厦。", 0},
                 {"f1-chinese", "", "北京", 0},
                 {"rouge-l-chinese", "北京大学生前来应聘。", "北京的大学生，前来", 59.999999500000001},
                 {"rouge-l-chinese", "网易杭研. 大厦", "杭研大厦。", 0},
                 {"rouge-l-chinese", "", "北京", 0}};
    lh_segmenter *s = open_segmenter();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double score = -1;
        char *right = (char *)(uintptr_t)cases[i].right;
        const lh_task_metric *metric = lh_task_metric_find(cases[i].metric);
        ck_assert(metric && metric->needs_words);
        OK(lh_task_metric_score(metric, cases[i].answer, &(lh_task_truth){&right, 1, NULL, 0, s}, &score));
        ck_assert_msg(fabs(score - cases[i].score) < 1e-9, "case %zu: %.12g", i, score);
    }
    lh_segmenter_close(s);
}
END_TEST

START_TEST(test_damaged_files_are_refused)
{
    static const struct {
        const char *path, *text, *says;
    } cases[] = {{"jieba/dict.txt", "北京 50 ns\n大学\n", "'jieba/dict.txt' is no dictionary of jieba: line 2"},
                 {"jieba/dict.txt", "北京 x ns\n", "line 1 is no 'WORD COUNT TAG'"},
                 {"jieba/dict.txt", "北京 -1\n", "line 1 is no"},
                 {"jieba/dict.txt", "", "counts no word"},
                 {"jieba/finalseg/prob_emit.py", "P={'B': {", "'jieba/finalseg/prob_emit.py' is no model of jieba"},
                 {"jieba/finalseg/prob_start.py", "", "is no model of jieba"},
                 {"jieba/finalseg/prob_start.py", "P={}", "'jieba/finalseg/prob_start.py' is no model of jieba"},
                 {"jieba/finalseg/prob_start.py", "P={'B': -1, 'E': -1, 'M': '-1', 'S': -1}", "of the state 'M'"},
                 {"jieba/finalseg/prob_trans.py", "P={'B': {'E': -1}, 'E': {'S': -1}, 'S': {'B': -1}}", "state 'M'"},
                 {"jieba/finalseg/prob_trans.py", "P={'B': {'x': -1}}", "no log-probability of the state 'B'"},
                 {"jieba/finalseg/prob_emit.py", "P={'B': {'\\u7f51': -1}, 'M': {}}", "state 'M'"},
                 {"jieba/finalseg/prob_emit.py", "P={'B': -1}", "state 'B'"}};
    lh_segmenter *s = NULL;
    uint64_t hash;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_files();
        program_file(cases[i].path, cases[i].text);
        ck_assert_int_eq(lh_segmenter_open(&s, "jieba", &hash), LH_EINPUT);
        ck_assert_msg(strstr(lh_error_message(), cases[i].says) != NULL, "case %zu: %s", i, lh_error_message());
    }
    ck_assert(lh_segmenter_open(&s, "nowhere", &hash) != LH_OK);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "nowhere/dict.txt"));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_words_are_those_of_jieba, test_scores_of_chinese_words_are_those_of_longbench,
                                  test_damaged_files_are_refused, NULL};
    program_enter();
    int code = suite_run("segmenter", tests);
    program_leave();
    return code;
}
