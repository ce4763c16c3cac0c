/* needle_prompt.c - prompts of `needle`: cuts the haystack to length, places the needles, keys every random choice by
 * the seed. */
#include "lab/eval/needle_prompt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/unicode.h"

static const char *const names[LH_NEEDLE_KEYS] = {"vault",  "safe",    "archive", "cabinet",   "gate",   "locker",
                                                  "server", "garage",  "library", "tower",     "cellar", "harbour",
                                                  "museum", "station", "bridge",  "greenhouse"};
static const char *const adjectives[] = {
    "amber",  "ancient", "bitter", "brave",  "bright", "broken",    "calm",   "clever", "copper", "crimson", "curious",
    "dusty",  "eager",   "early",  "empty",  "faint",  "fancy",     "fierce", "frozen", "gentle", "golden",  "hidden",
    "hollow", "humble",  "icy",    "jolly",  "lazy",   "little",    "lonely", "lucky",  "magic",  "mellow",  "misty",
    "modest", "narrow",  "noble",  "olive",  "orange", "patient",   "plain",  "proud",  "purple", "quiet",   "rapid",
    "rusty",  "scarlet", "rosy",   "shiny",  "silent", "silver",    "simple", "sleepy", "smooth", "solid",   "steady",
    "stormy", "sunny",   "tidy",   "velvet", "violet", "wandering", "warm",   "wild",   "yellow"};
static const char *const animals[] = {
    "badger",   "beaver",   "bison",   "buffalo",  "camel",    "cheetah", "cobra",    "cougar",  "coyote",   "crane",
    "dolphin",  "donkey",   "eagle",   "elephant", "falcon",   "ferret",  "flamingo", "fox",     "gazelle",  "giraffe",
    "goose",    "gorilla",  "hamster", "hawk",     "hedgehog", "heron",   "horse",    "iguana",  "jackal",   "jaguar",
    "kangaroo", "koala",    "lemur",   "leopard",  "lion",     "lizard",  "llama",    "lobster", "lynx",     "magpie",
    "meerkat",  "mongoose", "moose",   "octopus",  "otter",    "panda",   "panther",  "parrot",  "peacock",  "pelican",
    "penguin",  "pigeon",   "puffin",  "rabbit",   "raven",    "salmon",  "seal",     "sparrow", "squirrel", "swan",
    "tiger",    "turtle",   "walrus",  "zebra"};

enum { ADJECTIVES = sizeof adjectives / sizeof *adjectives, ANIMALS = sizeof animals / sizeof *animals };

/* The purpose of a random draw; with its number it keys the generator. */
enum { DRAW_NAMES, DRAW_ASKED, DRAW_SECRET, DRAW_START, DRAW_DEPTH, DRAW_LISTS };

typedef struct draw {
    uint32_t word[4];
} draw;

static draw draw_of(const lh_needle_spec *spec, uint32_t purpose, uint32_t number)
{
    draw d;
    const uint32_t key[2] = {(uint32_t)spec->seed, (uint32_t)(spec->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)spec->length, (uint32_t)llround(spec->depth * 1e6), purpose, number};
    lh_philox(d.word, key, counter);
    return d;
}

/* ---- texts ---- */

/* One needle of a prompt. */
typedef struct key {
    const char *name;
    char secret[64];
    const lh_needle_kind *kind;
    lh_buf sentence;
    double depth;
    int64_t at; /* byte of the haystack at which it is inserted */
    int asked;
} key;

static uint32_t draw_item(const void *spec, uint32_t list)
{
    return draw_of(spec, DRAW_LISTS, list).word[0];
}

/* The values of needle i. */
static lh_needle_values values_of(const key *keys, uint32_t i, const lh_needle_spec *spec)
{
    return (lh_needle_values){
        .name = keys[i].name, .secret = keys[i].secret, .draw = draw_item, .self = spec, .key = i};
}

