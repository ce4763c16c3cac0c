/* vocab.c - writes a vocabulary as a tokenizer.json. */
#include "import/vocab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"
#include "text/bpe_tables.h"

/* Longest piece considered for merges; the longest of Gemma has 93 bytes. */
enum { MERGED_BYTES = 512 };

static const char space_mark[] = "\xE2\x96\x81"; /* U+2581, SentencePiece's space */

static int is_text(const lh_vocab_piece *piece, const char *text)
{
    return (int64_t)strlen(text) == piece->bytes && memcmp(piece->text, text, (size_t)piece->bytes) == 0;
}

/* Some converters pad the vocabulary to the size of the embedding with these. */
static int is_filler(const lh_vocab *v, int64_t i)
{
    char name[32];
    snprintf(name, sizeof name, "[PAD%lld]", (long long)i);
    return is_text(&v->pieces[i], name);
}

lh_status lh_vocab_put_text(lh_buf *json, const char *text, int64_t bytes)
{
    int64_t plain = 0;
    LH_TRY(lh_buf_puts(json, "\""));
    for (int64_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        LH_TRY(lh_buf_append(json, text + plain, i - plain));
        LH_TRY(lh_buf_printf(json, "\\u%04x", c));
        plain = i + 1;
    }
    LH_TRY(lh_buf_append(json, text + plain, bytes - plain));
    LH_TRY(lh_buf_puts(json, "\""));
    return LH_OK;
}

lh_status lh_vocab_put_merge(lh_buf *json, const char *comma, lh_vocab_piece left, lh_vocab_piece right)
{
    LH_TRY(lh_buf_printf(json, "%s\n[", comma));
    LH_TRY(lh_vocab_put_text(json, left.text, left.bytes));
    LH_TRY(lh_buf_puts(json, ", "));
    LH_TRY(lh_vocab_put_text(json, right.text, right.bytes));
    LH_TRY(lh_buf_puts(json, "]"));
    return LH_OK;
}

static lh_status put_added(const lh_vocab *v, lh_buf *json)
{
    const char *comma = "";
    LH_TRY(lh_buf_puts(json, "\"added_tokens\": ["));
    for (int64_t i = 0; i < v->n; i++) {
        const lh_vocab_piece *t = &v->pieces[i];
        const int is_added =
            t->type == LH_VOCAB_CONTROL || t->type == LH_VOCAB_USER_DEFINED || t->type == LH_VOCAB_UNKNOWN;
        if (!is_added || t->bytes == 0 || is_filler(v, i)) continue;
        /* A user-defined piece with spaces (Gemma 3 has runs of them) is searched for in the normalised text, where
         * spaces have become SentencePiece's mark. */
        int spaces = v->is_sentencepiece && !v->space_prefix && t->type == LH_VOCAB_USER_DEFINED &&
                     (memchr(t->text, ' ', (size_t)t->bytes) || memmem(t->text, (size_t)t->bytes, space_mark, 3));
        int rstrip = v->rstrip && !is_text(t, "<unk>") && !is_text(t, "<s>") && !is_text(t, "<|endoftext|>");
        LH_TRY(lh_buf_printf(json, "%s\n{\"id\": %lld, \"content\": ", comma, (long long)i));
        LH_TRY(lh_vocab_put_text(json, t->text, t->bytes));
        LH_TRY(lh_buf_printf(json,
                             ", \"single_word\": false, \"lstrip\": false, \"rstrip\": %s, \"normalized\": %s, "
                             "\"special\": %s}",
                             rstrip ? "true" : "false", spaces ? "true" : "false",
                             t->type == LH_VOCAB_USER_DEFINED ? "false" : "true"));
        comma = ",";
    }
    LH_TRY(lh_buf_puts(json, "],\n"));
    return LH_OK;
}

/* The post-processor: the first token before a text, if there is one. */
static lh_status put_first_token(const lh_vocab *v, lh_buf *json)
{
    if (v->bos < 0) return lh_buf_puts(json, "\"post_processor\": null,\n");
    const lh_vocab_piece *bos = &v->pieces[v->bos];
    LH_TRY(lh_buf_puts(json, "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
                             "[{\"SpecialToken\": {\"id\": "));
    LH_TRY(lh_vocab_put_text(json, bos->text, bos->bytes));
    LH_TRY(lh_buf_puts(json, ", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": "
                             "[{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"B\", "
                             "\"type_id\": 1}}], \"special_tokens\": {"));
    LH_TRY(lh_vocab_put_text(json, bos->text, bos->bytes));
    LH_TRY(lh_buf_puts(json, ": {\"id\": "));
    LH_TRY(lh_vocab_put_text(json, bos->text, bos->bytes));
    LH_TRY(lh_buf_printf(json, ", \"ids\": [%lld], \"tokens\": [", (long long)v->bos));
    LH_TRY(lh_vocab_put_text(json, bos->text, bos->bytes));
    return lh_buf_puts(json, "]}}},\n");
}

lh_status lh_vocab_put_begin(const lh_vocab *v, lh_buf *json)
{
    LH_TRY(lh_buf_puts(json, "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n"));
    LH_TRY(put_added(v, json));
    return put_first_token(v, json);
}

