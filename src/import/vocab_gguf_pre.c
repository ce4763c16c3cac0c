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
#define REST_SLASH " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* DeepSeek LLM's letters of cased scripts. */
/* clang-format off */
#define CASED \
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-" \
    "ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼι" \
    "ῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-" \
    "𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
/* clang-format on */

static const lh_vocab_pre pres[] = {
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
     .split = {SHORT "|" WORD "|\\p{N}{1,3}|" REST},
     .ignore_merges = 1,
     .add_bos = 1},
    {.names = "gpt-2 phi-2 mpt olmo jais trillion exaone4 modern-bert gigachat a.x-4.0 mellum", .split = {GPT2}},
    {.names = "smollm starcoder refact command-r codeshell exaone minerva-7b", .split = {"\\p{N}", GPT2}},
    {.names = "qwen2 deepseek-r1-qwen megrez kormo", .split = {SHORT "|" WORD "|\\p{N}|" REST}, .nfc = 1},
    {.names = "stablelm2 hunyuan solar-open grok-2", .split = {SHORT "|" WORD "|\\p{N}|" REST}},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", .split = {SHORT "|" WORD "|\\p{N}{1,3}|" REST}},
    {.names = "gpt-4o llama4 kanana2",
     .split = {"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" SHORT "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" SHORT
               "?|\\p{N}{1,3}|" REST_SLASH}},
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
    {.names = "deepseek-v3 hunyuan-dense",
     .split = {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
               "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
               "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
    {.names = "falcon", .split = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = "bloom poro-chat gpt3-finnish", .split = {" ?[^(\\s|.,!?…。，、।۔،)]+"}},
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
