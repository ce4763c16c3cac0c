/* profile_weights.c - weights of profiles: reads CSV files of weights for the budgets of layers or heads, with messages
 * that name file and line, and writes them. */
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/unicode.h"
#include "policies/policy_impl.h"

enum { MAX_FIELDS = 3, MAX_NUMBER = (1 << 20) - 1, WEIGHT_SCALE = 9 };

static const int64_t max_weight = 1000000000, weight_end = 1000000000000000000;

static const char *const headers[] = {"layer,weight", "layer,head,weight"}; /* lh_profile_kind */

/* ---- rows of the file ---- */

typedef struct weight_row {
    int64_t layer, head, weight, line;
} weight_row;

typedef struct reader {
    lh_profile_kind kind; /* wanted */
    lh_profile_kind rows_of;
    const char *name;
    int64_t line; /* from 1 on */
    int has_header;
    weight_row *rows;
    int64_t n, cap;
} reader;

lh_piece lh_piece_trim(lh_piece p)
{
    while (p.bytes && lh_is_ascii_space(*p.at)) p.at++, p.bytes--;
    while (p.bytes && lh_is_ascii_space(p.at[p.bytes - 1])) p.bytes--;
    return p;
}

/* The first fields of a row, and the number of all. */
static int64_t fields_of(const lh_csv_row *row, lh_piece fields[MAX_FIELDS])
{
    for (int64_t i = 0; i < row->n && i < MAX_FIELDS; i++)
        fields[i] = lh_piece_trim((lh_piece){lh_csv_field(row, i), lh_csv_bytes(row, i)});
    return row->n;
}

static int is_header(const lh_piece *fields, int64_t n, lh_profile_kind kind)
{
    const char *word = headers[kind];
    if (n != 2 + (kind == LH_PROFILE_OF_HEADS)) return 0;
    for (int64_t i = 0; i < n; i++) {
        const size_t bytes = strcspn(word, ",");
        if ((size_t)fields[i].bytes != bytes || memcmp(fields[i].at, word, bytes) != 0) return 0;
        word += bytes + 1;
    }
    return 1;
}

static lh_status read_header(reader *r, const lh_piece *fields, int64_t n)
{
    const int of_heads = is_header(fields, n, LH_PROFILE_OF_HEADS);
    if (!of_heads && !is_header(fields, n, LH_PROFILE_OF_LAYERS))
        LH_FAIL(LH_EINPUT, "'%s', line %lld: the first line must be '%s'", r->name, (long long)r->line,
                headers[r->kind]);
    if (!of_heads && r->kind == LH_PROFILE_OF_HEADS)
        LH_FAIL(LH_EINPUT,
                "'%s', line %lld: '%s' is the header of '--layer-budget FILE'; weights of heads begin with '%s'",
                r->name, (long long)r->line, headers[LH_PROFILE_OF_LAYERS], headers[LH_PROFILE_OF_HEADS]);
    r->rows_of = of_heads ? LH_PROFILE_OF_HEADS : LH_PROFILE_OF_LAYERS;
    r->has_header = 1;
    return LH_OK;
}

static lh_status read_number(const reader *r, lh_piece field, const char *what, int64_t *out)
{
    if (!lh_integer_read(out, field.at, field.bytes, 0) || *out > MAX_NUMBER)
        LH_FAIL(LH_EINPUT, "'%s', line %lld: the %s '%.*s' must be an integer from 0 to %d", r->name,
                (long long)r->line, what, (int)lh_min_i64(field.bytes, 40), field.at, MAX_NUMBER);
    return LH_OK;
}

/* In units of 10^-9: 1, or 0 if it is no weight. */
static int weight_of(int64_t *out, lh_piece field)
{
    lh_decimal d;
    if (!lh_decimal_read(&d, field.at, field.bytes) || d.scale > WEIGHT_SCALE || lh_decimal_of(d, 1) >= max_weight)
        return 0;
    while (d.scale++ < WEIGHT_SCALE) d.digits *= 10;
    *out = d.digits;
    return 1;
}

