/* Laws of text/tokenizer.h, on tiny tokenizers. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "suite.h"
#include "text/tokenizer.h"
#include "tiny_tokenizers.h"

/* Numbers from a counter, so that a failure can be repeated. */
typedef struct dice {
    uint32_t counter;
} dice;

static uint32_t roll(dice *d, uint32_t sides)
{
    uint32_t out[4], key[2] = {7, 7}, counter[4] = {d->counter++, 0, 0, 0};
    lh_philox(out, key, counter);
    return out[0] % sides;
}

/* Random text of characters of all lengths, words with merges, and special tokens. */
static lh_buf random_text(dice *d, int parts)
{
    static const char *const words[] = {"hello",       " w",      "aaaa", "  ",   "\n",
                                        "<|special|>", "<added>", "é",    "中文", "🙂"};
    lh_buf text = {0};
    lh_buf_puts(&text, "");
    for (int i = 0; i < parts; i++) {
        uint32_t cp = roll(d, 0x110000);
        char c[4];
        if (roll(d, 2))
            lh_buf_puts(&text, words[roll(d, sizeof words / sizeof *words)]);
        else if (cp < 0xD800 || cp >= 0xE000)
            lh_buf_append(&text, c, lh_utf8_write(c, roll(d, 2) ? cp & 0x7F : cp));
    }
    return text;
}

START_TEST(test_byte_level_decodes_what_it_encodes)
{
    lh_tokenizer *tok = tt_byte_level();
    dice d = {0};
    for (int i = 0; i < 300; i++) {
        lh_buf text = random_text(&d, 20), back = {0};
        lh_tokens ids = {0};
        ck_assert_int_eq(lh_tokenizer_encode(tok, text.data, text.bytes, i % 3, &ids), LH_OK);
        ck_assert_int_eq(lh_tokenizer_decode(tok, ids.ids, ids.n, &back), LH_OK);
        ck_assert_int_eq(back.bytes, text.bytes);
        ck_assert_mem_eq(back.data, text.data, (size_t)text.bytes);
        lh_buf_clear(&text), lh_buf_clear(&back), lh_tokens_clear(&ids);
    }
    lh_tokenizer_close(tok);
}
END_TEST

START_TEST(test_invalid_utf8_counts_as_replacement_characters)
{
    lh_tokenizer *tok = tt_byte_level();
    lh_tokens ids = {0}, wanted = {0};
    ck_assert_int_eq(lh_tokenizer_encode(tok, "a\xFF\xE4\xB8z\xC0\x80", 7, LH_ENCODE_PLAIN, &ids), LH_OK);
    const char *text = "a\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD";
    ck_assert_int_eq(lh_tokenizer_encode(tok, text, (int64_t)strlen(text), LH_ENCODE_PLAIN, &wanted), LH_OK);
    ck_assert_int_eq(ids.n, wanted.n);
    ck_assert_mem_eq(ids.ids, wanted.ids, (size_t)ids.n * sizeof *ids.ids);
    lh_tokens_clear(&ids), lh_tokens_clear(&wanted);
    lh_tokenizer_close(tok);
}
END_TEST

/* What streaming must equal: all ids that are not special, at once. */
static void check_stream(const lh_tokenizer *tok, const lh_tokens *ids, const int32_t special[2])
{
    lh_detokenizer stream = {.tok = tok};
    lh_tokens plain = {0};
    lh_buf given = {0}, whole = {0};
    for (int64_t i = 0; i <= ids->n; i++) {
        int64_t before = given.bytes;
        ck_assert_int_eq(i < ids->n ? lh_detokenizer_push(&stream, ids->ids[i], &given)
                                    : lh_detokenizer_finish(&stream, &given),
                         LH_OK);
        ck_assert_msg(lh_utf8_valid(given.data + before, given.bytes - before), "a torn character");
        if (i < ids->n && (ids->ids[i] < special[0] || ids->ids[i] > special[1])) lh_tokens_push(&plain, ids->ids[i]);
    }
    ck_assert_int_eq(lh_tokenizer_decode(tok, plain.ids, plain.n, &whole), LH_OK);
    ck_assert_msg(given.bytes == whole.bytes && memcmp(given.data, whole.data, (size_t)whole.bytes) == 0,
                  "streamed '%s', at once '%s'", given.data, whole.data);
    lh_detokenizer_clear(&stream);
    lh_tokens_clear(&plain);
    lh_buf_clear(&given), lh_buf_clear(&whole);
}

