/* task_metrics.c - metrics of RULER (NVIDIA/RULER c3f5e3b, scripts/eval/synthetic/constants.py), LongBench
 * (THUDM/LongBench 2e00731, LongBench/metrics.py and pred.py), InfiniteBench (OpenBMB/InfiniteBench 88b3daa,
 * src/compute_scores.py) and SQuAD (evaluate-v2.0.py), as published. */
#include "lab/eval/task_metrics.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "base/unicode.h"
#include "lab/eval/text_metrics.h"

/* ---- words ---- */

static double f1_of(double same, double precision_of, double recall_of)
{
    return same > 0 ? 2 * same / (precision_of + recall_of) : 0;
}

/* Of the words of two texts; 1 if neither has any. */
static lh_status score_words(const char *answer, const char *right, lh_cut cut, double *score)
{
    lh_status st = LH_OK;
    lh_word_pair pair = {0};
    int64_t same = 0;
    LH_TRY_DONE(lh_word_pair_make(&pair, (const char *const[2]){answer, right}, cut));
    LH_TRY_DONE(lh_word_pair_matches(&pair, 1, &same));
    *score = pair.n[0] + pair.n[1] ? f1_of((double)same, (double)pair.n[0], (double)pair.n[1]) : 1;
done:
    lh_word_pair_clear(&pair);
    return st;
}

static lh_status score_f1(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    (void)truth;
    return score_words(answer, right, LH_CUT_SQUAD, score);
}

/* Of characters, without white space and punctuation (InfiniteBench, longbook_qa_chn). */
static lh_status score_f1_characters(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    (void)truth;
    return score_words(answer, right, LH_CUT_CHARACTERS, score);
}

static lh_status score_exact(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    lh_status st = LH_OK;
    lh_buf texts[2] = {{0}};
    (void)truth;
    LH_TRY_DONE(lh_squad_normalise(&texts[0], answer));
    LH_TRY_DONE(lh_squad_normalise(&texts[1], right));
    *score = strcmp(texts[0].data, texts[1].data) == 0;
done:
    lh_buf_clear(&texts[0]);
    lh_buf_clear(&texts[1]);
    return st;
}

/* ROUGE-L of rouge-score 0.1.2 without a stemmer. */
static lh_status score_rouge_l(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    lh_status st = LH_OK;
    lh_word_pair pair = {0};
    int64_t common = 0;
    (void)truth;
    LH_TRY_DONE(lh_word_pair_make(&pair, (const char *const[2]){answer, right}, LH_CUT_ROUGE));
    LH_TRY_DONE(lh_word_pair_common(&pair, &common));
    *score = f1_of((double)common, (double)pair.n[0], (double)pair.n[1]);
done:
    lh_word_pair_clear(&pair);
    return st;
}

static lh_status score_rouge_longbench(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    (void)truth;
    return lh_rouge_of_sentences(score, right, answer);
}

/* ---- Chinese words (LongBench: qa_f1_zh_score, rouge_zh_score) ---- */

/* Appends a word, with a blank between words. */
static lh_status put_word(void *self, const char *word, int64_t bytes)
{
    lh_buf *out = self;
    if (out->bytes) LH_TRY(lh_buf_puts(out, " "));
    return lh_buf_append(out, word, bytes);
}

/* The same of the normalised word, unless it was punctuation or white space alone. */
static lh_status put_normal_word(void *self, const char *word, int64_t bytes)
{
    lh_status st = LH_OK;
    lh_buf copy = {0}, normal = {0};
    LH_TRY_DONE(lh_buf_append(&copy, word, bytes));
    LH_TRY_DONE(lh_chinese_normalise(&normal, copy.data));
    if (normal.bytes) LH_TRY_DONE(put_word(self, normal.data, normal.bytes));
done:
    lh_buf_clear(&copy);
    lh_buf_clear(&normal);
    return st;
}

/* A metric of two texts whose words are separated by blanks. */
typedef lh_status (*blank_metric)(const char *answer, const char *right, const lh_task_truth *truth, double *score);

static lh_status score_cut(const char *const texts[2], const lh_task_truth *truth, lh_word_taker put,
                           blank_metric metric, double *score)
{
    lh_status st = LH_OK;
    lh_buf cut[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        LH_TRY_DONE(lh_buf_puts(&cut[i], ""));
        LH_TRY_DONE(lh_segmenter_cut(truth->words, texts[i], put, &cut[i]));
    }
    LH_TRY_DONE(metric(cut[0].data, cut[1].data, truth, score));
done:
    for (int i = 0; i < 2; i++) lh_buf_clear(&cut[i]);
    return st;
}

