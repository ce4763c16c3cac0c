/* vocab_gguf.c - turns the vocabulary of a GGUF file into a tokenizer.json: byte-level BPE, with the pre-tokenizer that
 * its name stands for, or SentencePiece. */
#include "import/vocab_gguf.h"

#include <string.h>

#include "base/unicode.h"
#include "import/vocab.h"
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

typedef struct gguf_vocab {
    lh_vocab vocab;
    const lh_gguf *gguf;
    const char *name;
    lh_gguf_text *merges; /* of byte-level BPE */
    int64_t merges_n;
    const pre_tokenizer *pre; /* NULL: SentencePiece */
    lh_buf *json;
} gguf_vocab;

/* ---- reading ---- */

/* A member of the vocabulary that has another number of entries than it has tokens. */
static lh_status check_entries(const gguf_vocab *v, const char *key, const void *entries, int64_t n)
{
    if (entries && n != v->vocab.n)
        LH_FAIL(LH_EINPUT, "'%s': '%s' has %lld entries for %lld tokens", v->name, key, (long long)n,
                (long long)v->vocab.n);
    return LH_OK;
}

/* Tokens with their types (all normal without any) and scores (0 without any). */
static lh_status read_pieces(gguf_vocab *v)
{
    static const char types_key[] = "tokenizer.ggml.token_type", scores_key[] = "tokenizer.ggml.scores";
    lh_status st = LH_OK;
    lh_gguf_text *tokens = NULL;
    int64_t *types = NULL, types_n = 0, scores_n = 0;
    double *scores = NULL;
    LH_TRY_DONE(lh_gguf_strings(v->gguf, "tokenizer.ggml.tokens", &tokens, &v->vocab.n));
    LH_TRY_DONE(lh_gguf_i64s(v->gguf, types_key, &types, &types_n));
    LH_TRY_DONE(lh_gguf_f64s(v->gguf, scores_key, &scores, &scores_n));
    if (v->vocab.n == 0 || v->vocab.n > INT32_MAX)
        LH_FAIL_DONE(LH_EINPUT, "'%s': 'tokenizer.ggml.tokens' has %lld tokens", v->name, (long long)v->vocab.n);
    LH_TRY_DONE(check_entries(v, types_key, types, types_n));
    LH_TRY_DONE(check_entries(v, scores_key, scores, scores_n));
    LH_TRY_DONE(lh_calloc(&v->vocab.pieces, v->vocab.n, sizeof *v->vocab.pieces));
    for (int64_t i = 0; i < v->vocab.n; i++) {
        if (!lh_utf8_valid(tokens[i].data, tokens[i].bytes))
            LH_FAIL_DONE(LH_EINPUT, "'%s': token %lld of 'tokenizer.ggml.tokens' is not UTF-8 text", v->name,
                         (long long)i);
        v->vocab.pieces[i] = (lh_vocab_piece){.text = tokens[i].data,
                                              .bytes = tokens[i].bytes,
                                              .type = types ? types[i] : LH_VOCAB_NORMAL,
                                              .score = scores ? scores[i] : 0};
    }
done:
    lh_free(tokens);
    lh_free(types);
    lh_free(scores);
    return st;
}

static lh_status read_pre(gguf_vocab *v)
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

static lh_status read_vocab(gguf_vocab *v, lh_gguf_text model)
{
    lh_gguf_text architecture = {"", 0};
    const int bpe = lh_gguf_text_is(&model, "gpt2");
    if (!bpe && !lh_gguf_text_is(&model, "llama"))
        LH_FAIL(LH_EINPUT, "'%s': 'tokenizer.ggml.model' is '%.*s', known are: gpt2 llama", v->name,
                (int)(model.bytes < 60 ? model.bytes : 60), model.data);
    LH_TRY(read_pieces(v));
    LH_TRY(lh_gguf_strings(v->gguf, "tokenizer.ggml.merges", &v->merges, &v->merges_n));
    if (bpe) LH_TRY(read_pre(v));
    v->vocab.is_sentencepiece = v->vocab.space_prefix = !bpe;
    LH_TRY(lh_gguf_bool(v->gguf, "tokenizer.ggml.add_space_prefix", &v->vocab.space_prefix));
    LH_TRY(lh_gguf_i64(v->gguf, "tokenizer.ggml.unknown_token_id", &v->vocab.unk));
    LH_TRY(lh_gguf_string(v->gguf, "general.architecture", &architecture));
    v->vocab.rstrip = !bpe && lh_gguf_text_is(&architecture, "phi3");
    return LH_OK;
}

/* ---- byte-level BPE ---- */

static lh_status write_bpe_merges(const gguf_vocab *v)
{
    LH_TRY(lh_buf_puts(v->json, "\"merges\": ["));
    for (int64_t i = 0; i < v->merges_n; i++) {
        lh_gguf_text m = v->merges[i];
        const char *space = m.bytes > 1 ? memchr(m.data + 1, ' ', (size_t)m.bytes - 1) : NULL;
        if (!space || !lh_utf8_valid(m.data, m.bytes))
            LH_FAIL(LH_EINPUT, "'%s': entry %lld of 'tokenizer.ggml.merges' is not two pieces with a space between",
                    v->name, (long long)i);
        int64_t left = space - m.data;
        LH_TRY(lh_vocab_put_merge(v->json, i ? "," : "", (lh_vocab_piece){.text = m.data, .bytes = left},
                                  (lh_vocab_piece){.text = space + 1, .bytes = m.bytes - left - 1}));
    }
    LH_TRY(lh_buf_puts(v->json, "]\n"));
    return LH_OK;
}

