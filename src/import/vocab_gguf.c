/* vocab_gguf.c - turns the vocabulary of a GGUF file into a tokenizer.json. Byte-level BPE is copied, with the
 * pre-tokenizer that its name stands for. SentencePiece has scores instead of merges: every split of a piece into two
 * pieces becomes a merge, ranked by the score of the piece. */
#include "import/vocab_gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"
#include "text/bpe_tables.h"
#include "text/tokenizer_meta.h"

/* ---- pre-tokenizers: the expressions of the models' own tokenizer.json, by llama.cpp's names ---- */

typedef struct pre_tokenizer {
    const char *names;    /* separated by spaces */
    const char *split[6]; /* regular expressions, applied in this order; NULL after the last */
    int ignore_merges;    /* a word that is a token is not merged */
    int add_bos;          /* default if the file has no value */
    int nfc;              /* text is normalised first */
} pre_tokenizer;

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define SHORT "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
/* Words of capital and small letters, with a shortened verb. */
#define CASES(upper, lower) \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" SHORT "?|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" SHORT "?"
#define NO_HAN(letters) "[" letters "&&[^\\p{Han}]]"
#define GPT4O CASES(UPPER, LOWER) "|\\p{N}{1,3}|" REST_SLASH
#define REST_SLASH " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define DEEPSEEK "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
/* DeepSeek LLM's letters of cased scripts; letters that normalising would change are written as code points. */
/* clang-format off */
#define CASED \
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅ" \
    "ὐ-ὗὙὛὝὟ-\\x{1f7d}ᾀ-ᾴᾶ-ᾼ\\x{1fbe}ῂ-ῄῆ-ῌῐ-\\x{1fd3}ῖ-\\x{1fdb}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\\x{2126}ℨ" \
    "\\x{212a}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
/* clang-format on */

