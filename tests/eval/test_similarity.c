/* Measures against what rouge-score 0.1.2 (RougeScorer without stemmer, F1) and sacrebleu 2.6.0 (sentence_bleu / 100)
 * gave for the same texts; and laws. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/eval/task_metrics.h"
#include "lab/eval/text_metrics.h"
#include "model/sampler.h"
#include "suite.h"

static const struct {
    const char *reference, *candidate;
    double rouge1, rouge2, rougel, bleu;
} fixtures[] = {
    {"the cat sat on the mat", "the cat sat on the mat", 1, 1, 1, 1},
    {"the cat sat on the mat", "on the mat the cat sat", 1, 0.8, 0.5, 0.508132748155},
    {"the cat sat on the mat", "a dog", 0, 0, 0, 0},
    {"", "", 0, 0, 0, 0},
    {"", "word", 0, 0, 0, 0},
    {"word", "", 0, 0, 0, 0},
    {"word", "word", 1, 0, 1, 1},
    {"Hello, World! It's 3.14 -- or 2,000.50?", "hello world its 3.14 or 2,000.50", 0.842105263158, 0.705882352941,
     0.842105263158, 0.0922364410103},
    {"It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness.",
     "It was the best of times; it was the worst of days, it was an age of wisdom & it was the age of fools.", 0.875,
     0.782608695652, 0.875, 0.508458161545},
    {"The quick brown fox jumps over the lazy dog.", "The fast brown fox jumped over the lazy dog. The end.", 0.7,
     0.444444444444, 0.7, 0.343893121766},
    {"a b c d e f g h", "a b", 0.4, 0.25, 0.4, 0.0497870683679},
    {"a b", "a b c d e f g h", 0.4, 0.25, 0.4, 0.110447955671},
    {"one two three four five", "five four three two one", 1, 0, 0.2, 0.159735776062},
    {"Don't panic: 10-20% of \"users\" (about 1,500) said <no>, e.g. at 9:30.",
     "Don't panic - 10-20 % of users (about 1500) said no, e.g. at 9.30.", 0.909090909091, 0.838709677419,
     0.909090909091, 0.34349914234},
    {"caf\303\251 d\303\251j\303\240 vu, na\303\257ve r\303\251sum\303\251\342\200\224again\342\200\246 "
     "and\302\240again",
     "cafe d\303\251j\303\240 vu na\303\257ve r\303\251sum\303\251 \342\200\224 again ... and again", 0.909090909091,
     0.9, 0.909090909091, 0.101279930136},
    {"line one\nline two-\nthree &amp; &quot;four&quot; &lt;five&gt; <skipped>six",
     "line one line twothree & \"four\" <five> six", 0.571428571429, 0.210526315789, 0.571428571429, 1},
    {"x..y,,z 1.5.2 3- 4-5 -6 ,7 8, .9 a.b", "x . . y , z 1.5.2 3 - 4 - 5 -6 , 7 8 , .9 a . b", 1, 1, 1,
     0.917516901629},
    {"the the the the the the the", "the cat is on the mat", 0.307692307692, 0, 0.307692307692, 0.0817060972442},
};
enum { PAIRS = sizeof fixtures / sizeof *fixtures };

static lh_similarity similarity(const char *reference, const char *candidate)
{
    lh_similarity out;
    ck_assert_int_eq(lh_similarity_of(&out, reference, candidate), LH_OK);
    return out;
}

START_TEST(test_rouge_and_bleu_are_those_of_their_references)
{
    for (int i = 0; i < PAIRS; i++) {
        lh_similarity got = similarity(fixtures[i].reference, fixtures[i].candidate);
        /* the fixtures have twelve digits */
        ck_assert_msg(fabs(got.rouge1 - fixtures[i].rouge1) < 1e-11 && fabs(got.rouge2 - fixtures[i].rouge2) < 1e-11 &&
                          fabs(got.rougel - fixtures[i].rougel) < 1e-11 && fabs(got.bleu - fixtures[i].bleu) < 1e-11,
                      "pair %d: %.12g %.12g %.12g %.12g", i, got.rouge1, got.rouge2, got.rougel, got.bleu);
    }
}
END_TEST

/* Right answer, answer, and what compute_exact and compute_f1 of transformers 4.44.2 (data/metrics/squad_metrics.py,
 * the functions of SQuAD 2.0's script) and rouge-score 0.1.2 give. */
