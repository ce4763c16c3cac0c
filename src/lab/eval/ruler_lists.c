/* ruler_lists.c - variable tracking, common words and frequent words of RULER (variable_tracking.py,
 * common_words_extraction.py, freq_words_extraction.py). The first two show an example with its answer before. */
#include <string.h>

#include "base/minmax.h"
#include "lab/eval/ruler_kinds.h"
#include "lab/eval/word_list.h"

/* ---- variable tracking: a chain of assignments in lines of noise ---- */

static const char vt_head[] =
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n";
static const char vt_question[] = "Question: Find all variables that are assigned the value {query} in the text above.";
static const char vt_prefix[] = " Answer: According to the chain(s) of variable assignment in the text above, 5 "
                                "variables are assigned the value {query}, they are: ";

enum { VARIABLES = 5, EXAMPLE_LETTERS = 3, LETTERS = 5, EXAMPLE_TOKENS = 500 };
enum { DRAW_NAMES, DRAW_VALUE, DRAW_PLACES, DRAW_EXAMPLE }; /* those of the example: DRAW_EXAMPLE and so on */

typedef struct chain {
    lh_buf names[VARIABLES], lines[VARIABLES], value;
} chain;

static void clear_chain(chain *c)
{
    for (int i = 0; i < VARIABLES; i++) {
        lh_buf_clear(&c->names[i]);
        lh_buf_clear(&c->lines[i]);
    }
    lh_buf_clear(&c->value);
}

static int is_new(const chain *c, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(c->names[k].data, c->names[i].data) == 0) return 0;
    return 1;
}

/* Every line but the first ends with a blank, as published. */
static lh_status draw_chain(chain *c, const lh_synthetic_maker *maker, int example)
{
    const uint32_t purpose = example ? DRAW_EXAMPLE : 0;
    lh_draws names = lh_synthetic_draws(maker, purpose + DRAW_NAMES),
             value = lh_synthetic_draws(maker, purpose + DRAW_VALUE);
    LH_TRY(lh_buf_printf(&c->value, "%lld", (long long)(10000 + lh_draw_below(&value, 89999))));
    for (int i = 0; i < VARIABLES; i++) {
        do {
            c->names[i].bytes = 0;
            LH_TRY(lh_draw_letters(&names, 'A', example ? EXAMPLE_LETTERS : LETTERS, &c->names[i]));
        } while (!is_new(c, i));
        if (i == 0)
            LH_TRY(lh_buf_printf(&c->lines[i], "VAR %s = %s", c->names[i].data, c->value.data));
        else
            LH_TRY(lh_buf_printf(&c->lines[i], "VAR %s = VAR %s ", c->names[i].data, c->names[i - 1].data));
    }
    return LH_OK;
}

/* Appends the template with the chain in `units` lines of noise, up to the question. */
static lh_status put_chain(const lh_synthetic_maker *maker, const chain *c, int example, int64_t units, lh_buf *out)
{
    lh_draws places = lh_synthetic_draws(maker, (example ? DRAW_EXAMPLE : 0) + DRAW_PLACES);
    LH_TRY(lh_buf_puts(out, vt_head));
    return lh_synthetic_put_lines(&(lh_synthetic_lines){units, VARIABLES, c->lines, NULL, NULL}, &places, out);
}

static lh_status put_names(const chain *c, lh_buf *out)
{
    for (int i = 0; i < VARIABLES; i++) LH_TRY(lh_buf_printf(out, " %s", c->names[i].data));
    return LH_OK;
}

/* The example: question and answer in one text, with `units` lines of noise. */
static lh_status put_example(const lh_synthetic_maker *maker, const chain *c, int64_t units, lh_buf *out)
{
    LH_TRY(put_chain(maker, c, 1, units, out));
    LH_TRY(lh_buf_puts(out, "\n"));
    LH_TRY(lh_synthetic_fill(out, vt_question, "", c->value.data));
    LH_TRY(lh_synthetic_fill(out, vt_prefix, "", c->value.data));
    return LH_OK;
}

/* Appends the example with as much noise as fits into its tokens, but no less than a line for each assignment. */
static lh_status put_fitted_example(const lh_synthetic_maker *maker, lh_buf *out)
{
    lh_status st = LH_OK;
    chain c = {0};
    lh_buf text = {0};
    lh_tokens ids = {0};
    int64_t units = VARIABLES;
    LH_TRY_DONE(draw_chain(&c, maker, 1));
    for (int fits = 1; fits; units += fits) {
        text.bytes = ids.n = 0;
        LH_TRY_DONE(put_example(maker, &c, units + 1, &text));
        LH_TRY_DONE(lh_tokenizer_encode(maker->form->tok, text.data, text.bytes, 0, &ids));
        fits = ids.n <= EXAMPLE_TOKENS;
    }
    LH_TRY_DONE(put_example(maker, &c, units, out));
    LH_TRY_DONE(put_names(&c, out));
    LH_TRY_DONE(lh_buf_puts(out, "\n\n"));
done:
    clear_chain(&c);
    lh_buf_clear(&text);
    lh_tokens_clear(&ids);
    return st;
}