START_TEST(test_streaming_equals_decoding_at_once_and_tears_no_character)
{
    lh_tokenizer *toks[] = {tt_byte_level(), tt_sentence()};
    const int32_t special[2][2] = {{TT_SPECIAL, TT_SPECIAL}, {0, 1}}; /* from, to */
    dice d = {100000};
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < 300; i++) {
            lh_buf text = random_text(&d, 12);
            lh_tokens ids = {0};
            lh_tokenizer_encode(toks[t], text.data, text.bytes, LH_ENCODE_SPECIAL, &ids);
            check_stream(toks[t], &ids, special[t]);
            ids.n = 0; /* any ids at all: torn characters, ids that there are not */
            for (int k = 0; k < 30; k++) lh_tokens_push(&ids, (int32_t)roll(&d, 310) - 2);
            check_stream(toks[t], &ids, special[t]);
            lh_buf_clear(&text), lh_tokens_clear(&ids);
        }
        lh_tokenizer_close(toks[t]);
    }
}
END_TEST

START_TEST(test_streaming_gives_a_character_as_soon_as_it_is_whole)
{
    lh_tokenizer *tok = tt_byte_level();
    lh_detokenizer stream = {.tok = tok};
    lh_buf out = {0};
    const unsigned char euro[] = {0xE2, 0x82, 0xAC};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(out.bytes, 0);
        ck_assert_int_eq(lh_detokenizer_push(&stream, euro[i], &out), LH_OK);
    }
    ck_assert_str_eq(out.data, "€");
    ck_assert_int_eq(lh_detokenizer_push(&stream, TT_HELLO, &out), LH_OK);
    ck_assert_str_eq(out.data, "€hello");
    lh_detokenizer_clear(&stream);
    lh_buf_clear(&out);
    lh_tokenizer_close(tok);
}
END_TEST

/* The text of a stream of ids, and where each of them begins in it. */
static void stream_text(const lh_detokenizer *begin, const lh_tokens *ids, lh_buf *text, int64_t *offsets)
{
    lh_detokenizer stream = *begin;
    lh_buf_puts(text, "");
    for (int64_t i = 0; i < ids->n; i++) ck_assert_int_eq(lh_detokenizer_push(&stream, ids->ids[i], text), LH_OK);
    ck_assert_int_eq(lh_detokenizer_finish(&stream, text), LH_OK);
    ck_assert_int_eq(lh_detokenizer_offsets(&stream, ids->ids, ids->n, offsets), LH_OK);
    lh_detokenizer_clear(&stream);
}

START_TEST(test_ids_that_continue_a_text_are_decoded_as_its_end)
{
    lh_tokenizer *toks[] = {tt_byte_level(), tt_sentence()};
    const int32_t before[] = {TT_HELLO, 263}; /* "hello", "ab" */
    dice d = {300000};
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < 300; i++) {
            lh_tokens all = {0}, ids = {0};
            lh_buf whole = {0}, text = {0};
            int64_t offsets[20];
            lh_tokens_push(&all, before[t]);
            for (int k = 0; k < 20; k++) {
                const int32_t id = (int32_t)roll(&d, 310) - 2;
                lh_tokens_push(&ids, id);
                if (!lh_tokenizer_is_special(toks[t], id)) lh_tokens_push(&all, id);
            }
            lh_tokenizer_decode(toks[t], all.ids, all.n, &whole);
            stream_text(&(lh_detokenizer){.tok = toks[t], .continues = 1}, &ids, &text, offsets);
            const int64_t skip = t ? 2 : 5;
            ck_assert_msg(whole.bytes == skip + text.bytes &&
                              memcmp(whole.data + skip, text.data, (size_t)text.bytes) == 0,
                          "'%s' does not end with '%s'", whole.data, text.data);
            lh_tokens_clear(&all), lh_tokens_clear(&ids), lh_buf_clear(&whole), lh_buf_clear(&text);
        }
        lh_tokenizer_close(toks[t]);
    }
}
END_TEST

