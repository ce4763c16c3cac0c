/* vocab_sentencepiece.c - reads the protobuf message ModelProto of SentencePiece (sentencepiece_model.proto): pieces,
 * and what its trainer and its normaliser were told. A message is a sequence of fields, each a number and a value;
 * unknown fields are skipped. Every length is checked against the bytes that are left. */
#include "import/vocab_sentencepiece.h"

#include <string.h>

#include "base/unicode.h"
#include "import/vocab.h"

/* What a folder without a readable tokenizer needs. */
#define REMEDY ": AutoTokenizer.from_pretrained(…).save_pretrained(…) writes a tokenizer.json"

/* ---- protobuf ---- */

typedef struct message {
    const char *name; /* of the file */
    const uint8_t *at, *end;
} message;

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

typedef struct field {
    uint64_t number, value; /* of VARINT, FIXED32 and FIXED64 */
    int wire;
    message bytes; /* of BYTES: a text or a message */
} field;

static lh_status fail_damaged(const message *m)
{
    LH_FAIL(LH_EINPUT, "'%s' is no model of SentencePiece, or damaged" REMEDY, m->name);
}

static lh_status read_varint(message *m, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const uint8_t byte = *m->at++;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return LH_OK;
    }
    return fail_damaged(m);
}

static lh_status read_fixed(message *m, int bytes, uint64_t *out)
{
    *out = 0;
    if (m->end - m->at < bytes) LH_TRY(fail_damaged(m));
    for (int i = 0; i < bytes; i++) *out |= (uint64_t)*m->at++ << (8 * i);
    return LH_OK;
}

/* The next field of a message that has not ended. */
static lh_status read_field(message *m, field *out)
{
    uint64_t key = 0;
    LH_TRY(read_varint(m, &key));
    *out = (field){.number = key >> 3, .wire = (int)(key & 7), .bytes = {.name = m->name}};
    switch (out->wire) {
    case VARINT: return read_varint(m, &out->value);
    case FIXED64: return read_fixed(m, 8, &out->value);
    case FIXED32: return read_fixed(m, 4, &out->value);
    case BYTES: break;
    default: return fail_damaged(m);
    }
    LH_TRY(read_varint(m, &out->value));
    if (out->value > (uint64_t)(m->end - m->at)) LH_TRY(fail_damaged(m));
    out->bytes.at = m->at;
    out->bytes.end = m->at += out->value;
    return LH_OK;
}

/* ---- the model ---- */

enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { TRAINER_MODEL_TYPE = 3, TRAINER_SUFFIX = 24, TRAINER_UNK = 40, TRAINER_BOS = 41 };
enum { NORMALIZER_NAME = 1, NORMALIZER_MAP = 2, NORMALIZER_PREFIX = 3, NORMALIZER_TRIM = 4, NORMALIZER_ESCAPE = 5 };
enum { UNIGRAM = 1, BPE = 2, PIECES_MAX = 1 << 24 };

/* The members of the message that ids depend on, with the defaults of the format. */
typedef struct model {
    lh_vocab vocab;
    int64_t cap;
    uint64_t type;            /* of the model */
    int64_t bos;              /* -1: none */
    int is_suffix;            /* true: a space belongs to the word before it */
    int trims, escapes, maps; /* white space is trimmed; spaces become U+2581; characters are replaced */
    message normalizer;       /* its name */
} model;

/* A field of the wire type that the format gives it; others are those of another format. */
static lh_status check_wire(const field *f, int wire)
{
    return f->wire == wire ? LH_OK : fail_damaged(&f->bytes);
}

static lh_status read_piece(model *m, message piece)
{
    lh_vocab *v = &m->vocab;
    lh_vocab_piece made = {.text = "", .type = LH_VOCAB_NORMAL};
    while (piece.at < piece.end) {
        field f;
        LH_TRY(read_field(&piece, &f));
        if (f.number == PIECE_TEXT) {
            LH_TRY(check_wire(&f, BYTES));
            made.text = (const char *)f.bytes.at;
            made.bytes = f.bytes.end - f.bytes.at;
        } else if (f.number == PIECE_SCORE) {
            float score;
            const uint32_t bits = (uint32_t)f.value;
            LH_TRY(check_wire(&f, FIXED32));
            memcpy(&score, &bits, sizeof score);
            made.score = (double)score;
        } else if (f.number == PIECE_TYPE) {
            LH_TRY(check_wire(&f, VARINT));
            made.type = (int64_t)f.value;
        }
    }
    if (v->n == PIECES_MAX) LH_FAIL(LH_EINPUT, "'%s' has more than %d pieces", piece.name, PIECES_MAX);
    if (!made.bytes || !lh_utf8_valid(made.text, made.bytes))
        LH_FAIL(LH_EINPUT, "'%s': piece %lld is not UTF-8 text" REMEDY, piece.name, (long long)v->n);
    if (v->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 1024;
        LH_TRY(lh_realloc(&v->pieces, m->cap, sizeof *v->pieces));
    }
    if (made.type == LH_VOCAB_UNKNOWN && v->unk < 0) v->unk = v->n;
    v->pieces[v->n++] = made;
    return LH_OK;
}