static lh_status build_tracking(const lh_synthetic_maker *maker)
{
    lh_status st = LH_OK;
    lh_synthetic_sample *s = maker->out;
    chain c = {0};
    LH_TRY_DONE(draw_chain(&c, maker, 0));
    LH_TRY_DONE(put_fitted_example(maker, &s->text));
    LH_TRY_DONE(put_chain(maker, &c, 0, maker->units, &s->text));
    LH_TRY_DONE(lh_synthetic_fill(&s->question, vt_question, "", c.value.data));
    LH_TRY_DONE(lh_synthetic_fill(&s->prefix, vt_prefix, "", c.value.data));
    LH_TRY_DONE(put_names(&c, &s->expected));
    for (int i = 0; i < VARIABLES; i++) LH_TRY_DONE(lh_synthetic_reference(s, c.names[i].data));
done:
    clear_chain(&c);
    return st;
}

static int64_t min_tracking(const lh_synthetic_form *form, const lh_synthetic_spec *spec)
{
    (void)form, (void)spec;
    return VARIABLES;
}

const lh_synthetic_kind lh_ruler_tracking = {build_tracking, min_tracking, "\n", 0, lh_synthetic_match_all};

/* ---- common words: a numbered list in which ten words are more frequent than the others ---- */

static const char cwe_head[] = "Below is a numbered list of words. In these words, some appear more often than others. "
                               "Memorize the ones that appear most often.\n";
static const char cwe_question[] = "Question: What are the 10 most common words in the above list?";
static const char cwe_prefix[] = " Answer: The top 10 words that appear most often in the list are:";

enum { COMMON = 10, SHORT = 4096 };

/* A list of `words` different words, and how often the common ones and the others are in it. */
typedef struct counted {
    int64_t words;
    int common, other;
    uint32_t purpose; /* of its draws: this and the next */
} counted;

static lh_status put_word(int64_t words, int64_t i, lh_buf *out)
{
    return words <= LH_WORDS ? lh_word_put(i, out) : lh_compound_put(i, out);
}

/* Appends the list to *out; the common words are ids[0 … COMMON). */
static lh_status put_list(const lh_synthetic_maker *maker, const counted *c, int64_t **ids, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_draws words = lh_synthetic_draws(maker, c->purpose), places = lh_synthetic_draws(maker, c->purpose + 1);
    const int64_t frequent = (int64_t)COMMON * c->common, n = frequent + (c->words - COMMON) * c->other;
    int64_t *order = NULL;
    LH_TRY_DONE(lh_draw_order(&words, ids, c->words <= LH_WORDS ? LH_WORDS : LH_COMPOUNDS));
    LH_TRY_DONE(lh_draw_order(&places, &order, n));
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = order[i], word = at < frequent ? at / c->common : COMMON + (at - frequent) / c->other;
        LH_TRY_DONE(lh_buf_printf(out, "%s%lld. ", i ? " " : "", (long long)i + 1));
        LH_TRY_DONE(put_word(c->words, (*ids)[word], out));
    }
done:
    lh_free(order);
    return st;
}

/* " 1. word 2. word …" */
static lh_status put_common(const counted *c, const int64_t *ids, lh_buf *out)
{
    for (int i = 0; i < COMMON; i++) {
        LH_TRY(lh_buf_printf(out, " %d. ", i + 1));
        LH_TRY(put_word(c->words, ids[i], out));
    }
    return LH_OK;
}

static lh_status put_counted_example(const lh_synthetic_maker *maker, const counted *c, lh_buf *out)
{
    lh_status st = LH_OK;
    int64_t *ids = NULL;
    LH_TRY_DONE(lh_buf_puts(out, cwe_head));
    LH_TRY_DONE(put_list(maker, c, &ids, out));
    LH_TRY_DONE(lh_buf_printf(out, "\n%s%s", cwe_question, cwe_prefix));
    LH_TRY_DONE(put_common(c, ids, out));
    LH_TRY_DONE(lh_buf_puts(out, "\n"));
done:
    lh_free(ids);
    return st;
}

static lh_status build_common(const lh_synthetic_maker *maker)
{
    lh_status st = LH_OK;
    lh_synthetic_sample *s = maker->out;
    const int brief = maker->spec->length < SHORT;
    const counted example = brief ? (counted){20, 3, 1, 2} : (counted){40, 10, 3, 2},
                  list = brief ? (counted){maker->units, 6, 1, 0} : (counted){maker->units, 30, 3, 0};
    int64_t *ids = NULL;
    lh_buf word = {0};
    LH_TRY_DONE(put_counted_example(maker, &example, &s->text));
    LH_TRY_DONE(lh_buf_puts(&s->text, cwe_head));
    LH_TRY_DONE(put_list(maker, &list, &ids, &s->text));
    LH_TRY_DONE(lh_buf_puts(&s->question, cwe_question));
    LH_TRY_DONE(lh_buf_puts(&s->prefix, cwe_prefix));
    LH_TRY_DONE(put_common(&list, ids, &s->expected));
    for (int i = 0; i < COMMON; i++) {
        word.bytes = 0;
        LH_TRY_DONE(put_word(list.words, ids[i], &word));
        LH_TRY_DONE(lh_synthetic_reference(s, word.data));
    }
done:
    lh_free(ids);
    lh_buf_clear(&word);
    return st;
}

