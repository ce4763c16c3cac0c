/* text_metrics.c - cuts texts into words by several rules, counts common n-grams, finds the longest common subsequence,
 * and computes ROUGE and BLEU. */
#include "lab/eval/text_metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/unicode.h"

/* ---- Python's str.lower, re and str.split over Unicode, and SQuAD's normalisation of answers ---- */

static int category_of(uint32_t cp)
{
    return (int)utf8proc_category((utf8proc_int32_t)cp);
}

/* str.isalpha */
static int is_letter(uint32_t cp)
{
    const int c = category_of(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

/* \w of Python's re: str.isalnum, or an underscore */
static int is_word(uint32_t cp)
{
    const int c = category_of(cp);
    return cp == '_' || is_letter(cp) || (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

static int is_punctuation(uint32_t cp)
{
    return cp < 0x80 && cp > ' ' && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)cp) != NULL;
}

static lh_status put(lh_buf *out, uint32_t cp)
{
    char bytes[4];
    return lh_buf_append(out, bytes, lh_utf8_write(bytes, cp));
}

lh_status lh_text_lower(lh_buf *out, const char *text)
{
    const int64_t bytes = (int64_t)strlen(text);
    uint32_t cp, before = ' ', next;
    int skip, next_skip;
    LH_TRY(lh_buf_puts(out, ""));
    for (int64_t at = 0; at < bytes; at += skip, before = cp) {
        lh_utf8_read(text + at, bytes - at, &cp, &skip);
        next = ' ';
        if (at + skip < bytes) lh_utf8_read(text + at + skip, bytes - at - skip, &next, &next_skip);
        if (cp == 0x130) { /* I with a dot: an i and a combining dot */
            LH_TRY(lh_buf_puts(out, "i\xcc\x87"));
            continue;
        }
        const int ends = cp == 0x3A3 && is_letter(before) && !is_letter(next);
        LH_TRY(put(out, ends ? 0x3C2 : (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp)));
    }
    return LH_OK;
}

/* Without ASCII punctuation. */
static void drop_punctuation(lh_buf *text)
{
    int64_t n = 0;
    for (int64_t i = 0; i < text->bytes; i++)
        if (!is_punctuation((unsigned char)text->data[i])) text->data[n++] = text->data[i];
    text->data[n] = '\0';
    text->bytes = n;
}

/* 1 if the word characters text[0 … bytes] are an article. */
static int is_article(const char *text, int64_t bytes)
{
    static const char *const articles[] = {"a", "an", "the"};
    for (int i = 0; i < 3; i++)
        if ((int64_t)strlen(articles[i]) == bytes && memcmp(text, articles[i], (size_t)bytes) == 0) return 1;
    return 0;
}

/* Bytes of the run of characters at text[0] that are word characters (`word` 1) or not. */
static int64_t run_of(const char *text, int64_t bytes, int word)
{
    uint32_t cp;
    int skip;
    int64_t at = 0;
    for (; at < bytes; at += skip) {
        lh_utf8_read(text + at, bytes - at, &cp, &skip);
        if (is_word(cp) != word) break;
    }
    return at;
}

/* An article becomes a space. */
static lh_status drop_articles(lh_buf *out, const lh_buf *text)
{
    LH_TRY(lh_buf_puts(out, ""));
    for (int64_t at = 0, n; at < text->bytes; at += n) {
        n = run_of(text->data + at, text->bytes - at, 1);
        if (is_article(text->data + at, n))
            LH_TRY(lh_buf_puts(out, " "));
        else
            LH_TRY(lh_buf_append(out, text->data + at, n));
        at += n;
        n = run_of(text->data + at, text->bytes - at, 0);
        LH_TRY(lh_buf_append(out, text->data + at, n));
    }
    return LH_OK;
}

lh_status lh_join_words(lh_buf *out, const char *text)
{
    const int64_t start = out->bytes, bytes = (int64_t)strlen(text);
    int word = 0, skip;
    LH_TRY(lh_buf_puts(out, ""));
    for (int64_t at = 0; at < bytes; at += skip) {
        uint32_t cp;
        lh_utf8_read(text + at, bytes - at, &cp, &skip);
        const int space = lh_char_is_python_space(cp);
        if (!space && !word && out->bytes > start) LH_TRY(lh_buf_puts(out, " "));
        if (!space) LH_TRY(lh_buf_append(out, text + at, skip));
        word = !space;
    }
    return LH_OK;
}

lh_status lh_squad_normalise(lh_buf *out, const char *text)
{
    lh_status st = LH_OK;
    lh_buf lowered = {0}, bare = {0};
    LH_TRY_DONE(lh_text_lower(&lowered, text));
    drop_punctuation(&lowered);
    LH_TRY_DONE(drop_articles(&bare, &lowered));
    LH_TRY_DONE(lh_join_words(out, bare.data));
done:
    lh_buf_clear(&lowered);
    lh_buf_clear(&bare);
    return st;
}

/* ---- cutting ---- */

static int is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static int lower(int c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

/* The two letters outside of ASCII whose lower case, as str.lower makes it, begins in ASCII: a capital I with a dot (i
 * and a combining dot, which separates) and the Kelvin sign. Returns the bytes of the letter, 0 if it is another. */
static int reads_as_ascii(const char *text, char *c, int *ends)
{
    *ends = strncmp(text, "\xc4\xb0", 2) == 0;
    *c = *ends ? 'i' : 'k';
    if (*ends) return 2;
    return strncmp(text, "\xe2\x84\xaa", 3) == 0 ? 3 : 0;
}

static lh_status cut_plain(lh_buf *out, const char *text, int other)
{
    const int64_t start = out->bytes;
    int inside = 0;
    LH_TRY(lh_buf_puts(out, ""));
    for (int bytes, ends; *text; text += bytes) {
        char c = (char)lower((unsigned char)*text), as_ascii;
        bytes = other ? 0 : reads_as_ascii(text, &as_ascii, &ends);
        if (bytes) c = as_ascii;
        int belongs = (c >= 'a' && c <= 'z') || is_digit(c) || (other && (unsigned char)c >= 0x80);
        if (belongs && !inside && out->bytes > start) LH_TRY(lh_buf_puts(out, " "));
        if (belongs) LH_TRY(lh_buf_append(out, &c, 1));
        inside = belongs && !(bytes && ends);
        if (!bytes) bytes = 1;
    }
    return LH_OK;
}

/* The replacements of mteval-v13a before punctuation, in this order, each over the whole text. */
static const struct {
    const char *from, *to;
} replaced[] = {{"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
                {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};

static lh_status replace(lh_buf *text, const char *from, const char *to)
{
    lh_status st = LH_OK;
    lh_buf out = {0};
    const size_t bytes = strlen(from);
    const char *at = text->data, *next;
    LH_TRY_DONE(lh_buf_puts(&out, ""));
    for (; (next = strstr(at, from)); at = next + bytes) {
        LH_TRY_DONE(lh_buf_append(&out, at, next - at));
        LH_TRY_DONE(lh_buf_puts(&out, to));
    }
    LH_TRY_DONE(lh_buf_puts(&out, at));
    lh_buf_clear(text);
    *text = out;
    out = (lh_buf){0};
done:
    lh_buf_clear(&out);
    return st;
}

static int is_point(int c)
{
    return c == '.' || c == ',';
}

/* Punctuation characters that are words of their own: the class [\{-\~\[-\` -\&\(-\+\:-\@\/]. */
static int is_sign(int c)
{
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
           (c >= ':' && c <= '@') || c == '/';
}

/* The four substitutions of mteval-v13a; matches are consumed, so they do not overlap. first, second: classes of the
 * two characters (second NULL: a single character); spaces: bits for a space before, between and after them. */
typedef struct rule {
    int (*first)(int c);
    int (*second)(int c);
    int spaces;
} rule;

enum { BEFORE = 1, BETWEEN = 2, AFTER = 4 };

static int no_digit(int c)
{
    return c && !is_digit(c);
}

static int is_dash(int c)
{
    return c == '-';
}

static const rule rules[] = {{is_sign, NULL, BEFORE | AFTER},
                             {no_digit, is_point, BETWEEN | AFTER},
                             {is_point, no_digit, BEFORE | BETWEEN},
                             {is_digit, is_dash, BETWEEN | AFTER}};

static lh_status substitute(lh_buf *text, const rule *pair)
{
    lh_status st = LH_OK;
    lh_buf out = {0};
    for (const char *at = text->data; *at;) {
        int matches = pair->first((unsigned char)at[0]) && (!pair->second || pair->second((unsigned char)at[1]));
        int bytes = matches && pair->second ? 2 : 1;
        if (matches && pair->spaces & BEFORE) LH_TRY_DONE(lh_buf_puts(&out, " "));
        LH_TRY_DONE(lh_buf_append(&out, at, 1));
        if (matches && pair->spaces & BETWEEN) LH_TRY_DONE(lh_buf_puts(&out, " "));
        if (bytes == 2) LH_TRY_DONE(lh_buf_append(&out, at + 1, 1));
        if (matches && pair->spaces & AFTER) LH_TRY_DONE(lh_buf_puts(&out, " "));
        at += bytes;
    }
    lh_buf_clear(text);
    *text = out;
    out = (lh_buf){0};
done:
    lh_buf_clear(&out);
    return st;
}

/* Length of a text without trailing white space (Python's rstrip). */
static int64_t stripped(const char *text)
{
    const int64_t bytes = (int64_t)strlen(text);
    int64_t end = 0;
    int skip;
    for (int64_t at = 0; at < bytes; at += skip) {
        uint32_t cp;
        lh_utf8_read(text + at, bytes - at, &cp, &skip);
        if (!lh_char_is_python_space(cp)) end = at + skip;
    }
    return end;
}

static lh_status cut_13a(lh_buf *out, const char *text)
{
    lh_status st = LH_OK;
    lh_buf work = {0};
    LH_TRY_DONE(lh_buf_append(&work, text, stripped(text)));
    for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
        LH_TRY_DONE(replace(&work, replaced[i].from, replaced[i].to));
    lh_buf padded = {0};
    st = lh_buf_printf(&padded, " %s ", work.data);
    lh_buf_clear(&work);
    work = padded;
    LH_TRY_DONE(st);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) LH_TRY_DONE(substitute(&work, &rules[i]));
    LH_TRY_DONE(lh_join_words(out, work.data));
done:
    lh_buf_clear(&work);
    return st;
}

lh_status lh_chinese_normalise(lh_buf *out, const char *text)
{
    static const char dropped[] = "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『"
                                  "』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏.";
    lh_status st = LH_OK;
    lh_buf lowered = {0};
    int skip;
    LH_TRY_DONE(lh_text_lower(&lowered, text));
    LH_TRY_DONE(lh_buf_puts(out, ""));
    for (int64_t at = 0; at < lowered.bytes; at += skip) {
        char character[5] = "";
        uint32_t cp;
        lh_utf8_read(lowered.data + at, lowered.bytes - at, &cp, &skip);
        if (lh_char_is_python_space(cp) || is_punctuation(cp)) continue;
        memcpy(character, lowered.data + at, (size_t)skip);
        if (!strstr(dropped, character)) LH_TRY_DONE(lh_buf_puts(out, character));
    }
done:
    lh_buf_clear(&lowered);
    return st;
}

static lh_status cut_characters(lh_buf *out, const char *text)
{
    lh_status st = LH_OK;
    lh_buf plain = {0};
    int skip;
    LH_TRY_DONE(lh_chinese_normalise(&plain, text));
    LH_TRY_DONE(lh_buf_puts(out, ""));
    for (int64_t at = 0; at < plain.bytes; at += skip) {
        uint32_t cp;
        lh_utf8_read(plain.data + at, plain.bytes - at, &cp, &skip);
        if (out->bytes) LH_TRY_DONE(lh_buf_puts(out, " "));
        LH_TRY_DONE(lh_buf_append(out, plain.data + at, skip));
    }
done:
    lh_buf_clear(&plain);
    return st;
}

/* Appends the words of a text separated by single spaces; out->data is not NULL afterwards. */
static lh_status cut_words(lh_buf *out, const char *text, lh_cut cut)
{
    if (cut == LH_CUT_SQUAD) return lh_squad_normalise(out, text);
    if (cut == LH_CUT_CHARACTERS) return cut_characters(out, text);
    if (cut == LH_CUT_BLANKS) return lh_join_words(out, text);
    return cut == LH_CUT_13A ? cut_13a(out, text) : cut_plain(out, text, cut == LH_CUT_ANSWER);
}

lh_status lh_words_contain(int *yes, const char *wanted, const char *text)
{
    lh_status st = LH_OK;
    lh_buf a = {0}, b = {0};
    LH_TRY_DONE(lh_buf_puts(&a, " "));
    LH_TRY_DONE(lh_buf_puts(&b, " "));
    LH_TRY_DONE(cut_plain(&a, wanted, 1));
    LH_TRY_DONE(cut_plain(&b, text, 1));
    LH_TRY_DONE(lh_buf_puts(&a, " "));
    LH_TRY_DONE(lh_buf_puts(&b, " "));
    *yes = strstr(b.data, a.data) != NULL;
done:
    lh_buf_clear(&a);
    lh_buf_clear(&b);
    return st;
}

/* ---- numbering ---- */

typedef struct word {
    const char *text;
    int64_t bytes;
    int32_t *id;
} word;

static int compare_words(const void *a, const void *b)
{
    const word *x = a, *y = b;
    int order = memcmp(x->text, y->text, (size_t)(x->bytes < y->bytes ? x->bytes : y->bytes));
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int64_t count_words(const char *text)
{
    int64_t n = *text != '\0';
    for (; *text; text++) n += *text == ' ';
    return n;
}

static void collect(const char *text, int32_t *ids, word *words)
{
    for (int64_t i = 0; *text; i++) {
        int64_t bytes = (int64_t)strcspn(text, " ");
        words[i] = (word){text, bytes, &ids[i]};
        text += bytes + (text[bytes] == ' ');
    }
}

lh_status lh_word_pair_make(lh_word_pair *out, const char *const texts[2], lh_cut cut)
{
    lh_status st = LH_OK;
    lh_buf cuts[2] = {{0}, {0}};
    lh_word_pair pair = {0};
    word *words = NULL;
    for (int i = 0; i < 2; i++) {
        LH_TRY_DONE(cut_words(&cuts[i], texts[i], cut));
        pair.n[i] = count_words(cuts[i].data);
        LH_TRY_DONE(lh_calloc(&pair.ids[i], pair.n[i], sizeof(int32_t)));
    }
    const int64_t n = pair.n[0] + pair.n[1];
    LH_TRY_DONE(lh_calloc(&words, n, sizeof *words));
    for (int i = 0; i < 2; i++) collect(cuts[i].data, pair.ids[i], words + (i ? pair.n[0] : 0));
    qsort(words, (size_t)n, sizeof *words, compare_words);
    int32_t id = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && compare_words(&words[i - 1], &words[i]) != 0) id++;
        *words[i].id = id;
    }
    *out = pair;
    pair = (lh_word_pair){0};
done:
    lh_free(words);
    lh_buf_clear(&cuts[0]);
    lh_buf_clear(&cuts[1]);
    lh_word_pair_clear(&pair);
    return st;
}

void lh_word_pair_clear(lh_word_pair *pair)
{
    lh_free(pair->ids[0]);
    lh_free(pair->ids[1]);
    *pair = (lh_word_pair){0};
}

/* ---- comparing ---- */

typedef struct ngram {
    int32_t ids[LH_MAX_NGRAM];
} ngram;

static int compare_ngrams(const void *a, const void *b)
{
    const ngram *x = a, *y = b;
    for (int i = 0; i < LH_MAX_NGRAM; i++)
        if (x->ids[i] != y->ids[i]) return x->ids[i] < y->ids[i] ? -1 : 1;
    return 0;
}

/* All n-grams of a text, sorted. */
static lh_status ngrams_of(const int32_t *ids, int64_t n, int order, ngram **out)
{
    LH_TRY(lh_calloc(out, n > 0 ? n : 0, sizeof **out));
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < order; k++) (*out)[i].ids[k] = ids[i + k];
    if (n > 0) qsort(*out, (size_t)n, sizeof **out, compare_ngrams);
    return LH_OK;
}

lh_status lh_word_pair_matches(const lh_word_pair *pair, int order, int64_t *matches)
{
    lh_status st = LH_OK;
    ngram *a = NULL, *b = NULL;
    const int64_t n = pair->n[0] - order + 1, m = pair->n[1] - order + 1;
    LH_TRY_DONE(ngrams_of(pair->ids[0], n, order, &a));
    LH_TRY_DONE(ngrams_of(pair->ids[1], m, order, &b));
    *matches = 0;
    for (int64_t i = 0, j = 0; i < n && j < m;) {
        int side = compare_ngrams(&a[i], &b[j]);
        *matches += side == 0;
        i += side <= 0;
        j += side >= 0;
    }
done:
    lh_free(a);
    lh_free(b);
    return st;
}

lh_status lh_word_pair_common(const lh_word_pair *pair, int64_t *length)
{
    lh_status st = LH_OK;
    int64_t *row = NULL; /* row[j]: length for the words of the first text so far and the first j of the second */
    LH_TRY_DONE(lh_calloc(&row, pair->n[1] + 1, sizeof *row));
    for (int64_t i = 0; i < pair->n[0]; i++) {
        int64_t diagonal = 0;
        for (int64_t j = 1; j <= pair->n[1]; j++) {
            int64_t above = row[j];
            if (pair->ids[0][i] == pair->ids[1][j - 1])
                row[j] = diagonal + 1;
            else if (row[j - 1] > row[j])
                row[j] = row[j - 1];
            diagonal = above;
        }
    }
    *length = row[pair->n[1]];
done:
    lh_free(row);
    return st;
}

lh_status lh_words_found(double *share, const char *wanted, const char *text)
{
    lh_status st = LH_OK;
    lh_word_pair pair = {0};
    int64_t matches = 0;
    LH_TRY_DONE(lh_word_pair_make(&pair, (const char *const[2]){wanted, text}, LH_CUT_ANSWER));
    LH_TRY_DONE(lh_word_pair_matches(&pair, 1, &matches));
    *share = pair.n[0] ? (double)matches / (double)pair.n[0] : 0;
done:
    lh_word_pair_clear(&pair);
    return st;
}

/* ---- ROUGE and BLEU ---- */

static double f1(int64_t matches, int64_t reference, int64_t candidate)
{
    if (matches == 0) return 0;
    double precision = (double)matches / (double)candidate, recall = (double)matches / (double)reference;
    return 2 * precision * recall / (precision + recall);
}

static lh_status rouge(lh_similarity *out, const char *const texts[2])
{
    lh_status st = LH_OK;
    lh_word_pair pair = {0};
    int64_t one, two, common;
    LH_TRY_DONE(lh_word_pair_make(&pair, texts, LH_CUT_ROUGE));
    LH_TRY_DONE(lh_word_pair_matches(&pair, 1, &one));
    LH_TRY_DONE(lh_word_pair_matches(&pair, 2, &two));
    LH_TRY_DONE(lh_word_pair_common(&pair, &common));
    out->rouge1 = f1(one, pair.n[0], pair.n[1]);
    out->rouge2 = f1(two, pair.n[0] - 1, pair.n[1] - 1);
    out->rougel = f1(common, pair.n[0], pair.n[1]);
done:
    lh_word_pair_clear(&pair);
    return st;
}

static lh_status bleu(lh_similarity *out, const char *const texts[2])
{
    lh_status st = LH_OK;
    lh_word_pair pair = {0};
    double logs = 0;
    int64_t matches, any = 0, missing = 1;
    int orders = 0;
    LH_TRY_DONE(lh_word_pair_make(&pair, texts, LH_CUT_13A));
    const int64_t r = pair.n[0], c = pair.n[1];
    while (orders < LH_MAX_NGRAM && c > orders) {
        LH_TRY_DONE(lh_word_pair_matches(&pair, orders + 1, &matches));
        any += matches;
        if (!matches) missing *= 2;
        logs += log((matches ? (double)matches : 1 / (double)missing) / (double)(c - orders));
        orders++;
    }
    double brevity = c < r && c > 0 ? exp(1 - (double)r / (double)c) : 1;
    out->bleu = any ? brevity * exp(logs / orders) : 0;
done:
    lh_word_pair_clear(&pair);
    return st;
}

lh_status lh_similarity_of(lh_similarity *out, const char *reference, const char *candidate)
{
    const char *const texts[2] = {reference, candidate};
    LH_TRY(rouge(out, texts));
    LH_TRY(bleu(out, texts));
    return LH_OK;
}

/* ---- ROUGE-L of the package rouge 1.0.1 ---- */

/* Appends the sentences of a text as the package cuts it, each with single blanks between its words and a full stop at
 * its end. A sentence without words is one empty word. *n: their number. */
static lh_status cut_sentences(lh_buf *out, const char *text, int64_t *n)
{
    lh_status st = LH_OK;
    lh_buf part = {0};
    *n = 0;
    LH_TRY_DONE(lh_buf_puts(out, ""));
    for (size_t bytes; *text; text += bytes + (text[bytes] == '.')) {
        bytes = strcspn(text, ".");
        if (bytes == 0) continue;
        part.bytes = 0;
        LH_TRY_DONE(lh_buf_append(&part, text, (int64_t)bytes));
        LH_TRY_DONE(lh_join_words(out, part.data));
        LH_TRY_DONE(lh_buf_puts(out, "."));
        (*n)++;
    }
done:
    lh_buf_clear(&part);
    return st;
}

/* The words of a text as ids; equal words of both texts have equal ids. */
typedef struct sentences {
    int32_t *words;  /* of all sentences, one after the other */
    int64_t *starts; /* [n + 1] */
    int64_t n;
} sentences;

typedef struct vocabulary {
    const char **at;
    int64_t *bytes, n, cap;
} vocabulary;

static lh_status id_of(vocabulary *v, const char *text, int64_t bytes, int32_t *id)
{
    for (int64_t i = 0; i < v->n; i++)
        if (v->bytes[i] == bytes && memcmp(v->at[i], text, (size_t)bytes) == 0) {
            *id = (int32_t)i;
            return LH_OK;
        }
    if (v->n == v->cap) {
        v->cap = v->cap ? 2 * v->cap : 256;
        LH_TRY(lh_realloc((void *)&v->at, v->cap, sizeof *v->at));
        LH_TRY(lh_realloc(&v->bytes, v->cap, sizeof *v->bytes));
    }
    v->at[v->n] = text;
    v->bytes[v->n] = bytes;
    *id = (int32_t)v->n++;
    return LH_OK;
}

/* Of a text of cut_sentences. */
static lh_status read_sentences(sentences *out, vocabulary *v, const lh_buf *text, int64_t n)
{
    int64_t words = 0;
    LH_TRY(lh_calloc(&out->words, text->bytes + 1, sizeof *out->words));
    LH_TRY(lh_calloc(&out->starts, n + 1, sizeof *out->starts));
    for (const char *at = text->data; *at;) {
        const size_t bytes = strcspn(at, " .");
        LH_TRY(id_of(v, at, (int64_t)bytes, &out->words[words++]));
        at += bytes;
        if (*at == '.') out->starts[++out->n] = words;
        at++;
    }
    return LH_OK;
}

/* Marks the words of a longest common subsequence of two sentences; of several subsequences, the one that the package's
 * walk from the end finds. */
static lh_status mark_common(const int32_t *x, int64_t n, const int32_t *y, int64_t m, char *marked)
{
    lh_status st = LH_OK;
    int32_t *table = NULL; /* [n + 1, m + 1] lengths */
    const int64_t width = m + 1;
    LH_TRY_DONE(lh_calloc(&table, (n + 1) * width, sizeof *table));
    for (int64_t i = 1; i <= n; i++)
        for (int64_t j = 1; j <= m; j++) {
            const int32_t up = table[(i - 1) * width + j], left = table[i * width + j - 1];
            table[i * width + j] = x[i - 1] == y[j - 1] ? table[(i - 1) * width + j - 1] + 1 : (up > left ? up : left);
        }
    for (int64_t i = n, j = m; i > 0 && j > 0;) {
        if (x[i - 1] == y[j - 1]) {
            marked[x[i - 1]] = 1;
            i--;
            j--;
        } else if (table[(i - 1) * width + j] > table[i * width + j - 1]) {
            i--;
        } else {
            j--;
        }
    }
done:
    lh_free(table);
    return st;
}

static int64_t count_different(const sentences *s, int64_t vocabulary_size, char *seen)
{
    int64_t n = 0;
    memset(seen, 0, (size_t)vocabulary_size);
    for (int64_t i = 0; i < s->starts[s->n]; i++) {
        n += !seen[s->words[i]];
        seen[s->words[i]] = 1;
    }
    return n;
}

static lh_status score_sentences(const sentences *hyp, const sentences *ref, int64_t vocabulary_size, double *score)
{
    lh_status st = LH_OK;
    char *seen = NULL;
    int64_t same = 0;
    LH_TRY_DONE(lh_calloc(&seen, vocabulary_size, 1));
    const double n = (double)count_different(hyp, vocabulary_size, seen);
    const double m = (double)count_different(ref, vocabulary_size, seen);
    memset(seen, 0, (size_t)vocabulary_size);
    for (int64_t r = 0; r < ref->n; r++)
        for (int64_t h = 0; h < hyp->n; h++)
            LH_TRY_DONE(mark_common(ref->words + ref->starts[r], ref->starts[r + 1] - ref->starts[r],
                                    hyp->words + hyp->starts[h], hyp->starts[h + 1] - hyp->starts[h], seen));
    for (int64_t i = 0; i < vocabulary_size; i++) same += seen[i];
    const double precision = (double)same / n, recall = (double)same / m;
    *score = 2 * (precision * recall / (precision + recall + 1e-8));
done:
    lh_free(seen);
    return st;
}

lh_status lh_rouge_of_sentences(double *score, const char *reference, const char *candidate)
{
    lh_status st = LH_OK;
    lh_buf texts[2] = {{0}};
    sentences cut[2] = {{0}};
    vocabulary words = {0};
    int64_t n[2];
    *score = 0;
    LH_TRY_DONE(cut_sentences(&texts[0], candidate, &n[0]));
    LH_TRY_DONE(cut_sentences(&texts[1], reference, &n[1]));
    if (n[0] == 0 || n[1] == 0) goto done;
    for (int i = 0; i < 2; i++) LH_TRY_DONE(read_sentences(&cut[i], &words, &texts[i], n[i]));
    LH_TRY_DONE(score_sentences(&cut[0], &cut[1], words.n, score));
done:
    for (int i = 0; i < 2; i++) {
        lh_buf_clear(&texts[i]);
        lh_free(cut[i].words);
        lh_free(cut[i].starts);
    }
    lh_free((void *)words.at);
    lh_free(words.bytes);
    return st;
}