static lh_status score_blanks(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    (void)truth;
    return score_words(answer, right, LH_CUT_BLANKS, score);
}

static lh_status score_f1_chinese(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    return score_cut((const char *const[]){answer, right}, truth, put_normal_word, score_blanks, score);
}

static lh_status score_rouge_chinese(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    return score_cut((const char *const[]){answer, right}, truth, put_word, score_rouge_longbench, score);
}

/* ---- classes and numbers ---- */

/* 1 over the number of classes that the answer names, if the right one is among them; a class that is part of the right
 * one does not count. */
static lh_status score_classification(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    lh_status st = LH_OK;
    const char **named = NULL;
    int64_t n = 0, has = 0;
    LH_TRY_DONE(lh_calloc((void *)&named, truth->choice_count, sizeof *named));
    for (int64_t i = 0; i < truth->choice_count; i++)
        if (strstr(answer, truth->choices[i])) named[n++] = truth->choices[i];
    for (int64_t i = 0; i < n; i++) { /* the published script skips the class after a removed one */
        if (!strstr(right, named[i]) || strcmp(right, named[i]) == 0) continue;
        memmove((void *)(named + i), (void *)(named + i + 1), (size_t)(n - i - 1) * sizeof *named);
        n--;
    }
    for (int64_t i = 0; i < n; i++) has |= strcmp(named[i], right) == 0;
    *score = has ? 1.0 / (double)n : 0;
done:
    lh_free((void *)named);
    return st;
}

static const char digits[] = "0123456789";

/* The share of the integers of a text that are wanted[0 … bytes]. */
static double share_of_integers(const char *text, const char *wanted, size_t bytes)
{
    int64_t n = 0, found = 0;
    for (size_t run; *text; text += run) {
        run = strspn(text, digits);
        n += run > 0;
        found += run > 0 && run == bytes && memcmp(text, wanted, bytes) == 0;
        run += run == 0;
    }
    return n ? (double)found / (double)n : 0;
}

static lh_status score_count(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    (void)truth;
    *score = share_of_integers(answer, right, strlen(right));
    return LH_OK;
}

/* The share of the answer's integers that are the number of the right paragraph, "Paragraph 7" or "段落7". */
static lh_status score_retrieval(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    static const char *const names[] = {"Paragraph ", "段落"};
    (void)truth;
    *score = 0;
    for (int i = 0; i < 2; i++)
        for (const char *at = strstr(right, names[i]); at; at = strstr(at + 1, names[i])) {
            const char *number = at + strlen(names[i]);
            const size_t bytes = strspn(number, digits);
            if (!bytes) continue;
            *score = share_of_integers(answer, number, bytes);
            return LH_OK;
        }
    return LH_OK;
}

/* 1 if the first integer of the answer is the right one, digit by digit (InfiniteBench, passkey, number_string). */
static lh_status score_first_integer(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    (void)truth;
    answer += strcspn(answer, digits);
    const size_t bytes = strspn(answer, digits);
    *score = bytes == strlen(right) && memcmp(answer, right, bytes) == 0;
    return LH_OK;
}

/* 1 if the first number of the answer, without its sign, has the right value (InfiniteBench, math_find). */
static lh_status score_first_number(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    char number[64];
    (void)truth;
    answer += strcspn(answer, digits);
    size_t bytes = strspn(answer, digits);
    if (bytes && answer[bytes] == '.') bytes += strspn(answer + bytes + 1, digits) + 1;
    snprintf(number, sizeof number, "%.*s", (int)bytes, answer);
    const double wanted = strtod(right, NULL), first = strtod(number, NULL);
    *score = bytes && (strchr(right, '.') ? first : floor(first)) == wanted;
    return LH_OK;
}

/* ---- words and options of InfiniteBench and LongBench v2 ---- */

/* Appends the words of a text, separated by single blanks, where `blanks` are blanks, too. */
static lh_status put_words(lh_buf *out, const char *text, const char *blanks)
{
    lh_status st = LH_OK;
    lh_buf copy = {0};
    LH_TRY_DONE(lh_buf_puts(&copy, text));
    for (char *at = copy.data; *(at += strcspn(at, blanks)); at++) *at = ' ';
    LH_TRY_DONE(lh_join_words(out, copy.data));
done:
    lh_buf_clear(&copy);
    return st;
}