static lh_status make_keys(key *keys, const lh_needle_form *form, const lh_needle_spec *spec)
{
    const uint32_t first = draw_of(spec, DRAW_NAMES, 0).word[0], word = draw_of(spec, DRAW_ASKED, 0).word[0];
    const int64_t asked = word % form->keys; /* the needle that is asked for */
    const draw base = draw_of(spec, DRAW_SECRET, 0);
    for (uint32_t i = 0; i < form->keys; i++) {
        key *k = &keys[i];
        const draw depth = draw_of(spec, DRAW_DEPTH, i);
        /* The steps are coprime to the lengths of the lists: no two secrets of a prompt share a word, and words that
         * are adjacent in the lists are not combined. */
        k->name = names[(first + i) % LH_NEEDLE_KEYS];
        snprintf(k->secret, sizeof k->secret, "%s %s %u", adjectives[(base.word[0] + 27 * i) % ADJECTIVES],
                 animals[(base.word[1] + 37 * i) % ANIMALS], 1000 + (base.word[2] % 9000 + 2477 * i) % 9000);
        k->asked = i == asked;
        k->kind = &form->kinds.at[(spec->kind + (i + form->keys - asked) % form->keys) % form->kinds.n];
        k->depth = k->asked ? spec->depth : lh_uniform(depth.word[0]);
        const lh_needle_values values = values_of(keys, i, spec);
        LH_TRY(lh_needle_fill(&k->sentence, &form->kinds, k->kind->fact, &values));
    }
    return LH_OK;
}

int lh_sentence_ends(const char *text, int64_t at)
{
    int64_t i = at - 1;
    if (text[at] && !lh_is_ascii_space(text[at])) return 0;
    while (i >= 0 && strchr("\"')]", text[i])) i--;
    return i >= 0 && strchr(".!?", text[i]) != NULL;
}

/* The sentence end in text[0 … bytes] nearest to byte `wanted`, the lower of two equally near; 0 counts as one. */
static int64_t nearest_end(const char *text, int64_t bytes, int64_t wanted)
{
    for (int64_t d = 0; d <= bytes; d++) {
        if (wanted - d >= 0 && (wanted == d || lh_sentence_ends(text, wanted - d))) return wanted - d;
        if (wanted + d <= bytes && lh_sentence_ends(text, wanted + d)) return wanted + d;
    }
    return 0;
}

static int by_position(const void *a, const void *b)
{
    const key *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return (x->depth > y->depth) - (x->depth < y->depth);
}

/* Writes hay[0 … bytes] with the needles inserted. */
static lh_status insert_needles(lh_needle *out, const char *hay, int64_t bytes, key *keys, int64_t n)
{
    int64_t from = 0;
    for (int64_t i = 0; i < n; i++) keys[i].at = nearest_end(hay, bytes, llround(keys[i].depth * (double)bytes));
    qsort(keys, (size_t)n, sizeof *keys, by_position);
    out->text.bytes = 0;
    LH_TRY(lh_buf_puts(&out->text, ""));
    for (int64_t i = 0; i < n; i++) {
        LH_TRY(lh_buf_append(&out->text, hay + from, keys[i].at - from));
        if (out->text.bytes) LH_TRY(lh_buf_puts(&out->text, " "));
        if (keys[i].asked) out->needle_at = out->text.bytes;
        LH_TRY(lh_buf_append(&out->text, keys[i].sentence.data, keys[i].sentence.bytes));
        from = keys[i].at;
        if (from == 0 && bytes > 0 && (i + 1 == n || keys[i + 1].at > 0)) LH_TRY(lh_buf_puts(&out->text, " "));
    }
    LH_TRY(lh_buf_append(&out->text, hay + from, bytes - from));
    return LH_OK;
}

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
    key keys[LH_NEEDLE_KEYS];
} maker;

/* Rotates the haystack to the first sentence that begins after a position chosen by the seed. number: of the position.
 */
static lh_status rotate_haystack(maker *m, uint32_t number)
{
    const lh_needle_form *f = m->form;
    const double place = lh_uniform(draw_of(m->spec, DRAW_START, number).word[0]);
    int64_t start = (int64_t)(place * (double)f->haystack_bytes);
    m->hay.bytes = 0;
    while (start > 0 && start < f->haystack_bytes && !lh_sentence_ends(f->haystack, start)) start++;
    while (start < f->haystack_bytes && lh_is_ascii_space(f->haystack[start])) start++;
    if (start >= f->haystack_bytes) start = 0;
    LH_TRY(lh_buf_append(&m->hay, f->haystack + start, f->haystack_bytes - start));
    if (start == 0) return LH_OK;
    LH_TRY(lh_buf_puts(&m->hay, "\n\n"));
    LH_TRY(lh_buf_append(&m->hay, f->haystack, start));
    return LH_OK;
}