lh_status lh_vocab_put_pieces(const lh_vocab *v, lh_buf *json)
{
    const char *comma = "";
    LH_TRY(lh_buf_puts(json, "\"vocab\": {"));
    for (int64_t i = 0; i < v->n; i++) {
        const lh_vocab_piece *t = &v->pieces[i];
        /* jansson allows no zero byte in a key; no known vocabulary has one outside its byte pieces. */
        if (memchr(t->text, '\0', (size_t)t->bytes)) continue;
        LH_TRY(lh_buf_printf(json, "%s\n", comma));
        LH_TRY(lh_vocab_put_text(json, t->text, t->bytes));
        LH_TRY(lh_buf_printf(json, ": %lld", (long long)i));
        comma = ",";
    }
    LH_TRY(lh_buf_puts(json, "},\n"));
    return LH_OK;
}

/* ---- SentencePiece BPE ---- */

/* SentencePiece repeatedly joins the two neighbours that make the piece of the highest score, leftmost first. Merges
 * for all splits of each piece into two pieces, ranked by the score of the piece, do the same. */
typedef struct scored {
    double score;
    int64_t token, left_bytes;
} scored;

static int compare_scores(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->token != y->token) return x->token < y->token ? -1 : 1;
    return (x->left_bytes > y->left_bytes) - (x->left_bytes < y->left_bytes);
}

/* Control tokens never arise from text, and user-defined ones are found before merging. */
static int merges_into(const lh_vocab_piece *piece)
{
    return piece->type == LH_VOCAB_NORMAL && piece->bytes <= MERGED_BYTES;
}

static lh_status find_merges(const lh_vocab *v, scored **out, int64_t *n)
{
    lh_status st = LH_OK;
    lh_pieces pieces = {0};
    int64_t cap = 0;
    LH_TRY_DONE(lh_pieces_open(&pieces, v->n));
    for (int64_t i = 0; i < v->n; i++)
        if (merges_into(&v->pieces[i]))
            LH_TRY_DONE(lh_pieces_add(&pieces, v->pieces[i].text, v->pieces[i].bytes, (int32_t)i));
    for (int64_t i = 0; i < v->n; i++) {
        const lh_vocab_piece t = v->pieces[i];
        if (!merges_into(&t)) continue;
        double score = isnan(t.score) ? 0 : t.score;
        for (int64_t at = 0; at < t.bytes;) {
            at += lh_utf8_length(t.text + at);
            if (at >= t.bytes || lh_pieces_find(&pieces, t.text, at) < 0 ||
                lh_pieces_find(&pieces, t.text + at, t.bytes - at) < 0)
                continue;
            if (*n == cap) {
                cap = cap ? 2 * cap : 1024;
                LH_TRY_DONE(lh_realloc(out, cap, sizeof **out));
            }
            (*out)[(*n)++] = (scored){score, i, at};
        }
    }
    qsort(*out, (size_t)*n, sizeof **out, compare_scores);
done:
    lh_pieces_close(&pieces);
    return st;
}

static lh_status put_merges(const lh_vocab *v, lh_buf *json)
{
    lh_status st = LH_OK;
    scored *list = NULL;
    int64_t n = 0;
    LH_TRY_DONE(lh_calloc(&list, 1, sizeof *list));
    LH_TRY_DONE(find_merges(v, &list, &n));
    LH_TRY_DONE(lh_buf_puts(json, "\"merges\": ["));
    for (int64_t i = 0; i < n; i++) {
        const lh_vocab_piece t = v->pieces[list[i].token];
        const int64_t left = list[i].left_bytes;
        LH_TRY_DONE(lh_vocab_put_merge(json, i ? "," : "", (lh_vocab_piece){.text = t.text, .bytes = left},
                                       (lh_vocab_piece){.text = t.text + left, .bytes = t.bytes - left}));
    }
    LH_TRY_DONE(lh_buf_puts(json, "],\n\"merges_per_rank\": ["));
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && list[end].score == list[i].score;) end++;
        LH_TRY_DONE(lh_buf_printf(json, "%s%lld", i ? "," : "", (long long)(end - i)));
    }
    LH_TRY_DONE(lh_buf_puts(json, "]\n"));
done:
    lh_free(list);
    return st;
}

lh_status lh_vocab_put_sentencepiece(const lh_vocab *v, lh_buf *json)
{
    LH_TRY(lh_buf_puts(json, "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": ["));
    if (v->space_prefix) LH_TRY(lh_buf_printf(json, "{\"type\": \"Prepend\", \"prepend\": \"%s\"}, ", space_mark));
    LH_TRY(lh_buf_printf(json, "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"%s\"}]},\n",
                         space_mark));
    LH_TRY(lh_buf_puts(json, "\"pre_tokenizer\": null,\n\"decoder\": {\"type\": \"Sequence\", \"decoders\": ["));
    LH_TRY(lh_buf_printf(
        json,
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \"%s\"}, \"content\": \" \"}, "
        "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}%s]},\n",
        space_mark, v->space_prefix ? ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}" : ""));
    LH_TRY(lh_buf_puts(json, "\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"fuse_unk\": true, "
                             "\"unk_token\": "));
    LH_TRY(v->unk >= 0 && v->unk < v->n ? lh_vocab_put_text(json, v->pieces[v->unk].text, v->pieces[v->unk].bytes)
                                        : lh_buf_puts(json, "null"));
    LH_TRY(lh_buf_puts(json, ",\n"));
    LH_TRY(lh_vocab_put_pieces(v, json));
    LH_TRY(put_merges(v, json));
    LH_TRY(lh_buf_puts(json, "}"));
    return LH_OK;
}
