#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "fuzz.h"

/* ---- chance ---- */

fz_rng fz_rng_of(uint64_t seed, uint64_t stream, int64_t n)
{
    return (fz_rng){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                    .counter = {(uint32_t)n, (uint32_t)(n >> 32), (uint32_t)(stream ^ stream >> 32), 0}};
}

uint32_t fz_draw(fz_rng *rng)
{
    if (rng->left == 0) {
        lh_philox(rng->word, rng->key, rng->counter);
        rng->counter[3]++;
        rng->left = 4;
    }
    return rng->word[--rng->left];
}

int64_t fz_below(fz_rng *rng, int64_t n)
{
    uint64_t wide = (uint64_t)fz_draw(rng) << 32;
    return (int64_t)((wide | fz_draw(rng)) % (uint64_t)n);
}

/* ---- words ---- */

/* What means something in one of the formats. */
/* clang-format off */
static const char *const words[] = {
    "{", "}", "[", "]", "\"", ":", ",", "null", "true", "false", "-1", "0", "1e999", "-0.0", "1e-400", "99999999",
    "9223372036854775807", "-9223372036854775808", "18446744073709551616", "\\u0000", "\\ud800", "\\udc00", "\xff",
    "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x96\x81", "\xcc\x81", "'", "\\", "\"type\":",
    "\"Sequence\"", "\"Split\"", "\"Regex\":", "\"String\":", "\"(a|b)*\\\\s+\"", "\"\"", "\"normalized\": true",
    "\"ByteLevel\"", "\"Metaspace\"", "\"NFC\"", "\"Strip\"", "\"Replace\"", "\"Fuse\"", "\"ByteFallback\"",
    "\"<0x0A>\"", "\"a\": 1,", "[\"a\",\"a\"],", "\"merges_per_rank\": [1],", "\"content\": \"\"", "\"id\": 5,",
    "\"lstrip\": true", "\"single_word\": true", "{{", "}}", "{%", "%}", "{#", "'+'", "'system'", " message.role ",
    "\"dtype\":\"BF16\"", "\"data_offsets\":[0,0]", "\"shape\":[]", "GGUF", "\x89HDF\r\n\x1a\n", "OHDR", "FRHP",
    "BTHD", "SNOD", "TREE", "HEAP", "GCOL", "general.alignment", "tokenizer.ggml.tokens", "\n", " ", "\t"};
enum { WORDS = sizeof words / sizeof *words };

static const int64_t numbers[] = {
    0, 1, 2, 4, 7, 8, 16, 31, 32, 64, 100, 127, 128, 255, 256, 1000, 4096, 32767, 32768, 65535, 65536, 0x7fffffff,
    0x80000000, 0xffffffff, 0x100000000, INT64_MAX / 8, INT64_MAX / 2, INT64_MAX - 7, INT64_MAX, INT64_MIN, -1, -2,
    -8};
/* clang-format on */
enum { NUMBERS = sizeof numbers / sizeof *numbers };

/* ---- bytes ---- */

/* `cut` bytes at `at` become the `n` bytes of `with`. */
static lh_status splice(lh_buf *data, int64_t at, int64_t cut, const void *with, int64_t n)
{
    lh_status st = LH_OK;
    lh_buf out = {0};
    if (cut > data->bytes - at) cut = data->bytes - at;
    LH_TRY_DONE(lh_buf_append(&out, data->data, at));
    LH_TRY_DONE(lh_buf_append(&out, with, n));
    LH_TRY_DONE(lh_buf_append(&out, data->data + at + cut, data->bytes - at - cut));
    lh_buf_clear(data);
    *data = out;
    out = (lh_buf){0};
done:
    lh_buf_clear(&out);
    return st;
}

/* A place: anywhere, or near the start, where headers are. */
static int64_t place(const lh_buf *data, fz_rng *rng)
{
    int64_t near = data->bytes < 512 ? data->bytes : 512;
    return fz_below(rng, fz_below(rng, 3) ? data->bytes : near);
}

