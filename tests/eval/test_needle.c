/* Laws of needle prompts, with a tokenizer of single bytes and with real ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/program.h"
#include "cli/tiny.h"
#include "haystack.h"
#include "import/tokenizer_source.h"
#include "lab/eval/needle_prompt.h"
#include "suite.h"

static const char NEEDLE[] = "The secret passphrase for the {name} is '{secret}'.";
static const char QUESTION[] = "What is the secret passphrase for the {name}?";

static lh_needle_form form_of(const char *haystack, int64_t keys, const lh_chat_format *format)
{
    static lh_needle_kind plain = {"needle", NEEDLE, QUESTION, "{secret}"};
    return (lh_needle_form){.haystack = haystack,
                            .haystack_bytes = (int64_t)strlen(haystack),
                            .kinds = {.at = &plain, .n = 1},
                            .keys = keys,
                            .format = format};
}

/* All that holds for one prompt. */
static void check_prompt(const lh_tokenizer *tok, const lh_needle_form *form, const lh_needle_spec *spec, int64_t slack)
{
    lh_needle needle;
    lh_buf sentence = {0}, text = {0};
    OK(lh_needle_make(&needle, tok, form, spec));
    const int64_t apart = needle.prompt.context.n + needle.prompt.question.n,
                  most = apart > needle.prompt.whole.n ? apart : needle.prompt.whole.n;
    ck_assert_msg(most <= spec->length && most > spec->length - slack, "%lld of %lld tokens", (long long)most,
                  (long long)spec->length);
    /* the needle is there once, between two sentences */
    OK(lh_buf_printf(&sentence, "The secret passphrase for the %s is '%s'.", needle.name, needle.secret));
    ck_assert_int_eq(occurs(needle.text.data, sentence.data), 1);
    ck_assert_int_eq(occurs(needle.text.data, "The secret passphrase"), (int)form->keys);
    ck_assert_int_eq(occurs(needle.text.data, needle.secret), 1);
    ck_assert(strncmp(needle.text.data + needle.needle_at, sentence.data, (size_t)sentence.bytes) == 0);
    ck_assert(needle.needle_at == 0 || lh_sentence_ends(needle.text.data, needle.needle_at - 1));
    /* as deep as it was asked for, but for a sentence and the other needles */
    double at = (double)needle.needle_at / (double)needle.text.bytes;
    double reach = (160.0 + 80 * (double)(form->keys)) / (double)needle.text.bytes;
    ck_assert_msg(fabs(at - spec->depth) <= reach, "depth %g, wanted %g", at, spec->depth);
    /* and as many tokens before it: single sentences differ */
    double token = (double)needle.at_token / (double)needle.prompt.context.n;
    ck_assert_msg(fabs(token - at) <= 0.12, "%g of the tokens, %g of the text", token, at);
    /* both prompts say the same text */
    OK(lh_tokenizer_decode(tok, needle.prompt.whole.ids, needle.prompt.whole.n, &text));
    ck_assert_ptr_nonnull(strstr(text.data, sentence.data));
    ck_assert_ptr_nonnull(strstr(text.data, needle.question.data));
    text.bytes = 0;
    OK(lh_tokenizer_decode(tok, needle.prompt.context.ids, needle.prompt.context.n, &text));
    ck_assert_ptr_null(strstr(text.data, needle.question.data));
    text.bytes = 0;
    OK(lh_tokenizer_decode(tok, needle.prompt.question.ids, needle.prompt.question.n, &text));
    ck_assert_ptr_nonnull(strstr(text.data, needle.question.data));
    lh_buf_clear(&sentence);
    lh_buf_clear(&text);
    lh_needle_clear(&needle);
}