static lh_status write_bpe(const gguf_vocab *v)
{
    LH_TRY(lh_buf_printf(v->json, "\"normalizer\": %s,\n", v->pre->nfc ? "{\"type\": \"NFC\"}" : "null"));
    LH_TRY(lh_buf_puts(v->json, "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": ["));
    for (int i = 0; i < 6 && v->pre->split[i]; i++) {
        LH_TRY(lh_buf_puts(v->json, "\n{\"type\": \"Split\", \"behavior\": \"Isolated\", \"invert\": false, "
                                    "\"pattern\": {\"Regex\": "));
        LH_TRY(lh_vocab_put_text(v->json, v->pre->split[i], (int64_t)strlen(v->pre->split[i])));
        LH_TRY(lh_buf_puts(v->json, "}},"));
    }
    LH_TRY(lh_buf_printf(v->json,
                         "\n{\"type\": \"ByteLevel\", \"add_prefix_space\": %s, \"trim_offsets\": true, "
                         "\"use_regex\": false}]},\n",
                         v->vocab.space_prefix ? "true" : "false"));
    LH_TRY(lh_buf_puts(v->json, "\"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                                "\"trim_offsets\": true, \"use_regex\": true},\n"));
    LH_TRY(lh_buf_printf(v->json, "\"model\": {\"type\": \"BPE\", \"byte_fallback\": false, \"ignore_merges\": %s,\n",
                         v->pre->ignore_merges ? "true" : "false"));
    LH_TRY(lh_vocab_put_pieces(&v->vocab, v->json));
    LH_TRY(write_bpe_merges(v));
    LH_TRY(lh_buf_puts(v->json, "}"));
    return LH_OK;
}

/* ---- the companion object ---- */

/* The token that ends a turn of the model in the template: the longest special token that follows an answer. */
static lh_status add_turn_end(const gguf_vocab *v, lh_tokenizer_meta *meta)
{
    lh_status st = LH_OK;
    lh_buf eos = {0}, after = {0};
    int64_t id = -1;
    LH_TRY_DONE(lh_buf_puts(&eos, ""));
    if (meta->eos.n) {
        const lh_vocab_piece *token = &v->vocab.pieces[meta->eos.ids[0]];
        LH_TRY_DONE(lh_buf_append(&eos, token->text, token->bytes));
    }
    LH_TRY_DONE(lh_tokenizer_meta_after_answer(meta, eos.data, &after));
    const char *text = after.data + strspn(after.data, " \n");
    for (int64_t i = 0; i < v->vocab.n; i++) {
        const lh_vocab_piece *t = &v->vocab.pieces[i];
        const int marked = t->type == LH_VOCAB_CONTROL || t->type == LH_VOCAB_USER_DEFINED;
        if (!marked || !t->bytes || strncmp(text, t->text, (size_t)t->bytes) != 0) continue;
        if (id < 0 || t->bytes > v->vocab.pieces[id].bytes) id = i;
    }
    LH_TRY_DONE(lh_tokenizer_meta_ends(meta, id));
    if (id < 0) lh_tokenizer_meta_warn_end(v->name, after.data);
done:
    lh_buf_clear(&eos);
    lh_buf_clear(&after);
    return st;
}

static lh_status write_meta(const gguf_vocab *v, lh_buf *out)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    lh_status st = LH_OK;
    lh_tokenizer_meta meta = {.bos = -1, .add_bos = v->pre ? v->pre->add_bos : 1};
    lh_gguf_text jinja = {"", 0};
    int64_t bos = -1;
    LH_TRY_DONE(lh_gguf_i64(v->gguf, "tokenizer.ggml.bos_token_id", &bos));
    LH_TRY_DONE(lh_gguf_bool(v->gguf, "tokenizer.ggml.add_bos_token", &meta.add_bos));
    if (bos >= 0 && bos < v->vocab.n) meta.bos = (int32_t)bos;
    LH_TRY_DONE(lh_gguf_string(v->gguf, "tokenizer.chat_template", &jinja));
    LH_TRY_DONE(lh_buf_append(&meta.chat_template, jinja.data, jinja.bytes));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int64_t id = -1;
        LH_TRY_DONE(lh_gguf_i64(v->gguf, ends[i], &id));
        LH_TRY_DONE(lh_tokenizer_meta_ends(&meta, id < v->vocab.n ? id : -1));
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
    gguf_vocab v = {.vocab = {.unk = -1, .bos = -1}, .gguf = gguf, .name = name, .json = json};
    lh_gguf_text model = {"", 0};
    LH_TRY_DONE(lh_gguf_string(gguf, "tokenizer.ggml.model", &model));
    if (model.bytes == 0 || lh_gguf_text_is(&model, "none") || lh_gguf_text_is(&model, "no_vocab")) goto done;
    LH_TRY_DONE(read_vocab(&v, model));
    LH_TRY_DONE(lh_vocab_put_begin(&v.vocab, json));
    LH_TRY_DONE(v.pre ? write_bpe(&v) : lh_vocab_put_sentencepiece(&v.vocab, json));
    LH_TRY_DONE(lh_buf_puts(json, "}\n"));
    LH_TRY_DONE(write_meta(&v, meta));
done:
    lh_free(v.vocab.pieces);
    lh_free(v.merges);
    return st;
}