static lh_status read_row(reader *r, const lh_piece *fields, int64_t n)
{
    int heads = r->rows_of == LH_PROFILE_OF_HEADS;
    weight_row new = {.line = r->line};
    if (n != 2 + heads)
        LH_FAIL(LH_EINPUT, "'%s', line %lld: it must have %d comma-separated values, as in '%s'", r->name,
                (long long)r->line, 2 + heads, headers[r->rows_of]);
    LH_TRY(read_number(r, fields[0], "layer", &new.layer));
    if (heads) LH_TRY(read_number(r, fields[1], "head", &new.head));
    if (!weight_of(&new.weight, fields[1 + heads]))
        LH_FAIL(LH_EINPUT,
                "'%s', line %lld: the weight '%.*s' must be a decimal from 0 on, with at most 9 digits before its "
                "point and 9 after it",
                r->name, (long long)r->line, (int)lh_min_i64(fields[1 + heads].bytes, 40), fields[1 + heads].at);
    if (r->n == r->cap) {
        LH_TRY(lh_realloc(&r->rows, 2 * r->cap + 64, sizeof *r->rows));
        r->cap = 2 * r->cap + 64;
    }
    r->rows[r->n++] = new;
    return LH_OK;
}

/* Overwrites comments, from '#' to the end of the line, with spaces. */
static void blank_comments(char *text, int64_t bytes)
{
    int in_comment = 0;
    for (int64_t i = 0; i < bytes; i++) {
        in_comment = text[i] != '\n' && (in_comment || text[i] == '#');
        if (in_comment) text[i] = ' ';
    }
}

static lh_status read_rows(reader *r, lh_csv *csv)
{
    lh_status st = LH_OK;
    lh_piece fields[MAX_FIELDS];
    lh_csv_row row = {.n = 0};
    for (;;) {
        LH_TRY_DONE(lh_csv_next(csv, &row));
        const int64_t n = fields_of(&row, fields);
        if (!n) break;
        if (n == 1 && !fields[0].bytes) continue;
        r->line = row.line;
        LH_TRY_DONE(r->has_header ? read_row(r, fields, n) : read_header(r, fields, n));
    }
    if (!r->has_header)
        LH_FAIL_DONE(LH_EINPUT, "'%s' is empty: its first line must be '%s'", r->name, headers[r->kind]);
    if (!r->n) LH_FAIL_DONE(LH_EINPUT, "'%s' has no weights below its first line", r->name);
done:
    lh_csv_row_clear(&row);
    return st;
}

static lh_status read_lines(reader *r, const lh_profile_text *in)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    lh_csv csv;
    LH_TRY_DONE(lh_buf_append(&text, in->text, in->bytes));
    blank_comments(text.data, text.bytes);
    lh_csv_open(&csv, in->name, text.data, text.bytes);
    LH_TRY_DONE(read_rows(r, &csv));
done:
    lh_buf_clear(&text);
    return st;
}

/* ---- the whole file ---- */

static int in_order(const void *a, const void *b)
{
    const weight_row *x = a, *y = b;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    return x->line < y->line ? -1 : 1;
}

/* "layer 3" or "head 2 of layer 3". */
typedef struct label {
    char text[64];
} label;

static label label_of(const reader *r, int64_t layer, int64_t head)
{
    label p;
    if (r->rows_of == LH_PROFILE_OF_LAYERS)
        snprintf(p.text, sizeof p.text, "layer %lld", (long long)layer);
    else
        snprintf(p.text, sizeof p.text, "head %lld of layer %lld", (long long)head, (long long)layer);
    return p;
}

static lh_status fail_missing(const reader *r, const weight_row *there, int64_t layer, int64_t head)
{
    return lh_fail(LH_EINPUT, __FILE__, __LINE__, "'%s', line %lld: %s has a weight, but %s has none", r->name,
                   (long long)there->line, label_of(r, there->layer, there->head).text, label_of(r, layer, head).text);
}

/* Rows are in order; each layer has as many heads as the widest: every layer and head occurs once. */
static lh_status check_complete(const reader *r, const weight_row *widest)
{
    int64_t heads = widest->head + 1;
    for (int64_t i = 0; i < r->n; i++) {
        const weight_row *at = &r->rows[i];
        int64_t layer = i / heads, head = i % heads;
        if (i && at[-1].layer == at->layer && at[-1].head == at->head)
            LH_FAIL(LH_EINPUT, "'%s', line %lld: %s has a weight already, in line %lld", r->name, (long long)at->line,
                    label_of(r, at->layer, at->head).text, (long long)at[-1].line);
        if (at->layer != layer || at->head != head)
            LH_TRY(fail_missing(r, at->layer != layer && head ? widest : at, layer, head));
    }
    if (r->n % heads) LH_TRY(fail_missing(r, widest, r->n / heads, r->n % heads));
    return LH_OK;
}