START_TEST(test_a_prompt_has_its_length_and_its_needle_once_at_its_depth)
{
    static const double depths[] = {0, 0.05, 0.31, 0.5, 0.95, 1};
    static const int64_t lengths[] = {700, 1501, 3000};
    char *haystack = make_haystack(200);
    for (int i = 0; i < TOKENIZERS; i++) {
        lh_tokenizer *tok = open_tokenizer(i);
        const lh_chat_format *format = NULL;
        if (tok && tokenizers[i].chat) OK(lh_chat_of(&format, tok));
        for (int d = 0; tok && d < 6; d++)
            for (int l = 0; l < 3; l++)
                for (int chat = 0; chat <= tokenizers[i].chat; chat++) {
                    lh_needle_form form = form_of(haystack, l == 0 ? 1 : 1 + d % 4, chat ? format : NULL);
                    check_prompt(tok, &form, &(lh_needle_spec){lengths[l], depths[d], (uint64_t)(10 * d + l), 0},
                                 tokenizers[i].slack);
                }
        lh_chat_close(format);
        lh_tokenizer_close(tok);
    }
    free(haystack);
}
END_TEST

START_TEST(test_the_seed_makes_the_prompt)
{
    char *haystack = make_haystack(200);
    lh_tokenizer *tok = open_tokenizer(0);
    const lh_chat_format *format = NULL;
    lh_needle a, b;
    int others = 0;
    OK(lh_chat_of(&format, tok));
    lh_needle_form form = form_of(haystack, 3, format);
    OK(lh_needle_make(&a, tok, &form, &(lh_needle_spec){2000, 0.5, 1, 0}));
    for (uint64_t seed = 1; seed < 9; seed++) {
        OK(lh_needle_make(&b, tok, &form, &(lh_needle_spec){2000, 0.5, seed, 0}));
        int same = strcmp(a.text.data, b.text.data) == 0;
        ck_assert_int_eq(same, seed == 1);
        ck_assert(seed != 1 || strcmp(a.secret, b.secret) == 0);
        others += strcmp(a.name, b.name) != 0;
        lh_needle_clear(&b);
    }
    ck_assert_int_gt(others, 0);
    lh_needle_clear(&a);
    lh_chat_close(format);
    lh_tokenizer_close(tok);
    free(haystack);
}
END_TEST

/* No two needles of a prompt share a name, or a word of their secrets. */
START_TEST(test_keys_are_told_apart)
{
    char *haystack = make_haystack(300);
    lh_tokenizer *tok = open_tokenizer(0);
    lh_needle_form form = form_of(haystack, LH_NEEDLE_KEYS, NULL);
    for (uint64_t seed = 0; seed < 5; seed++) {
        lh_needle n;
        char names[LH_NEEDLE_KEYS][32], secrets[LH_NEEDLE_KEYS][3][32];
        OK(lh_needle_make(&n, tok, &form, &(lh_needle_spec){6000, 0.4, seed, 0}));
        const char *at = n.text.data;
        for (int k = 0; k < LH_NEEDLE_KEYS; k++) {
            at = strstr(at, "The secret passphrase for the ");
            ck_assert_ptr_nonnull(at);
            ck_assert_int_eq(sscanf(at, "The secret passphrase for the %31s is '%31s %31s %31[0-9]'.", names[k],
                                    secrets[k][0], secrets[k][1], secrets[k][2]),
                             4);
            for (int j = 0; j < k; j++) {
                ck_assert_str_ne(names[j], names[k]);
                for (int w = 0; w < 3; w++) ck_assert_str_ne(secrets[j][w], secrets[k][w]);
            }
            at++;
        }
        lh_needle_clear(&n);
    }
    lh_tokenizer_close(tok);
    free(haystack);
}
END_TEST

