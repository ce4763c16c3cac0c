/* tokenizer_added.c - finds added tokens in text with two tries, one for the raw text and one for the normalised text:
 * longest token at the leftmost position, with the neighbouring white space that it strips and the word boundaries that
 * it asks for. Follows AddedVocabulary of Hugging Face's tokenizers. */
#include "text/tokenizer_added.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/unicode.h"
#include "text/bpe_tables.h"

typedef struct token {
    char *text, *match; /* as written; as searched for (normalised, or the same memory) */
    int64_t bytes, match_bytes;
    int32_t id;
    int single_word, lstrip, rstrip, normalized, special;
} token;

/* A trie: children by (node, byte) in a hash table, the token that ends at each node. Node 0 is the root. */
typedef struct trie {
    lh_merges children; /* left: node, right: byte, id: child */
    int32_t *token_at;  /* [nodes] -1: none */
    int32_t nodes;
    unsigned char first[256]; /* 1: a token begins with this byte */
} trie;

struct lh_added {
    token *tokens;
    int64_t n;
    int32_t *by_id; /* tokens by ascending id */
    trie tries[2];  /* by lh_added_pass. The raw one holds the special normalized tokens too: see `counts` */
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
    for (int64_t i = 0; i < added->n; i++) {
        token *t = &added->tokens[i];
        if (!t->normalized) continue;
        if (!matcher) LH_TRY_DONE(lh_matcher_open(&matcher));
        text.bytes = 0;
        LH_TRY_DONE(lh_buf_append(&text, t->text, t->bytes));
        LH_TRY_DONE(lh_norm_run(norm, matcher, LH_PLACE_LATER, &text, &spare));
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

static void trie_add(trie *t, const char *text, int64_t bytes, int32_t index)
{
    int32_t node = 0;
    if (bytes == 0) return;
    t->first[(unsigned char)text[0]] = 1;
    for (int64_t i = 0; i < bytes; i++) {
        int32_t byte = (unsigned char)text[i];
        const lh_merge *child = lh_merges_find(&t->children, node, byte);
        if (!child) lh_merges_put(&t->children, (lh_merge){node, byte, 0, t->nodes++});
        node = child ? child->id : t->nodes - 1;
    }
    t->token_at[node] = index;
}

static lh_status build_trie(lh_added *added, lh_added_pass pass)
{
    trie *t = &added->tries[pass];
    int64_t nodes = 1;
    for (int64_t i = 0; i < added->n; i++) nodes += added->tokens[i].bytes + added->tokens[i].match_bytes;
    if (nodes > INT32_MAX) LH_FAIL(LH_EINPUT, "the added tokens of the tokenizer are too long");
    LH_TRY(lh_merges_open(&t->children, nodes));
    LH_TRY(lh_calloc(&t->token_at, nodes, sizeof *t->token_at));
    memset(t->token_at, 0xFF, (size_t)nodes * sizeof *t->token_at);
    t->nodes = 1;
    for (int64_t i = 0; i < added->n; i++) {
        const token *a = &added->tokens[i];
        if (pass == LH_ADDED_NORMALIZED && a->normalized) trie_add(t, a->match, a->match_bytes, (int32_t)i);
        if (pass == LH_ADDED_RAW && (!a->normalized || a->special)) trie_add(t, a->text, a->bytes, (int32_t)i);
    }
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
    LH_TRY_DONE(build_trie(added, LH_ADDED_RAW));
    LH_TRY_DONE(build_trie(added, LH_ADDED_NORMALIZED));
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
    for (int pass = 0; pass < 2; pass++) {
        lh_merges_close(&added->tries[pass].children);
        lh_free(added->tries[pass].token_at);
    }
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

/* 1 if a token is searched for in this pass. Under a mask, whose ranges are bytes of the raw text, special tokens are
 * found there only; without one, each token in its own pass, as Hugging Face does. */
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

void lh_added_next(const lh_added *added, lh_added_pass pass, lh_subject text, lh_added_mask mask, lh_added_hit *hit)
{
    const trie *t = &added->tries[pass];
    int64_t before = hit->end;
    hit->found = 0;
    for (int64_t at = before; at < text.bytes; at++) {
        if (!t->first[(unsigned char)text.text[at]]) continue;
        const token *longest = NULL;
        const lh_merge *child = lh_merges_find(&t->children, 0, (unsigned char)text.text[at]);
        for (int64_t end = at + 1; child; end++) {
            int32_t index = t->token_at[child->id];
            lh_match where = {at, end, 1};
            if (index >= 0 && counts(&added->tokens[index], pass, mask, &where)) longest = &added->tokens[index];
            child = end < text.bytes ? lh_merges_find(&t->children, child->id, (unsigned char)text.text[end]) : NULL;
        }
        if (!longest) continue;
        int64_t end = at + (pass == LH_ADDED_RAW ? longest->bytes : longest->match_bytes);
        if (longest->single_word &&
            (ends_with_word(text.text, at) || begins_with_word(text.text + end, text.bytes - end))) {
            at = end - 1;
            continue;
        }
        int64_t start = longest->lstrip ? back_over_spaces(text.text, before, at) : at;
        *hit = (lh_added_hit){start, longest->rstrip ? on_over_spaces(text, end) : end, longest->id, 1};
        return;
    }
}