static void put_number(lh_buf *data, fz_rng *rng)
{
    static const int sizes[] = {1, 2, 4, 8};
    uint64_t value = (uint64_t)numbers[fz_below(rng, NUMBERS)] + (uint64_t)fz_below(rng, 3) - 1;
    int64_t at = place(data, rng), n = sizes[fz_below(rng, 4)];
    memcpy(data->data + at, &value, (size_t)(n < data->bytes - at ? n : data->bytes - at));
}

/* What a number of the file becomes when something is added to it. */
static void add_to_number(lh_buf *data, fz_rng *rng)
{
    int64_t at = place(data, rng) & ~(int64_t)3;
    uint32_t value;
    if (data->bytes - at < 4) return;
    memcpy(&value, data->data + at, 4);
    value += (uint32_t)(fz_below(rng, 33) - 16);
    memcpy(data->data + at, &value, 4);
}

static void copy_block(lh_buf *data, fz_rng *rng)
{
    int64_t from = place(data, rng), to = place(data, rng), n = 1 + fz_below(rng, fz_below(rng, 2) ? 8 : 64);
    if (n > data->bytes - from) n = data->bytes - from;
    if (n > data->bytes - to) n = data->bytes - to;
    memmove(data->data + to, data->data + from, (size_t)n);
}

static lh_status insert_block(lh_buf *data, fz_rng *rng)
{
    char block[64];
    int64_t from = place(data, rng), n = 1 + fz_below(rng, (int64_t)sizeof block);
    if (n > data->bytes - from) n = data->bytes - from;
    memcpy(block, data->data + from, (size_t)n);
    for (int64_t i = 1 + fz_below(rng, 4); i > 0; i--) LH_TRY(splice(data, place(data, rng), 0, block, n));
    return LH_OK;
}

static lh_status put_word(lh_buf *data, fz_rng *rng)
{
    const char *word = words[fz_below(rng, WORDS)];
    int64_t n = (int64_t)strlen(word);
    return splice(data, place(data, rng), fz_below(rng, 2) ? n : 0, word, n);
}

static lh_status mutate_once(lh_buf *data, fz_form form, fz_rng *rng)
{
    /* What changes the length of a file of offsets mostly ends at once. */
    int64_t kinds = form == FZ_BINARY && fz_below(rng, 8) ? 5 : 9, at = place(data, rng);
    switch (fz_below(rng, kinds)) {
    case 0: data->data[at] = (char)fz_draw(rng); break;
    case 1: data->data[at] = (char)(data->data[at] ^ 1 << fz_below(rng, 8)); break;
    case 2: put_number(data, rng); break;
    case 3: add_to_number(data, rng); break;
    case 4: copy_block(data, rng); break;
    case 5: LH_TRY(splice(data, at, 1 + fz_below(rng, fz_below(rng, 4) ? 4 : 64), "", 0)); break;
    case 6: LH_TRY(insert_block(data, rng)); break;
    case 7:
        if (fz_below(rng, 8) == 0) data->bytes = at;
        break;
    default: LH_TRY(put_word(data, rng));
    }
    return LH_OK;
}

static lh_status mutate_bytes(lh_buf *data, fz_form form, fz_rng *rng)
{
    int64_t times = 1 + fz_below(rng, fz_below(rng, 4) ? 3 : 30);
    for (int64_t i = 0; i < times && data->bytes > 0; i++) LH_TRY(mutate_once(data, form, rng));
    return LH_OK;
}

/* ---- values of a JSON tree ---- */

static json_t *new_value(fz_rng *rng)
{
    /* clang-format off */
    static const char *const texts[] = {
        "Sequence", "Split", "ByteLevel", "Metaspace", "Digits", "Whitespace", "Punctuation", "NFC", "NFKD", "Strip",
        "Replace", "Prepend", "Fuse", "ByteFallback", "a", " ", "", "\xe2\x96\x81", "(a+)+", "\\s*", "^", "$",
        "(?=a)", "\\K", "\\Ba", "[\\s\\S]", "(?<=a)b*", "<0x0A>", "<unk>", "hello", "Isolated", "Removed",
        "MergedWithNext", "Contiguous", "first", "always", "\xc3\xa9", "\xcc\x81", "x", "ll", "h e", "  ", "F32",
        "BF16", "I64", "llama", "gemma3_text", "phi3", "yarn", "llama3", "longrope", "sliding_attention",
        "full_attention", "silu", "gelu_pytorch_tanh"};
    /* clang-format on */
    switch (fz_below(rng, 9)) {
    case 0: return json_null();
    case 1: return json_boolean(fz_below(rng, 2));
    case 2: return json_integer(fz_below(rng, 300));
    case 3: return json_integer(numbers[fz_below(rng, NUMBERS)]);
    case 4: return json_real((double)(fz_below(rng, 2001) - 1000) * (fz_below(rng, 3) ? 0.01 : 1e305));
    case 5: return fz_below(rng, 2) ? json_array() : json_object();
    default: return json_string(texts[fz_below(rng, (int64_t)(sizeof texts / sizeof *texts))]);
    }
}