/* 1 if the integer at the end of the answer is the right one (code_run). */
static lh_status score_last_integer(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    lh_status st = LH_OK;
    lh_buf words = {0};
    char *end;
    (void)truth;
    LH_TRY_DONE(put_words(&words, answer, "\n.`'\":"));
    const char *blank = strrchr(words.data, ' '), *last = blank ? blank + 1 : words.data;
    const long long value = strtoll(last, &end, 10);
    *score = *last && !*end && value == strtoll(right, NULL, 10);
done:
    lh_buf_clear(&words);
    return st;
}

static const char punctuation[] = "\n:\"'.,?!{}";

/* 1 if the right answer is a word of the answer (kv_retrieval). */
static lh_status score_word(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    lh_status st = LH_OK;
    lh_buf words = {0}, wanted = {0};
    (void)truth;
    LH_TRY_DONE(lh_buf_puts(&words, " "));
    LH_TRY_DONE(put_words(&words, answer, punctuation));
    LH_TRY_DONE(lh_buf_puts(&words, " "));
    LH_TRY_DONE(lh_buf_printf(&wanted, " %s ", right));
    *score = !strchr(right, ' ') && strstr(words.data, wanted.data) != NULL;
done:
    lh_buf_clear(&words);
    lh_buf_clear(&wanted);
    return st;
}

/* The same for names in capitals: the case of the answer's ASCII letters does not count (longdialogue_qa_eng). */
static lh_status score_name(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    lh_status st = LH_OK;
    lh_buf capitals = {0};
    LH_TRY_DONE(lh_buf_puts(&capitals, answer));
    for (char *c = capitals.data; *c; c++) *c = (char)toupper((unsigned char)*c);
    LH_TRY_DONE(score_word(capitals.data, right, truth, score));
done:
    lh_buf_clear(&capitals);
    return st;
}

/* The letter of the right option, '\0' if it is not among the choices. */
static char letter_of(const char *right, const lh_task_truth *truth)
{
    if (right[0] >= 'A' && right[0] <= 'Z' && !right[1]) return right[0];
    for (int64_t i = 0; i < truth->choice_count && i < 26; i++)
        if (strcmp(truth->choices[i], right) == 0) return (char)('A' + i);
    return '\0';
}

/* 1 if the text after the first of the phrases that the answer has, and one character, begins with the letter or the
 * text of the right option; -1 if it has none of them. */
static int states_option(const char *answer, const char *const *phrases, char letter, const char *right)
{
    for (; *phrases; phrases++) {
        const char *at = strstr(answer, *phrases);
        if (!at) continue;
        at += strlen(*phrases);
        if (!*at++) return 0;
        return (letter && *at == letter) || strncmp(at, right, strlen(right)) == 0;
    }
    return -1;
}

/* longbook_choice_eng: the letter at the beginning, the option itself, what follows "answer is", or the first letter
 * that stands alone. */
static lh_status score_option(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    static const char *const phrases[] = {"answer is:", "answer:", "answer is", "option is", NULL};
    lh_status st = LH_OK;
    lh_buf words = {0};
    const char letter = letter_of(right, truth);
    answer += strspn(answer, " \t\r\n");
    *score = letter && *answer == letter;
    if (!*answer || strchr("ABCD", *answer)) return LH_OK;
    LH_TRY_DONE(put_words(&words, answer, "\n\"'.,?!{}"));
    const int stated = states_option(words.data, phrases, letter, right);
    *score = strcmp(answer, right) == 0 || stated == 1;
    for (const char *at = words.data; stated < 0 && *score == 0 && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strchr("ABCD", *at) && (at[1] == ' ' || !at[1])) {
            *score = *at == letter;
            break;
        }
done:
    lh_buf_clear(&words);
    return st;
}