START_TEST(test_what_cannot_be_is_refused)
{
    char *haystack = make_haystack(10);
    lh_tokenizer *tok = open_tokenizer(0);
    lh_needle_form form = form_of(haystack, 1, NULL);
    lh_needle n;
    ck_assert_int_eq(lh_needle_make(&n, tok, &form, &(lh_needle_spec){5000, 0.5, 0, 0}), LH_EINPUT);
    ck_assert_msg(strstr(lh_error_message(), "the haystack is too short") != NULL, "%s", lh_error_message());
    ck_assert_int_eq(lh_needle_make(&n, tok, &form, &(lh_needle_spec){40, 0.5, 0, 0}), LH_EUSAGE);
    ck_assert_msg(strstr(lh_error_message(), "alone are") != NULL, "%s", lh_error_message());
    OK(lh_needle_kinds_check(&form.kinds, 1));
    ck_assert_int_eq(lh_needle_kinds_check(&form.kinds, LH_NEEDLE_KEYS + 1), LH_EUSAGE);
    lh_needle_kinds kinds;
    ck_assert_int_eq(lh_needle_kinds_plain(&kinds, "no secret", QUESTION), LH_EUSAGE);
    OK(lh_needle_kinds_plain(&kinds, "'{secret}'", QUESTION));
    OK(lh_needle_kinds_check(&kinds, 1));
    ck_assert_int_eq(lh_needle_kinds_check(&kinds, 2), LH_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "{name}"));
    lh_needle_kinds_clear(&kinds);
    lh_tokenizer_close(tok);
    free(haystack);
}
END_TEST

/* Every prompt of every kind of the shipped file holds its fact once, and the answer is in it and not in the question;
 * the other facts are of all kinds. */
START_TEST(test_kinds_of_a_file_make_their_prompts)
{
    char *haystack = make_haystack(300);
    lh_tokenizer *tok = open_tokenizer(0);
    uint64_t hash;
    lh_needle_form form = form_of(haystack, 6, NULL);
    OK(lh_needle_kinds_read(&form.kinds, FACTS, NULL, &hash));
    ck_assert_int_eq(form.kinds.n, 8);
    OK(lh_needle_kinds_check(&form.kinds, 6));
    for (int64_t k = 0; k < form.kinds.n; k++) {
        lh_needle n, other;
        int meetings = 0, boxes = 0;
        const lh_needle_spec spec = {4000, 0.4, 7, k}, next = {4000, 0.4, 8, k};
        OK(lh_needle_make(&n, tok, &form, &spec));
        OK(lh_needle_make(&other, tok, &form, &next));
        const char *asked = form.kinds.at[k].question;
        ck_assert_msg(strncmp(n.question.data, asked, strcspn(asked, "{")) == 0, "%s", n.question.data);
        ck_assert_msg(occurs(n.text.data, n.secret) == 1, "%s: '%s'", form.kinds.at[k].name, n.secret);
        ck_assert_ptr_null(strstr(n.question.data, n.secret));
        ck_assert_ptr_null(strchr(n.text.data, '{'));
        ck_assert_ptr_null(strchr(n.question.data, '{'));
        ck_assert_str_ne(n.secret, other.secret);
        const char *fact = n.text.data + n.needle_at, *end = strchr(fact, '.'), *answer = strstr(fact, n.secret);
        ck_assert(answer && answer < end);
        meetings = occurs(n.text.data, "The meeting about"), boxes = occurs(n.text.data, "Box number");
        ck_assert(meetings <= 1 && boxes <= 1); /* six of eight kinds */
        lh_needle_clear(&n);
        lh_needle_clear(&other);
    }
    lh_needle_kinds_clear(&form.kinds);
    lh_tokenizer_close(tok);
    free(haystack);
}
END_TEST

