/* tiny_tokenizers.h - tokenizers made in the test: byte-level, and SentencePiece-style. */
#ifndef LH_TESTS_TINY_TOKENIZERS_H
#define LH_TESTS_TINY_TOKENIZERS_H

#include <check.h>
#include <string.h>

#include "base/mem.h"
#include "base/unicode.h"
#include "text/pretok.h"
#include "text/tokenizer.h"

/* Single quotes for double ones, so that JSON can be written in C. Caller frees. */
static inline char *tt_json(const char *text)
{
    char *json = NULL;
    ck_assert_int_eq(lh_strdup(&json, text), LH_OK);
    for (char *c = json; *c; c++)
        if (*c == '\'') *c = '"';
    return json;
}

static inline lh_status tt_parse(lh_tokenizer **out, const char *json)
{
    return lh_tokenizer_parse(out, "tokenizer.json", json, (int64_t)strlen(json), NULL, 0);
}

/* The 256 bytes have the ids 0 to 255; then "he" 256, "ll" 257, "hell" 258, "hello" 259, "Ġw" 260, "aa" 261,
 * "aaa" 262; <|special|> is 300, <added> 301 is not special. */
enum { TT_HELLO = 259, TT_SPECIAL = 300, TT_ADDED = 301 };

static inline lh_tokenizer *tt_byte_level(void)
{
    lh_buf json = {0};
    lh_tokenizer *tok = NULL;
    lh_buf_puts(&json, "{\"added_tokens\": [{\"id\": 300, \"content\": \"<|special|>\", \"special\": true},"
                       "{\"id\": 301, \"content\": \"<added>\", \"special\": false, \"normalized\": false}],"
                       "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false},"
                       "\"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {");
    for (int b = 0; b < 256; b++) {
        char c[4];
        int n = lh_utf8_write(c, lh_byte_to_char((uint8_t)b));
        lh_buf_puts(&json, b == '"' || b == '\\' ? "\"\\" : "\"");
        lh_buf_append(&json, c, n);
        lh_buf_printf(&json, "\": %d, ", b);
    }
    lh_buf_puts(&json, "\"he\": 256, \"ll\": 257, \"hell\": 258, \"hello\": 259, \"Ġw\": 260, \"aa\": 261, "
                       "\"aaa\": 262}, \"merges\": [\"h e\", [\"l\", \"l\"], \"he ll\", \"hell o\", \"Ġ w\", \"a a\", "
                       "\"aa a\"]}}");
    ck_assert_msg(tt_parse(&tok, json.data) == LH_OK, "%s", lh_error_message());
    lh_buf_clear(&json);
    return tok;
}

/* Pieces of SentencePiece: spaces are ▁, one is put in front, bytes <0x00> are 3 to 258, <s> is 1, "é" is missing. */
static inline lh_tokenizer *tt_sentence(void)
{
    lh_buf json = {0};
    lh_tokenizer *tok = NULL;
    char *head = tt_json(
        "{'added_tokens': [{'id': 0, 'content': '<unk>', 'special': true}, {'id': 1, 'content': '<s>', 'special': "
        "true}], 'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'Prepend', 'prepend': '▁'}, {'type': "
        "'Replace', 'pattern': {'String': ' '}, 'content': '▁'}]}, 'pre_tokenizer': null, 'post_processor': {'type': "
        "'TemplateProcessing', 'single': [{'SpecialToken': {'id': '<s>', 'type_id': 0}}, {'Sequence': {'id': 'A', "
        "'type_id': 0}}], 'special_tokens': {'<s>': {'id': '<s>', 'ids': [1], 'tokens': ['<s>']}}}, 'decoder': "
        "{'type': 'Sequence', 'decoders': [{'type': 'Replace', 'pattern': {'String': '▁'}, 'content': ' '}, {'type': "
        "'ByteFallback'}, {'type': 'Fuse'}, {'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}]}, 'model': "
        "{'type': 'BPE', 'unk_token': '<unk>', 'fuse_unk': true, 'byte_fallback': true, 'vocab': {'<unk>': 0, '<s>': "
        "1, '▁': 2, ");
    lh_buf_puts(&json, head);
    lh_free(head);
    for (int b = 0; b < 256; b++) lh_buf_printf(&json, "\"<0x%02X>\": %d, ", (unsigned)b, b + 3);
    lh_buf_puts(&json, "\"a\": 260, \"b\": 261, \"▁a\": 262, \"ab\": 263, \"▁ab\": 264, \"中\": 265}, \"merges\": "
                       "[\"▁ a\", \"a b\", \"▁a b\"]}}");
    ck_assert_msg(tt_parse(&tok, json.data) == LH_OK, "%s", lh_error_message());
    lh_buf_clear(&json);
    return tok;
}

/* The ids of a text, as "1 2 3". Caller clears. */
static inline lh_buf tt_encode(const lh_tokenizer *tok, const char *text, lh_encode how)
{
    lh_tokens ids = {0};
    lh_buf out = {0};
    ck_assert_msg(lh_tokenizer_encode(tok, text, (int64_t)strlen(text), how, &ids) == LH_OK, "%s", lh_error_message());
    lh_buf_puts(&out, "");
    for (int64_t i = 0; i < ids.n; i++) lh_buf_printf(&out, "%s%d", i ? " " : "", ids.ids[i]);
    lh_tokens_clear(&ids);
    return out;
}

static inline void tt_check(const lh_tokenizer *tok, const char *text, lh_encode how, const char *ids)
{
    lh_buf got = tt_encode(tok, text, how);
    ck_assert_msg(strcmp(got.data, ids) == 0, "'%s': wanted %s, got %s", text, ids, got.data);
    lh_buf_clear(&got);
}

#endif
