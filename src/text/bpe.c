/* bpe.c - byte-pair encoding. A word starts as its characters (or their bytes); a heap of candidate merges, ordered by
 * rank and then by position, joins the best pair until the heap is empty. Stale entries of the heap are dropped when
 * they surface, so a word of n characters takes O(n log n). Two shortcuts keep real text fast: a cache of short words,
 * and cuts of long words between characters that no merge of the vocabulary has at its seam. */
#include "text/bpe.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/unicode.h"
#include "text/bpe_tables.h"

struct lh_bpe {
    lh_pieces pieces;
    lh_merges merges;
    lh_pairs joins;       /* pairs of characters: last of a merge's left piece, first of its right piece */
    int cuts;             /* words may be cut between characters that are not in joins */
    int32_t byte_id[256]; /* <0x00> … <0xFF>, -1: missing */
    int byte_fallback, fuse_unk, ignore_merges;
    int32_t unk; /* -1: characters that are not in the vocabulary vanish */
};

/* ---- parsing ---- */

static lh_status parse_vocab(lh_bpe *bpe, const char *name, const json_t *vocab, int64_t limit)
{
    const char *text;
    json_t *id;
    if (!json_is_object(vocab)) LH_FAIL(LH_EINPUT, "'%s': 'vocab' of the model must be an object", name);
    LH_TRY(lh_pieces_open(&bpe->pieces, (int64_t)json_object_size(vocab)));
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id)
    {
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= limit)
            LH_FAIL(LH_EINPUT, "'%s': the id of '%.60s' in 'vocab' must be an integer from 0 to %lld", name, text,
                    (long long)limit - 1);
        LH_TRY(lh_pieces_add(&bpe->pieces, text, (int64_t)strlen(text), (int32_t)json_integer_value(id)));
    }
    LH_TRY(lh_pieces_index(&bpe->pieces));
    return LH_OK;
}

/* The two pieces of a merge: ["a", "b"] or "a b". */
typedef struct merge_text {
    const char *left, *right;
    int64_t left_bytes, right_bytes;
} merge_text;

static int read_merge(const json_t *merge, merge_text *out)
{
    if (json_is_string(merge)) {
        const char *text = json_string_value(merge), *end = text + json_string_length(merge);
        const char *space = memchr(text, ' ', (size_t)(end - text));
        if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1))) return 0;
        *out = (merge_text){text, space + 1, space - text, end - space - 1};
        return 1;
    }
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    if (json_array_size(merge) != 2 || !json_is_string(left) || !json_is_string(right)) return 0;
    *out = (merge_text){json_string_value(left), json_string_value(right), (int64_t)json_string_length(left),
                        (int64_t)json_string_length(right)};
    return 1;
}

static uint32_t first_char(const char *text, int64_t bytes)
{
    uint32_t cp;
    int skip;
    lh_utf8_read(text, bytes, &cp, &skip);
    return cp;
}

static uint32_t last_char(const char *text, int64_t bytes)
{
    int64_t at = bytes - 1;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80) at--;
    return first_char(text + at, bytes - at);
}

/* True for the unknown token and byte pieces: their neighbouring characters are unknown. */
static int is_stand_in(const lh_bpe *bpe, int32_t id, const char *text, int64_t bytes)
{
    return id == bpe->unk || (bpe->byte_fallback && bytes == 6 && memcmp(text, "<0x", 3) == 0);
}

static lh_status add_merge(lh_bpe *bpe, const char *name, const json_t *merge, lh_buf *joined, int32_t rank)
{
    merge_text m;
    if (!read_merge(merge, &m))
        LH_FAIL(LH_EINPUT, "'%s': an entry of 'merges' is neither \"a b\" nor [\"a\", \"b\"]", name);
    joined->bytes = 0;
    LH_TRY(lh_buf_append(joined, m.left, m.left_bytes));
    LH_TRY(lh_buf_append(joined, m.right, m.right_bytes));
    lh_merge entry = {lh_pieces_find(&bpe->pieces, m.left, m.left_bytes),
                      lh_pieces_find(&bpe->pieces, m.right, m.right_bytes), rank,
                      lh_pieces_find(&bpe->pieces, joined->data, joined->bytes)};
    if (entry.left < 0 || entry.right < 0 || entry.id < 0)
        LH_FAIL(LH_EINPUT, "'%s': the merge of '%.60s' and '%.60s' names a piece that is not in 'vocab'", name, m.left,
                m.right);
    lh_merges_put(&bpe->merges, entry);
    if (m.left_bytes == 0 || m.right_bytes == 0 || is_stand_in(bpe, entry.left, m.left, m.left_bytes) ||
        is_stand_in(bpe, entry.right, m.right, m.right_bytes))
        bpe->cuts = 0;
    else
        lh_pairs_put(&bpe->joins, last_char(m.left, m.left_bytes), first_char(m.right, m.right_bytes));
    return LH_OK;
}

