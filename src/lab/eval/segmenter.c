/* segmenter.c - jieba 0.42.1 (jieba/__init__.py, Tokenizer.cut without cut_all; jieba/finalseg/__init__.py). */
#include "lab/eval/segmenter.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/unicode.h"

enum { STATES = 4, FIRST_HAN = 0x4E00, LAST_HAN = 0x9FD5, HAN = LAST_HAN - FIRST_HAN + 1 };
enum { BEGIN, MIDDLE, END, SINGLE }; /* of a character in its word */
static const char *const state_names[STATES] = {"B", "M", "E", "S"};
static const double UNSEEN = -3.14e100; /* log-probability of an unseen step or character */

typedef struct entry {
    const char *word; /* in the text of the dictionary */
    int64_t bytes, count;
} entry;

struct lh_segmenter {
    lh_buf text; /* of the dictionary */
    entry *entries;
    int64_t n; /* entries, in the order of their bytes */
    double log_total;
    double start[STATES], step[STATES][STATES]; /* log-probabilities of the model */
    double *emit;                               /* [STATES, HAN] */
};

/* ---- the dictionary ---- */

static int compare_bytes(const char *a, int64_t a_bytes, const char *b, int64_t b_bytes)
{
    const int64_t common = a_bytes < b_bytes ? a_bytes : b_bytes;
    const int order = memcmp(a, b, (size_t)common);
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* By word, then by line: words point into one text. */
static int by_word(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int order = compare_bytes(x->word, x->bytes, y->word, y->bytes);
    return order ? order : (x->word > y->word) - (x->word < y->word);
}

/* "WORD COUNT TAG" in every line; of lines with the same word the last one holds, but all add to the total. */
static lh_status parse_dictionary(lh_segmenter *s, const char *path)
{
    int64_t lines = 0, total = 0, n = 0;
    for (const char *at = s->text.data; *at; at++) lines += *at == '\n';
    LH_TRY(lh_calloc(&s->entries, lines + 1, sizeof *s->entries));
    int64_t line = 1;
    for (char *at = s->text.data; *at; at += strcspn(at, "\n"), at += *at == '\n', line++) {
        const size_t bytes = strcspn(at, " \n");
        char *end = at + bytes;
        const long long count = *end == ' ' ? strtoll(end + 1, &end, 10) : -1;
        if (bytes == 0 || count < 0 || !strchr(" \r\n", *end))
            LH_FAIL(LH_EINPUT, "'%s' is no dictionary of jieba: line %lld is no 'WORD COUNT TAG'", path,
                    (long long)line);
        s->entries[s->n++] = (entry){at, (int64_t)bytes, count};
        total += count;
    }
    if (total == 0) LH_FAIL(LH_EINPUT, "'%s' is no dictionary of jieba: it counts no word", path);
    qsort(s->entries, (size_t)s->n, sizeof *s->entries, by_word);
    for (int64_t i = 0; i < s->n; i++) {
        const entry *e = &s->entries[i], *last = n ? &s->entries[n - 1] : NULL;
        n += !last || compare_bytes(last->word, last->bytes, e->word, e->bytes) != 0;
        s->entries[n - 1] = *e;
    }
    s->n = n;
    s->log_total = log((double)total);
    return LH_OK;
}

/* Entries that begin with a fragment of a text, which grows by one character at a time. */
typedef struct range {
    int64_t from, until;
} range;

/* Narrows the range of a text without its last character to the entries that begin with text[0 … bytes). */
static range narrow(const lh_segmenter *s, range r, const char *text, int64_t bytes)
{
    for (int upper = 0; upper < 2; upper++) {
        int64_t low = r.from, high = r.until;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            const entry *e = &s->entries[middle];
            const int order = compare_bytes(e->word, e->bytes < bytes ? e->bytes : bytes, text, bytes);
            if (order < 0 || (upper && order == 0))
                low = middle + 1;
            else
                high = middle;
        }
        *(upper ? &r.until : &r.from) = low;
    }
    return r;
}

/* The count of the fragment itself, which is the first entry that begins with it; 0: it is no word. */
static int64_t count_of(const lh_segmenter *s, range r, int64_t bytes)
{
    return r.from < r.until && s->entries[r.from].bytes == bytes ? s->entries[r.from].count : 0;
}

/* ---- the model ---- */