/* Byte of a character of a text. */
static int64_t byte_of(const lh_buf *text, int64_t character)
{
    int64_t at = 0;
    for (; character > 0; character--) {
        ck_assert_int_lt(at, text->bytes);
        at += lh_utf8_length(text->data + at);
    }
    return at;
}

/* A byte of a character has its own bytes, and the character is there once its last byte is. */
START_TEST(test_offsets_say_where_a_token_is_in_the_text)
{
    lh_tokenizer *toks[] = {tt_byte_level(), tt_sentence()};
    dice d = {400000};
    int64_t seen = 0;
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < 400; i++) {
            enum { N = 20 };
            lh_tokens ids = {0};
            lh_buf text = {0}, bytes = {0};
            int64_t offsets[N];
            for (int k = 0; k < N; k++) lh_tokens_push(&ids, (int32_t)roll(&d, 310) - 2);
            stream_text(&(lh_detokenizer){.tok = toks[t], .continues = 1}, &ids, &text, offsets);
            for (int k = 0; k < N; k++) {
                const int is_byte_piece = t == 1 && ids.ids[k] >= 3 && ids.ids[k] < 259;
                const int64_t at = byte_of(&text, offsets[k]);
                ck_assert_int_ge(offsets[k], k ? offsets[k - 1] : 0);
                bytes.bytes = 0;
                lh_tokenizer_bytes(toks[t], ids.ids[k], &bytes);
                if (lh_tokenizer_is_special(toks[t], ids.ids[k]) || is_byte_piece || !bytes.bytes ||
                    !lh_utf8_valid(bytes.data, bytes.bytes))
                    continue;
                ck_assert_msg(at + bytes.bytes <= text.bytes &&
                                  memcmp(text.data + at, bytes.data, (size_t)bytes.bytes) == 0,
                              "'%s' is not at character %lld of '%s'", bytes.data, (long long)offsets[k], text.data);
                seen++;
            }
            lh_tokens_clear(&ids), lh_buf_clear(&text), lh_buf_clear(&bytes);
        }
        lh_tokenizer_close(toks[t]);
    }
    ck_assert_int_gt(seen, 1000);
}
END_TEST

START_TEST(test_tokens_have_the_bytes_of_their_pieces)
{
    static const struct {
        int sentence;
        int32_t id;
        const char *bytes;
    } cases[] = {{0, 0xF0, "\xF0"},        {0, 260, " w"},  {0, TT_SPECIAL, "<|special|>"},
                 {1, 3 + 0xF0, "\xF0"},    {1, 2, " "},     {1, 3 + 0x20, " "},
                 {1, 262, " a"},           {1, 264, " ab"}, {1, 1, "<s>"},
                 {1, 265, "\xE4\xB8\xAD"}, {0, 305, ""},    {1, -1, ""}};
    lh_tokenizer *toks[] = {tt_byte_level(), tt_sentence()};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf bytes = {0};
        lh_buf_puts(&bytes, "");
        ck_assert_int_eq(lh_tokenizer_bytes(toks[cases[i].sentence], cases[i].id, &bytes), LH_OK);
        ck_assert_str_eq(bytes.data, cases[i].bytes);
        lh_buf_clear(&bytes);
    }
    /* " a", a character of four bytes, " a": as a text that continues, and as a text from its start */
    const int32_t ids[] = {262, 3 + 0xF0, 3 + 0x9F, 1, 3 + 0x99, 3 + 0x82, 262},
                  torn[] = {3 + 0xF0, 3 + 0x9F, 262, 263};
    int64_t offsets[7];
    lh_detokenizer d = {.tok = toks[1], .continues = 1};
    static const int64_t later[] = {0, 2, 2, 2, 2, 2, 3}, first[] = {0, 1, 1, 1, 1, 1, 2}, broken[] = {0, 1, 2, 4};
    ck_assert_int_eq(lh_detokenizer_offsets(&d, ids, 7, offsets), LH_OK);
    ck_assert_mem_eq(offsets, later, sizeof later);
    d.continues = 0;
    ck_assert_int_eq(lh_detokenizer_offsets(&d, ids, 7, offsets), LH_OK);
    ck_assert_mem_eq(offsets, first, sizeof first);
    ck_assert_int_eq(lh_detokenizer_offsets(&d, torn, 4, offsets), LH_OK);
    ck_assert_mem_eq(offsets, broken, sizeof broken);
    for (int t = 0; t < 2; t++) lh_tokenizer_close(toks[t]);
}
END_TEST