static int64_t min_common(const lh_synthetic_form *form, const lh_synthetic_spec *spec)
{
    (void)form, (void)spec;
    return COMMON + 1;
}

const lh_synthetic_kind lh_ruler_common = {build_common, min_common, "\n", LH_COMPOUNDS, lh_synthetic_match_all};

/* ---- frequent words: words of random letters by a zeta distribution ---- */

static const char fwe_head[] = "Read the following coded text and track the frequency of each coded word. Find the "
                               "three most frequently appeared coded words. ";
static const char fwe_question[] = "Question: Do not provide any explanation. Please ignore the dots '....'. What are "
                                   "the three most frequently appeared words in the above coded text?";
static const char fwe_prefix[] = " Answer: According to the coded text above, the three most frequently appeared words "
                                 "are:";

enum { ASKED = 3, CODED_LETTERS = 6, TOKENS_PER_WORD = 50, MIN_CODED = 32 };
enum { DRAW_VOCABULARY, DRAW_CODED_ORDER };

static int64_t vocabulary_of(const lh_synthetic_spec *spec)
{
    return lh_max_i64((spec->length - spec->max_new) / TOKENS_PER_WORD, ASKED + 2);
}

/* How often the word of a rank (from 1) is in a text of n words. */
static int64_t times_of(int64_t n, int64_t rank)
{
    static const double pi = 3.14159265358979323846;
    const double zeta = pi * pi / 6;
    return (int64_t)((double)n / (zeta * (double)(rank * rank)));
}

/* The words by rank: rank 1 is noise, and no other is one of the three that are asked for. */
static lh_status draw_vocabulary(const lh_synthetic_maker *maker, char (*words)[CODED_LETTERS + 1], int64_t n)
{
    lh_status st = LH_OK;
    lh_draws letters = lh_synthetic_draws(maker, DRAW_VOCABULARY);
    lh_buf word = {0};
    strcpy(words[0], "...");
    for (int64_t i = 1; i < n; i++) {
        int taken = 1;
        while (taken) {
            word.bytes = taken = 0;
            LH_TRY_DONE(lh_draw_letters(&letters, 'a', CODED_LETTERS, &word));
            for (int64_t k = 1; k < i && k <= ASKED; k++) taken |= strcmp(words[k], word.data) == 0;
        }
        memcpy(words[i], word.data, sizeof words[i]);
    }
done:
    lh_buf_clear(&word);
    return st;
}

static lh_status put_coded(const lh_synthetic_maker *maker, char (*words)[CODED_LETTERS + 1], int64_t n, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_draws draws = lh_synthetic_draws(maker, DRAW_CODED_ORDER);
    int64_t total = 0, at = 0, *order = NULL, *ranks = NULL;
    for (int64_t i = 0; i < n; i++) total += times_of(maker->units, i + 1);
    LH_TRY_DONE(lh_draw_order(&draws, &order, total));
    LH_TRY_DONE(lh_calloc(&ranks, total, sizeof *ranks));
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = times_of(maker->units, i + 1); k > 0; k--) ranks[at++] = i;
    for (int64_t i = 0; i < total; i++) LH_TRY_DONE(lh_buf_printf(out, "%s%s", i ? " " : "", words[ranks[order[i]]]));
done:
    lh_free(order);
    lh_free(ranks);
    return st;
}

static lh_status build_frequent(const lh_synthetic_maker *maker)
{
    lh_status st = LH_OK;
    lh_synthetic_sample *s = maker->out;
    const int64_t n = vocabulary_of(maker->spec);
    char(*words)[CODED_LETTERS + 1] = NULL;
    LH_TRY_DONE(lh_calloc(&words, n, sizeof *words));
    LH_TRY_DONE(draw_vocabulary(maker, words, n));
    LH_TRY_DONE(lh_buf_puts(&s->text, fwe_head));
    LH_TRY_DONE(put_coded(maker, words, n, &s->text));
    LH_TRY_DONE(lh_buf_puts(&s->question, fwe_question));
    LH_TRY_DONE(lh_buf_puts(&s->prefix, fwe_prefix));
    for (int i = 1; i <= ASKED; i++) {
        LH_TRY_DONE(lh_buf_printf(&s->expected, "%s%s", i > 1 ? ", " : " ", words[i]));
        LH_TRY_DONE(lh_synthetic_reference(s, words[i]));
    }
done:
    lh_free(words);
    return st;
}

static int64_t min_frequent(const lh_synthetic_form *form, const lh_synthetic_spec *spec)
{
    (void)form, (void)spec;
    return MIN_CODED;
}

const lh_synthetic_kind lh_ruler_frequent = {build_frequent, min_frequent, "\n", 0, lh_synthetic_match_all};