/* A file "…P={'B': …}" as JSON. */
static lh_status read_python(json_t **out, const lh_buf *text, const char *path)
{
    lh_status st = LH_OK;
    json_error_t error;
    lh_buf json = {0};
    const char *begin = text->data ? strstr(text->data, "P={") : NULL;
    LH_TRY_DONE(lh_buf_puts(&json, begin ? begin + 2 : ""));
    for (char *at = json.data; *at; at++)
        if (*at == '\'') *at = '"';
    *out = json_loads(json.data, 0, &error);
    if (!json_is_object(*out)) LH_FAIL_DONE(LH_EINPUT, "'%s' is no model of jieba: it has no object 'P={…}'", path);
done:
    lh_buf_clear(&json);
    return st;
}

/* Sets *out to the number of this name, or UNSEEN; true if there is one. */
static int take_number(double *out, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    *out = json_is_number(value) ? json_number_value(value) : UNSEEN;
    return json_is_number(value);
}

/* Log-probabilities of a state, from one of the files of the model; true if there are any. */
static int take_start(lh_segmenter *s, int x, const json_t *model)
{
    return take_number(&s->start[x], model, state_names[x]);
}

static int take_steps(lh_segmenter *s, int x, const json_t *model)
{
    int taken = 0;
    for (int y = 0; y < STATES; y++)
        taken |= take_number(&s->step[x][y], json_object_get(model, state_names[x]), state_names[y]);
    return taken;
}

static int take_characters(lh_segmenter *s, int x, const json_t *model)
{
    double *emit = s->emit + (int64_t)x * HAN;
    const char *character;
    json_t *value;
    int taken = 0;
    for (int64_t i = 0; i < HAN; i++) emit[i] = UNSEEN;
    json_object_foreach(json_object_get(model, state_names[x]), character, value)
    {
        uint32_t cp;
        int skip;
        lh_utf8_read(character, (int64_t)strlen(character), &cp, &skip);
        if (cp < FIRST_HAN || cp > LAST_HAN || !json_is_number(value)) continue;
        emit[cp - FIRST_HAN] = json_number_value(value);
        taken = 1;
    }
    return taken;
}

/* A file of the model: its name, and where its log-probabilities go. */
typedef struct model_file {
    const char *name;
    int (*take)(lh_segmenter *s, int state, const json_t *model);
} model_file;

static const model_file model_files[] = {{"finalseg/prob_start.py", take_start},
                                         {"finalseg/prob_trans.py", take_steps},
                                         {"finalseg/prob_emit.py", take_characters}};

static lh_status take_model(lh_segmenter *s, const model_file *file, const json_t *model, const char *path)
{
    for (int x = 0; x < STATES; x++)
        if (!file->take(s, x, model))
            LH_FAIL(LH_EINPUT, "'%s' is no model of jieba: it has no log-probability of the state '%s'", path,
                    state_names[x]);
    return LH_OK;
}

/* ---- opening ---- */

static lh_status read_file(lh_buf *out, char **path, const char *folder, const char *name)
{
    lh_free(*path);
    *path = NULL;
    LH_TRY(lh_asprintf(path, "%s/%s", folder, name));
    LH_TRY(lh_file_read(out, *path, INT64_C(1) << 28));
    if (out->bytes && memchr(out->data, '\0', (size_t)out->bytes))
        LH_FAIL(LH_EINPUT, "'%s' holds a zero byte: it is not text", *path);
    return lh_buf_puts(out, "");
}

lh_status lh_segmenter_open(lh_segmenter **out, const char *folder, uint64_t *hash)
{
    lh_status st = LH_OK;
    lh_segmenter *s = NULL;
    lh_buf text = {0};
    json_t *model = NULL;
    char *path = NULL;
    LH_TRY_DONE(lh_calloc(&s, 1, sizeof *s));
    LH_TRY_DONE(lh_calloc(&s->emit, (int64_t)STATES * HAN, sizeof *s->emit));
    LH_TRY_DONE(read_file(&s->text, &path, folder, "dict.txt"));
    *hash = lh_hash64(s->text.data, s->text.bytes);
    LH_TRY_DONE(parse_dictionary(s, path));
    for (size_t i = 0; i < sizeof model_files / sizeof *model_files; i++) {
        lh_buf_clear(&text);
        json_decref(model);
        model = NULL;
        LH_TRY_DONE(read_file(&text, &path, folder, model_files[i].name));
        LH_TRY_DONE(read_python(&model, &text, path));
        LH_TRY_DONE(take_model(s, &model_files[i], model, path));
        const uint64_t pair[] = {*hash, lh_hash64(text.data, text.bytes)};
        *hash = lh_hash64(pair, sizeof pair);
    }
    *out = s;
    s = NULL;
done:
    lh_segmenter_close(s);
    lh_buf_clear(&text);
    json_decref(model);
    lh_free(path);
    return st;
}