static lh_status parse_merges(lh_bpe *bpe, const char *name, const json_t *model)
{
    lh_status st = LH_OK;
    lh_buf joined = {0};
    const json_t *merges = json_object_get(model, "merges"), *counts = json_object_get(model, "merges_per_rank");
    int64_t n = (int64_t)json_array_size(merges), at = 0;
    if (!json_is_array(merges)) LH_FAIL_DONE(LH_EINPUT, "'%s': 'merges' of the model must be a list", name);
    LH_TRY_DONE(lh_merges_open(&bpe->merges, n));
    LH_TRY_DONE(lh_pairs_open(&bpe->joins, n));
    bpe->cuts = 1;
    for (int64_t rank = 0; at < n; rank++) {
        int64_t count = 1;
        if (counts) count = json_integer_value(json_array_get(counts, (size_t)rank));
        if (count < 1 || count > n - at)
            LH_FAIL_DONE(LH_EINPUT, "'%s': 'merges_per_rank' must be integers that add up to the %lld merges", name,
                         (long long)n);
        for (; count > 0; count--, at++)
            LH_TRY_DONE(add_merge(bpe, name, json_array_get(merges, (size_t)at), &joined, (int32_t)rank));
    }
done:
    lh_buf_clear(&joined);
    return st;
}

/* Checked first: other models have other members. */
static lh_status check_type(const char *name, const json_t *model)
{
    const char *type = "BPE";
    LH_TRY(lh_json_string(model, name, "type", &type));
    if (strcmp(type, "BPE") != 0)
        LH_FAIL(LH_EINPUT, "'%s': the tokenizer's model is '%s', only 'BPE' is known", name, type);
    return LH_OK;
}

static lh_status parse_options(lh_bpe *bpe, const char *name, const json_t *model)
{
    const char *prefix = "", *suffix = "", *unk = NULL;
    LH_TRY(lh_json_string(model, name, "continuing_subword_prefix", &prefix));
    LH_TRY(lh_json_string(model, name, "end_of_word_suffix", &suffix));
    if (*prefix || *suffix)
        LH_FAIL(LH_EINPUT, "'%s': 'continuing_subword_prefix' and 'end_of_word_suffix' must be empty", name);
    LH_TRY(lh_json_bool(model, name, "byte_fallback", &bpe->byte_fallback));
    LH_TRY(lh_json_bool(model, name, "fuse_unk", &bpe->fuse_unk));
    LH_TRY(lh_json_bool(model, name, "ignore_merges", &bpe->ignore_merges));
    LH_TRY(lh_json_string(model, name, "unk_token", &unk));
    bpe->unk = unk ? lh_pieces_find(&bpe->pieces, unk, (int64_t)strlen(unk)) : -1;
    for (int b = 0; b < 256; b++) {
        char piece[8];
        snprintf(piece, sizeof piece, "<0x%02X>", (unsigned)b);
        bpe->byte_id[b] = lh_pieces_find(&bpe->pieces, piece, 6);
    }
    return LH_OK;
}

lh_status lh_bpe_parse(lh_bpe **out, const char *name, const json_t *model, int64_t limit)
{
    lh_status st = LH_OK;
    lh_bpe *bpe = NULL;
    if (!json_is_object(model)) LH_FAIL_DONE(LH_EINPUT, "'%s' has no 'model': it is not a tokenizer.json", name);
    LH_TRY_DONE(check_type(name, model));
    LH_TRY_DONE(lh_calloc(&bpe, 1, sizeof *bpe));
    LH_TRY_DONE(parse_vocab(bpe, name, json_object_get(model, "vocab"), limit < INT32_MAX ? limit : INT32_MAX));
    LH_TRY_DONE(parse_options(bpe, name, model));
    LH_TRY_DONE(parse_merges(bpe, name, model));
    *out = bpe;
    bpe = NULL;
done:
    lh_bpe_free(bpe);
    return st;
}

void lh_bpe_free(lh_bpe *bpe)
{
    if (!bpe) return;
    lh_pieces_close(&bpe->pieces);
    lh_merges_close(&bpe->merges);
    lh_pairs_close(&bpe->joins);
    lh_free(bpe);
}

int64_t lh_bpe_vocab(const lh_bpe *bpe)
{
    return bpe->pieces.ids;
}

int32_t lh_bpe_find(const lh_bpe *bpe, const char *piece, int64_t bytes)
{
    return lh_pieces_find(&bpe->pieces, piece, bytes);
}

