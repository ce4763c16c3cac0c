/* tokenizer_added.c - finds added tokens in text with two sorted lists, one for the raw text and one for the normalised
 * text: longest token at the leftmost position, with the neighbouring white space that it strips and the word
 * boundaries that it asks for. A list takes four bytes a token, and is searched as a trie would be: each byte of the
 * text narrows the range of tokens that begin with it. Follows AddedVocabulary of Hugging Face's tokenizers. */
#include "text/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/unicode.h"

typedef struct token {
    char *text, *match; /* as written; for the search (normalised, or the same memory) */
    int64_t bytes, match_bytes;
    int32_t id;
    int single_word, lstrip, rstrip, normalized, special;
} token;

/* The tokens of a pass, sorted by their bytes; the last of equal tokens. */
typedef struct sorted {
    int32_t *tokens;
    int32_t begins[257]; /* tokens[begins[b], begins[b + 1]) begin with the byte b */
} sorted;

struct lh_added {
    token *tokens;
    int64_t n;
    int32_t *by_id;  /* tokens by ascending id */
    sorted lists[2]; /* by lh_added_pass. The raw one holds the special normalized tokens too: see `counts` */
};

/* ---- parsing ---- */

static lh_status parse_token(token *t, const lh_added_source *source, const json_t *spec)
{
    const json_t *content = json_object_get(spec, "content");
    int64_t id = -1;
    if (!json_is_string(content))
        LH_FAIL(LH_EINPUT, "'%s': an entry of 'added_tokens' has no string 'content'", source->name);
    LH_TRY(lh_json_i64(spec, source->name, "id", 0, source->limit - 1, &id));
    t->bytes = (int64_t)json_string_length(content);
    LH_TRY(lh_strndup(&t->text, json_string_value(content), t->bytes));
    int32_t known = lh_bpe_find(source->bpe, t->text, t->bytes);
    t->id = known >= 0 ? known : (int32_t)id;
    if (t->id < 0) LH_FAIL(LH_EINPUT, "'%s': the added token '%.60s' has no 'id'", source->name, t->text);
    LH_TRY(lh_json_bool(spec, source->name, "single_word", &t->single_word));
    LH_TRY(lh_json_bool(spec, source->name, "lstrip", &t->lstrip));
    LH_TRY(lh_json_bool(spec, source->name, "rstrip", &t->rstrip));
    LH_TRY(lh_json_bool(spec, source->name, "special", &t->special));
    t->normalized = !t->special;
    LH_TRY(lh_json_bool(spec, source->name, "normalized", &t->normalized));
    t->match = t->text;
    t->match_bytes = t->bytes;
    return LH_OK;
}

static lh_status normalize_tokens(lh_added *added, const lh_norm *norm)
{
    lh_status st = LH_OK;
    lh_matcher *matcher = NULL;
    lh_buf text = {0}, spare = {0};
    int64_t bytes = 0;
    for (int64_t i = 0; i < added->n; i++) bytes += added->tokens[i].bytes;
    for (int64_t i = 0; i < added->n; i++) {
        token *t = &added->tokens[i];
        if (!t->normalized) continue;
        if (!matcher) LH_TRY_DONE(lh_matcher_open(&matcher, bytes));
        text.bytes = 0;
        LH_TRY_DONE(lh_buf_append(&text, t->text, t->bytes));
        LH_TRY_DONE(lh_norm_run(norm, matcher, LH_PLACE_LATER, &text, &spare));
        if (text.bytes == t->bytes && memcmp(text.data, t->text, (size_t)text.bytes) == 0) continue;
        char *match = NULL;
        LH_TRY_DONE(lh_strndup(&match, text.data, text.bytes));
        t->match = match;
        t->match_bytes = text.bytes;
    }
done:
    lh_matcher_close(matcher);
    lh_buf_clear(&text);
    lh_buf_clear(&spare);
    return st;
}

/* The bytes that a pass searches for. */
static lh_subject sought(const token *t, lh_added_pass pass)
{
    return pass == LH_ADDED_RAW ? (lh_subject){t->text, t->bytes} : (lh_subject){t->match, t->match_bytes};
}

typedef struct order {
    const token *tokens;
    lh_added_pass pass;
} order;

static int compare_bytes(lh_subject x, lh_subject y)
{
    int c = memcmp(x.text, y.text, (size_t)(x.bytes < y.bytes ? x.bytes : y.bytes));
    return c ? c : (x.bytes > y.bytes) - (x.bytes < y.bytes);
}

