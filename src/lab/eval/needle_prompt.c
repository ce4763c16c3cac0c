/* needle_prompt.c - prompts of `needle` and `quote`: a text with facts, or with a sentence that can be quoted, and the
 * question. */
#include "lab/eval/needle_prompt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/unicode.h"

/* ---- sentences of the text ---- */

enum { FIRST_WORDS = 5, LEAST_WORDS = 10, MOST_WORDS = 16, STARTS = 32 };

/* The end of word n from byte `at` on; -1: there are fewer before `end`. */
static int64_t end_of_word(const char *text, int64_t at, int64_t end, int n)
{
    for (; n > 0; n--) {
        while (at < end && lh_is_ascii_space(text[at])) at++;
        if (at == end) return -1;
        while (at < end && !lh_is_ascii_space(text[at])) at++;
    }
    return at;
}

/* A sentence: its beginning, the end of its first words, and the end of the words that are the right answer. */
typedef struct sentence {
    int64_t begin, first, end;
} sentence;

/* True if the sentence that begins after the sentence end `at` can be quoted. */
static int find_sentence(const lh_buf *text, int64_t at, sentence *out)
{
    const char *s = text->data, *again;
    char opening[256];
    while (lh_is_ascii_space(s[at])) at++;
    int64_t end = at + 1;
    while (end < text->bytes && !lh_sentence_ends(s, end)) end++;
    if (end >= text->bytes || end_of_word(s, at, end, LEAST_WORDS) < 0) return 0;
    for (int64_t i = at; i + 1 < end; i++)
        if (s[i] == '\n' && s[i + 1] == '\n') return 0;
    const int64_t first = end_of_word(s, at, end, FIRST_WORDS), last = end_of_word(s, first, end, MOST_WORDS);
    const int bytes = snprintf(opening, sizeof opening, "%.*s", (int)(first - at), s + at);
    if (bytes >= (int)sizeof opening) return 0;
    again = strstr(s, opening);
    if (again != s + at || strstr(again + 1, opening)) return 0;
    *out = (sentence){at, first, last < 0 ? end : last};
    return 1;
}

/* The sentence nearest to byte `wanted` that can be quoted. */
static int nearest_sentence(const lh_buf *text, int64_t wanted, sentence *out)
{
    for (int64_t d = 0; d <= text->bytes; d++) {
        const int64_t before = wanted - d, after = wanted + d;
        if (before >= 0 && (before == 0 || lh_sentence_ends(text->data, before)) && find_sentence(text, before, out))
            return 1;
        if (after < text->bytes && lh_sentence_ends(text->data, after) && find_sentence(text, after, out)) return 1;
    }
    return 0;
}

/* Writes hay[0 … bytes] and asks for one of its sentences. A text without such a sentence has no question. */
static lh_status quote_sentence(lh_needle *out, const char *hay, int64_t bytes, const lh_needle_form *form,
                                const lh_needle_spec *spec)
{
    sentence s = {0};
    out->text.bytes = out->question.bytes = 0;
    LH_TRY(lh_buf_puts(&out->text, ""));
    LH_TRY(lh_buf_append(&out->text, hay, bytes));
    const int found = nearest_sentence(&out->text, llround(spec->depth * (double)bytes), &s);
    lh_free(out->name);
    lh_free(out->secret);
    out->name = out->secret = NULL;
    LH_TRY(lh_strndup(&out->name, out->text.data + s.begin, s.first - s.begin));
    for (char *c = out->name; *c; c++)
        if (lh_is_ascii_space(*c)) *c = ' '; /* also where a line ends */
    LH_TRY(lh_strndup(&out->secret, out->text.data + s.first, s.end - s.first));
    out->needle_at = s.begin;
    LH_TRY(lh_buf_puts(&out->question, ""));
    if (!found) return LH_OK;
    LH_TRY(lh_needle_fill(&out->question, &form->kinds, form->kinds.at[0].question,
                          &(lh_needle_values){.name = out->name, .secret = ""}));
    return form->format ? LH_OK : lh_buf_puts(&out->question, "\n\n"); /* the answer begins a paragraph */
}

/* ---- tokens ---- */

static lh_status encode_prompt(lh_needle *out, const lh_tokenizer *tok, const lh_needle_form *form)
{
    const int quotes = form->keys == 0;
    return lh_eval_prompt_make(&out->prompt, tok,
                               &(lh_eval_prompt_text){.text = out->text.data,
                                                      .bytes = out->text.bytes,
                                                      .question = out->question.data,
                                                      .answer = out->secret,
                                                      .joint = quotes ? "\n\n" : NULL,
                                                      .prefix = quotes ? out->name : NULL,
                                                      .format = form->format,
                                                      .arguments = form->arguments,
                                                      .system = form->system});
}

