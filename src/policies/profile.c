/* profile.c - profiles: reads CSV files of weights for the budgets of layers or heads, with messages
 * that name file and line, and stores equal profiles once, by hash; profiles as the value of a part and as JSON; and
 * the budgets that they give to layers and heads: integers in proportion to the weights, exact in total. */
#include "policies/profile.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/file.h"
#include "base/hash.h"
#include "policies/policy_impl.h"

enum { MAX_FIELDS = 3, MAX_NUMBER = (1 << 20) - 1, WEIGHT_SCALE = 9 };

static const int64_t file_bytes = 16 << 20, max_weight = 1000000000, weight_end = 1000000000000000000;

static const char *const headers[] = {"layer,weight", "layer,head,weight"}; /* lh_profile_kind */

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

/* The hash includes the kind: a profile of the heads of a layer differs from a profile of layers. */
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

/* Takes *p unless an equal profile is stored; the caller frees *p if it is not NULL. */
static lh_status add_profile(lh_profiles *all, lh_profile **p, uint64_t *hash)
{
    LH_TRY(hash_of(*p, &(*p)->hash));
    *hash = (*p)->hash;
    if (lh_profiles_find(all, *hash)) return LH_OK;
    LH_TRY(lh_realloc(&all->at, all->n + 1, sizeof *all->at));
    all->at[all->n++] = *p;
    *p = NULL;
    return LH_OK;
}

static lh_status copy_profile(lh_profiles *out, const lh_profile *p)
{
    lh_status st = LH_OK;
    lh_profile *own = NULL;
    uint64_t hash;
    LH_TRY_DONE(lh_calloc(&own, 1, sizeof *own));
    *own = *p;
    own->name = NULL;
    own->weights = NULL;
    LH_TRY_DONE(lh_strdup(&own->name, p->name));
    LH_TRY_DONE(lh_calloc(&own->weights, p->layers * p->heads, sizeof *own->weights));
    memcpy(own->weights, p->weights, (size_t)(p->layers * p->heads) * sizeof *own->weights);
    LH_TRY_DONE(add_profile(out, &own, &hash));
done:
    free_profile(own);
    return st;
}

lh_status lh_profiles_copy(lh_profiles *out, const lh_profiles *all)
{
    for (int64_t i = 0; all && i < all->n; i++) LH_TRY(copy_profile(out, all->at[i]));
    return LH_OK;
}

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

/* A field of a line. */
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

/* The first fields of a row, and the number of all. */
static int64_t fields_of(const lh_csv_row *row, piece fields[MAX_FIELDS])
{
    for (int64_t i = 0; i < row->n && i < MAX_FIELDS; i++)
        fields[i] = trim((piece){lh_csv_field(row, i), lh_csv_bytes(row, i)});
    return row->n;
}

static int is_header(const piece *fields, int64_t n, lh_profile_kind kind)
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

static lh_status read_header(reader *r, const piece *fields, int64_t n)
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
    if (!lh_decimal_read(&d, field.at, field.bytes) || d.scale > WEIGHT_SCALE || lh_decimal_of(d, 1) >= max_weight)
        return 0;
    while (d.scale++ < WEIGHT_SCALE) d.digits *= 10;
    *out = d.digits;
    return 1;
}

static lh_status read_row(reader *r, const piece *fields, int64_t n)
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
    piece fields[MAX_FIELDS];
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
    free_profile(p);
    return st;
}

lh_status lh_profile_parse(lh_profiles *all, lh_profile_kind kind, const lh_profile_text *in, uint64_t *hash)
{
    lh_status st = LH_OK;
    reader r = {.kind = kind, .name = in->name};
    lh_profile *p = NULL;
    const weight_row *widest;
    LH_TRY_DONE(read_lines(&r, in));
    qsort(r.rows, (size_t)r.n, sizeof *r.rows, in_order);
    widest = r.rows;
    for (int64_t i = 1; i < r.n; i++)
        if (r.rows[i].head > widest->head) widest = &r.rows[i];
    LH_TRY_DONE(check_complete(&r, widest));
    LH_TRY_DONE(check_sums(&r, widest->head + 1));
    LH_TRY_DONE(make_profile(&p, &r, widest->head + 1));
    LH_TRY_DONE(add_profile(all, &p, hash));
done:
    lh_free(r.rows);
    free_profile(p);
    return st;
}

lh_status lh_profile_read(lh_profiles *all, lh_profile_kind kind, const char *path, uint64_t *hash)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_file_read_regular(&text, path, file_bytes));
    LH_TRY_DONE(lh_profile_parse(all, kind, &(lh_profile_text){path, text.data, text.bytes}, hash));
done:
    lh_buf_clear(&text);
    return st;
}