static int compare_tokens(const void *left, const void *right, void *arg)
{
    const order *o = arg;
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    int c = compare_bytes(sought(&o->tokens[a], o->pass), sought(&o->tokens[b], o->pass));
    return c ? c : (a > b) - (a < b);
}

static lh_status sort_tokens(lh_added *added, lh_added_pass pass)
{
    sorted *list = &added->lists[pass];
    order by = {added->tokens, pass};
    int32_t n = 0, kept = 0;
    LH_TRY(lh_calloc(&list->tokens, added->n, sizeof *list->tokens));
    for (int32_t i = 0; i < (int32_t)added->n; i++) {
        const token *t = &added->tokens[i];
        int searched = pass == LH_ADDED_RAW ? !t->normalized || t->special : t->normalized;
        if (searched && sought(t, pass).bytes > 0) list->tokens[n++] = i;
    }
    qsort_r(list->tokens, (size_t)n, sizeof *list->tokens, compare_tokens, &by);
    for (int32_t i = 0; i < n; i++) {
        lh_subject own = sought(&by.tokens[list->tokens[i]], pass);
        if (i + 1 < n && compare_bytes(own, sought(&by.tokens[list->tokens[i + 1]], pass)) == 0) continue;
        list->tokens[kept++] = list->tokens[i];
        list->begins[(unsigned char)own.text[0] + 1] = kept;
    }
    for (int b = 0; b < 256; b++)
        if (list->begins[b + 1] < list->begins[b]) list->begins[b + 1] = list->begins[b];
    return LH_OK;
}

static int compare_ids(const void *left, const void *right, void *tokens)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    int32_t x = ((const token *)tokens)[a].id, y = ((const token *)tokens)[b].id;
    return x != y ? (x > y) - (x < y) : (a > b) - (a < b);
}

lh_status lh_added_parse(lh_added **out, const lh_added_source *source)
{
    lh_status st = LH_OK;
    lh_added *added = NULL;
    int64_t n = (int64_t)json_array_size(source->list);
    if (source->list && !json_is_null(source->list) && !json_is_array(source->list))
        LH_FAIL_DONE(LH_EINPUT, "'%s': 'added_tokens' must be a list", source->name);
    if (n > INT32_MAX) LH_FAIL_DONE(LH_EINPUT, "'%s' has too many 'added_tokens'", source->name);
    LH_TRY_DONE(lh_calloc(&added, 1, sizeof *added));
    LH_TRY_DONE(lh_calloc(&added->tokens, n, sizeof *added->tokens));
    added->n = n;
    LH_TRY_DONE(lh_calloc(&added->by_id, n, sizeof *added->by_id));
    for (int64_t i = 0; i < n; i++) {
        added->by_id[i] = (int32_t)i;
        LH_TRY_DONE(parse_token(&added->tokens[i], source, json_array_get(source->list, (size_t)i)));
    }
    qsort_r(added->by_id, (size_t)n, sizeof *added->by_id, compare_ids, added->tokens);
    LH_TRY_DONE(normalize_tokens(added, source->norm));
    LH_TRY_DONE(sort_tokens(added, LH_ADDED_RAW));
    LH_TRY_DONE(sort_tokens(added, LH_ADDED_NORMALIZED));
    *out = added;
    added = NULL;
done:
    lh_added_free(added);
    return st;
}

void lh_added_free(lh_added *added)
{
    if (!added) return;
    for (int64_t i = 0; i < added->n; i++) {
        if (added->tokens[i].match != added->tokens[i].text) lh_free(added->tokens[i].match);
        lh_free(added->tokens[i].text);
    }
    for (int pass = 0; pass < 2; pass++) lh_free(added->lists[pass].tokens);
    lh_free(added->tokens);
    lh_free(added->by_id);
    lh_free(added);
}

/* ---- lookup ---- */

int64_t lh_added_vocab(const lh_added *added)
{
    return added->n ? (int64_t)added->tokens[added->by_id[added->n - 1]].id + 1 : 0;
}

int32_t lh_added_find(const lh_added *added, const char *text, int64_t bytes)
{
    for (int64_t i = 0; i < added->n; i++)
        if (added->tokens[i].bytes == bytes && memcmp(added->tokens[i].text, text, (size_t)bytes) == 0)
            return added->tokens[i].id;
    return -1;
}