/* code_debug: the letter at the beginning with "." or ":", or what follows "answer is:" and the like. */
static lh_status score_option_of_code(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    static const char *const phrases[] = {"answer is:", "is:", "answer:", "correct option is:", NULL};
    lh_status st = LH_OK;
    lh_buf words = {0}, bare = {0};
    const char letter = letter_of(right, truth);
    answer += strspn(answer, " \t\r\n");
    *score = letter && *answer == letter && (answer[1] == '.' || answer[1] == ':');
    if (*score > 0) return LH_OK;
    LH_TRY_DONE(lh_buf_puts(&bare, answer));
    for (char *at = bare.data; (at = strstr(at, "ption")); at++)
        if (at > bare.data && (at[-1] == 'O' || at[-1] == 'o')) memset(at - 1, ' ', 6);
    LH_TRY_DONE(put_words(&words, bare.data, "\n`'\"-*"));
    *score = states_option(words.data, phrases, letter, right) == 1;
done:
    lh_buf_clear(&words);
    lh_buf_clear(&bare);
    return st;
}

/* LongBench v2: "The correct answer is (B)", or without brackets; asterisks do not count. */
static lh_status score_stated_option(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    static const char *const phrases[] = {"The correct answer is (", "The correct answer is "};
    lh_status st = LH_OK;
    lh_buf bare = {0};
    int found = 0;
    *score = 0;
    LH_TRY_DONE(lh_buf_puts(&bare, ""));
    for (; *answer; answer++)
        if (*answer != '*') LH_TRY_DONE(lh_buf_append(&bare, answer, 1));
    for (int i = 0; i < 2 && !found; i++)
        for (const char *at = strstr(bare.data, phrases[i]); at && !found; at = strstr(at + 1, phrases[i])) {
            const char *letter = at + strlen(phrases[i]);
            found = *letter >= 'A' && *letter <= 'D' && (i == 1 || letter[1] == ')');
            if (found) *score = *letter == letter_of(right, truth);
        }
done:
    lh_buf_clear(&bare);
    return st;
}

/* ---- all of several answers ---- */

/* Prepares a prediction as RULER does (postprocess_pred): without white space at both ends, control characters
 * replaced by line ends, in lower case. */
static lh_status prepare(const char *answer, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_buf bare = {0};
    const int64_t bytes = (int64_t)strlen(answer);
    int64_t from = bytes, until = 0;
    int skip;
    for (int64_t at = 0; at < bytes; at += skip) {
        uint32_t cp;
        lh_utf8_read(answer + at, bytes - at, &cp, &skip);
        if (lh_char_is_python_space(cp)) continue;
        if (from == bytes) from = at;
        until = at + skip;
    }
    LH_TRY_DONE(lh_buf_puts(&bare, ""));
    if (until > from) LH_TRY_DONE(lh_buf_append(&bare, answer + from, until - from));
    for (int64_t i = 0; i < bare.bytes; i++)
        if ((unsigned char)bare.data[i] < ' ') bare.data[i] = '\n';
    LH_TRY_DONE(lh_text_lower(out, bare.data));
done:
    lh_buf_clear(&bare);
    return st;
}

/* 1 if the answer contains the right one; case does not count. */
static lh_status score_match(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    lh_status st = LH_OK;
    lh_buf text = {0}, wanted = {0};
    (void)truth;
    LH_TRY_DONE(prepare(answer, &text));
    LH_TRY_DONE(lh_text_lower(&wanted, right));
    *score = strstr(text.data, wanted.data) != NULL;
done:
    lh_buf_clear(&text);
    lh_buf_clear(&wanted);
    return st;
}

/* The share of the right answers that the answer contains. */
static lh_status score_match_all(const char *answer, const lh_task_truth *truth, double *score)
{
    double found = 0, one;
    for (int64_t i = 0; i < truth->answer_count; i++) {
        LH_TRY(score_match(answer, truth->answers[i], truth, &one));
        found += one;
    }
    *score = found / (double)truth->answer_count;
    return LH_OK;
}

/* The share of the right lines before the first wrong one; after the last must come the end, or a closing tag
 * (LongProc, path_traversal). */
static lh_status score_leading_lines(const char *answer, const lh_task_truth *truth, double *score)
{
    int64_t right = 0;
    const char *at = answer + strspn(answer, " \n");
    while (right < truth->answer_count) {
        const char *line = truth->answers[right];
        const size_t bytes = strlen(line);
        if (strncmp(at, line, bytes) != 0 || (at[bytes] != '\n' && at[bytes] != '\0')) break;
        at += bytes + (at[bytes] != '\0');
        right++;
    }
    if (right == truth->answer_count && *at && strncmp(at, "</", 2) != 0) right--;
    *score = (double)right / (double)truth->answer_count;
    return LH_OK;
}