/* ---- checked against a model ---- */

static lh_status check_shape(const lh_profiles *all, uint64_t hash, int64_t layers, int64_t heads)
{
    const lh_profile *p = lh_profiles_find(all, hash);
    if (!hash) return LH_OK;
    if (!p) LH_FAIL(LH_EINTERNAL, "profile %016llx is not loaded", (unsigned long long)hash);
    if (p->layers != layers)
        LH_FAIL(LH_EINPUT, "'%s' has weights of %lld layers, the model has %lld layers", p->name, (long long)p->layers,
                (long long)layers);
    if (p->heads != heads)
        LH_FAIL(LH_EINPUT, "'%s' has weights of %lld heads in each layer, the model has %lld KV heads", p->name,
                (long long)p->heads, (long long)heads);
    return LH_OK;
}

lh_status lh_profiles_check(const lh_profiles *all, const lh_policy *policy, int64_t layers, int64_t kv_heads)
{
    LH_TRY(check_shape(all, policy->budgets.layer_profile, layers, 1));
    LH_TRY(check_shape(all, policy->budgets.head_profile, layers, kv_heads));
    return LH_OK;
}

/* ---- as the value of a part ---- */

static const char prefix[] = "profile:";
enum { HEX = 16 };

/* "profile:" and 16 hexadecimal digits: 1, or 0. */
static int hash_in(const char *text, uint64_t *out)
{
    const char *digits = text + sizeof prefix - 1;
    if (strncmp(text, prefix, sizeof prefix - 1) != 0 || strspn(digits, "0123456789abcdef") != HEX || digits[HEX])
        return 0;
    *out = strtoull(digits, NULL, 16);
    return *out != 0;
}

static void write_hash(uint64_t hash, lh_part_value *out)
{
    snprintf(out->text, sizeof out->text, "%s%016llx", prefix, (unsigned long long)hash);
}

lh_status lh_part_read_profile(lh_policy *policy, const lh_part *part, const char *text)
{
    uint64_t hash;
    int number = 0; /* follows the numbers of the words */
    if (!hash_in(text, &hash)) return lh_part_read_word(policy, part, text);
    while (part->row.choices[number]) number++;
    memcpy((char *)policy + part->at, &number, sizeof number);
    memcpy((char *)policy + part->profile->hash_at, &hash, sizeof hash);
    return LH_OK;
}

void lh_part_write_profile(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    uint64_t hash;
    memcpy(&hash, (const char *)policy + part->profile->hash_at, sizeof hash);
    if (hash)
        write_hash(hash, out);
    else
        lh_part_write_word(policy, part, out);
}

lh_status lh_part_read_file(const lh_part *part, const lh_policy_options *options, lh_part_value *value,
                            const char **text)
{
    uint64_t hash;
    lh_policy none;
    if (!part->profile || !options->profiles) return LH_OK;
    for (int i = 0; part->row.choices[i]; i++)
        if (strcmp(part->row.choices[i], *text) == 0) return LH_OK;
    if (hash_in(*text, &hash) && lh_profiles_find(options->profiles, hash)) return LH_OK;
    if (!lh_file_exists(*text) && lh_part_read_word(&none, part, *text) != LH_OK)
        LH_FAIL(LH_EUSAGE, "%s; nor is there a file of that name", lh_error_message());
    LH_TRY(lh_profile_read(options->profiles, (lh_profile_kind)part->profile->kind, *text, &hash));
    write_hash(hash, value);
    *text = value->text;
    return LH_OK;
}

/* ---- as text and as JSON ---- */

static const char *const members[] = {"layer-budget", "head-budget"}; /* lh_profile_kind */

lh_status lh_profile_write(const lh_profile *p, lh_buf *out)
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