static lh_status read_trainer(model *m, message trainer)
{
    while (trainer.at < trainer.end) {
        field f;
        LH_TRY(read_field(&trainer, &f));
        if (f.number != TRAINER_MODEL_TYPE && f.number != TRAINER_SUFFIX && f.number != TRAINER_BOS) continue;
        LH_TRY(check_wire(&f, VARINT));
        if (f.number == TRAINER_MODEL_TYPE) m->type = f.value;
        if (f.number == TRAINER_SUFFIX) m->is_suffix = f.value != 0;
        if (f.number == TRAINER_BOS) m->bos = (int64_t)f.value; /* a negative number has 64 bits */
    }
    return LH_OK;
}

static lh_status read_normalizer(model *m, message normalizer)
{
    while (normalizer.at < normalizer.end) {
        field f;
        LH_TRY(read_field(&normalizer, &f));
        if (f.number < NORMALIZER_NAME || f.number > NORMALIZER_ESCAPE) continue;
        LH_TRY(check_wire(&f, f.number <= NORMALIZER_MAP ? BYTES : VARINT));
        if (f.number == NORMALIZER_NAME) m->normalizer = f.bytes;
        if (f.number == NORMALIZER_MAP) m->maps = f.bytes.end > f.bytes.at;
        if (f.number == NORMALIZER_PREFIX) m->vocab.space_prefix = f.value != 0;
        if (f.number == NORMALIZER_TRIM) m->trims = f.value != 0;
        if (f.number == NORMALIZER_ESCAPE) m->escapes = f.value != 0;
    }
    return LH_OK;
}

static lh_status read_model(model *m, message file)
{
    static lh_status (*const readers[])(model * m, message part) = {
        [MODEL_PIECE] = read_piece, [MODEL_TRAINER] = read_trainer, [MODEL_NORMALIZER] = read_normalizer};
    while (file.at < file.end) {
        field f;
        LH_TRY(read_field(&file, &f));
        if (f.number < MODEL_PIECE || f.number > MODEL_NORMALIZER) continue;
        LH_TRY(check_wire(&f, BYTES));
        LH_TRY(readers[f.number](m, f.bytes));
    }
    if (m->vocab.n == 0) LH_TRY(fail_damaged(&file));
    return LH_OK;
}

static lh_status check_supported(const model *m, const char *name)
{
    if (m->type != BPE)
        LH_FAIL(LH_EINPUT, "'%s' is a %s model of SentencePiece, supported is BPE" REMEDY, name,
                m->type == UNIGRAM ? "unigram" : "word or character");
    if (m->maps) {
        char text[64];
        const int64_t bytes = m->normalizer.end - m->normalizer.at;
        const int shown = (int)(bytes < (int64_t)sizeof text ? bytes : (int64_t)sizeof text);
        LH_FAIL(LH_EINPUT, "'%s' normalises texts by '%.*s', which is not supported" REMEDY, name, shown,
                shown ? (const char *)m->normalizer.at : "");
    }
    if (m->trims || !m->escapes || m->is_suffix)
        LH_FAIL(LH_EINPUT, "'%s' %s, which is not supported" REMEDY, name,
                m->trims       ? "removes white space ('remove_extra_whitespaces')"
                : m->is_suffix ? "puts spaces after words ('treat_whitespace_as_suffix')"
                               : "leaves spaces as they are ('escape_whitespaces')");
    return LH_OK;
}

lh_status lh_vocab_sentencepiece(const char *name, const lh_buf *file, lh_buf *json)
{
    lh_status st = LH_OK;
    model m = {.vocab = {.unk = -1, .bos = -1, .is_sentencepiece = 1, .space_prefix = 1},
               .type = UNIGRAM,
               .bos = 1,
               .trims = 1,
               .escapes = 1};
    const uint8_t *bytes = (const uint8_t *)file->data;
    LH_TRY_DONE(read_model(&m, (message){name, bytes, bytes + file->bytes}));
    LH_TRY_DONE(check_supported(&m, name));
    if (m.bos >= 0 && m.bos < m.vocab.n && m.vocab.pieces[m.bos].type == LH_VOCAB_CONTROL) m.vocab.bos = m.bos;
    LH_TRY_DONE(lh_vocab_put_begin(&m.vocab, json));
    LH_TRY_DONE(lh_vocab_put_sentencepiece(&m.vocab, json));
    LH_TRY_DONE(lh_buf_puts(json, "}\n"));
done:
    lh_free(m.vocab.pieces);
    return st;
}