/* Makes the prompt with the haystack up to *cut, the last end of a word at or before byte `until`. */
static lh_status try_cut(maker *m, int64_t until, int64_t *cut)
{
    while (until > 0 && !(lh_is_ascii_space(m->hay.data[until]) || until == m->hay.bytes)) until--;
    while (until > 0 && lh_is_ascii_space(m->hay.data[until - 1])) until--;
    *cut = until;
    if (m->form->keys == 0)
        LH_TRY(quote_sentence(m->out, m->hay.data, until, m->form, m->spec));
    else
        LH_TRY(insert_needles(m->out, m->hay.data, until, m->keys, m->form->keys));
    LH_TRY(encode_prompt(m->out, m->tok, m->form));
    return LH_OK;
}

/* Finds the longest haystack with which the prompt does not exceed its length. */
static lh_status fit_haystack(maker *m)
{
    const long long length = m->spec->length;
    int64_t low, cut, high = 4 * m->spec->length + 256;
    LH_TRY(try_cut(m, 0, &low));
    if (tokens_of(m->out) > length)
        LH_FAIL(LH_EUSAGE, "needles and question alone are %lld tokens: '--length %lld' is too short",
                (long long)tokens_of(m->out), length);
    for (;; high *= 2) { /* find a number of bytes that is too long */
        if (high > m->hay.bytes) high = m->hay.bytes;
        LH_TRY(try_cut(m, high, &cut));
        if (tokens_of(m->out) > length) break;
        low = cut;
        if (high == m->hay.bytes && tokens_of(m->out) < length)
            LH_FAIL(LH_EINPUT,
                    "the haystack is too short: all of it makes a prompt of %lld tokens, not %lld ('--length'): give "
                    "more text with '--haystack'",
                    (long long)tokens_of(m->out), length);
        if (high == m->hay.bytes) return LH_OK;
    }
    while (low + 1 < high) {
        int64_t middle = low + (high - low) / 2;
        LH_TRY(try_cut(m, middle, &cut));
        if (tokens_of(m->out) <= length)
            low = middle;
        else
            high = cut > low ? cut : low + 1; /* every byte in between gives this cut, too */
    }
    LH_TRY(try_cut(m, low, &cut));
    return LH_OK;
}

/* Tokens of the prompt before the needle. */
static lh_status find_token(maker *m)
{
    lh_status st = LH_OK;
    lh_needle *n = m->out;
    lh_tokens rest = {0};
    LH_TRY_DONE(lh_tokenizer_encode(m->tok, n->text.data + n->needle_at, n->text.bytes - n->needle_at,
                                    LH_ENCODE_CONTINUES, &rest));
    /* at most an empty line follows the text */
    n->at_token = n->prompt.context.n - rest.n > 0 ? n->prompt.context.n - rest.n : 0;
done:
    lh_tokens_clear(&rest);
    return st;
}

/* Question and answer of needle i. */
static lh_status ask_for(maker *m, uint32_t i)
{
    const key *k = &m->keys[i];
    lh_buf answer = {0};
    const lh_needle_values values = values_of(m->keys, i, m->spec);
    lh_status st = lh_needle_fill(&m->out->question, &m->form->kinds, k->kind->question, &values);
    if (st == LH_OK) st = lh_needle_fill(&answer, &m->form->kinds, k->kind->answer, &values);
    if (st == LH_OK) st = lh_strdup(&m->out->secret, answer.data);
    if (st == LH_OK) st = lh_strdup(&m->out->name, k->name);
    lh_buf_clear(&answer);
    return st;
}

lh_status lh_needle_make(lh_needle *out, const lh_tokenizer *tok, const lh_needle_form *form,
                         const lh_needle_spec *spec)
{
    lh_status st = LH_OK;
    maker m = {.out = out, .tok = tok, .form = form, .spec = spec};
    *out = (lh_needle){0};
    if (form->keys > 0) LH_TRY_DONE(make_keys(m.keys, form, spec));
    for (uint32_t i = 0; i < form->keys; i++)
        if (m.keys[i].asked) LH_TRY_DONE(ask_for(&m, i));
    uint32_t start = 0;
    do { /* until a sentence can be quoted */
        LH_TRY_DONE(rotate_haystack(&m, start));
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
    for (int64_t i = 0; i < LH_NEEDLE_KEYS; i++) lh_buf_clear(&m.keys[i].sentence);
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