START_TEST(test_special_tokens_are_recognised_only_when_asked)
{
    lh_tokenizer *tok = tt_byte_level();
    tt_check(tok, "hello<|special|><added>hello", LH_ENCODE_SPECIAL, "259 300 301 259");
    lh_buf plain = tt_encode(tok, "<|special|><added>", LH_ENCODE_PLAIN);
    ck_assert_ptr_null(strstr(plain.data, "300"));
    ck_assert_ptr_nonnull(strstr(plain.data, "301")); /* added, but not special: part of the vocabulary like another */
    lh_buf_clear(&plain);
    ck_assert_int_eq(lh_tokenizer_find(tok, "<|special|>"), TT_SPECIAL);
    ck_assert_int_eq(lh_tokenizer_find(tok, "hello"), TT_HELLO);
    ck_assert_int_eq(lh_tokenizer_find(tok, "nothing"), -1);
    ck_assert_int_eq(lh_tokenizer_find(tok, "<added>"), TT_ADDED);
    ck_assert_int_eq(lh_tokenizer_vocab(tok), 302);
    lh_tokenizer_close(tok);
}
END_TEST

START_TEST(test_parts_are_one_text_with_special_tokens_only_in_trusted_parts)
{
    lh_tokenizer *tok = tt_byte_level();
    lh_tokens ids = {0};
    const lh_text_slice torn[] = {
        {"hel", 3, LH_ENCODE_SPECIAL}, {"lo<|spec", 8, LH_ENCODE_PLAIN}, {"ial|>", 5, LH_ENCODE_SPECIAL}};
    ck_assert_int_eq(lh_tokenizer_encode_slices(tok, torn, 3, &ids), LH_OK);
    ck_assert_int_eq(ids.ids[0], TT_HELLO); /* merged over the seam */
    for (int64_t i = 0; i < ids.n; i++) ck_assert_int_ne(ids.ids[i], TT_SPECIAL);
    ids.n = 0;
    const lh_text_slice parts[] = {{"<|special|>", 11, LH_ENCODE_SPECIAL},
                                   {"<|special|>", 11, LH_ENCODE_PLAIN},
                                   {"<|special|>", 11, LH_ENCODE_SPECIAL}};
    ck_assert_int_eq(lh_tokenizer_encode_slices(tok, parts, 3, &ids), LH_OK);
    int64_t specials = 0;
    for (int64_t i = 0; i < ids.n; i++) specials += ids.ids[i] == TT_SPECIAL;
    ck_assert_int_eq(specials, 2);
    ck_assert(ids.ids[0] == TT_SPECIAL && ids.ids[ids.n - 1] == TT_SPECIAL);
    lh_tokens_clear(&ids);
    lh_tokenizer_close(tok);
}
END_TEST

START_TEST(test_sentence_pieces)
{
    lh_tokenizer *tok = tt_sentence();
    tt_check(tok, "ab", LH_ENCODE_PLAIN, "264");
    tt_check(tok, "a ab", LH_ENCODE_PLAIN, "262 264");
    tt_check(tok, "ab", LH_ENCODE_PLAIN | LH_ENCODE_CONTINUES, "263"); /* no space in front */
    tt_check(tok, "<s>ab<s>a", LH_ENCODE_SPECIAL, "1 264 1 262");
    tt_check(tok, "<s>ab", LH_ENCODE_SPECIAL | LH_ENCODE_CONTINUES, "1 264"); /* but after a special token */
    tt_check(tok, "é", LH_ENCODE_PLAIN, "2 198 172");
    tt_check(tok, "", LH_ENCODE_PLAIN, "");
    ck_assert_int_eq(lh_tokenizer_bos(tok), 1);
    ck_assert(lh_tokenizer_adds_bos(tok));
    ck_assert_int_eq(lh_tokenizer_eos(tok), -1);
    lh_tokenizer_close(tok);
}
END_TEST