static const pre_tokenizer pres[] = {
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
     .split = {SHORT "|" WORD "|\\p{N}{1,3}|" REST},
     .ignore_merges = 1,
     .add_bos = 1},
    {.names = "gpt-2 phi-2 mpt olmo jais trillion exaone4 modern-bert gigachat a.x-4.0 mellum granite-docling",
     .split = {GPT2}},
    {.names = "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", .split = {"\\p{N}", GPT2}},
    {.names = "qwen2 deepseek-r1-qwen megrez kormo", .split = {SHORT "|" WORD "|\\p{N}|" REST}, .nfc = 1},
    {.names = "qwen35",
     .split =
         {SHORT
          "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!"
          "\\S)|\\s+"},
     .nfc = 1},
    {.names = "stablelm2 hunyuan solar-open grok-2", .split = {SHORT "|" WORD "|\\p{N}|" REST}},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", .split = {SHORT "|" WORD "|\\p{N}{1,3}|" REST}},
    {.names = "ufakzeka", .split = {WORD "|\\p{N}|" REST}},
    {.names = "laguna", .split = {"[^\\n]+|[\\n]+", SHORT "|" WORD "|\\p{N}|" REST}},
    {.names = "minicpm5", .split = {"\\p{N}{1,3}", SHORT "|" WORD "|\\p{N}+|" REST}, .ignore_merges = 1},
    {.names = "seed-coder",
     .split = {SHORT "|" WORD "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {.names = "jais-2",
     .split = {SHORT
               "|" WORD "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{"
               "128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|"
               "\\s{1}"}},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .split = {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
               "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+("
               "?!\\S)|\\s+"}},
    {.names = "exaone-moe",
     .split =
         {SHORT
          "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*"
          "[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {.names = "superbpe", .split = {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2", .split = {GPT4O}},
    {.names = "tiny_aya cohere2moe", .split = {"\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O}},
    {.names = "youtu",
     .split = {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
               CASES(UPPER, LOWER) "|\\p{N}|" REST_SLASH},
     .ignore_merges = 1},
    {.names = "kimi-k2",
     .split = {"[\\p{Han}]+|" CASES(NO_HAN("\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"),
                                    NO_HAN("\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}")) "|\\p{N}{1,3}|" REST}},
    {.names = "tekken",
     .split = {"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER
               "*|\\p{N}|" REST_SLASH},
     .ignore_merges = 1,
     .add_bos = 1},
    {.names = "deepseek-llm",
     .split = {"[\r\n]", "\\s?[" CASED "]+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+",
               "\\p{N}+"}},
    {.names = "deepseek-coder",
     .split = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     .split = {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
               DEEPSEEK "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
    {.names = "spark2_5",
     .split = {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK "| ?[\\p{P}\\p{S}]+|[\r\n]|\\s+(?!\\S)|\\s+",
               "\\p{N}"}},
    {.names = "falcon", .split = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = "bloom poro-chat gpt3-finnish", .split = {" ?[^(\\s|.,!?…。，、।۔،)]+"}},
    {.names = "viking", .split = {" ?[^(\\s|.,!?…。，、।۔،)]+", "\\p{N}"}},
    {.names = "default", .split = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
};

static int has_name(const char *names, const char *name, int64_t bytes)
{
    for (const char *at = names; *at;) {
        size_t n = strcspn(at, " ");
        if ((int64_t)n == bytes && memcmp(at, name, n) == 0) return 1;
        at += n + (at[n] == ' ');
    }
    return 0;
}

static const pre_tokenizer *find_pre(const char *name, int64_t bytes)
{
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        if (has_name(pres[i].names, name, bytes)) return &pres[i];
    return NULL;
}

lh_status lh_vocab_pre_names(lh_buf *out)
{
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        if (i) LH_TRY(lh_buf_puts(out, " "));
        LH_TRY(lh_buf_puts(out, pres[i].names));
    }
    return LH_OK;
}

/* tokenizer.ggml.token_type */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

/* Longest piece considered for merges; the longest of Gemma has 93 bytes. */
enum { MERGED_BYTES = 512 };

static const char space_mark[] = "\xE2\x96\x81"; /* U+2581, SentencePiece's space */

typedef struct vocab {
    const lh_gguf *gguf;
    const char *name;
    lh_gguf_text *tokens, *merges;
    int64_t *types; /* NULL: all normal */
    double *scores; /* NULL: all 0 */
    int64_t n, merges_n;
    const pre_tokenizer *pre; /* NULL: SentencePiece */
    int space_prefix;         /* SentencePiece: a text begins with a space */
    int rstrip;               /* special tokens take the white space after them */
    lh_buf *json;
} vocab;

/* ---- reading ---- */

static lh_status read_array_sizes(const vocab *v, int64_t types_n, int64_t scores_n)
{
    if (v->n == 0 || v->n > INT32_MAX)
        LH_FAIL(LH_EINPUT, "'%s': 'tokenizer.ggml.tokens' has %lld tokens", v->name, (long long)v->n);
    if (v->types && types_n != v->n)
        LH_FAIL(LH_EINPUT, "'%s': 'tokenizer.ggml.token_type' has %lld entries for %lld tokens", v->name,
                (long long)types_n, (long long)v->n);
    if (v->scores && scores_n != v->n)
        LH_FAIL(LH_EINPUT, "'%s': 'tokenizer.ggml.scores' has %lld entries for %lld tokens", v->name,
                (long long)scores_n, (long long)v->n);
    for (int64_t i = 0; i < v->n; i++)
        if (!lh_utf8_valid(v->tokens[i].data, v->tokens[i].bytes))
            LH_FAIL(LH_EINPUT, "'%s': token %lld of 'tokenizer.ggml.tokens' is not UTF-8 text", v->name, (long long)i);
    return LH_OK;
}

static lh_status read_pre(vocab *v)
{
    lh_status st = LH_OK;
    lh_gguf_text pre = {"default", 7};
    lh_buf names = {0};
    LH_TRY_DONE(lh_gguf_string(v->gguf, "tokenizer.ggml.pre", &pre));
    v->pre = find_pre(pre.data, pre.bytes);
    if (!v->pre) {
        LH_TRY_DONE(lh_vocab_pre_names(&names));
        LH_FAIL_DONE(LH_EINPUT, "'%s': 'tokenizer.ggml.pre' is '%.*s', known are: %s", v->name,
                     (int)(pre.bytes < 60 ? pre.bytes : 60), pre.data, names.data);
    }
done:
    lh_buf_clear(&names);
    return st;
}

static lh_status read_vocab(vocab *v, lh_gguf_text model)
{
    int64_t types_n = 0, scores_n = 0;
    lh_gguf_text architecture = {"", 0};
    const int bpe = lh_gguf_text_is(&model, "gpt2");
    if (!bpe && !lh_gguf_text_is(&model, "llama"))
        LH_FAIL(LH_EINPUT, "'%s': 'tokenizer.ggml.model' is '%.*s', known are: gpt2 llama", v->name,
                (int)(model.bytes < 60 ? model.bytes : 60), model.data);
    LH_TRY(lh_gguf_strings(v->gguf, "tokenizer.ggml.tokens", &v->tokens, &v->n));
    LH_TRY(lh_gguf_strings(v->gguf, "tokenizer.ggml.merges", &v->merges, &v->merges_n));
    LH_TRY(lh_gguf_i64s(v->gguf, "tokenizer.ggml.token_type", &v->types, &types_n));
    LH_TRY(lh_gguf_f64s(v->gguf, "tokenizer.ggml.scores", &v->scores, &scores_n));
    LH_TRY(read_array_sizes(v, types_n, scores_n));
    if (bpe) LH_TRY(read_pre(v));
    v->space_prefix = !bpe;
    LH_TRY(lh_gguf_bool(v->gguf, "tokenizer.ggml.add_space_prefix", &v->space_prefix));
    LH_TRY(lh_gguf_string(v->gguf, "general.architecture", &architecture));
    v->rstrip = !bpe && lh_gguf_text_is(&architecture, "phi3");
    return LH_OK;
}

static int64_t type_of(const vocab *v, int64_t i)
{
    return v->types ? v->types[i] : NORMAL;
}

/* Some converters pad the vocabulary to the size of the embedding with these. */
static int is_filler(const vocab *v, int64_t i)
{
    char name[32];
    snprintf(name, sizeof name, "[PAD%lld]", (long long)i);
    return lh_gguf_text_is(&v->tokens[i], name);
}

/* ---- writing ---- */

static lh_status put_string(lh_buf *out, const char *text, int64_t bytes)
{
    int64_t plain = 0;
    LH_TRY(lh_buf_puts(out, "\""));
    for (int64_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        LH_TRY(lh_buf_append(out, text + plain, i - plain));
        LH_TRY(lh_buf_printf(out, "\\u%04x", c));
        plain = i + 1;
    }
    LH_TRY(lh_buf_append(out, text + plain, bytes - plain));
    LH_TRY(lh_buf_puts(out, "\""));
    return LH_OK;
}

static lh_status write_added(const vocab *v)
{
    const char *comma = "";
    LH_TRY(lh_buf_puts(v->json, "\"added_tokens\": ["));
    for (int64_t i = 0; i < v->n; i++) {
        int64_t type = type_of(v, i);
        lh_gguf_text t = v->tokens[i];
        if ((type != CONTROL && type != USER_DEFINED && type != UNKNOWN) || t.bytes == 0 || is_filler(v, i)) continue;
        /* A user-defined piece with spaces (Gemma 3 has runs of them) is searched for in the normalised text, where
         * spaces have become SentencePiece's mark. */
        int spaces = !v->pre && !v->space_prefix && type == USER_DEFINED &&
                     (memchr(t.data, ' ', (size_t)t.bytes) || memmem(t.data, (size_t)t.bytes, space_mark, 3));
        int rstrip = v->rstrip && !lh_gguf_text_is(&t, "<unk>") && !lh_gguf_text_is(&t, "<s>") &&
                     !lh_gguf_text_is(&t, "<|endoftext|>");
        LH_TRY(lh_buf_printf(v->json, "%s\n{\"id\": %lld, \"content\": ", comma, (long long)i));
        LH_TRY(put_string(v->json, t.data, t.bytes));
        LH_TRY(lh_buf_printf(v->json,
                             ", \"single_word\": false, \"lstrip\": false, \"rstrip\": %s, \"normalized\": %s, "
                             "\"special\": %s}",
                             rstrip ? "true" : "false", spaces ? "true" : "false",
                             type == USER_DEFINED ? "false" : "true"));
        comma = ",";
    }
    LH_TRY(lh_buf_puts(v->json, "],\n"));
    return LH_OK;
}

static lh_status write_vocab(const vocab *v)
{
    const char *comma = "";
    LH_TRY(lh_buf_puts(v->json, "\"vocab\": {"));
    for (int64_t i = 0; i < v->n; i++) {
        /* jansson allows no zero byte in a key; no known vocabulary has one outside its byte pieces. */
        if (memchr(v->tokens[i].data, '\0', (size_t)v->tokens[i].bytes)) continue;
        LH_TRY(lh_buf_printf(v->json, "%s\n", comma));
        LH_TRY(put_string(v->json, v->tokens[i].data, v->tokens[i].bytes));
        LH_TRY(lh_buf_printf(v->json, ": %lld", (long long)i));
        comma = ",";
    }
    LH_TRY(lh_buf_puts(v->json, "},\n"));
    return LH_OK;
}

static lh_status write_merge(const vocab *v, const char *comma, lh_gguf_text left, lh_gguf_text right)
{
    LH_TRY(lh_buf_printf(v->json, "%s\n[", comma));
    LH_TRY(put_string(v->json, left.data, left.bytes));
    LH_TRY(lh_buf_puts(v->json, ", "));
    LH_TRY(put_string(v->json, right.data, right.bytes));
    LH_TRY(lh_buf_puts(v->json, "]"));
    return LH_OK;
}

/* ---- byte-level BPE ---- */

static lh_status write_bpe_merges(const vocab *v)
{
    LH_TRY(lh_buf_puts(v->json, "\"merges\": ["));
    for (int64_t i = 0; i < v->merges_n; i++) {
        lh_gguf_text m = v->merges[i];
        const char *space = m.bytes > 1 ? memchr(m.data + 1, ' ', (size_t)m.bytes - 1) : NULL;
        if (!space || !lh_utf8_valid(m.data, m.bytes))
            LH_FAIL(LH_EINPUT, "'%s': entry %lld of 'tokenizer.ggml.merges' is not two pieces with a space between",
                    v->name, (long long)i);
        int64_t left = space - m.data;
        LH_TRY(
            write_merge(v, i ? "," : "", (lh_gguf_text){m.data, left}, (lh_gguf_text){space + 1, m.bytes - left - 1}));
    }
    LH_TRY(lh_buf_puts(v->json, "]\n"));
    return LH_OK;
}

static lh_status write_bpe(const vocab *v)
{
    LH_TRY(lh_buf_printf(v->json, "\"normalizer\": %s,\n", v->pre->nfc ? "{\"type\": \"NFC\"}" : "null"));
    LH_TRY(lh_buf_puts(v->json, "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": ["));
    for (int i = 0; i < 6 && v->pre->split[i]; i++) {
        LH_TRY(lh_buf_puts(v->json, "\n{\"type\": \"Split\", \"behavior\": \"Isolated\", \"invert\": false, "
                                    "\"pattern\": {\"Regex\": "));
        LH_TRY(put_string(v->json, v->pre->split[i], (int64_t)strlen(v->pre->split[i])));
        LH_TRY(lh_buf_puts(v->json, "}},"));
    }
    LH_TRY(lh_buf_printf(v->json,
                         "\n{\"type\": \"ByteLevel\", \"add_prefix_space\": %s, \"trim_offsets\": true, "
                         "\"use_regex\": false}]},\n",
                         v->space_prefix ? "true" : "false"));
    LH_TRY(lh_buf_puts(v->json, "\"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                                "\"trim_offsets\": true, \"use_regex\": true},\n"));
    LH_TRY(lh_buf_printf(v->json, "\"model\": {\"type\": \"BPE\", \"byte_fallback\": false, \"ignore_merges\": %s,\n",
                         v->pre->ignore_merges ? "true" : "false"));
    LH_TRY(write_vocab(v));
    LH_TRY(write_bpe_merges(v));
    LH_TRY(lh_buf_puts(v->json, "}"));
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
static int merges_into(const vocab *v, int64_t i)
{
    return type_of(v, i) == NORMAL && v->tokens[i].bytes <= MERGED_BYTES;
}

static lh_status find_merges(const vocab *v, scored **out, int64_t *n)
{
    lh_status st = LH_OK;
    lh_pieces pieces = {0};
    int64_t cap = 0;
    LH_TRY_DONE(lh_pieces_open(&pieces, v->n));
    for (int64_t i = 0; i < v->n; i++)
        if (merges_into(v, i)) LH_TRY_DONE(lh_pieces_add(&pieces, v->tokens[i].data, v->tokens[i].bytes, (int32_t)i));
    for (int64_t i = 0; i < v->n; i++) {
        lh_gguf_text t = v->tokens[i];
        if (!merges_into(v, i)) continue;
        double score = v->scores && !isnan(v->scores[i]) ? v->scores[i] : 0;
        for (int64_t at = 0; at < t.bytes;) {
            at += lh_utf8_length(t.data + at);
            if (at >= t.bytes || lh_pieces_find(&pieces, t.data, at) < 0 ||
                lh_pieces_find(&pieces, t.data + at, t.bytes - at) < 0)
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

static lh_status write_spm_merges(const vocab *v)
{
    lh_status st = LH_OK;
    scored *list = NULL;
    int64_t n = 0;
    LH_TRY_DONE(lh_calloc(&list, 1, sizeof *list));
    LH_TRY_DONE(find_merges(v, &list, &n));
    LH_TRY_DONE(lh_buf_puts(v->json, "\"merges\": ["));
    for (int64_t i = 0; i < n; i++) {
        lh_gguf_text t = v->tokens[list[i].token];
        LH_TRY_DONE(write_merge(v, i ? "," : "", (lh_gguf_text){t.data, list[i].left_bytes},
                                (lh_gguf_text){t.data + list[i].left_bytes, t.bytes - list[i].left_bytes}));
    }
    LH_TRY_DONE(lh_buf_puts(v->json, "],\n\"merges_per_rank\": ["));
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && list[end].score == list[i].score;) end++;
        LH_TRY_DONE(lh_buf_printf(v->json, "%s%lld", i ? "," : "", (long long)(end - i)));
    }
    LH_TRY_DONE(lh_buf_puts(v->json, "]\n"));
done:
    lh_free(list);
    return st;
}

static lh_status write_spm(const vocab *v)
{
    int64_t unk = -1;
    LH_TRY(lh_gguf_i64(v->gguf, "tokenizer.ggml.unknown_token_id", &unk));
    LH_TRY(lh_buf_puts(v->json, "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": ["));
    if (v->space_prefix) LH_TRY(lh_buf_printf(v->json, "{\"type\": \"Prepend\", \"prepend\": \"%s\"}, ", space_mark));
    LH_TRY(lh_buf_printf(v->json, "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"%s\"}]},\n",
                         space_mark));
    LH_TRY(lh_buf_puts(v->json, "\"pre_tokenizer\": null,\n\"decoder\": {\"type\": \"Sequence\", \"decoders\": ["));
    LH_TRY(lh_buf_printf(
        v->json,
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \"%s\"}, \"content\": \" \"}, "
        "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}%s]},\n",
        space_mark, v->space_prefix ? ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}" : ""));
    LH_TRY(lh_buf_puts(v->json, "\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"fuse_unk\": true, "
                                "\"unk_token\": "));
    LH_TRY(unk >= 0 && unk < v->n ? put_string(v->json, v->tokens[unk].data, v->tokens[unk].bytes)
                                  : lh_buf_puts(v->json, "null"));
    LH_TRY(lh_buf_puts(v->json, ",\n"));
    LH_TRY(write_vocab(v));
    LH_TRY(write_spm_merges(v));
    LH_TRY(lh_buf_puts(v->json, "}"));
    return LH_OK;
}

/* ---- the companion object ---- */

/* The token that ends a turn of the model in the template: the longest special token that follows an answer. */
static lh_status add_turn_end(const vocab *v, lh_tokenizer_meta *meta)
{
    lh_status st = LH_OK;
    lh_buf eos = {0}, after = {0};
    int64_t id = -1;
    LH_TRY_DONE(lh_buf_puts(&eos, ""));
    if (meta->eos.n) {
        const lh_gguf_text token = v->tokens[meta->eos.ids[0]];
        LH_TRY_DONE(lh_buf_append(&eos, token.data, token.bytes));
    }
    LH_TRY_DONE(lh_tokenizer_meta_after_answer(meta, eos.data, &after));
    const char *text = after.data + strspn(after.data, " \n");
    for (int64_t i = 0; i < v->n; i++) {
        const lh_gguf_text t = v->tokens[i];
        const int marked = type_of(v, i) == CONTROL || type_of(v, i) == USER_DEFINED;
        if (!marked || !t.bytes || strncmp(text, t.data, (size_t)t.bytes) != 0) continue;
        if (id < 0 || t.bytes > v->tokens[id].bytes) id = i;
    }
    LH_TRY_DONE(lh_tokenizer_meta_ends(meta, id));
    if (id < 0) lh_tokenizer_meta_warn_end(v->name, after.data);
done:
    lh_buf_clear(&eos);
    lh_buf_clear(&after);
    return st;
}

static lh_status write_meta(const vocab *v, lh_buf *out)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    lh_status st = LH_OK;
    lh_tokenizer_meta meta = {.bos = -1, .add_bos = v->pre ? v->pre->add_bos : 1};
    lh_gguf_text jinja = {"", 0};
    int64_t bos = -1;
    LH_TRY_DONE(lh_gguf_i64(v->gguf, "tokenizer.ggml.bos_token_id", &bos));
    LH_TRY_DONE(lh_gguf_bool(v->gguf, "tokenizer.ggml.add_bos_token", &meta.add_bos));
    if (bos >= 0 && bos < v->n) meta.bos = (int32_t)bos;
    LH_TRY_DONE(lh_gguf_string(v->gguf, "tokenizer.chat_template", &jinja));
    LH_TRY_DONE(lh_buf_append(&meta.chat_template, jinja.data, jinja.bytes));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int64_t id = -1;
        LH_TRY_DONE(lh_gguf_i64(v->gguf, ends[i], &id));
        LH_TRY_DONE(lh_tokenizer_meta_ends(&meta, id < v->n ? id : -1));
    }
    LH_TRY_DONE(add_turn_end(v, &meta));
    LH_TRY_DONE(lh_tokenizer_meta_write(&meta, v->name, out));
done:
    lh_tokenizer_meta_clear(&meta);
    return st;
}

lh_status lh_vocab_gguf(const lh_gguf *gguf, const char *name, lh_buf *json, lh_buf *meta)
{
    lh_status st = LH_OK;
    vocab v = {.gguf = gguf, .name = name, .json = json};
    lh_gguf_text model = {"", 0};
    LH_TRY_DONE(lh_gguf_string(gguf, "tokenizer.ggml.model", &model));
    if (model.bytes == 0 || lh_gguf_text_is(&model, "none") || lh_gguf_text_is(&model, "no_vocab")) goto done;
    LH_TRY_DONE(read_vocab(&v, model));
    LH_TRY_DONE(lh_buf_puts(json, "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n"));
    LH_TRY_DONE(write_added(&v));
    LH_TRY_DONE(lh_buf_puts(json, "\"post_processor\": null,\n"));
    LH_TRY_DONE(v.pre ? write_bpe(&v) : write_spm(&v));
    LH_TRY_DONE(lh_buf_puts(json, "}\n"));
    LH_TRY_DONE(write_meta(&v, meta));
done:
    lh_free(v.tokens);
    lh_free(v.merges);
    lh_free(v.types);
    lh_free(v.scores);
    return st;
}