static const struct {
    const char *right, *answer;
    int exact;
    double f1, rougel;
} answers[] = {
    {"\304\260stanbul'da 5 \342\204\252", "i 5 k", 0, 0.666666666667, 0.75},
    {"Paris", "Paris", 1, 1, 1},
    {"Paris", "The answer is Paris.", 0, 0.5, 0.4},
    {"the cat", "A cat!", 1, 1, 0.5},
    {"An apple a day", "apple day", 1, 1, 0.666666666667},
    {"", "", 1, 1, 0},
    {"", "the", 1, 1, 0},
    {"the", "", 1, 1, 0},
    {"yes", "no", 0, 0, 0},
    {"Denver Broncos", " denver   broncos\012", 1, 1, 1},
    {"42", "42.0", 0, 0, 0.666666666667},
    {"3,000 people", "3000 people", 1, 1, 0.4},
    {"a b c a", "a a b b", 0, 0.5, 0.5},
    {"well-known", "well known", 0, 0, 1},
    {"U.S.A.", "usa", 1, 1, 0},
    {"\303\211mile Zola", "\303\251mile zola", 1, 1, 1},
    {"CAF\303\211 the '\303\204rger'", "caf\303\251 \303\244rger", 1, 1, 0.8},
    {"\316\237\316\224\316\237\316\243 \316\243\316\237\316\246\316\237\316\243",
     "\316\277\316\264\316\277\317\202 \317\203\316\277\317\206\316\277\317\202", 1, 1, 0},
    {"\304\260stanbul", "istanbul", 0, 0, 0},
    {"the_end a_b", "theend ab", 1, 1, 0},
    {"\302\240x\342\200\203y\343\200\200z", "x y z", 1, 1, 1},
    {"na\303\257ve \342\200\234quote\342\200\235 a", "\342\200\234quote\342\200\235 na\303\257ve", 0, 1,
     0.571428571429},
    {"a\314\201 b", "b", 0, 0.666666666667, 0.666666666667},
    {"\357\254\201ve \307\205", "FIVE \307\206", 0, 0.5, 0},
    {"one two three four", "four three two one", 0, 1, 0.25},
    {"May 1st, 1999", "1 May 1999", 0, 0.666666666667, 0.666666666667},
    {"in the 1990s", "1990s", 0, 0.666666666667, 0.5},
    {"Thethe an anthem a-the", "anthem thethe athe", 0, 1, 0.25},
    {"\345\214\227\344\272\254 a \345\244\247\345\255\246", "\345\214\227\344\272\254 \345\244\247\345\255\246", 1, 1,
     0},
    {"Stra\303\237e", "STRASSE", 0, 0, 0},
    {"1/2 (half)", "12 half", 1, 1, 0.4},
    {"\302\252 the \302\272", "\302\252 \302\272", 1, 1, 0},
    {"the\302\262", "the 2", 0, 0, 0.666666666667},
};
enum { ANSWERS = sizeof answers / sizeof *answers };

/* By the metrics "exact", "f1" and "rouge-l", from 0 to 1. */
static void score_answer(double out[3], const char *answer, const char *const *right, int64_t n)
{
    static const char *const names[] = {"exact", "f1", "rouge-l"};
    const lh_task_truth truth = {.answers = (char *const *)(uintptr_t)right, .answer_count = n};
    for (int m = 0; m < 3; m++) {
        ck_assert_int_eq(lh_task_metric_score(lh_task_metric_find(names[m]), answer, &truth, &out[m]), LH_OK);
        out[m] /= 100;
    }
}

START_TEST(test_answers_score_as_squad_and_rouge_score_them)
{
    double got[3];
    for (int i = 0; i < ANSWERS; i++) {
        score_answer(got, answers[i].answer, &answers[i].right, 1);
        ck_assert_msg(got[0] == answers[i].exact && fabs(got[1] - answers[i].f1) < 1e-11 &&
                          fabs(got[2] - answers[i].rougel) < 1e-11,
                      "'%s', '%s': %g %.12g %.12g", answers[i].right, answers[i].answer, got[0], got[1], got[2]);
    }
    /* each measure is the best of all right answers */
    static const char *const right[] = {"four three two one", "1, 2, 3", "one two three"};
    score_answer(got, "one two three four", right, 3);
    ck_assert(got[0] == 0 && got[1] == 1 && fabs(got[2] - 6.0 / 7) < 1e-12);
}
END_TEST

/* A text of `words` words out of `kinds`. */
static char *random_text(unsigned seed, int words, int kinds)
{
    lh_buf text = {0};
    srand(seed);
    for (int i = 0; i < words; i++)
        ck_assert_int_eq(lh_buf_printf(&text, "%sw%d", i ? " " : "", rand() % kinds), LH_OK);
    return text.data;
}

START_TEST(test_similarity_of_long_texts_stays_in_its_bounds)
{
    for (unsigned seed = 1; seed < 40; seed++) {
        char *a = random_text(seed, 1 + (int)seed * 7, 1 + (int)seed % 9);
        char *b = random_text(seed + 100, 1 + (int)seed * 5, 1 + (int)seed % 7);
        lh_similarity ab = similarity(a, b), ba = similarity(b, a), aa = similarity(a, a);
        ck_assert(ab.rouge1 == ba.rouge1 && ab.rouge2 == ba.rouge2 && ab.rougel == ba.rougel); /* F1 is symmetric */
        ck_assert(ab.rougel <= ab.rouge1 && ab.rouge1 <= 1 && ab.bleu >= 0 && ab.bleu <= 1);
        ck_assert(aa.rouge1 == 1 && aa.rougel == 1 && fabs(aa.bleu - 1) < 1e-12);
        free(a);
        free(b);
    }
}
END_TEST

