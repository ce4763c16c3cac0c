/* Reads profiles: CSV files of weights for the budgets of layers or heads, checked for completeness with messages that
 * name file and line, and kept once per hash. */
#include "policies/profile.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "policies/policy_impl.h"

enum { MAX_FIELDS = 3, MAX_NUMBER = (1 << 20) - 1 };

static const int64_t file_bytes = 16 << 20, max_weight = 1000000000;

static const char *const headers[] = {"layer,weight", "layer,head,weight"}; /* lh_profile_kind */

const char *lh_profile_header(lh_profile_kind kind)
{
    return headers[kind];
}

/* ---- the collection ---- */

static void free_profile(lh_profile *p)
{
    if (!p) return;
    lh_free(p->name);
    lh_free(p->weights);
    lh_free(p);
}

void lh_profiles_clear(lh_profiles *all)
{
    for (int64_t i = 0; i < all->n; i++) free_profile(all->at[i]);
    lh_free(all->at);
    *all = (lh_profiles){0};
}

const lh_profile *lh_profiles_find(const lh_profiles *all, uint64_t hash)
{
    for (int64_t i = 0; all && i < all->n; i++)
        if (all->at[i]->hash == hash) return all->at[i];
    return NULL;
}

/* Of the kind, too: a profile of the heads of one layer is not one of layers. */
static lh_status hash_of(const lh_profile *p, uint64_t *out)
{
    lh_status st = LH_OK;
    lh_hasher *hasher = NULL;
    const int64_t shape[] = {p->kind, p->layers, p->heads};
    LH_TRY_DONE(lh_hasher_open(&hasher));
    lh_hasher_add(hasher, shape, sizeof shape);
    lh_hasher_add(hasher, p->weights, p->layers * p->heads * (int64_t)sizeof *p->weights);
    *out = lh_hasher_value(hasher);
    if (!*out) *out = 1; /* 0: no profile */
done:
    lh_hasher_close(hasher);
    return st;
}

/* Takes *p, unless an equal one is there; the caller frees what is left. */
static lh_status add(lh_profiles *all, lh_profile **p, uint64_t *hash)
{
    LH_TRY(hash_of(*p, &(*p)->hash));
    *hash = (*p)->hash;
    if (lh_profiles_find(all, *hash)) return LH_OK;
    LH_TRY(lh_realloc(&all->at, all->n + 1, sizeof *all->at));
    all->at[all->n++] = *p;
    *p = NULL;
    return LH_OK;
}

/* ---- lines ---- */

typedef struct row {
    int64_t layer, head, weight, line;
} row;

typedef struct reader {
    lh_profile_kind kind;
    const char *name;
    int64_t line; /* from 1 on */
    int has_header;
    row *rows;
    int64_t n, cap;
} reader;

/* A piece of a line. */
typedef struct piece {
    const char *at;
    int64_t bytes;
} piece;

static piece trim(piece p)
{
    while (p.bytes && isspace((unsigned char)*p.at)) p.at++, p.bytes--;
    while (p.bytes && isspace((unsigned char)p.at[p.bytes - 1])) p.bytes--;
    return p;
}

/* The piece before the next `end`, or all of it; *rest moves past it. 0 when nothing is left. */
static int cut(piece *rest, char end, piece *out)
{
    if (!rest->at) return 0;
    const char *until = memchr(rest->at, end, (size_t)rest->bytes);
    *out = (piece){rest->at, until ? until - rest->at : rest->bytes};
    *rest = until ? (piece){until + 1, rest->bytes - out->bytes - 1} : (piece){0};
    return 1;
}

/* Cuts a line at commas: the number of fields, or MAX_FIELDS + 1 if there are more. */
static int cut_fields(piece line, piece *fields)
{
    int n = 0;
    piece field;
    while (cut(&line, ',', &field)) {
        if (n == MAX_FIELDS) return n + 1;
        fields[n++] = trim(field);
    }
    return n;
}

static int is_text(piece p, const char *text, int64_t bytes)
{
    return p.bytes == bytes && memcmp(p.at, text, (size_t)bytes) == 0;
}

static int is_header(const piece *fields, int n, const char *header)
{
    piece words[MAX_FIELDS];
    int same = cut_fields((piece){header, (int64_t)strlen(header)}, words) == n;
    for (int i = 0; same && i < n; i++) same = is_text(fields[i], words[i].at, words[i].bytes);
    return same;
}

static lh_status read_header(reader *r, const piece *fields, int n)
{
    const char *mine = headers[r->kind], *other = headers[1 - r->kind];
    if (is_header(fields, n, other))
        LH_FAIL(LH_EINPUT, "'%s', line %lld: '%s' is the header of '--%s FILE'; weights of %s begin with '%s'", r->name,
                (long long)r->line, other, r->kind == LH_PROFILE_OF_LAYERS ? "head-budget" : "layer-budget",
                r->kind == LH_PROFILE_OF_LAYERS ? "layers" : "heads", mine);
    if (!is_header(fields, n, mine))
        LH_FAIL(LH_EINPUT, "'%s', line %lld: the first line must be '%s'", r->name, (long long)r->line, mine);
    r->has_header = 1;
    return LH_OK;
}

static lh_status read_number(const reader *r, piece field, const char *what, int64_t *out)
{
    if (!lh_integer_read(out, field.at, field.bytes, 0) || *out > MAX_NUMBER)
        LH_FAIL(LH_EINPUT, "'%s', line %lld: the %s '%.*s' must be an integer from 0 to %d", r->name,
                (long long)r->line, what, (int)lh_min_i64(field.bytes, 40), field.at, MAX_NUMBER);
    return LH_OK;
}