/* Weights that divide one budget must not all be 0. */
static lh_status check_sums(const reader *r, int64_t heads)
{
    int64_t each = r->kind == LH_PROFILE_OF_HEADS ? heads : r->n;
    for (int64_t i = 0; i < r->n; i += each) {
        int64_t any = 0, last = 0;
        for (int64_t j = i; j < i + each; j++) any |= r->rows[j].weight, last = lh_max_i64(last, r->rows[j].line);
        if (any) continue;
        label all = {"layers"};
        if (r->kind == LH_PROFILE_OF_HEADS)
            snprintf(all.text, sizeof all.text, "heads of layer %lld", (long long)(i / each));
        LH_FAIL(LH_EINPUT, "'%s', line %lld: the weights of all %s are 0, one must be larger", r->name, (long long)last,
                all.text);
    }
    return LH_OK;
}

/* heads: rows of each layer, which are added up where weights of layers are wanted. */
static lh_status make_profile(lh_profile **out, const reader *r, int64_t heads)
{
    lh_status st = LH_OK;
    lh_profile *p = NULL;
    const int64_t sums = r->kind == LH_PROFILE_OF_LAYERS ? heads : 1;
    LH_TRY_DONE(lh_calloc(&p, 1, sizeof *p));
    p->kind = r->kind;
    p->heads = heads / sums;
    p->layers = r->n / heads;
    LH_TRY_DONE(lh_strdup(&p->name, r->name));
    LH_TRY_DONE(lh_calloc(&p->weights, r->n / sums, sizeof *p->weights));
    for (int64_t i = 0; i < r->n; i++) {
        const weight_row *at = &r->rows[i];
        if (at->weight >= weight_end - p->weights[i / sums])
            LH_FAIL_DONE(LH_EINPUT, "'%s', line %lld: the weights of layer %lld add up to %lld or more", r->name,
                         (long long)at->line, (long long)at->layer, (long long)max_weight);
        p->weights[i / sums] += at->weight;
    }
    *out = p;
    p = NULL;
done:
    lh_profile_free(p);
    return st;
}

lh_status lh_profile_weights(lh_profile **out, lh_profile_kind kind, const lh_profile_text *in)
{
    lh_status st = LH_OK;
    reader r = {.kind = kind, .name = in->name};
    const weight_row *widest;
    LH_TRY_DONE(read_lines(&r, in));
    qsort(r.rows, (size_t)r.n, sizeof *r.rows, in_order);
    widest = r.rows;
    for (int64_t i = 1; i < r.n; i++)
        if (r.rows[i].head > widest->head) widest = &r.rows[i];
    LH_TRY_DONE(check_complete(&r, widest));
    LH_TRY_DONE(check_sums(&r, widest->head + 1));
    LH_TRY_DONE(make_profile(out, &r, widest->head + 1));
done:
    lh_free(r.rows);
    return st;
}

lh_status lh_profile_write_weights(const lh_profile *p, lh_buf *out)
{
    lh_part_value weight;
    int heads = p->kind == LH_PROFILE_OF_HEADS;
    LH_TRY(lh_buf_printf(out, "%s\n", headers[p->kind]));
    for (int64_t i = 0; i < p->layers * p->heads; i++) {
        lh_decimal d = {p->weights[i], WEIGHT_SCALE};
        for (; d.scale && d.digits % 10 == 0; d.scale--) d.digits /= 10;
        lh_decimal_write(d, &weight);
        LH_TRY(lh_buf_printf(out, "%lld,", (long long)(i / p->heads)));
        if (heads) LH_TRY(lh_buf_printf(out, "%lld,", (long long)(i % p->heads)));
        LH_TRY(lh_buf_printf(out, "%s\n", weight.text));
    }
    return LH_OK;
}
