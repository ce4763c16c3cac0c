/* needle_facts.c - draws the facts of a prompt, inserts them into a text, and cuts the text to length. Every random
 * choice is keyed by the seed. */
#include "lab/eval/needle_facts.h"

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

/* ---- facts ---- */

static uint32_t draw_item(const void *spec, uint32_t list)
{
    return draw_of(spec, DRAW_LISTS, list).word[0];
}

static lh_needle_values values_of(const lh_needle_fact *fact, const lh_needle_spec *spec)
{
    return (lh_needle_values){
        .name = fact->name, .secret = fact->secret, .draw = draw_item, .self = spec, .key = fact->number};
}

int64_t lh_needle_asked(const lh_needle_form *form, const lh_needle_spec *spec)
{
    return draw_of(spec, DRAW_ASKED, 0).word[0] % form->keys;
}

lh_status lh_needle_facts_draw(lh_needle_fact *facts, const lh_needle_form *form, const lh_needle_spec *spec,
                               int64_t asked)
{
    const uint32_t first = draw_of(spec, DRAW_NAMES, 0).word[0];
    const draw base = draw_of(spec, DRAW_SECRET, 0);
    for (uint32_t i = 0; i < form->keys; i++) {
        lh_needle_fact *f = &facts[i];
        const draw depth = draw_of(spec, DRAW_DEPTH, i);
        /* The steps are coprime to the lengths of the lists: no two secrets of a prompt share a word, and words that
         * are adjacent in the lists are not combined. */
        f->name = names[(first + i) % LH_NEEDLE_KEYS];
        snprintf(f->secret, sizeof f->secret, "%s %s %u", adjectives[(base.word[0] + 27 * i) % ADJECTIVES],
                 animals[(base.word[1] + 37 * i) % ANIMALS], 1000 + (base.word[2] % 9000 + 2477 * i) % 9000);
        f->number = i;
        f->asked = i == asked;
        f->kind = &form->kinds.at[(spec->kind + (i + form->keys - asked) % form->keys) % form->kinds.n];
        f->depth = f->asked ? spec->depth : lh_uniform(depth.word[0]);
        const lh_needle_values values = values_of(f, spec);
        LH_TRY(lh_needle_fill(&f->sentence, &form->kinds, f->kind->fact, &values));
    }
    return LH_OK;
}

void lh_needle_facts_clear(lh_needle_fact *facts, int64_t n)
{
    for (int64_t i = 0; i < n; i++) lh_buf_clear(&facts[i].sentence);
}

lh_status lh_needle_fact_ask(const lh_needle_fact *fact, const lh_needle_form *form, const lh_needle_spec *spec,
                             lh_buf *question, lh_buf *answer)
{
    const lh_needle_values values = values_of(fact, spec);
    LH_TRY(lh_needle_fill(question, &form->kinds, fact->kind->question, &values));
    return lh_needle_fill(answer, &form->kinds, fact->kind->answer, &values);
}

/* ---- texts ---- */

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
    const lh_needle_fact *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return (x->depth > y->depth) - (x->depth < y->depth);
}

lh_status lh_needle_facts_insert(lh_buf *text, const char *hay, int64_t bytes, lh_needle_fact *facts, int64_t n)
{
    int64_t from = 0;
    for (int64_t i = 0; i < n; i++) facts[i].at = nearest_end(hay, bytes, llround(facts[i].depth * (double)bytes));
    qsort(facts, (size_t)n, sizeof *facts, by_position);
    text->bytes = 0;
    LH_TRY(lh_buf_puts(text, ""));
    for (int64_t i = 0; i < n; i++) {
        lh_needle_fact *f = &facts[i];
        LH_TRY(lh_buf_append(text, hay + from, f->at - from));
        if (text->bytes) LH_TRY(lh_buf_puts(text, " "));
        f->begin = text->bytes;
        LH_TRY(lh_buf_append(text, f->sentence.data, f->sentence.bytes));
        f->end = text->bytes;
        from = f->at;
        if (from == 0 && bytes > 0 && (i + 1 == n || facts[i + 1].at > 0)) LH_TRY(lh_buf_puts(text, " "));
    }
    LH_TRY(lh_buf_append(text, hay + from, bytes - from));
    return LH_OK;
}

lh_status lh_needle_rotate(lh_buf *hay, const lh_needle_form *form, const lh_needle_spec *spec, uint32_t number)
{
    const double place = lh_uniform(draw_of(spec, DRAW_START, number).word[0]);
    int64_t start = (int64_t)(place * (double)form->haystack_bytes);
    hay->bytes = 0;
    while (start > 0 && start < form->haystack_bytes && !lh_sentence_ends(form->haystack, start)) start++;
    while (start < form->haystack_bytes && lh_is_ascii_space(form->haystack[start])) start++;
    if (start >= form->haystack_bytes) start = 0;
    LH_TRY(lh_buf_append(hay, form->haystack + start, form->haystack_bytes - start));
    if (start == 0) return LH_OK;
    LH_TRY(lh_buf_puts(hay, "\n\n"));
    LH_TRY(lh_buf_append(hay, form->haystack, start));
    return LH_OK;
}

/* Makes the prompt with the haystack up to *cut, the last end of a word at or before byte `until`. */
static lh_status try_cut(const lh_needle_fit *fit, int64_t until, int64_t *cut, int64_t *tokens)
{
    const lh_buf *hay = fit->hay;
    while (until > 0 && !(lh_is_ascii_space(hay->data[until]) || until == hay->bytes)) until--;
    while (until > 0 && lh_is_ascii_space(hay->data[until - 1])) until--;
    *cut = until;
    return fit->make(fit->self, until, tokens);
}

lh_status lh_needle_fit_text(const lh_needle_fit *fit)
{
    const long long max = fit->max;
    int64_t low, cut, tokens, high = 4 * fit->max + 256;
    LH_TRY(try_cut(fit, 0, &low, &tokens));
    if (tokens > max)
        LH_FAIL(LH_EUSAGE, "%s alone are %lld tokens, more than the %lld of %s", fit->rest, (long long)tokens, max,
                fit->option);
    for (;; high *= 2) { /* find a number of bytes that is too long */
        if (high > fit->hay->bytes) high = fit->hay->bytes;
        LH_TRY(try_cut(fit, high, &cut, &tokens));
        if (tokens > max) break;
        low = cut;
        if (high == fit->hay->bytes && tokens < max)
            LH_FAIL(LH_EINPUT,
                    "the haystack is too short: all of it makes %lld tokens, not the %lld of %s: give more text with "
                    "'--haystack'",
                    (long long)tokens, max, fit->option);
        if (high == fit->hay->bytes) return LH_OK;
    }
    while (low + 1 < high) {
        int64_t middle = low + (high - low) / 2;
        LH_TRY(try_cut(fit, middle, &cut, &tokens));
        if (tokens <= max)
            low = middle;
        else
            high = cut > low ? cut : low + 1; /* every byte in between gives this cut, too */
    }
    return try_cut(fit, low, &cut, &tokens);
}

lh_status lh_needle_tokens_from(const lh_tokenizer *tok, const lh_buf *text, int64_t byte, int64_t *out)
{
    lh_tokens rest = {0};
    lh_status st = lh_tokenizer_encode(tok, text->data + byte, text->bytes - byte, LH_ENCODE_CONTINUES, &rest);
    *out = rest.n;
    lh_tokens_clear(&rest);
    return st;
}