/* Longest common subsequence, by its definition. */
static int64_t common(const lh_word_pair *p, int64_t i, int64_t j)
{
    if (i == 0 || j == 0) return 0;
    if (p->ids[0][i - 1] == p->ids[1][j - 1]) return 1 + common(p, i - 1, j - 1);
    int64_t a = common(p, i - 1, j), b = common(p, i, j - 1);
    return a > b ? a : b;
}

START_TEST(test_the_longest_common_subsequence_is_that_of_its_definition)
{
    for (unsigned seed = 1; seed < 60; seed++) {
        char *a = random_text(seed, 9, 4), *b = random_text(seed + 1000, 8, 4);
        lh_word_pair pair;
        int64_t length;
        ck_assert_int_eq(lh_word_pair_make(&pair, (const char *const[2]){a, b}, LH_CUT_ROUGE), LH_OK);
        ck_assert_int_eq(lh_word_pair_common(&pair, &length), LH_OK);
        ck_assert_int_eq(length, common(&pair, 9, 8));
        lh_word_pair_clear(&pair);
        free(a);
        free(b);
    }
}
END_TEST

START_TEST(test_answers_are_compared_without_case_and_punctuation)
{
    static const struct {
        const char *text;
        int exact;
        double words;
    } secrets[] = {{"amber giraffe 4172", 1, 1},         {"The passphrase is \"Amber-Giraffe 4172\".", 1, 1},
                   {"AMBER\nGIRAFFE\n4172!", 1, 1},      {"amber giraffe 41727", 0, 2.0 / 3},
                   {"amber giraffe, number 4172", 0, 1}, {"giraffe amber amber", 0, 2.0 / 3},
                   {"a giraffes' ambers", 0, 0},         {"", 0, 0}};
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
        int exact = -1;
        double words = -1;
        ck_assert_int_eq(lh_words_contain(&exact, "amber giraffe 4172", secrets[i].text), LH_OK);
        ck_assert_int_eq(lh_words_found(&words, "amber giraffe 4172", secrets[i].text), LH_OK);
        ck_assert_msg(exact == secrets[i].exact && fabs(words - secrets[i].words) < 1e-15, "'%s': %d, %g",
                      secrets[i].text, exact, words);
    }
    int exact; /* what is no ASCII is a part of words, and has its case */
    ck_assert_int_eq(lh_words_contain(&exact, "großer Bär 7", "der 'großer bär' 7?"), LH_OK);
    ck_assert_int_eq(exact, 1);
    ck_assert_int_eq(lh_words_contain(&exact, "Ähre", "eine ähre"), LH_OK);
    ck_assert_int_eq(exact, 0);
}
END_TEST

/* KL by hand: p = (3/4, 1/4), q = (1/2, 1/2). */
START_TEST(test_kl_of_distributions)
{
    const float p[] = {logf(3), 0}, q[] = {1, 1}, far[] = {0, -200};
    ck_assert_double_eq_tol(lh_kl_of(p, q, 2), 0.75 * log(1.5) + 0.25 * log(0.5), 1e-7);
    ck_assert_double_eq_tol(lh_kl_of(q, p, 2), 0.5 * log(2.0 / 3) + 0.5 * log(2), 1e-7);
    ck_assert_double_eq(lh_kl_of(p, p, 2), 0);
    ck_assert_double_eq_tol(lh_kl_of(q, far, 2), -log(2) + 100, 1e-9); /* finite where a probability is not in float */
    ck_assert_int_eq(lh_best_of((const float[]){1, 5, 5, 2}, 4), 1);
}
END_TEST

/* Gibbs' inequality, and what a constant added to all logits changes: nothing. */
START_TEST(test_kl_is_not_negative_and_knows_no_offset)
{
    float p[50], q[50];
    srand(5);
    for (int n = 0; n < 50; n++) {
        for (int i = 0; i < 50; i++) p[i] = (float)(rand() % 1000) / 100, q[i] = (float)(rand() % 1000) / 100;
        double kl = lh_kl_of(p, q, 50);
        ck_assert_double_gt(kl, 0);
        for (int i = 0; i < 50; i++) q[i] += 64; /* exact in float */
        ck_assert_double_eq_tol(lh_kl_of(p, q, 50), kl, 1e-4);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_rouge_and_bleu_are_those_of_their_references,
                                  test_answers_score_as_squad_and_rouge_score_them,
                                  test_similarity_of_long_texts_stays_in_its_bounds,
                                  test_the_longest_common_subsequence_is_that_of_its_definition,
                                  test_answers_are_compared_without_case_and_punctuation,
                                  test_kl_of_distributions,
                                  test_kl_is_not_negative_and_knows_no_offset,
                                  NULL};
    return suite_run("similarity", tests);
}