/* The quoted sentence is in the text at its depth, its beginning only there, and the answer goes on from it. */
START_TEST(test_quotes_ask_for_a_sentence_of_the_text)
{
    static const double depths[] = {0, 0.3, 0.5, 0.95};
    char *haystack = make_haystack(300);
    lh_needle_kind quote = {.name = "quote", .question = "Go on: \"{name}\""};
    for (int i = 0; i < TOKENIZERS; i++) {
        lh_tokenizer *tok = open_tokenizer(i);
        const lh_chat_format *format = NULL;
        if (tok && tokenizers[i].chat) OK(lh_chat_of(&format, tok));
        for (int d = 0; tok && d < 4; d++)
            for (int chat = 0; chat <= tokenizers[i].chat; chat++) {
                lh_needle n;
                lh_buf text = {0};
                lh_needle_form form = form_of(haystack, 0, chat ? format : NULL);
                form.kinds.at = &quote;
                OK(lh_needle_make(&n, tok, &form, &(lh_needle_spec){1800, depths[d], (uint64_t)d, 0}));
                const int64_t apart = n.prompt.context.n + n.prompt.question.n;
                ck_assert(apart <= 1800 && apart > 1700 && n.prompt.whole.n <= 1800);
                ck_assert_int_eq(occurs(n.text.data, n.name), 1);
                ck_assert(strncmp(n.text.data + n.needle_at, n.name, strlen(n.name)) == 0);
                ck_assert(strncmp(n.text.data + n.needle_at + strlen(n.name), n.secret, strlen(n.secret)) == 0);
                ck_assert(fabs((double)n.needle_at / (double)n.text.bytes - depths[d]) < 0.2);
                OK(lh_tokenizer_decode(tok, n.prompt.question.ids, n.prompt.question.n, &text));
                ck_assert_int_eq(occurs(text.data, n.name), 2); /* in the question, and where the answer begins */
                lh_buf_clear(&text);
                lh_needle_clear(&n);
            }
        lh_chat_close(format);
        lh_tokenizer_close(tok);
    }
    free(haystack);
}
END_TEST

START_TEST(test_a_text_without_sentences_has_no_quotes)
{
    static char haystack[8000];
    lh_tokenizer *tok = open_tokenizer(0);
    lh_needle_kind quote = {.name = "quote", .question = "Go on: \"{name}\""};
    for (size_t i = 0; i + 6 < sizeof haystack; i += 6) memcpy(haystack + i, i % 30 ? "words " : "some. ", 7);
    lh_needle_form form = form_of(haystack, 0, NULL);
    lh_needle n;
    form.kinds.at = &quote;
    ck_assert_int_eq(lh_needle_make(&n, tok, &form, &(lh_needle_spec){900, 0.5, 1, 0}), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "have no sentence of 10 words to quote"));
    /* with some sentences every seed finds one, wherever it begins first */
    char *sentences = make_haystack(20);
    memcpy(haystack + 4000, sentences, strlen(sentences));
    for (uint64_t seed = 0; seed < 8; seed++) {
        OK(lh_needle_make(&n, tok, &form, &(lh_needle_spec){900, 0.5, seed, 0}));
        ck_assert_int_eq(occurs(n.text.data, n.name), 1);
        lh_needle_clear(&n);
    }
    free(sentences);
    lh_needle_kinds kinds;
    ck_assert_int_eq(lh_needle_kinds_of_quotes(&kinds, "Go on!"), LH_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'--question' has no '{name}'"));
    lh_tokenizer_close(tok);
}
END_TEST

START_TEST(test_kinds_are_chosen_by_name_and_by_use)
{
    static const struct {
        const char *wanted;
        int64_t n;
    } cases[] = {{NULL, 8}, {"choosing", 4}, {"reporting,box", 5}, {"owner", 1}};
    lh_needle_kinds kinds;
    uint64_t hash;
    for (int i = 0; i < 4; i++) {
        OK(lh_needle_kinds_read(&kinds, FACTS, cases[i].wanted, &hash));
        ck_assert_int_eq(kinds.n, cases[i].n);
        lh_needle_kinds_clear(&kinds);
    }
    ck_assert_int_eq(lh_needle_kinds_read(&kinds, FACTS, "box,chairs", &hash), LH_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "the name 'chairs'"));
    ck_assert_int_eq(lh_needle_kinds_read(&kinds, FACTS, "", &hash), LH_EUSAGE);
}
END_TEST