/* The share of the right integers before the first wrong one; signs do not count (InfiniteBench, math_calc). */
static lh_status score_leading_integers(const char *answer, const lh_task_truth *truth, double *score)
{
    int64_t right = 0;
    for (size_t bytes; right < truth->answer_count; right++, answer += bytes) {
        answer += strcspn(answer, digits);
        bytes = strspn(answer, digits);
        if (!bytes || strtoll(answer, NULL, 10) != strtoll(truth->answers[right], NULL, 10)) break;
    }
    *score = (double)right / (double)truth->answer_count;
    return LH_OK;
}

/* ---- lines of code ---- */

typedef struct characters {
    uint32_t *at;
    int64_t n;
} characters;

static lh_status read_characters(characters *out, const char *text, int64_t bytes)
{
    int skip;
    LH_TRY(lh_calloc(&out->at, bytes, sizeof *out->at));
    for (int64_t at = 0; at < bytes; at += skip) lh_utf8_read(text + at, bytes - at, &out->at[out->n++], &skip);
    return LH_OK;
}

/* Two lines, and of the second the characters that difflib leaves out of its search for matches: in a line of 200 or
 * more, the characters that make up more than 1%. */
typedef struct lines {
    characters a, b;
    char *popular;    /* [b.n] */
    int64_t *row[2];  /* [b.n + 1] lengths of matches that end in a character of a */
    int64_t *pending; /* stack of ranges, 4 each */
} lines;

static void find_popular(lines *l)
{
    const int64_t max = l->b.n / 100 + 1;
    for (int64_t j = 0; l->b.n >= 200 && j < l->b.n; j++) {
        int64_t times = 0;
        for (int64_t k = 0; k < l->b.n; k++) times += l->b.at[k] == l->b.at[j];
        l->popular[j] = times > max;
    }
}

/* The longest match in a[range 0 … 1) and b[range 2 … 3), the first of several (difflib.find_longest_match). */
typedef struct match {
    int64_t i, j, n;
} match;

static match find_match(const lines *l, const int64_t *range)
{
    match best = {range[0], range[2], 0};
    int64_t *now = l->row[0], *before = l->row[1];
    memset(before, 0, (size_t)(l->b.n + 1) * sizeof *before);
    for (int64_t i = range[0]; i < range[1]; i++) {
        memset(now, 0, (size_t)(l->b.n + 1) * sizeof *now);
        for (int64_t j = range[2]; j < range[3]; j++) {
            if (l->popular[j] || l->a.at[i] != l->b.at[j]) continue;
            now[j + 1] = (j > range[2] ? before[j] : 0) + 1;
            if (now[j + 1] > best.n) best = (match){i - now[j + 1] + 1, j - now[j + 1] + 1, now[j + 1]};
        }
        int64_t *swap = now;
        now = before;
        before = swap;
    }
    while (best.i > range[0] && best.j > range[2] && l->a.at[best.i - 1] == l->b.at[best.j - 1])
        best = (match){best.i - 1, best.j - 1, best.n + 1};
    while (best.i + best.n < range[1] && best.j + best.n < range[3] &&
           l->a.at[best.i + best.n] == l->b.at[best.j + best.n])
        best.n++;
    return best;
}

/* Characters in all matches: in the longest match, then in the matches on either side of it. */
static int64_t count_matches(lines *l)
{
    int64_t total = 0, depth = 1;
    memcpy(l->pending, (int64_t[]){0, l->a.n, 0, l->b.n}, 4 * sizeof *l->pending);
    while (depth > 0) {
        int64_t range[4];
        memcpy(range, l->pending + 4 * --depth, sizeof range);
        const match m = find_match(l, range);
        if (m.n == 0) continue;
        total += m.n;
        if (range[0] < m.i && range[2] < m.j)
            memcpy(l->pending + 4 * depth++, (int64_t[]){range[0], m.i, range[2], m.j}, sizeof range);
        if (m.i + m.n < range[1] && m.j + m.n < range[3])
            memcpy(l->pending + 4 * depth++, (int64_t[]){m.i + m.n, range[1], m.j + m.n, range[3]}, sizeof range);
    }
    return total;
}

