/* ruler_niah.c - "needle in a haystack" of RULER (niah.py), and the basic tasks of its second version (prepare_niah.py
 * of NeMo-Skills): numbers or UUIDs under keys, in lines of noise, in a text, or among other needles. */
#include <math.h>
#include <string.h>

#include "lab/eval/needle_prompt.h"
#include "lab/eval/ruler_kinds.h"
#include "lab/eval/word_list.h"

/* As published, with several values asked for and with one. */
static const struct {
    const char *head, *question, *prefix;
} templates[2][2] = {
    {{"Some special magic {type_needle_v} are hidden within the following text. Make sure to memorize it. I will quiz "
      "you about the {type_needle_v} afterwards.\n",
      "What are all the special magic {type_needle_v} for {query} mentioned in the provided text?",
      " The special magic {type_needle_v} for {query} mentioned in the provided text are"},
     {"A special magic {type_needle_v} is hidden within the following text. Make sure to memorize it. I will quiz you "
      "about the {type_needle_v} afterwards.\n",
      "What is the special magic {type_needle_v} for {query} mentioned in the provided text?",
      " The special magic {type_needle_v} for {query} mentioned in the provided text is"}},
    {{"Some special magic {type_needle_v} are hidden within the following text. Make sure to memorize them. I will "
      "quiz you about the {type_needle_v} afterwards.\n",
      "What are all the special magic {type_needle_v} for {query} mentioned in the provided text? The special magic "
      "{type_needle_v} for {query} mentioned in the provided text are",
      NULL},
     {"A special magic {type_needle_v} is hidden within the following text. Make sure to memorize it. I will quiz you "
      "about the {type_needle_v} afterwards.\n",
      "What is the special magic {type_needle_v} for {query} mentioned in the provided text? The special magic "
      "{type_needle_v} for {query} mentioned in the provided text is",
      NULL}}};

static const char *const type_names[][2] = {[LH_RULER_WORD] = {"words", "word"},
                                            [LH_RULER_NUMBER] = {"numbers", "number"},
                                            [LH_RULER_UUID] = {"uuids", "uuid"}};

enum { NEEDLES_MAX = 4, DEPTHS = 40 };
enum { DRAW_KEYS, DRAW_VALUES, DRAW_ORDER, DRAW_PLACES, DRAW_QUERIES, DRAW_HAY_VALUES, DRAW_HAY_ORDER, DRAW_HAY_KEYS };

typedef struct niah {
    const lh_synthetic_maker *maker;
    const lh_ruler_needles *what;
    int64_t *words;              /* [LH_COMPOUNDS] in random order: the keys, then those of the haystack */
    lh_buf keys[NEEDLES_MAX];    /* [what->keys] */
    lh_buf values[NEEDLES_MAX];  /* [keys, values] */
    lh_buf needles[NEEDLES_MAX]; /* the same, in random order */
    int64_t *order;              /* the values of the needles */
    int64_t groups, *hay;        /* keys of the haystack, and [units] the order of its lines */
    lh_draws hay_keys, hay_values;
} niah;

static int count_needles(const lh_ruler_needles *what)
{
    return what->keys * what->values;
}

static lh_status put_needle(const niah *n, const char *key, const char *value, lh_buf *out)
{
    return lh_buf_printf(out, "One of the special magic %s for %s is: %s.", type_names[n->what->value][0], key, value);
}

static lh_status draw_value(const niah *n, lh_draws *draws, lh_buf *out)
{
    return n->what->value == LH_RULER_UUID ? lh_draw_uuid(draws, out) : lh_draw_number(draws, n->what->digits, out);
}

/* The i-th key of the prompt; words repeat only in a haystack that has more keys than there are compounds, and never
 * the keys that are asked for. */
static lh_status put_key(const niah *n, int64_t i, lh_draws *draws, lh_buf *out)
{
    const int64_t asked = n->what->keys;
    if (n->what->key == LH_RULER_UUID) return lh_draw_uuid(draws, out);
    return lh_compound_put(n->words[i < asked ? i : asked + (i - asked) % (LH_COMPOUNDS - asked)], out);
}