const char *lh_bpe_piece(const lh_bpe *bpe, int32_t id, int64_t *bytes)
{
    return lh_pieces_text(&bpe->pieces, id, bytes);
}

/* ---- encoding ---- */

typedef struct symbol {
    int32_t id, before, after; /* indices of the neighbours, -1: none */
} symbol;

/* A candidate merge of the pair (left, right). The high half of `key` is its rank, the low half the index of the left
 * symbol: the smallest key is the merge of lowest rank, leftmost first. */
typedef struct due {
    uint64_t key;
    int32_t left, right;
} due;

typedef struct cached {
    uint64_t hash;
    int64_t word, bytes; /* in lh_bpe_work.words; bytes 0: free */
    int64_t first, n;    /* in lh_bpe_work.ids */
} cached;

enum { CACHE_SLOTS = 1 << 14, CACHE_BYTES = 1 << 23, CACHED_WORD_BYTES = 48 };

struct lh_bpe_work {
    symbol *symbols;
    int32_t n; /* symbols */
    int64_t symbols_cap;
    due *heap;
    int64_t heap_n, heap_cap;
    cached *cache;
    uint64_t cache_mask;
    lh_buf words;
    lh_tokens ids;
};

lh_status lh_bpe_work_open(lh_bpe_work **out, int64_t text_bytes)
{
    lh_status st = LH_OK;
    lh_bpe_work *w = NULL;
    int64_t slots = 64;
    while (slots < CACHE_SLOTS && slots < text_bytes / 8) slots *= 2;
    LH_TRY_DONE(lh_calloc(&w, 1, sizeof *w));
    LH_TRY_DONE(lh_calloc(&w->cache, slots, sizeof *w->cache));
    w->cache_mask = (uint64_t)slots - 1;
    *out = w;
    w = NULL;
done:
    lh_bpe_work_close(w);
    return st;
}

void lh_bpe_work_close(lh_bpe_work *work)
{
    if (!work) return;
    lh_free(work->symbols);
    lh_free(work->heap);
    lh_free(work->cache);
    lh_buf_clear(&work->words);
    lh_tokens_clear(&work->ids);
    lh_free(work);
}

static lh_status push_due(lh_bpe_work *w, due d)
{
    if (w->heap_n == w->heap_cap) {
        int64_t cap = w->heap_cap ? 2 * w->heap_cap : 256;
        LH_TRY(lh_realloc(&w->heap, cap, sizeof *w->heap));
        w->heap_cap = cap;
    }
    int64_t i = w->heap_n++;
    for (; i > 0 && w->heap[(i - 1) / 2].key > d.key; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = d;
    return LH_OK;
}

static due pop_due(lh_bpe_work *w)
{
    due top = w->heap[0], last = w->heap[--w->heap_n];
    int64_t i = 0;
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= w->heap_n) break;
        if (child + 1 < w->heap_n && w->heap[child + 1].key < w->heap[child].key) child++;
        if (w->heap[child].key >= last.key) break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

/* Push the merge of the symbol at `at` with its successor, if the vocabulary has it. */
static lh_status consider(const lh_bpe *bpe, lh_bpe_work *w, int32_t at)
{
    if (at < 0 || w->symbols[at].after < 0) return LH_OK;
    int32_t left = w->symbols[at].id, right = w->symbols[w->symbols[at].after].id;
    const lh_merge *merge = lh_merges_find(&bpe->merges, left, right);
    if (merge) LH_TRY(push_due(w, (due){(uint64_t)merge->rank << 32 | (uint32_t)at, left, right}));
    return LH_OK;
}

static lh_status add_symbol(lh_bpe_work *w, int32_t id)
{
    if (w->n == w->symbols_cap) {
        int64_t cap = w->symbols_cap ? 2 * w->symbols_cap : 256;
        LH_TRY(lh_realloc(&w->symbols, cap, sizeof *w->symbols));
        w->symbols_cap = cap;
    }
    w->symbols[w->n] = (symbol){id, w->n - 1, w->n + 1};
    w->n++;
    return LH_OK;
}

/* The characters of a word as symbols; characters outside the vocabulary become their bytes, or the unknown token. */
static lh_status start_symbols(const lh_bpe *bpe, lh_bpe_work *w, const char *word, int64_t bytes)
{
    int unknown_before = 0;
    w->n = 0;
    for (int64_t at = 0; at < bytes;) {
        int n = lh_utf8_length(word + at), known = bpe->byte_fallback;
        int32_t id = lh_pieces_find(&bpe->pieces, word + at, n);
        for (int i = 0; i < n && known; i++) known = bpe->byte_id[(unsigned char)word[at + i]] >= 0;
        if (id >= 0) {
            LH_TRY(add_symbol(w, id));
        } else if (known) {
            for (int i = 0; i < n; i++) LH_TRY(add_symbol(w, bpe->byte_id[(unsigned char)word[at + i]]));
        } else if (bpe->unk >= 0 && !(unknown_before && bpe->fuse_unk)) {
            LH_TRY(add_symbol(w, bpe->unk));
        }
        unknown_before = id < 0 && !known;
        at += n;
    }
    if (w->n) w->symbols[w->n - 1].after = -1;
    return LH_OK;
}

static lh_status merge_word(const lh_bpe *bpe, lh_bpe_work *w, const char *word, int64_t bytes, lh_tokens *out)
{
    if (bytes > INT32_MAX) LH_FAIL(LH_EINPUT, "a word of %lld bytes is too long", (long long)bytes);
    LH_TRY(start_symbols(bpe, w, word, bytes));
    w->heap_n = 0;
    for (int32_t i = 0; i + 1 < w->n; i++) LH_TRY(consider(bpe, w, i));
    while (w->heap_n) {
        due d = pop_due(w);
        int32_t at = (int32_t)(d.key & UINT32_MAX);
        symbol *left = &w->symbols[at];
        if (left->id != d.left || left->after < 0 || w->symbols[left->after].id != d.right) continue; /* stale */
        symbol *right = &w->symbols[left->after];
        left->id = lh_merges_find(&bpe->merges, d.left, d.right)->id;
        left->after = right->after;
        right->id = -1;
        if (left->after >= 0) w->symbols[left->after].before = at;
        LH_TRY(consider(bpe, w, left->before));
        LH_TRY(consider(bpe, w, at));
    }
    for (int32_t i = 0; i >= 0 && w->n; i = w->symbols[i].after) LH_TRY(lh_tokens_push(out, w->symbols[i].id));
    return LH_OK;
}

static lh_status push_all(lh_tokens *out, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) LH_TRY(lh_tokens_push(out, ids[i]));
    return LH_OK;
}