/* The definition of BPE: of all neighbours that a merge joins, the one of lowest rank, leftmost, until none is left. */
static void merge_slowly(char words[][64], int *n)
{
    static const char *const merges[][2] = {{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"},
                                            {"Ġ", "w"}, {"a", "a"}, {"aa", "a"}};
    for (;;) {
        int best = 99, at = -1;
        for (int i = 0; i + 1 < *n; i++)
            for (int m = 0; m < 7; m++)
                if (m < best && !strcmp(words[i], merges[m][0]) && !strcmp(words[i + 1], merges[m][1]))
                    best = m, at = i;
        if (at < 0) return;
        size_t bytes = strlen(words[at]);
        memcpy(words[at] + bytes, words[at + 1], strnlen(words[at + 1], 63 - bytes) + 1);
        memmove(words + at + 1, words + at + 2, (size_t)(*n - at - 2) * sizeof *words);
        --*n;
    }
}

START_TEST(test_merging_is_by_rank_and_leftmost_also_in_long_words)
{
    static char words[600][64];
    lh_tokenizer *tok = tt_byte_level();
    dice d = {200000};
    for (int i = 0; i < 200; i++) {
        int n = 1 + (int)roll(&d, i % 4 ? 40 : 500);
        char text[600] = "";
        for (int k = 0; k < n; k++) {
            text[k] = "heloaz"[roll(&d, 6)];
            snprintf(words[k], sizeof *words, "%c", text[k]);
        }
        text[n] = '\0';
        merge_slowly(words, &n);
        lh_tokens ids = {0};
        lh_tokenizer_encode(tok, text, (int64_t)strlen(text), LH_ENCODE_PLAIN, &ids);
        ck_assert_int_eq(ids.n, n);
        for (int k = 0; k < n; k++) ck_assert_int_eq(ids.ids[k], lh_tokenizer_find(tok, words[k]));
        lh_tokens_clear(&ids);
    }
    lh_tokenizer_close(tok);
}
END_TEST

START_TEST(test_merges_of_one_rank_go_leftmost_first)
{
    /* aba: by order of the list "b a" wins; where both share a rank, the leftmost does. */
    const char *format = "{'model': {'vocab': {'a': 0, 'b': 1, 'ab': 2, 'ba': 3}, 'merges': ['b a', 'a b']%s}}";
    const char *shared[] = {"", ", 'merges_per_rank': [2]"}, *ids[] = {"0 3", "2 0"};
    for (int i = 0; i < 2; i++) {
        char text[256];
        lh_tokenizer *tok = NULL;
        snprintf(text, sizeof text, format, shared[i]);
        char *json = tt_json(text);
        ck_assert_int_eq(tt_parse(&tok, json), LH_OK);
        tt_check(tok, "aba", LH_ENCODE_PLAIN, ids[i]);
        lh_tokenizer_close(tok);
        lh_free(json);
    }
}
END_TEST

START_TEST(test_unknown_characters)
{
    const char *format = "{'model': {'vocab': {'<unk>': 0, 'a': 1}, 'merges': []%s}}";
    const char *options[] = {"", ", 'unk_token': '<unk>'", ", 'unk_token': '<unk>', 'fuse_unk': true"};
    const char *ids[] = {"1 1", "0 1 0 0 1", "0 1 0 1"};
    for (int i = 0; i < 3; i++) {
        char text[256];
        lh_tokenizer *tok = NULL;
        snprintf(text, sizeof text, format, options[i]);
        char *json = tt_json(text);
        ck_assert_int_eq(tt_parse(&tok, json), LH_OK);
        tt_check(tok, "xaéza", LH_ENCODE_PLAIN, ids[i]);
        lh_tokenizer_close(tok);
        lh_free(json);
    }
}
END_TEST

START_TEST(test_words_that_are_tokens_need_no_merges_when_so_told)
{
    const char *format = "{'pre_tokenizer': {'type': 'WhitespaceSplit'}, 'model': {'vocab': {'a': 1, 'b': 2, 'ab': 3}, "
                         "'merges': []%s}}";
    const char *options[] = {"", ", 'ignore_merges': true"}, *ids[] = {"1 2 2", "3 2"};
    for (int i = 0; i < 2; i++) {
        char text[256];
        lh_tokenizer *tok = NULL;
        snprintf(text, sizeof text, format, options[i]);
        char *json = tt_json(text);
        ck_assert_int_eq(tt_parse(&tok, json), LH_OK);
        tt_check(tok, "ab b", LH_ENCODE_PLAIN, ids[i]);
        lh_tokenizer_close(tok);
        lh_free(json);
    }
}
END_TEST

START_TEST(test_added_tokens_match_as_they_are_told)
{
    static const struct {
        const char *options, *text, *ids;
    } rows[] = {
        {"", "a<x> a", "1 9 3 1"},
        {", 'lstrip': true", "a  <x> a", "1 9 3 1"},
        {", 'rstrip': true", "a <x>  a", "1 3 9 1"},
        {", 'rstrip': true}, {'id': 7, 'content': ' a'", "a <x> a", "1 3 9 7"}, /* " a" begins with what is stripped */
        {", 'single_word': true", "a<x> <x>", "1 4 2 5 3 9"},
        {", 'normalized': true", "a<X><x>", "1 9 9"},
        {", 'normalized': false", "a<X><x>", "1 8 5 9"}, /* in "<x>", once normalised, there is still "<x" */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        lh_tokenizer *tok = NULL;
        snprintf(text, sizeof text,
                 "{'added_tokens': [{'id': 9, 'content': '<x>'%s}, {'id': 8, 'content': '<x'}], 'normalizer': {'type': "
                 "'Lowercase'}, 'model': {'vocab': {'a': 1, 'x': 2, ' ': 3, '<': 4, '>': 5}, 'merges': []}}",
                 rows[i].options);
        char *json = tt_json(text);
        ck_assert_msg(tt_parse(&tok, json) == LH_OK, "%s", lh_error_message());
        tt_check(tok, rows[i].text, LH_ENCODE_SPECIAL, rows[i].ids);
        lh_tokenizer_close(tok);
        lh_free(json);
    }
}
END_TEST

/* Bytes of the heap in use; 0 under a sanitizer, whose heap is its own. */
static int64_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}

