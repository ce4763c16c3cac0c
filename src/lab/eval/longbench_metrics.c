#include "lab/eval/longbench_metrics.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "base/unicode.h"
#include "lab/eval/text_metrics.h"

/* ---- words ---- */

static double f1_of(double same, double precision_of, double recall_of)
{
    return same > 0 ? 2 * same / (precision_of + recall_of) : 0;
}

lh_status lh_longbench_qa_f1(const char *prediction, const lh_longbench_truth *truth, double *score)
{
    lh_status st = LH_OK;
    lh_word_pair pair = {0};
    const char *const texts[2] = {prediction, truth->answer};
    int64_t same = 0;
    LH_TRY_DONE(lh_word_pair_make(&pair, texts, LH_CUT_SQUAD));
    LH_TRY_DONE(lh_word_pair_matches(&pair, 1, &same));
    *score = f1_of((double)same, (double)pair.n[0], (double)pair.n[1]);
done:
    lh_word_pair_clear(&pair);
    return st;
}

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

/* The words of both texts as ids: those that are equal have equal ids. */
typedef struct sentences {
    int32_t *words;  /* of all sentences, one after the other */
    int64_t *starts; /* [n + 1] */
    int64_t n;
} sentences;

typedef struct vocabulary {
    const char **at;
    int64_t *bytes, n, cap;
} vocabulary;

static lh_status id_of(vocabulary *v, const char *word, int64_t bytes, int32_t *id)
{
    for (int64_t i = 0; i < v->n; i++)
        if (v->bytes[i] == bytes && memcmp(v->at[i], word, (size_t)bytes) == 0) {
            *id = (int32_t)i;
            return LH_OK;
        }
    if (v->n == v->cap) {
        v->cap = v->cap ? 2 * v->cap : 256;
        LH_TRY(lh_realloc((void *)&v->at, v->cap, sizeof *v->at));
        LH_TRY(lh_realloc(&v->bytes, v->cap, sizeof *v->bytes));
    }
    v->at[v->n] = word;
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

/* Marks the words of a longest common subsequence of two sentences: of several, that which the package's walk from the
 * end finds. */
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

lh_status lh_longbench_rouge(const char *prediction, const lh_longbench_truth *truth, double *score)
{
    lh_status st = LH_OK;
    lh_buf texts[2] = {{0}};
    sentences cut[2] = {{0}};
    vocabulary words = {0};
    int64_t n[2];
    *score = 0;
    LH_TRY_DONE(cut_sentences(&texts[0], prediction, &n[0]));
    LH_TRY_DONE(cut_sentences(&texts[1], truth->answer, &n[1]));
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

/* ---- classes and numbers ---- */

lh_status lh_longbench_classification(const char *prediction, const lh_longbench_truth *truth, double *score)
{
    lh_status st = LH_OK;
    const char **named = NULL;
    int64_t n = 0, has = 0;
    LH_TRY_DONE(lh_calloc((void *)&named, truth->class_count, sizeof *named));
    for (int64_t i = 0; i < truth->class_count; i++)
        if (strstr(prediction, truth->classes[i])) named[n++] = truth->classes[i];
    for (int64_t i = 0; i < n; i++) { /* as the script does, which skips the class after one that it removes */
        if (!strstr(truth->answer, named[i]) || strcmp(truth->answer, named[i]) == 0) continue;
        memmove((void *)(named + i), (void *)(named + i + 1), (size_t)(n - i - 1) * sizeof *named);
        n--;
    }
    for (int64_t i = 0; i < n; i++) has |= strcmp(named[i], truth->answer) == 0;
    *score = has ? 1.0 / (double)n : 0;
done:
    lh_free((void *)named);
    return st;
}

/* The share of the numbers of a text that are digits[0 … bytes]. */
static double share_of_numbers(const char *text, const char *digits, size_t bytes)
{
    int64_t n = 0, right = 0;
    for (size_t run; *text; text += run) {
        run = strspn(text, "0123456789");
        n += run > 0;
        right += run > 0 && run == bytes && memcmp(text, digits, bytes) == 0;
        run += run == 0;
    }
    return n ? (double)right / (double)n : 0;
}

lh_status lh_longbench_count(const char *prediction, const lh_longbench_truth *truth, double *score)
{
    *score = share_of_numbers(prediction, truth->answer, strlen(truth->answer));
    return LH_OK;
}

/* `before`: what stands before the number of a paragraph. */
static double retrieval_of(const char *prediction, const char *answer, const char *before)
{
    for (const char *at = strstr(answer, before); at; at = strstr(at + 1, before)) {
        const char *digits = at + strlen(before);
        const size_t bytes = strspn(digits, "0123456789");
        if (bytes) return share_of_numbers(prediction, digits, bytes);
    }
    return 0;
}

lh_status lh_longbench_retrieval(const char *prediction, const lh_longbench_truth *truth, double *score)
{
    *score = retrieval_of(prediction, truth->answer, "Paragraph ");
    return LH_OK;
}

lh_status lh_longbench_retrieval_zh(const char *prediction, const lh_longbench_truth *truth, double *score)
{
    *score = retrieval_of(prediction, truth->answer, "段落");
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

/* Two lines, and of the second the characters that difflib leaves out when it looks for matches: in a line of 200 or
 * more those of more than one in a hundred. */
typedef struct lines {
    characters a, b;
    char *popular;    /* [b.n] */
    int64_t *row[2];  /* [b.n + 1] lengths of matches that end in a character of a */
    int64_t *pending; /* stack of ranges, 4 each */
} lines;

static void find_popular(lines *l)
{
    const int64_t most = l->b.n / 100 + 1;
    for (int64_t j = 0; l->b.n >= 200 && j < l->b.n; j++) {
        int64_t times = 0;
        for (int64_t k = 0; k < l->b.n; k++) times += l->b.at[k] == l->b.at[j];
        l->popular[j] = times > most;
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

/* Characters in all matches: the longest one, and those on either side of it. */
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

lh_status lh_longbench_code_sim(const char *prediction, const lh_longbench_truth *truth, double *score)
{
    const char *line = prediction + strspn(prediction, "\n");
    int64_t bytes = (int64_t)strcspn(line, "\n");
    while (!is_code(line, bytes)) {
        line += bytes + (line[bytes] == '\n');
        bytes = (int64_t)strcspn(line, "\n");
    }
    LH_TRY(ratio_of(line, bytes, truth->answer, score));
    *score /= 100;
    return LH_OK;
}