static lh_status merge_cached(const lh_bpe *bpe, lh_bpe_work *w, const char *word, int64_t bytes, lh_tokens *out)
{
    if (bytes > CACHED_WORD_BYTES) {
        LH_TRY(merge_word(bpe, w, word, bytes, out));
        return LH_OK;
    }
    uint64_t hash = XXH3_64bits(word, (size_t)bytes);
    cached *slot = &w->cache[hash & w->cache_mask];
    if (slot->hash == hash && slot->bytes == bytes && memcmp(w->words.data + slot->word, word, (size_t)bytes) == 0) {
        LH_TRY(push_all(out, w->ids.ids + slot->first, slot->n));
        return LH_OK;
    }
    int64_t first = out->n;
    LH_TRY(merge_word(bpe, w, word, bytes, out));
    if (w->words.bytes > CACHE_BYTES) return LH_OK;
    cached fresh = {hash, w->words.bytes, bytes, w->ids.n, out->n - first};
    LH_TRY(lh_buf_append(&w->words, word, bytes));
    LH_TRY(push_all(&w->ids, out->ids + first, fresh.n));
    *slot = fresh;
    return LH_OK;
}

/* True if no merge can ever join these two neighbours: both are in the vocabulary, and no merge has them at its seam.
 * The text before and after the cut can then be merged as two words. */
static int may_cut(const lh_bpe *bpe, const char *left, const char *right)
{
    int left_bytes = lh_utf8_length(left), right_bytes = lh_utf8_length(right);
    return !lh_pairs_has(&bpe->joins, first_char(left, left_bytes), first_char(right, right_bytes)) &&
           lh_pieces_find(&bpe->pieces, left, left_bytes) >= 0 && lh_pieces_find(&bpe->pieces, right, right_bytes) >= 0;
}

lh_status lh_bpe_encode(const lh_bpe *bpe, lh_bpe_work *work, const char *word, int64_t bytes, lh_tokens *out)
{
    int64_t start = 0;
    if (bytes == 0) return LH_OK;
    if (bpe->ignore_merges) {
        int32_t id = lh_pieces_find(&bpe->pieces, word, bytes);
        if (id >= 0) {
            LH_TRY(lh_tokens_push(out, id));
            return LH_OK;
        }
    }
    if (bytes > CACHED_WORD_BYTES && bpe->cuts) {
        for (int64_t left = 0, at = lh_utf8_length(word); at < bytes; left = at, at += lh_utf8_length(word + at)) {
            if (!may_cut(bpe, word + left, word + at)) continue;
            LH_TRY(merge_cached(bpe, work, word + start, at - start, out));
            start = at;
        }
    }
    LH_TRY(merge_cached(bpe, work, word + start, bytes - start, out));
    return LH_OK;
}
