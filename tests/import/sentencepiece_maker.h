/* sentencepiece_maker.h - models of SentencePiece (tokenizer.model) made in memory, for tests. */
#ifndef LH_TESTS_SENTENCEPIECE_MAKER_H
#define LH_TESTS_SENTENCEPIECE_MAKER_H

#include <stdint.h>
#include <string.h>

#include "gguf_maker.h"

/* Appends a varint, and a field of bytes: a text or a message. */
static inline void sm_varint(lh_buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) gm_bytes(b, (const char[]){(char)(v | 0x80)}, 1);
    gm_bytes(b, (const char[]){(char)v}, 1);
}

static inline void sm_field(lh_buf *b, int number, const void *data, int64_t bytes)
{
    sm_varint(b, (uint64_t)number << 3 | 2);
    sm_varint(b, (uint64_t)bytes);
    gm_bytes(b, data, bytes);
}

static inline void sm_number(lh_buf *b, int number, int64_t value)
{
    sm_varint(b, (uint64_t)number << 3);
    sm_varint(b, (uint64_t)value);
}

static inline void sm_piece(lh_buf *b, const char *text, float score, int type)
{
    lh_buf piece = {0};
    sm_field(&piece, 1, text, (int64_t)strlen(text));
    sm_varint(&piece, 2 << 3 | 5);
    gm_bytes(&piece, &score, 4);
    if (type != 1) sm_number(&piece, 3, type);
    sm_field(b, 1, piece.data, piece.bytes);
    lh_buf_clear(&piece);
}

/* The trainer's part: kind of the model, first token. */
static inline void sm_trainer(lh_buf *b, int type, int64_t bos)
{
    lh_buf part = {0};
    sm_field(&part, 2, "book", 4); /* its prefix of files */
    sm_number(&part, 3, type);
    sm_number(&part, 41, bos);
    sm_field(b, 2, part.data, part.bytes);
    lh_buf_clear(&part);
}

/* The normaliser's part: member `number` has another value than in models that are supported; 0: none. */
static inline void sm_normalizer(lh_buf *b, int prefix, int number)
{
    lh_buf part = {0};
    sm_field(&part, 1, "identity", 8);
    sm_field(&part, 2, "\1\2", number == 2 ? 2 : 0);
    sm_number(&part, 3, prefix);
    sm_number(&part, 4, number == 4);
    sm_number(&part, 5, number != 5);
    sm_field(b, 3, part.data, part.bytes);
    lh_buf_clear(&part);
}

/* <unk> <s> </s> ▁ a b c ab bc <0x64> aa <tool>: of "abc", "bc" has the better score. */
static inline void sm_tiny(lh_buf *b, int64_t bos, int prefix)
{
    static const struct {
        const char *text;
        float score;
        int type;
    } pieces[] = {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}, {"▁", -1, 1},     {"a", -2, 1},  {"b", -3, 1},
                  {"c", -4, 1},    {"ab", -9, 1}, {"bc", -8, 1},  {"<0x64>", 0, 6}, {"aa", -7, 1}, {"<tool>", 0, 4}};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        sm_piece(b, pieces[i].text, pieces[i].score, pieces[i].type);
    sm_trainer(b, 2, bos);
    sm_normalizer(b, prefix, 0);
}

#endif