static lh_status draw_keys(niah *n)
{
    lh_draws keys = lh_synthetic_draws(n->maker, DRAW_KEYS), values = lh_synthetic_draws(n->maker, DRAW_VALUES);
    lh_draws order = lh_synthetic_draws(n->maker, DRAW_ORDER);
    const int needles = count_needles(n->what);
    LH_TRY(lh_draw_order(&order, &n->order, needles));
    LH_TRY(lh_draw_order(&keys, &n->words, LH_COMPOUNDS));
    for (int k = 0; k < n->what->keys; k++) LH_TRY(put_key(n, k, &keys, &n->keys[k]));
    for (int i = 0; i < needles; i++) LH_TRY(draw_value(n, &values, &n->values[i]));
    for (int i = 0; i < needles; i++) {
        const int64_t value = n->order[i];
        LH_TRY(put_needle(n, n->keys[value / n->what->values].data, n->values[value].data, &n->needles[i]));
    }
    return LH_OK;
}

/* ---- haystacks ---- */

/* A line of other needles: each key has as many values as those that are asked for. */
static lh_status put_hay(const void *self, int64_t i, lh_buf *out)
{
    lh_status st = LH_OK;
    const niah *n = self;
    lh_buf key = {0}, value = {0};
    const int64_t line = n->hay[i];
    lh_draws keys = n->hay_keys, values = n->hay_values;
    keys.at = 4 * (uint32_t)(line % n->groups); /* a key's draws are the same in all of its lines */
    values.at = 4 * (uint32_t)line;
    LH_TRY_DONE(put_key(n, n->what->keys + line % n->groups, &keys, &key));
    LH_TRY_DONE(draw_value(n, &values, &value));
    LH_TRY_DONE(put_needle(n, key.data, value.data, out));
done:
    lh_buf_clear(&key);
    lh_buf_clear(&value);
    return st;
}

static lh_status put_lines(niah *n, lh_buf *out)
{
    const int64_t units = n->maker->units;
    lh_draws places = lh_synthetic_draws(n->maker, DRAW_PLACES), order = lh_synthetic_draws(n->maker, DRAW_HAY_ORDER);
    lh_synthetic_lines lines = {units, count_needles(n->what), n->needles, n, NULL};
    if (n->what->hay == LH_RULER_NEEDLES) {
        lines.line = put_hay;
        n->groups = (units + n->what->values - 1) / n->what->values;
        n->hay_keys = lh_synthetic_draws(n->maker, DRAW_HAY_KEYS);
        n->hay_values = lh_synthetic_draws(n->maker, DRAW_HAY_VALUES);
        LH_TRY(lh_draw_order(&order, &n->hay, units));
    }
    return lh_synthetic_put_lines(&lines, &places, out);
}

/* The first `units` words of the text, which is repeated if it has fewer. */
static lh_status put_words(const lh_synthetic_sources *sources, int64_t units, lh_buf *out)
{
    for (int64_t left = units, n; left > 0; left -= n) {
        n = left < sources->words ? left : sources->words;
        if (out->bytes) LH_TRY(lh_buf_puts(out, " "));
        LH_TRY(lh_buf_append(out, sources->text.data, sources->word_ends[n - 1]));
    }
    return LH_OK;
}

/* Bytes at which the sentences of a text begin, and its end. */
static lh_status find_sentences(const lh_buf *text, int64_t **starts, int64_t *n)
{
    int64_t cap = 0;
    *n = 0;
    for (int64_t at = 0; at <= text->bytes; at++) {
        const int begins = at == 0 || at == text->bytes ||
                           (text->data[at - 1] == ' ' && at > 1 && lh_sentence_ends(text->data, at - 1));
        if (!begins) continue;
        if (*n == cap) {
            cap = cap ? 2 * cap : 64;
            LH_TRY(lh_realloc(starts, cap, sizeof **starts));
        }
        (*starts)[(*n)++] = at;
    }
    (*n)--;
    return LH_OK;
}

/* Appends sentences `from` to `until`, which may be none. */
static lh_status put_sentences(const lh_buf *text, const int64_t *from, const int64_t *until, lh_buf *out)
{
    if (from == until) return LH_OK;
    const int64_t blank = *until < text->bytes; /* after the last one */
    return lh_buf_append(out, text->data + *from, *until - *from - blank);
}

/* Sentences of the text with the needles between them, at depths drawn from 40 even steps: what lies between two
 * needles, and the needles, are joined by blanks, even where nothing lies between. */