START_TEST(test_added_tokens_take_memory_in_proportion)
{
    enum { TOKENS = 2000 };
    lh_buf json = {0};
    lh_tokenizer *tok = NULL;
    lh_buf_puts(&json, "{\"added_tokens\": [");
    for (int i = 0; i < TOKENS; i++) {
        lh_buf_printf(&json, "%s{\"id\": %d, \"content\": \"%d", i ? ", " : "", i + 10, i);
        for (int k = 0; k < 500; k++) lh_buf_printf(&json, "%c", 'a' + (i * 7 + k * k) % 26);
        lh_buf_puts(&json, "\"}");
    }
    lh_buf_puts(&json,
                "], \"normalizer\": {\"type\": \"Lowercase\"}, \"model\": {\"vocab\": {\"a\": 1}, \"merges\": []}}");
    int64_t before = heap_bytes();
    ck_assert_msg(tt_parse(&tok, json.data) == LH_OK, "%s", lh_error_message());
    int64_t taken = heap_bytes() - before;
    ck_assert_msg(taken < 3 * json.bytes, "%lld bytes for a file of %lld", (long long)taken, (long long)json.bytes);
    lh_tokenizer_close(tok);
    lh_buf_clear(&json);
}
END_TEST

/* Against the definition: at every place the longest token, of equal ones the last, else the next place. */
START_TEST(test_the_longest_added_token_is_found_at_every_place)
{
    enum { TOKENS = 60, TEXT = 4000 };
    char tokens[TOKENS][8], text[TEXT + 1];
    lh_buf json = {0};
    lh_tokenizer *tok = NULL;
    lh_tokens have = {0};
    unsigned seed = 1;
    lh_buf_puts(&json, "{\"added_tokens\": [");
    for (int i = 0; i < TOKENS; i++) {
        int n = 1 + (int)((seed = seed * 1103515245 + 12345) >> 16) % 6;
        for (int k = 0; k < n; k++) tokens[i][k] = "abc"[((seed = seed * 1103515245 + 12345) >> 16) % 3];
        tokens[i][n] = '\0';
        lh_buf_printf(&json, "%s{\"id\": %d, \"content\": \"%s\", \"special\": true}", i ? ", " : "", 10 + i,
                      tokens[i]);
    }
    lh_buf_puts(&json, "], \"model\": {\"vocab\": {\"d\": 3}, \"merges\": []}}");
    ck_assert_msg(tt_parse(&tok, json.data) == LH_OK, "%s", lh_error_message());
    for (int i = 0; i < TEXT; i++) text[i] = "abcd"[((seed = seed * 1103515245 + 12345) >> 16) % 4];
    text[TEXT] = '\0';
    ck_assert_int_eq(lh_tokenizer_encode(tok, text, TEXT, LH_ENCODE_SPECIAL, &have), LH_OK);
    int64_t n = 0;
    for (int at = 0; at < TEXT;) {
        int longest = -1, bytes = 1;
        for (int i = 0; i < TOKENS; i++) {
            int own = (int)strlen(tokens[i]);
            if (own < bytes || strncmp(text + at, tokens[i], (size_t)own) != 0) continue;
            longest = i;
            bytes = own;
        }
        if (longest >= 0 || text[at] == 'd') {
            ck_assert_int_lt(n, have.n);
            ck_assert_msg(have.ids[n] == (longest >= 0 ? 10 + longest : 3), "at %d", at);
            n++;
        }
        at += bytes;
    }
    ck_assert_int_eq(n, have.n);
    lh_tokens_clear(&have);
    lh_tokenizer_close(tok);
    lh_buf_clear(&json);
}
END_TEST