/* In units of 10^-9: 1, or 0 if it is no weight. */
static int weight_of(int64_t *out, piece field)
{
    lh_decimal d;
    if (!lh_decimal_read(&d, field.at, field.bytes) || d.scale > LH_WEIGHT_SCALE || lh_decimal_of(d, 1) >= max_weight)
        return 0;
    while (d.scale++ < LH_WEIGHT_SCALE) d.digits *= 10;
    *out = d.digits;
    return 1;
}

static lh_status read_row(reader *r, const piece *fields, int n)
{
    int heads = r->kind == LH_PROFILE_OF_HEADS;
    row new = {.line = r->line};
    if (n != 2 + heads)
        LH_FAIL(LH_EINPUT, "'%s', line %lld: it must have %d values with commas between them, as in '%s'", r->name,
                (long long)r->line, 2 + heads, headers[r->kind]);
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

static lh_status read_lines(reader *r, piece text)
{
    piece line, said, fields[MAX_FIELDS];
    if (text.bytes >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0) text.at += 3, text.bytes -= 3; /* byte order mark */
    while (cut(&text, '\n', &line)) {
        r->line++;
        cut(&line, '#', &said); /* a comment follows */
        said = trim(said);
        if (!said.bytes) continue;
        int n = cut_fields(said, fields);
        LH_TRY(r->has_header ? read_row(r, fields, n) : read_header(r, fields, n));
    }
    if (!r->has_header) LH_FAIL(LH_EINPUT, "'%s' is empty: its first line must be '%s'", r->name, headers[r->kind]);
    if (!r->n) LH_FAIL(LH_EINPUT, "'%s' has no weights below its first line", r->name);
    return LH_OK;
}

/* ---- the whole file ---- */

static int in_order(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    return x->line < y->line ? -1 : 1;
}

/* "layer 3" or "head 2 of layer 3". */
typedef struct place {
    char text[64];
} place;

static place place_of(const reader *r, int64_t layer, int64_t head)
{
    place p;
    if (r->kind == LH_PROFILE_OF_LAYERS)
        snprintf(p.text, sizeof p.text, "layer %lld", (long long)layer);
    else
        snprintf(p.text, sizeof p.text, "head %lld of layer %lld", (long long)head, (long long)layer);
    return p;
}

static lh_status fail_missing(const reader *r, const row *there, int64_t layer, int64_t head)
{
    return lh_fail(LH_EINPUT, __FILE__, __LINE__, "'%s', line %lld: %s has a weight, but %s has none", r->name,
                   (long long)there->line, place_of(r, there->layer, there->head).text, place_of(r, layer, head).text);
}

/* Rows are in order; each layer has as many heads as the widest: every layer and head occurs once. */
static lh_status check_complete(const reader *r, const row *widest)
{
    int64_t heads = widest->head + 1;
    for (int64_t i = 0; i < r->n; i++) {
        const row *at = &r->rows[i];
        int64_t layer = i / heads, head = i % heads;
        if (i && at[-1].layer == at->layer && at[-1].head == at->head)
            LH_FAIL(LH_EINPUT, "'%s', line %lld: %s has a weight already, in line %lld", r->name, (long long)at->line,
                    place_of(r, at->layer, at->head).text, (long long)at[-1].line);
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
        place all = {"layers"};
        if (r->kind == LH_PROFILE_OF_HEADS)
            snprintf(all.text, sizeof all.text, "heads of layer %lld", (long long)(i / each));
        LH_FAIL(LH_EINPUT, "'%s', line %lld: the weights of all %s are 0, one must be larger", r->name, (long long)last,
                all.text);
    }
    return LH_OK;
}

static lh_status make(lh_profile **out, const reader *r, int64_t heads)
{
    lh_status st = LH_OK;
    lh_profile *p = NULL;
    LH_TRY_DONE(lh_calloc(&p, 1, sizeof *p));
    p->kind = r->kind;
    p->heads = heads;
    p->layers = r->n / heads;
    LH_TRY_DONE(lh_strdup(&p->name, r->name));
    LH_TRY_DONE(lh_calloc(&p->weights, r->n, sizeof *p->weights));
    for (int64_t i = 0; i < r->n; i++) p->weights[i] = r->rows[i].weight;
    *out = p;
    p = NULL;
done:
    free_profile(p);
    return st;
}

lh_status lh_profile_parse(lh_profiles *all, lh_profile_kind kind, const lh_profile_text *in, uint64_t *hash)
{
    lh_status st = LH_OK;
    reader r = {.kind = kind, .name = in->name};
    lh_profile *p = NULL;
    const row *widest;
    LH_TRY_DONE(read_lines(&r, (piece){in->text, in->bytes}));
    qsort(r.rows, (size_t)r.n, sizeof *r.rows, in_order);
    widest = r.rows;
    for (int64_t i = 1; i < r.n; i++)
        if (r.rows[i].head > widest->head) widest = &r.rows[i];
    LH_TRY_DONE(check_complete(&r, widest));
    LH_TRY_DONE(check_sums(&r, widest->head + 1));
    LH_TRY_DONE(make(&p, &r, widest->head + 1));
    LH_TRY_DONE(add(all, &p, hash));
done:
    lh_free(r.rows);
    free_profile(p);
    return st;
}

lh_status lh_profile_read(lh_profiles *all, lh_profile_kind kind, const char *path, uint64_t *hash)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_file_read(&text, path, file_bytes));
    LH_TRY_DONE(lh_profile_parse(all, kind, &(lh_profile_text){path, text.data, text.bytes}, hash));
done:
    lh_buf_clear(&text);
    return st;
}