static int64_t tokens_of(const lh_needle *needle)
{
    return lh_eval_prompt_max(&needle->prompt);
}

/* The state of making one prompt. */
typedef struct maker {
    lh_needle *out;
    const lh_tokenizer *tok;
    const lh_needle_form *form;
    const lh_needle_spec *spec;
    lh_buf hay; /* the haystack from its start, wrapped around */
    lh_needle_fact facts[LH_NEEDLE_KEYS];
} maker;

static lh_status insert_facts(maker *m, int64_t bytes)
{
    const int64_t n = m->form->keys;
    LH_TRY(lh_needle_facts_insert(&m->out->text, m->hay.data, bytes, m->facts, n));
    for (int64_t i = 0; i < n; i++)
        if (m->facts[i].asked) m->out->needle_at = m->facts[i].begin;
    return LH_OK;
}

/* The prompt with so many bytes of the haystack. */
static lh_status make_prompt(void *self, int64_t bytes, int64_t *tokens)
{
    maker *m = self;
    if (m->form->keys == 0)
        LH_TRY(quote_sentence(m->out, m->hay.data, bytes, m->form, m->spec));
    else
        LH_TRY(insert_facts(m, bytes));
    LH_TRY(encode_prompt(m->out, m->tok, m->form));
    *tokens = tokens_of(m->out);
    return LH_OK;
}

static lh_status fit_haystack(maker *m)
{
    return lh_needle_fit_text(&(lh_needle_fit){.hay = &m->hay,
                                               .max = m->spec->length,
                                               .rest = "needles and question",
                                               .option = "'--length'",
                                               .make = make_prompt,
                                               .self = m});
}

/* Tokens of the prompt before the needle. */
static lh_status find_token(maker *m)
{
    lh_needle *n = m->out;
    int64_t rest;
    LH_TRY(lh_needle_tokens_from(m->tok, &n->text, n->needle_at, &rest));
    /* at most an empty line follows the text */
    n->at_token = n->prompt.context.n - rest > 0 ? n->prompt.context.n - rest : 0;
    return LH_OK;
}

static lh_status ask_for(maker *m, const lh_needle_fact *fact)
{
    lh_buf answer = {0};
    lh_status st = lh_needle_fact_ask(fact, m->form, m->spec, &m->out->question, &answer);
    if (st == LH_OK) st = lh_strdup(&m->out->secret, answer.data);
    if (st == LH_OK) st = lh_strdup(&m->out->name, fact->name);
    lh_buf_clear(&answer);
    return st;
}

lh_status lh_needle_make(lh_needle *out, const lh_tokenizer *tok, const lh_needle_form *form,
                         const lh_needle_spec *spec)
{
    lh_status st = LH_OK;
    maker m = {.out = out, .tok = tok, .form = form, .spec = spec};
    *out = (lh_needle){0};
    if (form->keys > 0) LH_TRY_DONE(lh_needle_facts_draw(m.facts, form, spec, lh_needle_asked(form, spec)));
    for (int64_t i = 0; i < form->keys; i++)
        if (m.facts[i].asked) LH_TRY_DONE(ask_for(&m, &m.facts[i]));
    uint32_t start = 0;
    do { /* until a sentence can be quoted */
        LH_TRY_DONE(lh_needle_rotate(&m.hay, form, spec, start));
        LH_TRY_DONE(fit_haystack(&m));
    } while (!out->question.bytes && ++start < STARTS);
    if (!out->question.bytes)
        LH_FAIL_DONE(
            LH_EINPUT,
            "%d sections of %lld tokens of the text ('--haystack'; depth %g, seed %llu) have no sentence of %d "
            "words to quote",
            STARTS, (long long)spec->length, spec->depth, (unsigned long long)spec->seed, LEAST_WORDS);
    LH_TRY_DONE(find_token(&m));
done:
    lh_needle_facts_clear(m.facts, LH_NEEDLE_KEYS);
    lh_buf_clear(&m.hay);
    if (st != LH_OK) lh_needle_clear(out);
    return st;
}

void lh_needle_clear(lh_needle *needle)
{
    lh_buf_clear(&needle->text);
    lh_buf_clear(&needle->question);
    lh_free(needle->secret);
    lh_free(needle->name);
    lh_eval_prompt_clear(&needle->prompt);
    *needle = (lh_needle){0};
}