START_TEST(test_damaged_files_are_refused_by_name)
{
    static const struct {
        const char *json, *says;
    } rows[] = {
        {"", "not valid JSON"},
        {"[1]", "must be an object"},
        {"{}", "no 'model'"},
        {"{'model': {'type': 'Unigram', 'vocab': {}}}", "only 'BPE'"},
        {"{'model': {'type': 'Unigram', 'unk_id': 0, 'vocab': [['<unk>', 0.0]]}}", "only 'BPE'"},
        {"{'model': {'type': 'BPE', 'merges': []}}", "'vocab'"},
        {"{'model': {'vocab': {'a': 'b'}, 'merges': []}}", "must be an integer"},
        {"{'model': {'vocab': {'a': -1}, 'merges': []}}", "must be an integer"},
        {"{'model': {'vocab': {'a': 2000000000}, 'merges': []}}", "must be an integer"},
        {"{'model': {'vocab': {'a': 1}}}", "'merges'"},
        {"{'model': {'vocab': {'a': 1}, 'merges': ['a']}}", "neither"},
        {"{'model': {'vocab': {'a': 1}, 'merges': ['a b c']}}", "neither"},
        {"{'model': {'vocab': {'a': 1}, 'merges': [['a', 2]]}}", "neither"},
        {"{'model': {'vocab': {'a': 1}, 'merges': ['a a']}}", "not in 'vocab'"},
        {"{'model': {'vocab': {'a': 1, 'aa': 2}, 'merges': ['a a'], 'merges_per_rank': [2]}}", "merges_per_rank"},
        {"{'model': {'vocab': {'a': 1, 'aa': 2}, 'merges': ['a a'], 'merges_per_rank': [0]}}", "merges_per_rank"},
        {"{'model': {'vocab': {'a': 1}, 'merges': [], 'end_of_word_suffix': 'x'}}", "end_of_word_suffix"},
        {"{'model': {'vocab': {}, 'merges': []}, 'pre_tokenizer': {'type': 'Magic'}}", "'Magic' is not known"},
        {"{'model': {'vocab': {}, 'merges': []}, 'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '('}}}",
         "not understood"},
        {"{'model': {'vocab': {}, 'merges': []}, 'pre_tokenizer': {'type': 'Split', 'behavior': 'x'}}",
         "behaviour 'x'"},
        {"{'model': {'vocab': {}, 'merges': []}, 'normalizer': {'type': 'Magic'}}", "'Magic' is not known"},
        {"{'model': {'vocab': {}, 'merges': []}, 'decoder': {'type': 'Magic'}}", "'Magic' is not known"},
        {"{'model': {'vocab': {}, 'merges': []}, 'decoder': {'type': 'Strip', 'content': 'xy'}}", "one character"},
        {"{'model': {'vocab': {}, 'merges': []}, 'added_tokens': {}}", "'added_tokens' must be a list"},
        {"{'model': {'vocab': {}, 'merges': []}, 'added_tokens': [{'id': 1}]}", "no string 'content'"},
        {"{'model': {'vocab': {}, 'merges': []}, 'added_tokens': [{'content': 'a'}]}", "no 'id'"},
        {"{'model': {'vocab': {}, 'merges': []}, 'added_tokens': [{'content': 'a', 'id': 5000000}]}",
         "'id' is 5000000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *json = tt_json(rows[i].json);
        lh_tokenizer *tok = NULL;
        ck_assert_msg(tt_parse(&tok, json) == LH_EINPUT, "'%s' is taken", rows[i].json);
        ck_assert_ptr_null(tok);
        ck_assert_msg(strstr(lh_error_message(), rows[i].says) && strstr(lh_error_message(), "tokenizer.json"),
                      "'%s' gives '%s'", rows[i].json, lh_error_message());
        lh_free(json);
    }
}
END_TEST

START_TEST(test_the_companion_object_rules)
{
    char *json = tt_json("{'model': {'vocab': {'a': 1, 'b': 2}, 'merges': []}}");
    char *meta = tt_json("{'bos': 1, 'eos': [2, 0], 'add_bos': true, 'chat_template': null, 'chat_format': 'chatml'}");
    lh_tokenizer *tok = NULL;
    ck_assert_int_eq(lh_tokenizer_parse(&tok, "x", json, (int64_t)strlen(json), meta, (int64_t)strlen(meta)), LH_OK);
    ck_assert(lh_tokenizer_bos(tok) == 1 && lh_tokenizer_adds_bos(tok) && lh_tokenizer_eos(tok) == 2);
    ck_assert(lh_tokenizer_is_eos(tok, 0) && lh_tokenizer_is_eos(tok, 2) && !lh_tokenizer_is_eos(tok, 1));
    ck_assert_str_eq(lh_tokenizer_chat_format(tok), "chatml");
    lh_tokenizer_close(tok);
    tok = NULL;
    ck_assert_int_eq(lh_tokenizer_parse(&tok, "x", json, (int64_t)strlen(json), "[]", 2), LH_EINPUT);
    ck_assert_int_eq(lh_tokenizer_parse(&tok, "x", json, (int64_t)strlen(json), "{\"eos\": [-1]}", 13), LH_EINPUT);
    ck_assert_ptr_null(tok);
    lh_free(json), lh_free(meta);
}
END_TEST

int main(void)
{
    return suite_run("tokenizer", (const TTest *const[]){
                                      test_byte_level_decodes_what_it_encodes,
                                      test_invalid_utf8_counts_as_replacement_characters,
                                      test_streaming_equals_decoding_at_once_and_tears_no_character,
                                      test_ids_that_continue_a_text_are_decoded_as_its_end,
                                      test_offsets_say_where_a_token_is_in_the_text,
                                      test_tokens_have_the_bytes_of_their_pieces,
                                      test_streaming_gives_a_character_as_soon_as_it_is_whole,
                                      test_special_tokens_are_recognised_only_when_asked,
                                      test_parts_are_one_text_with_special_tokens_only_in_trusted_parts,
                                      test_sentence_pieces,
                                      test_merging_is_by_rank_and_leftmost_also_in_long_words,
                                      test_merges_of_one_rank_go_leftmost_first,
                                      test_unknown_characters,
                                      test_words_that_are_tokens_need_no_merges_when_so_told,
                                      test_added_tokens_match_as_they_are_told,
                                      test_added_tokens_take_memory_in_proportion,
                                      test_the_longest_added_token_is_found_at_every_place,
                                      test_damaged_files_are_refused_by_name,
                                      test_the_companion_object_rules,
                                      NULL,
                                  });
}