void lh_segmenter_close(lh_segmenter *s)
{
    if (!s) return;
    lh_buf_clear(&s->text);
    lh_free(s->entries);
    lh_free(s->emit);
    lh_free(s);
}

/* ---- cutting ---- */

/* A text as characters. */
typedef struct cutting {
    const lh_segmenter *s;
    const char *text;
    uint32_t *at;   /* [n] */
    int64_t *bytes; /* [n + 1] offsets in the text */
    int64_t *next;  /* [n] of a block: the character after the word that begins here */
    double *best;   /* [n + 1] of a block: log-probability of the best path from here on */
    char *from;     /* [n, STATES] of a run: the state before */
    lh_word_taker take;
    void *self;
} cutting;

static lh_status take_word(const cutting *c, int64_t from, int64_t until)
{
    return until > from ? c->take(c->self, c->text + c->bytes[from], c->bytes[until] - c->bytes[from]) : LH_OK;
}

static int is_han(uint32_t cp)
{
    return cp >= FIRST_HAN && cp <= LAST_HAN;
}

static int is_letter_or_digit(uint32_t cp)
{
    return (cp >= '0' && cp <= '9') || (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z');
}

/* A character of the words of dictionaries. */
static int is_in_block(uint32_t cp)
{
    return is_han(cp) || is_letter_or_digit(cp) || (cp < 0x80 && cp && strchr("+#&._%-", (int)cp));
}

/* The most likely states of a run of Chinese characters (viterbi); of equal ones the later letter. */
static int find_states(const cutting *c, int64_t from, int64_t until)
{
    static const int before[STATES][2] = {{SINGLE, END}, {MIDDLE, BEGIN}, {MIDDLE, BEGIN}, {SINGLE, END}};
    const lh_segmenter *s = c->s;
    double now[STATES], next[STATES];
    for (int y = 0; y < STATES; y++) now[y] = s->start[y] + s->emit[(int64_t)y * HAN + c->at[from] - FIRST_HAN];
    for (int64_t t = from + 1; t < until; t++) {
        for (int y = 0; y < STATES; y++) {
            const double seen = s->emit[(int64_t)y * HAN + c->at[t] - FIRST_HAN];
            const int x = before[y][0], other = before[y][1];
            const double p = now[x] + s->step[x][y] + seen, q = now[other] + s->step[other][y] + seen;
            next[y] = q > p ? q : p;
            c->from[t * STATES + y] = (char)(q > p ? other : x);
        }
        memcpy(now, next, sizeof now);
    }
    return now[END] > now[SINGLE] ? END : SINGLE;
}

static lh_status cut_run(const cutting *c, int64_t from, int64_t until)
{
    int state = find_states(c, from, until);
    for (int64_t t = until - 1; t >= from; t--) { /* word beginnings from the end on */
        c->next[t] = state;
        if (t > from) state = c->from[t * STATES + state];
    }
    int64_t begin = from;
    for (int64_t t = from; t < until; t++) {
        if (c->next[t] == BEGIN) begin = t;
        if (c->next[t] == END) LH_TRY(take_word(c, begin, t + 1));
        if (c->next[t] == SINGLE) LH_TRY(take_word(c, t, t + 1));
        if (c->next[t] == END || c->next[t] == SINGLE) begin = t + 1;
    }
    return take_word(c, begin, until);
}

/* The end of a number or a Latin word, such as "3.5%", that begins at a letter or digit. */
static int64_t end_of_latin(const cutting *c, int64_t at, int64_t until)
{
    while (at < until && is_letter_or_digit(c->at[at])) at++;
    int64_t digits = at + 1;
    while (at < until && c->at[at] == '.' && digits < until && c->at[digits] >= '0' && c->at[digits] <= '9') digits++;
    if (digits > at + 1) at = digits;
    return at + (at < until && c->at[at] == '%');
}

/* Characters between the words of the dictionary (finalseg.cut). */
static lh_status cut_rest(const cutting *c, int64_t from, int64_t until)
{
    for (int64_t end; from < until; from = end) {
        end = from;
        if (is_han(c->at[from])) {
            while (end < until && is_han(c->at[end])) end++;
            LH_TRY(cut_run(c, from, end));
            continue;
        }
        if (is_letter_or_digit(c->at[from]))
            end = end_of_latin(c, from, until);
        else
            while (end < until && !is_han(c->at[end]) && !is_letter_or_digit(c->at[end])) end++;
        LH_TRY(take_word(c, from, end));
    }
    return LH_OK;
}

static range all_entries(const lh_segmenter *s)
{
    return (range){0, s->n};
}

/* The most likely path through a block; of equal ones the longer word. */
static void find_path(const cutting *c, int64_t from, int64_t until)
{
    const lh_segmenter *s = c->s;
    c->best[until] = 0;
    for (int64_t at = until - 1; at >= from; at--) {
        range r = all_entries(s);
        c->next[at] = at + 1;
        c->best[at] = log(1) - s->log_total + c->best[at + 1];
        int words = 0;
        for (int64_t end = at + 1; end <= until; end++) {
            const int64_t bytes = c->bytes[end] - c->bytes[at];
            r = narrow(s, r, c->text + c->bytes[at], bytes);
            if (r.from == r.until) break;
            const int64_t count = count_of(s, r, bytes);
            if (!count) continue;
            const double p = log((double)count) - s->log_total + c->best[end];
            if (words++ && p < c->best[at]) continue;
            c->best[at] = p;
            c->next[at] = end;
        }
    }
}

/* Consecutive single-character words of the path. */
static lh_status cut_singles(const cutting *c, int64_t from, int64_t until)
{
    const int64_t bytes = c->bytes[until] - c->bytes[from];
    if (until - from < 2) return take_word(c, from, until);
    const range r = narrow(c->s, all_entries(c->s), c->text + c->bytes[from], bytes);
    if (!count_of(c->s, r, bytes)) return cut_rest(c, from, until);
    for (; from < until; from++) LH_TRY(take_word(c, from, from + 1));
    return LH_OK;
}

static lh_status cut_block(const cutting *c, int64_t from, int64_t until)
{
    int64_t single = from;
    find_path(c, from, until);
    for (int64_t at = from, end; at < until; at = end) {
        end = c->next[at];
        if (end == at + 1) continue;
        LH_TRY(cut_singles(c, single, at));
        LH_TRY(take_word(c, at, end));
        single = end;
    }
    return cut_singles(c, single, until);
}

static lh_status cut_text(const cutting *c, int64_t n)
{
    for (int64_t at = 0, end; at < n; at = end) {
        end = at + 1;
        if (is_in_block(c->at[at])) {
            while (end < n && is_in_block(c->at[end])) end++;
            LH_TRY(cut_block(c, at, end));
            continue;
        }
        end += c->at[at] == '\r' && end < n && c->at[end] == '\n';
        LH_TRY(take_word(c, at, end));
    }
    return LH_OK;
}

lh_status lh_segmenter_cut(const lh_segmenter *s, const char *text, lh_word_taker take, void *self)
{
    lh_status st = LH_OK;
    const int64_t bytes = (int64_t)strlen(text);
    cutting c = {.s = s, .text = text, .take = take, .self = self};
    int64_t n = 0;
    int skip;
    LH_TRY_DONE(lh_calloc(&c.at, bytes + 1, sizeof *c.at));
    LH_TRY_DONE(lh_calloc(&c.bytes, bytes + 1, sizeof *c.bytes));
    for (int64_t at = 0; at < bytes; at += skip) {
        lh_utf8_read(text + at, bytes - at, &c.at[n], &skip);
        c.bytes[++n] = at + skip;
    }
    LH_TRY_DONE(lh_calloc(&c.next, n + 1, sizeof *c.next));
    LH_TRY_DONE(lh_calloc(&c.best, n + 1, sizeof *c.best));
    LH_TRY_DONE(lh_calloc(&c.from, (n + 1) * STATES, sizeof *c.from));
    LH_TRY_DONE(cut_text(&c, n));
done:
    lh_free(c.at);
    lh_free(c.bytes);
    lh_free(c.next);
    lh_free(c.best);
    lh_free(c.from);
    return st;
}