static const token *token_of(const lh_added *added, int32_t id)
{
    int64_t low = 0, high = added->n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (added->tokens[added->by_id[middle]].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    const token *t = low < added->n ? &added->tokens[added->by_id[low]] : NULL;
    return t && t->id == id ? t : NULL;
}

const char *lh_added_text(const lh_added *added, int32_t id, int64_t *bytes)
{
    const token *t = token_of(added, id);
    if (!t) return NULL;
    *bytes = t->bytes;
    return t->text;
}

int lh_added_is_special(const lh_added *added, int32_t id)
{
    const token *t = token_of(added, id);
    return t && t->special;
}

/* ---- search ---- */

static int touches(lh_added_mask mask, int64_t start, int64_t end)
{
    int64_t low = 0, high = mask.n; /* the first range that ends after start */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (mask.ranges[middle].end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < mask.n && mask.ranges[low].start < end;
}

/* True if a token is searched for in this pass. With a mask, which has ranges of the raw text, special tokens are
 * found in the raw text only; without a mask each token in its pass, as in Hugging Face. */
static int counts(const token *t, lh_added_pass pass, lh_added_mask mask, const lh_match *where)
{
    if (!t->special) return 1;
    if (mask.n == 0) return t->normalized == (pass == LH_ADDED_NORMALIZED);
    return pass == LH_ADDED_RAW && !touches(mask, where->start, where->end);
}

static int ends_with_word(const char *text, int64_t bytes)
{
    uint32_t cp;
    int skip;
    int64_t at = bytes;
    while (at > 0 && ((unsigned char)text[--at] & 0xC0) == 0x80) continue;
    return bytes > 0 && lh_utf8_read(text + at, bytes - at, &cp, &skip) && lh_char_is_word(cp);
}

static int begins_with_word(const char *text, int64_t bytes)
{
    uint32_t cp;
    int skip;
    return bytes > 0 && lh_utf8_read(text, bytes, &cp, &skip) && lh_char_is_word(cp);
}

static int64_t back_over_spaces(const char *text, int64_t from, int64_t at)
{
    while (at > from) {
        int64_t last = at - 1;
        uint32_t cp;
        int skip;
        while (last > from && ((unsigned char)text[last] & 0xC0) == 0x80) last--;
        lh_utf8_read(text + last, at - last, &cp, &skip);
        if (!lh_char_is_space(cp)) break;
        at = last;
    }
    return at;
}

static int64_t on_over_spaces(lh_subject s, int64_t at)
{
    uint32_t cp;
    int skip;
    while (at < s.bytes && lh_utf8_read(s.text + at, s.bytes - at, &cp, &skip) && lh_char_is_space(cp)) at += skip;
    return at;
}

/* tokens[low, high) agree in their first `depth` bytes and are longer: the first with a next byte of `byte` or more,
 * or high. */
static int32_t first_from(const lh_added *added, lh_added_pass pass, int32_t low, int32_t high, int64_t depth, int byte)
{
    const sorted *list = &added->lists[pass];
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if ((unsigned char)sought(&added->tokens[list->tokens[middle]], pass).text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that counts at text[at], or NULL. */
static const token *longest_at(const lh_added *added, lh_added_pass pass, lh_subject text, lh_added_mask mask,
                               int64_t at)
{
    const sorted *list = &added->lists[pass];
    const token *longest = NULL;
    int first = (unsigned char)text.text[at];
    int32_t low = list->begins[first], high = list->begins[first + 1];
    for (int64_t depth = 1; low < high; depth++) { /* tokens[low, high) begin with `depth` bytes of the text */
        const token *shortest = &added->tokens[list->tokens[low]];
        lh_match where = {at, at + depth, 1};
        if (sought(shortest, pass).bytes == depth) {
            if (counts(shortest, pass, mask, &where)) longest = shortest;
            low++;
        }
        if (where.end == text.bytes) break;
        int byte = (unsigned char)text.text[where.end];
        low = first_from(added, pass, low, high, depth, byte);
        high = first_from(added, pass, low, high, depth, byte + 1);
    }
    return longest;
}

void lh_added_next(const lh_added *added, lh_added_pass pass, lh_subject text, lh_added_mask mask, lh_added_hit *hit)
{
    const int64_t before = hit->end;
    hit->found = 0;
    for (int64_t at = hit->next; at < text.bytes; at++) {
        const token *longest = longest_at(added, pass, text, mask, at);
        if (!longest) continue;
        int64_t end = at + sought(longest, pass).bytes;
        if (longest->single_word &&
            (ends_with_word(text.text, at) || begins_with_word(text.text + end, text.bytes - end))) {
            at = end - 1;
            continue;
        }
        const int64_t start = at > before && longest->lstrip ? back_over_spaces(text.text, before, at) : at;
        *hit = (lh_added_hit){.start = start > before ? start : before,
                              .end = longest->rstrip ? on_over_spaces(text, end) : end,
                              .next = end,
                              .id = longest->id,
                              .found = 1};
        return;
    }
}
