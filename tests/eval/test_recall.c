/* Laws of the windows of `recall`, with a tokenizer of single bytes and with real ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "haystack.h"
#include "lab/eval/recall_trace.h"
#include "suite.h"

/* The text of ids[from … to) of prompt and steps together, without white space before and after it. */
static char *text_of(const lh_tokenizer *tok, const lh_recall_trace *trace, int64_t from, int64_t to)
{
    lh_tokens ids = {0};
    lh_buf text = {0};
    for (int64_t i = from; i < to; i++) {
        const int64_t step = i - trace->prompt.n;
        OK(lh_tokens_push(&ids, step < 0 ? trace->prompt.ids[i] : trace->steps.ids[step]));
    }
    OK(lh_buf_puts(&text, ""));
    OK(lh_tokenizer_decode(tok, ids.ids, ids.n, &text));
    while (text.bytes && strchr(" \n", text.data[text.bytes - 1])) text.data[--text.bytes] = '\0';
    char *out = strdup(text.data + strspn(text.data, " \n"));
    lh_buf_clear(&text);
    lh_tokens_clear(&ids);
    return out;
}

static int ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The fact is the text between `at` tokens after the beginning and `age` tokens before the end. */
static void check_fact(const lh_tokenizer *tok, const lh_recall_trace *trace, const lh_recall_fact *fact)
{
    const int64_t all = trace->prompt.n + trace->steps.n;
    char *before = text_of(tok, trace, 0, fact->at), *after = text_of(tok, trace, all - fact->age, all),
         *middle = text_of(tok, trace, fact->at, all - fact->age), *whole = text_of(tok, trace, 0, all);
    /* the full stop may be in a token with the white space after it */
    ck_assert_msg(strncmp(middle, fact->sentence.data, (size_t)fact->sentence.bytes - 1) == 0 &&
                      (int64_t)strlen(middle) <= fact->sentence.bytes,
                  "'%s' is not '%s'", middle, fact->sentence.data);
    ck_assert_int_eq(occurs(whole, fact->sentence.data), 1);
    ck_assert(strncmp(whole, before, strlen(before)) == 0 && ends_with(whole, after));
    ck_assert_int_eq(occurs(fact->sentence.data, fact->answer.data), 1);
    ck_assert_int_gt(fact->asked.question.n, 0);
    ck_assert_int_gt(fact->asked.answer.n, 0);
    free(before);
    free(after);
    free(middle);
    free(whole);
}

static void check_window(const lh_tokenizer *tok, const lh_needle_form *form, const lh_recall_spec *spec, int64_t slack)
{
    lh_recall_trace trace;
    OK(lh_recall_make(&trace, tok, form, spec));
    const double all = (double)(trace.prompt.n + trace.steps.n);
    ck_assert_int_eq(trace.steps.n, spec->steps);
    ck_assert_msg(trace.prompt.n <= spec->length && trace.prompt.n > spec->length - slack, "%lld of %lld tokens",
                  (long long)trace.prompt.n, (long long)spec->length);
    ck_assert_int_eq(trace.fact_count, form->keys);
    for (int64_t i = 0; i < trace.fact_count; i++) {
        const lh_recall_fact *fact = &trace.facts[i];
        const double wanted = ((double)i + 0.5) / (double)form->keys;
        check_fact(tok, &trace, fact);
        ck_assert_str_eq(fact->kind, form->kinds.at[(spec->seed + (uint64_t)i) % (uint64_t)form->kinds.n].name);
        ck_assert(i == 0 || (fact->age < fact[-1].age && fact->at > fact[-1].at));
        ck_assert_msg(fabs((double)fact->at / all - wanted) < 0.12, "fact %lld of %lld at %g", (long long)i,
                      (long long)form->keys, (double)fact->at / all);
    }
    lh_recall_trace_clear(&trace);
}

START_TEST(test_facts_have_their_ages)
{
    static const int64_t keys[] = {1, 4, 6};
    char *haystack = make_haystack(300);
    uint64_t hash;
    for (int i = 0; i < TOKENIZERS; i++) {
        lh_tokenizer *tok = open_tokenizer(i);
        const lh_chat_format *format = NULL;
        if (tok && tokenizers[i].chat) OK(lh_chat_of(&format, tok));
        for (int k = 0; tok && k < 3; k++)
            for (int chat = 0; chat <= tokenizers[i].chat; chat++) {
                lh_needle_form form = {.haystack = haystack,
                                       .haystack_bytes = (int64_t)strlen(haystack),
                                       .keys = keys[k],
                                       .format = chat ? format : NULL};
                OK(lh_needle_kinds_read(&form.kinds, FACTS, k ? NULL : "box,ship", &hash));
                check_window(tok, &form, &(lh_recall_spec){900 + k, 1500, (uint64_t)(10 * k + i)}, tokenizers[i].slack);
                lh_needle_kinds_clear(&form.kinds);
            }
        lh_chat_close(format);
        lh_tokenizer_close(tok);
    }
    free(haystack);
}
END_TEST

START_TEST(test_windows_that_cannot_be_are_refused)
{
    static const struct {
        lh_recall_spec spec;
        lh_status st;
        const char *says;
    } cases[] = {{{5000, 5000, 0}, LH_EINPUT, "the haystack is too short"},
                 {{20, 40, 0}, LH_EUSAGE, "more than the 60 of '--length' and '--steps'"},
                 {{1, 2000, 0}, LH_EUSAGE, "'--length 1' leaves no token of a prompt"}};
    char *haystack = make_haystack(100);
    lh_tokenizer *tok = open_tokenizer(0);
    uint64_t hash;
    lh_needle_form form = {.haystack = haystack, .haystack_bytes = (int64_t)strlen(haystack), .keys = 4};
    OK(lh_needle_kinds_read(&form.kinds, FACTS, NULL, &hash));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_recall_trace trace;
        ck_assert_int_eq(lh_recall_make(&trace, tok, &form, &cases[i].spec), cases[i].st);
        ck_assert_msg(strstr(lh_error_message(), cases[i].says) != NULL, "%s", lh_error_message());
    }
    lh_needle_kinds_clear(&form.kinds);
    lh_tokenizer_close(tok);
    free(haystack);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_facts_have_their_ages, test_windows_that_cannot_be_are_refused, NULL};
    program_enter();
    tiny_write("tiny");
    int code = suite_run("recall", tests);
    program_leave();
    return code;
}