/* A file, and what its message says. */
START_TEST(test_a_file_of_kinds_is_checked)
{
#define KIND(name, fact, question, answer) \
    "{'name':'" name "','fact':'" fact "','question':'" question "','answer':'" answer "'}"
#define GOOD KIND("a", "{name} is {secret}.", "What is {name}?", "{secret}")
    static const struct {
        const char *text, *says;
    } files[] = {
        {"[]", "'kinds' is no array"},
        {"{'kinds':{}}", "'kinds' is no array"},
        {"{'lists':[],'kinds':[" GOOD "]}", "'lists' is no object"},
        {"{'lists':{'x':[]},'kinds':[" GOOD "]}", "list 'x' is empty"},
        {"{'lists':{'x':['a',3]},'kinds':[" GOOD "]}", "list 'x': item 2 is no word"},
        {"{'lists':{'x':{'from':3}},'kinds':[" GOOD "]}", "list 'x' is neither an array of words nor"},
        {"{'lists':{'x':{'from':3,'to':2}},'kinds':[" GOOD "]}", "list 'x' is neither an array of words nor"},
        {"{'lists':{'name':['a']},'kinds':[" GOOD "]}", "a list is called 'name'"},
        {"{'kinds':[" GOOD "," GOOD "]}", "two kinds are called 'a'"},
        {"{'kinds':[3]}", "one of 'kinds'"},
        {"{'kinds':[" KIND("a b", "{name} is {secret}.", "What is {name}?", "{secret}") "]}",
         "needs a 'name' of up to"},
        {"{'kinds':[" KIND("average", "{name} is {secret}.", "What is {name}?", "{secret}") "]}", "not 'average'"},
        {"{'kinds':[{'name':'a','fact':'{secret}'}]}", "kind 'a': 'question' is missing"},
        {"{'kinds':[" KIND("a", "{nme} is {secret}.", "What is {name}?", "{secret}") "]}", "'fact' has {nme}, which"},
        {"{'kinds':[" KIND("a", "It is {secret}.", "What is {name}?", "{secret}") "]}", "the question has {name}"},
        {"{'kinds':[" KIND("a", "It is {name}.", "What?", "{secret}") "]}", "the answer has {secret}"},
        {"{'kinds':[" KIND("a", "{name} is {secret}.", "What is {name}?", "{name}") "]}", "the answer is fixed"},
        {"{'kinds':[" GOOD, "kinds.json"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        lh_needle_kinds kinds;
        uint64_t hash;
        FILE *file = fopen("kinds.json", "w");
        for (const char *c = files[i].text; *c; c++) fputc(*c == '\'' ? '"' : *c, file);
        fclose(file);
        ck_assert_int_eq(lh_needle_kinds_read(&kinds, "kinds.json", NULL, &hash), LH_EINPUT);
        ck_assert_msg(strstr(lh_error_message(), files[i].says) != NULL, "%s", lh_error_message());
    }
}
END_TEST

START_TEST(test_where_sentences_end)
{
    static const char text[] = "One. Two? \"Three!\" (Four.) v1.5 e.g. Mr Five";
    static const int64_t ends[] = {4, 9, 18, 26, 36};
    size_t next = 0;
    for (int64_t i = 0; i <= (int64_t)strlen(text); i++) {
        int expected = next < 5 && ends[next] == i;
        ck_assert_msg(lh_sentence_ends(text, i) == expected, "%lld", (long long)i);
        next += (size_t)expected;
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_prompt_has_its_length_and_its_needle_once_at_its_depth,
                                  test_the_seed_makes_the_prompt,
                                  test_keys_are_told_apart,
                                  test_what_cannot_be_is_refused,
                                  test_kinds_of_a_file_make_their_prompts,
                                  test_quotes_ask_for_a_sentence_of_the_text,
                                  test_a_text_without_sentences_has_no_quotes,
                                  test_kinds_are_chosen_by_name_and_by_use,
                                  test_a_file_of_kinds_is_checked,
                                  test_where_sentences_end,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    int code = suite_run("needle", tests);
    program_leave();
    return code;
}