lh_status lh_profiles_put_json(const lh_profiles *all, const lh_policy *policy, json_t *json)
{
    lh_status st = LH_OK;
    const uint64_t hashes[] = {policy->budgets.layer_profile, policy->budgets.head_profile};
    lh_buf text = {0};
    json_t *object = json_object();
    for (int i = 0; i < 2; i++) {
        if (!hashes[i]) continue;
        const lh_profile *p = lh_profiles_find(all, hashes[i]);
        if (!p) LH_FAIL_DONE(LH_EINTERNAL, "profile %016llx is not loaded", (unsigned long long)hashes[i]);
        lh_buf_clear(&text);
        LH_TRY_DONE(lh_profile_write(p, &text));
        if (json_object_set_new(object, members[i], json_string(text.data)))
            LH_FAIL_DONE(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
    }
    if (json_object_size(object) && json_object_set(json, "profiles", object))
        LH_FAIL_DONE(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
done:
    json_decref(object);
    lh_buf_clear(&text);
    return st;
}

lh_status lh_profiles_get_json(lh_profiles *out, const json_t *json, const char *name)
{
    const json_t *object = json_object_get(json, "profiles");
    uint64_t hash;
    for (lh_profile_kind kind = LH_PROFILE_OF_LAYERS; kind <= LH_PROFILE_OF_HEADS; kind++) {
        const json_t *text = json_object_get(object, members[kind]);
        if (!text) continue;
        if (!json_is_string(text))
            LH_FAIL(LH_EFILE, "'%s': the profile '%s' of the policy must be a text", name, members[kind]);
        const lh_profile_text in = {name, json_string_value(text), (int64_t)json_string_length(text)};
        if (lh_profile_parse(out, kind, &in, &hash) != LH_OK)
            LH_FAIL(LH_EFILE, "the profile '%s' of the policy in %s", members[kind], lh_error_message());
    }
    return LH_OK;
}

/* ---- budgets ---- */

/* Integers in proportion to the weights, exact in total, within what each layer or head can hold. Weights are below
 * 10^18, so that a product with a number of entries fits into 128 bits. */
typedef __int128 wide;

/* The remainder to divide by weights: a number of entries, and the sum of the weights that share them. */
typedef struct rest {
    int64_t entries;
    wide weights;
} rest;

/* Gives the minimum to every share that would be below it, which reduces the other shares, and sets them to -1. The
 * remainder always suffices for their minima. */
static rest fix_minima(const lh_portions *q, int64_t total, int64_t *out)
{
    rest r = {.entries = total};
    int fixed = 1;
    for (int64_t i = 0; i < q->n; i++) out[i] = -1, r.weights += q->weights[i];
    while (fixed) {
        rest now = r;
        fixed = 0;
        for (int64_t i = 0; i < q->n; i++) {
            int64_t min = lh_min_i64(q->min, q->max(q->of, i));
            if (out[i] >= 0 || (wide)r.entries * q->weights[i] >= min * r.weights) continue;
            out[i] = min;
            now.entries -= min;
            now.weights -= q->weights[i];
            fixed = 1;
        }
        r = now;
    }
    return r;
}

/* Floors, then one each to the largest remainders, ties to the lower number. */
static void divide_rest(const lh_portions *q, rest r, int64_t *out)
{
    int64_t left = r.entries;
    for (int64_t i = 0; i < q->n; i++) {
        if (out[i] >= 0) continue;
        out[i] = -2 - (int64_t)((wide)r.entries * q->weights[i] / r.weights); /* below -1: its floor, still to round */
        left -= -2 - out[i];
    }
    while (left-- > 0) {
        int64_t best = -1;
        wide max = -1;
        for (int64_t i = 0; i < q->n; i++) {
            wide remainder = (wide)r.entries * q->weights[i] % r.weights;
            if (out[i] < 0 && remainder > max) best = i, max = remainder;
        }
        assert(best >= 0);
        out[best] = -2 - out[best] + 1;
    }
    for (int64_t i = 0; i < q->n; i++)
        if (out[i] < 0) out[i] = -2 - out[i];
}

static void divide(const lh_portions *q, int64_t *out)
{
    int64_t total = q->total, room = 0, given = 0;
    for (int64_t i = 0; i < q->n; i++) room += q->max(q->of, i);
    total = lh_min_i64(total, room);
    divide_rest(q, fix_minima(q, total, out), out);
    for (int64_t i = 0; i < q->n; i++) given += out[i] = lh_min_i64(out[i], q->max(q->of, i));
    lh_portions_give(q, total - given, out);
}

void lh_profile_layers(const lh_layers_request *q, int64_t entries, int64_t *budgets)
{
    assert(q->profile && q->profile->layers == q->layers);
    divide(&(lh_portions){.n = q->layers,
                          .total = q->layers * entries,
                          .min = 1,
                          .weights = q->profile->weights,
                          .max = lh_layer_max,
                          .of = q},
           budgets);
}

/* Number of entries of head h. */
static int64_t held(const void *of, int64_t h)
{
    const lh_heads_request *q = of;
    return q->room[h] + q->protect->sinks + q->protect->recents;
}

void lh_policy_heads(const lh_heads_request *request, int64_t *budgets)
{
    const lh_protection *p = request->protect;
    int64_t heads = request->heads, protected_ = p->sinks + p->recents;
    assert(request->profile && request->profile->heads == heads);
    divide(&(lh_portions){.n = heads,
                          .total = heads * p->budget,
                          .min = lh_max_i64(1, protected_),
                          .weights = request->profile->weights + request->layer * heads,
                          .max = held,
                          .of = request},
           budgets);
    for (int64_t h = 0; h < heads; h++) budgets[h] -= protected_;
}