/* In %, rounded to integers. */
static lh_status ratio_of(const char *a, int64_t a_bytes, const char *b, double *ratio)
{
    lh_status st = LH_OK;
    lines l = {0};
    const int64_t b_bytes = (int64_t)strlen(b);
    *ratio = a_bytes == b_bytes && memcmp(a, b, (size_t)a_bytes) == 0 ? 100 : 0;
    if (*ratio > 0 || a_bytes == 0 || b_bytes == 0) return LH_OK;
    LH_TRY_DONE(read_characters(&l.a, a, a_bytes));
    LH_TRY_DONE(read_characters(&l.b, b, b_bytes));
    LH_TRY_DONE(lh_calloc(&l.popular, l.b.n, 1));
    for (int i = 0; i < 2; i++) LH_TRY_DONE(lh_calloc(&l.row[i], l.b.n + 1, sizeof *l.row[i]));
    LH_TRY_DONE(lh_calloc(&l.pending, 4 * (lh_min_i64(l.a.n, l.b.n) + 2), sizeof *l.pending));
    find_popular(&l);
    *ratio = rint(100 * (2 * (double)count_matches(&l) / (double)(l.a.n + l.b.n)));
done:
    lh_free(l.a.at);
    lh_free(l.b.at);
    lh_free(l.popular);
    for (int i = 0; i < 2; i++) lh_free(l.row[i]);
    lh_free(l.pending);
    return st;
}

static int is_code(const char *line, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        if (line[i] == '`' || line[i] == '#' || (line[i] == '/' && i + 1 < bytes && line[i + 1] == '/')) return 0;
    return 1;
}

/* fuzz.ratio of fuzzywuzzy 0.18 (difflib's ratio) of the right line and the answer's first line that is neither a
 * comment nor a fence. */
static lh_status score_code(const char *answer, const char *right, const lh_task_truth *truth, double *score)
{
    const char *line = answer + strspn(answer, "\n");
    int64_t bytes = (int64_t)strcspn(line, "\n");
    (void)truth;
    while (!is_code(line, bytes)) {
        line += bytes + (line[bytes] == '\n');
        bytes = (int64_t)strcspn(line, "\n");
    }
    LH_TRY(ratio_of(line, bytes, right, score));
    *score /= 100;
    return LH_OK;
}

/* ---- the table ---- */

static const lh_task_metric metrics[] = {
    {.name = "string-match-all", .all = score_match_all, .separator = ", "},
    {.name = "string-match-part", .one = score_match},
    {.name = "f1", .one = score_f1},
    {.name = "f1-characters", .one = score_f1_characters},
    {.name = "f1-chinese", .one = score_f1_chinese, .needs_words = 1},
    {.name = "exact", .one = score_exact},
    {.name = "rouge-l", .one = score_rouge_l},
    {.name = "rouge-l-longbench", .one = score_rouge_longbench},
    {.name = "rouge-l-chinese", .one = score_rouge_chinese, .needs_words = 1},
    {.name = "classification", .one = score_classification, .needs_choices = 1},
    {.name = "code-similarity", .one = score_code},
    {.name = "retrieval", .one = score_retrieval},
    {.name = "count", .one = score_count},
    {.name = "first-integer", .one = score_first_integer},
    {.name = "first-number", .one = score_first_number},
    {.name = "last-integer", .one = score_last_integer},
    {.name = "word", .one = score_word},
    {.name = "name", .one = score_name},
    {.name = "option", .one = score_option},
    {.name = "option-of-code", .one = score_option_of_code},
    {.name = "stated-option", .one = score_stated_option},
    {.name = "leading-lines", .all = score_leading_lines, .separator = "\n"},
    {.name = "leading-integers", .all = score_leading_integers, .separator = ", "},
};
enum { METRICS = sizeof metrics / sizeof *metrics };

const char *lh_task_metric_name(int i)
{
    return i < METRICS ? metrics[i].name : NULL;
}

const lh_task_metric *lh_task_metric_find(const char *name)
{
    for (int i = 0; i < METRICS; i++)
        if (strcmp(metrics[i].name, name) == 0) return &metrics[i];
    return NULL;
}

lh_status lh_task_metric_score(const lh_task_metric *metric, const char *answer, const lh_task_truth *truth,
                               double *score)
{
    double best = 0, one;
    if (metric->all) LH_TRY(metric->all(answer, truth, &best));
    for (int64_t i = 0; metric->one && i < truth->answer_count; i++) {
        LH_TRY(metric->one(answer, truth->answers[i], truth, &one));
        best = fmax(best, one);
    }
    *score = 100 * best;
    return LH_OK;
}