static lh_status put_essay(niah *n, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    int64_t *starts = NULL, sentences = 0, depths[NEEDLES_MAX], from = 0;
    const int needles = count_needles(n->what);
    lh_draws places = lh_synthetic_draws(n->maker, DRAW_PLACES);
    LH_TRY_DONE(put_words(n->maker->form->sources, n->maker->units, &text));
    LH_TRY_DONE(find_sentences(&text, &starts, &sentences));
    lh_draw_sorted(&places, depths, needles, DEPTHS);
    for (int i = 0; i < needles; i++) {
        const double depth = (double)llround((double)depths[i] * 100 / (DEPTHS - 1));
        const int64_t until = (int64_t)((double)sentences * (depth / 100));
        LH_TRY_DONE(put_sentences(&text, &starts[from], &starts[until], out));
        LH_TRY_DONE(lh_buf_printf(out, " %s ", n->needles[i].data));
        from = until;
    }
    LH_TRY_DONE(put_sentences(&text, &starts[from], &starts[sentences], out));
done:
    lh_buf_clear(&text);
    lh_free(starts);
    return st;
}

/* ---- question and answer ---- */

/* "a, b, c, and d" */
static lh_status put_query(lh_buf *out, const niah *n, const int64_t *asked)
{
    const int queries = n->what->queries;
    for (int q = 0; q < queries; q++)
        LH_TRY(lh_buf_printf(out, "%s%s", q == 0 ? "" : q + 1 < queries ? ", " : ", and ", n->keys[asked[q]].data));
    return LH_OK;
}

static lh_status put_answers(const niah *n, const int64_t *asked)
{
    lh_synthetic_sample *s = n->maker->out;
    for (int q = 0; q < n->what->queries; q++)
        for (int v = 0; v < n->what->values; v++) {
            const char *value = n->values[asked[q] * n->what->values + v].data;
            LH_TRY(lh_buf_printf(&s->expected, "%s%s", s->reference_count ? ", " : " ", value));
            LH_TRY(lh_synthetic_reference(s, value));
        }
    return LH_OK;
}

static lh_status put_prompt(niah *n, const int64_t *asked)
{
    lh_status st = LH_OK;
    lh_synthetic_sample *s = n->maker->out;
    lh_buf query = {0};
    const int one = n->what->queries * n->what->values == 1, version = n->what->version;
    const char *type = type_names[n->what->value][one];
    LH_TRY_DONE(put_query(&query, n, asked));
    LH_TRY_DONE(lh_synthetic_fill(&s->text, templates[version - 1][one].head, type, query.data));
    LH_TRY_DONE(n->what->hay == LH_RULER_ESSAY ? put_essay(n, &s->text) : put_lines(n, &s->text));
    LH_TRY_DONE(lh_synthetic_fill(&s->question, templates[version - 1][one].question, type, query.data));
    LH_TRY_DONE(lh_synthetic_fill(&s->prefix, templates[version - 1][one].prefix, type, query.data));
    LH_TRY_DONE(put_answers(n, asked));
done:
    lh_buf_clear(&query);
    return st;
}

static lh_status build_niah(const lh_synthetic_maker *maker)
{
    lh_status st = LH_OK;
    niah n = {.maker = maker, .what = maker->spec->task->needles};
    int64_t *asked = NULL; /* keys in random order, of which the first are asked for */
    lh_draws queries = lh_synthetic_draws(maker, DRAW_QUERIES);
    LH_TRY_DONE(lh_draw_order(&queries, &asked, n.what->keys));
    LH_TRY_DONE(draw_keys(&n));
    LH_TRY_DONE(put_prompt(&n, asked));
done:
    for (int i = 0; i < NEEDLES_MAX; i++) {
        lh_buf_clear(&n.keys[i]);
        lh_buf_clear(&n.values[i]);
        lh_buf_clear(&n.needles[i]);
    }
    lh_free(asked);
    lh_free(n.order);
    lh_free(n.words);
    lh_free(n.hay);
    return st;
}

static int64_t min_niah(const lh_synthetic_form *form, const lh_synthetic_spec *spec)
{
    (void)form;
    return count_needles(spec->task->needles); /* on lines of their own */
}

const lh_synthetic_kind lh_ruler_niah = {build_niah, min_niah, "\n", 0, lh_synthetic_match_all};