static void mutate_value(json_t *json, fz_rng *rng);

static void mutate_array(json_t *json, fz_rng *rng)
{
    size_t i = (size_t)fz_below(rng, (int64_t)json_array_size(json));
    switch (fz_below(rng, 6)) {
    case 0: json_array_set_new(json, i, new_value(rng)); break;
    case 1: json_array_remove(json, i); break;
    case 2: json_array_insert_new(json, i, json_deep_copy(json_array_get(json, i))); break;
    default: mutate_value(json_array_get(json, i), rng);
    }
}

static void mutate_object(json_t *json, fz_rng *rng)
{
    void *at = json_object_iter(json);
    for (int64_t i = fz_below(rng, (int64_t)json_object_size(json)); i > 0; i--) at = json_object_iter_next(json, at);
    char *key = strdup(json_object_iter_key(at));
    json_t *value = json_object_iter_value(at), *other;
    switch (key ? fz_below(rng, 6) : 6) {
    case 0: json_object_set_new(json, key, new_value(rng)); break;
    case 1: json_object_del(json, key); break;
    case 2:
        other = new_value(rng);
        if (json_is_string(other)) json_object_set_new(json, json_string_value(other), json_deep_copy(value));
        json_decref(other);
        break;
    default: mutate_value(value, rng);
    }
    free(key);
}

static void mutate_value(json_t *json, fz_rng *rng)
{
    if (json_array_size(json) > 0) mutate_array(json, rng);
    if (json_object_size(json) > 0) mutate_object(json, rng);
}

lh_status fz_mutate_json(lh_buf *text, fz_rng *rng)
{
    lh_status st = LH_OK;
    json_t *json = json_loadb(text->data, (size_t)text->bytes, JSON_ALLOW_NUL, NULL);
    char *made = NULL;
    if (!json) goto done;
    for (int64_t i = 1 + fz_below(rng, 4); i > 0; i--) mutate_value(json, rng);
    made = json_dumps(json, JSON_COMPACT);
    if (!made) goto done;
    text->bytes = 0;
    LH_TRY_DONE(lh_buf_puts(text, made));
done:
    free(made);
    json_decref(json);
    return st;
}

/* The header alone is damaged, mostly as a tree. */
static lh_status mutate_safetensors(lh_buf *data, fz_rng *rng)
{
    lh_status st = LH_OK;
    lh_buf header = {0};
    uint64_t bytes = 0;
    if (data->bytes >= 8) memcpy(&bytes, data->data, 8);
    if (data->bytes < 8 || bytes > (uint64_t)data->bytes - 8) goto done;
    LH_TRY_DONE(lh_buf_append(&header, data->data + 8, (int64_t)bytes));
    if (fz_below(rng, 4))
        LH_TRY_DONE(fz_mutate_json(&header, rng));
    else
        LH_TRY_DONE(mutate_bytes(&header, FZ_TEXT, rng));
    LH_TRY_DONE(splice(data, 8, (int64_t)bytes, header.data, header.bytes));
    bytes = (uint64_t)header.bytes;
    memcpy(data->data, &bytes, 8);
done:
    lh_buf_clear(&header);
    return st;
}

lh_status fz_mutate(lh_buf *data, fz_form form, fz_rng *rng)
{
    if (form == FZ_JSON && fz_below(rng, 4)) return fz_mutate_json(data, rng);
    if (form == FZ_SAFETENSORS && fz_below(rng, 4)) return mutate_safetensors(data, rng);
    return mutate_bytes(data, form, rng);
}
