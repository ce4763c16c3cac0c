/* vocab_gguf_pre.c - pre-tokenizers by their names in GGUF files. The expressions are those of the models' own
 * tokenizer.json, which llama.cpp's names stand for. */
#include "import/vocab_gguf_pre.h"

#include <string.h>

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define SHORT "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
/* Words of capital and small letters, with what is short for a verb. */
#define CASES(upper, lower) \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" SHORT "?|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" SHORT "?"
#define NO_HAN(letters) "[" letters "&&[^\\p{Han}]]"
#define GPT4O CASES(UPPER, LOWER) "|\\p{N}{1,3}|" REST_SLASH
#define REST_SLASH " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define DEEPSEEK "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
/* DeepSeek LLM's letters of cased scripts; those that normalising would change are written as code points. */
/* clang-format off */
#define CASED \
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅ" \
    "ὐ-ὗὙὛὝὟ-\\x{1f7d}ᾀ-ᾴᾶ-ᾼ\\x{1fbe}ῂ-ῄῆ-ῌῐ-\\x{1fd3}ῖ-\\x{1fdb}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\\x{2126}ℨ" \
    "\\x{212a}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
/* clang-format on */

static const lh_vocab_pre pres[] = {
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

const lh_vocab_pre *lh_vocab_pre_find(const char *name, int64_t bytes)
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
