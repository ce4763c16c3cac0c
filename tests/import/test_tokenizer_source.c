/* Where tokenizers come from: folders with what lies beside a tokenizer.json, and vocabularies of GGUF files. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "base/output.h"
#include "base/temporary.h"
#include "gguf_maker.h"
#include "import/tokenizer_source.h"
#include "import/vocab_gguf.h"
#include "sentencepiece_maker.h"
#include "suite.h"
#include "text/tiny_tokenizers.h"

static char folder[64];

static void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(folder, "/tmp")));
}

static void put(const char *name, const char *text)
{
    char *path = NULL, *json = tt_json(text);
    ck_assert_int_eq(lh_path_join(&path, folder, name), LH_OK);
    ck_assert_int_eq(lh_file_write(path, json, (int64_t)strlen(json)), LH_OK);
    lh_free(path), lh_free(json);
}

static void remove_folder(void)
{
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer.model",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "generation_config.json",
                                        "added_tokens.json",
                                        "config.json",
                                        "chat_template.json",
                                        "tekken.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "chat_template.jinja",
                                        "v.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = NULL;
        ck_assert_int_eq(lh_path_join(&path, folder, names[i]), LH_OK);
        unlink(path);
        lh_free(path);
    }
    rmdir(folder);
}

static const char tiny[] =
    "{'added_tokens': [{'id': 0, 'content': '<s>', 'special': true}, {'id': 1, 'content': '</s>', 'special': true}, "
    "{'id': 2, 'content': '<|im_end|>', 'special': true}, {'id': 3, 'content': '<b>', 'special': true}], 'model': "
    "{'vocab': {'<s>': 0, '</s>': 1, '<|im_end|>': 2, '<b>': 3, 'a': 4}, 'merges': []}}";

#define CHATML                                                                                                       \
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + " \
    "'\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

static lh_tokenizer *open_folder(void)
{
    lh_tokenizer *tok = NULL;
    ck_assert_msg(lh_tokenizer_open(&tok, folder) == LH_OK, "%s", lh_error_message());
    return tok;
}

START_TEST(test_a_folder_without_companions_has_the_usual_tokens)
{
    make_folder();
    put("tokenizer.json", tiny);
    lh_tokenizer *tok = open_folder();
    ck_assert(lh_tokenizer_bos(tok) == 0 && !lh_tokenizer_adds_bos(tok) && lh_tokenizer_eos(tok) == 1);
    ck_assert_ptr_null(lh_tokenizer_chat_format(tok));
    lh_tokenizer_close(tok);
    remove_folder();
}
END_TEST

START_TEST(test_companions_name_first_and_end_tokens)
{
    make_folder();
    put("tokenizer.json", tiny);
    put("tokenizer_config.json", "{'bos_token': {'content': '<b>'}, 'eos_token': '</s>', 'add_bos_token': true, "
                                 "'model_max_length': 1000000000000000019884624838656}");
    put("special_tokens_map.json", "{'bos_token': '<s>'}");
    put("generation_config.json", "{'eos_token_id': [4, 1]}");
    put("config.json", "{'eos_token_id': 0}");
    put("chat_template.jinja", CHATML);
    char *jinja = NULL; /* the file's quotes are not JSON's */
    ck_assert_int_eq(lh_path_join(&jinja, folder, "chat_template.jinja"), LH_OK);
    ck_assert_int_eq(lh_file_write(jinja, CHATML, (int64_t)strlen(CHATML)), LH_OK);
    lh_free(jinja);
    lh_tokenizer *tok = open_folder();
    ck_assert(lh_tokenizer_bos(tok) == 3 && lh_tokenizer_adds_bos(tok) && lh_tokenizer_eos(tok) == 1);
    ck_assert(lh_tokenizer_is_eos(tok, 4) && lh_tokenizer_is_eos(tok, 0));
    ck_assert_str_eq(lh_tokenizer_chat_format(tok), "template");
    ck_assert(lh_tokenizer_is_eos(tok, 2)); /* the end of a turn in that format */
    lh_tokenizer_close(tok);
    remove_folder();
}
END_TEST

/* Of older multimodal folders; the tokenizer's own goes first. */
START_TEST(test_the_chat_template_of_a_processor_is_read)
{
    lh_tokenizer *tok = NULL;
    make_folder();
    put("tokenizer.json", tiny);
    put("chat_template.json", "{'chat_template': '{{ messages[0].content }}'}");
    tok = open_folder();
    ck_assert_str_eq(lh_tokenizer_chat_template(tok), "{{ messages[0].content }}");
    lh_tokenizer_close(tok);
    put("tokenizer_config.json", "{'chat_template': '{{ messages }}'}");
    tok = open_folder();
    ck_assert_str_eq(lh_tokenizer_chat_template(tok), "{{ messages }}");
    lh_tokenizer_close(tok);
    remove_folder();
}
END_TEST

START_TEST(test_a_null_first_token_is_none)
{
    make_folder();
    put("tokenizer.json", tiny);
    put("tokenizer_config.json", "{'bos_token': null}");
    lh_tokenizer *tok = open_folder();
    ck_assert_int_eq(lh_tokenizer_bos(tok), -1);
    lh_tokenizer_close(tok);
    remove_folder();
}
END_TEST

START_TEST(test_a_folder_without_tokenizer_gives_nothing)
{
    lh_buf json = {0}, meta = {0};
    lh_tokenizer *tok = NULL;
    make_folder();
    ck_assert_int_eq(lh_tokenizer_source(&tok, folder, &json, &meta), LH_OK);
    ck_assert(!tok && json.bytes == 0 && meta.bytes == 0);
    ck_assert_int_eq(lh_tokenizer_open(&tok, folder), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "no 'tokenizer.json'"));
    ck_assert_ptr_null(strstr(lh_error_message(), "not read"));
    put("tekken.json", "{}");
    ck_assert_int_eq(lh_tokenizer_open(&tok, folder), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "and these are not read: 'tekken.json' (AutoTokenizer"));
    put("vocab.json", "{}");
    put("merges.txt", "");
    ck_assert_int_eq(lh_tokenizer_open(&tok, folder), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'tekken.json', 'vocab.json', 'merges.txt' ("));
    remove_folder();
}
END_TEST

START_TEST(test_what_import_stores_is_the_same_tokenizer)
{
    lh_buf json = {0}, meta = {0};
    lh_tokenizer *tok = NULL;
    make_folder();
    put("tokenizer.json", tiny);
    put("tokenizer_config.json", "{'bos_token': '<b>', 'eos_token': '</s>'}");
    ck_assert_int_eq(lh_tokenizer_source(&tok, folder, &json, &meta), LH_OK);
    ck_assert(lh_tokenizer_bos(tok) == 3 && lh_tokenizer_eos(tok) == 1);
    lh_tokenizer_close(tok);
    ck_assert_int_eq(lh_tokenizer_parse(&tok, "m.h5", json.data, json.bytes, meta.data, meta.bytes), LH_OK);
    ck_assert(lh_tokenizer_bos(tok) == 3 && lh_tokenizer_eos(tok) == 1);
    tt_check(tok, "<b>aa", LH_ENCODE_SPECIAL, "3 4 4");
    lh_tokenizer_close(tok);
    lh_buf_clear(&json), lh_buf_clear(&meta);
    remove_folder();
}
END_TEST

/* As transformers loads a folder whose tokenizer.json lacks them: a token of the vocabulary has its id. */
START_TEST(test_added_tokens_that_companions_name_are_added)
{
    static const char bare[] =
        "{'added_tokens': [{'id': 0, 'content': '<s>', 'special': true}], 'model': {'unk_token': "
        "'?', 'fuse_unk': true, 'vocab': {'<s>': 0, '<e>': 1, 'a': 2, ' ': 3, '?': 4}, 'merges': "
        "[]}}";
    static const struct {
        const char *file, *json, *text, *ids;
    } cases[] = {
        {"tokenizer_config.json",
         "{'added_tokens_decoder': {'0': {'content': '<s>', 'lstrip': true}, '1': {'content': '<e>', 'special': true}, "
         "'5': {'content': '<t>', 'special': false, 'lstrip': true, 'rstrip': false, 'single_word': false, "
         "'normalized': false}}}",
         "a <s>a <t> <e>a", "2 3 0 2 5 3 1 2"},
        {"tokenizer_config.json", "{'added_tokens_decoder': {'5': '<t>', '6': {'content': '<u>', 'rstrip': true}}}",
         "<t> <u> a<e>", "5 3 6 2 4"},
        /* an id of another token, and ones that no vocabulary has: left out */
        {"tokenizer_config.json",
         "{'added_tokens_decoder': {'2': {'content': '<t>'}, '5': {'content': '<u>'}, '999999999': {'content': '<v>'}, "
         "'-1': {'content': '<w>'}, 'x': {'content': '<x>'}}}",
         "<t><u><v><w><x>", "4 5 4"},
        {"added_tokens.json", "{'<t>': 5, '<e>': 1}", "<t>a<e>", "5 2 1"},
        {"special_tokens_map.json", "{'eos_token': {'content': '<e>'}, 'pad_token': '<t>'}", "a<e><t>", "2 1 4"},
        {"tokenizer_config.json", "{'additional_special_tokens': ['<e>']}", "a<e>", "2 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf json = {0}, meta = {0};
        lh_tokenizer *tok = NULL;
        make_folder();
        put("tokenizer.json", bare);
        put(cases[i].file, cases[i].json);
        ck_assert_int_eq(lh_tokenizer_source(&tok, folder, &json, &meta), LH_OK); /* what a checkpoint stores */
        lh_tokenizer_close(tok);
        ck_assert_int_eq(lh_tokenizer_parse(&tok, "m.h5", json.data, json.bytes, meta.data, meta.bytes), LH_OK);
        tt_check(tok, cases[i].text, LH_ENCODE_SPECIAL, cases[i].ids);
        ck_assert_int_eq(lh_tokenizer_is_special(tok, 1),
                         lh_tokenizer_find(tok, "<e>") == 1 && i != 1 && i != 2 && i != 3);
        ck_assert(!lh_tokenizer_is_special(tok, 5));
        lh_tokenizer_close(tok);
        lh_buf_clear(&json), lh_buf_clear(&meta);
        remove_folder();
    }
}
END_TEST

START_TEST(test_damaged_companions_are_refused_by_name)
{
    lh_tokenizer *tok = NULL;
    make_folder();
    put("tokenizer.json", tiny);
    put("tokenizer_config.json", "{");
    ck_assert_int_eq(lh_tokenizer_open(&tok, folder), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "tokenizer_config.json"));
    ck_assert_ptr_null(tok);
    remove_folder();
}
END_TEST

/* ---- GGUF ---- */

static void gm_key_texts(lh_buf *b, const char *key, const char *const *texts, int64_t n)
{
    gm_key(b, key, 9);
    gm_u32(b, 8);
    gm_u64(b, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) gm_text(b, texts[i]);
}

static void gm_key_numbers(lh_buf *b, const char *key, uint32_t type, const void *numbers, int64_t n)
{
    gm_key(b, key, 9);
    gm_u32(b, type);
    gm_u64(b, (uint64_t)n);
    gm_bytes(b, numbers, 4 * n);
}

static lh_status open_gguf(lh_tokenizer **tok, const lh_buf *b)
{
    char *path = NULL;
    make_folder();
    ck_assert_int_eq(lh_path_join(&path, folder, "v.gguf"), LH_OK);
    ck_assert_int_eq(lh_file_write(path, b->data, b->bytes), LH_OK);
    lh_status st = lh_tokenizer_open(tok, path);
    lh_free(path);
    remove_folder();
    return st;
}

START_TEST(test_scores_of_a_gguf_decide_what_is_merged)
{
    /* SentencePiece: the best score first, and of equal scores the leftmost. "bc" is better than "ab". */
    static const char *const tokens[] = {"<unk>", "<s>", "▁",      "a",  "b",  "c",
                                         "ab",    "bc",  "<0x64>", "aa", "  ", "[PAD11]"};
    static const float scores[] = {0, 0, -1, -2, -3, -4, -9, -8, 0, -7, 0, 0};
    static const int32_t types[] = {2, 3, 1, 1, 1, 1, 1, 1, 6, 1, 4, 4};
    lh_tokenizer *tok = NULL;
    lh_buf b = {0};
    gm_head(&b, 3, 0, 7);
    gm_key_text(&b, "tokenizer.ggml.model", "llama");
    gm_key_texts(&b, "tokenizer.ggml.tokens", tokens, 12);
    gm_key_numbers(&b, "tokenizer.ggml.scores", 6, scores, 12);
    gm_key_numbers(&b, "tokenizer.ggml.token_type", 5, types, 12);
    gm_key_u32(&b, "tokenizer.ggml.bos_token_id", 1);
    gm_key_u32(&b, "tokenizer.ggml.unknown_token_id", 0);
    gm_key(&b, "tokenizer.ggml.add_space_prefix", 7), gm_bytes(&b, "\0", 1);
    ck_assert_msg(open_gguf(&tok, &b) == LH_OK, "%s", lh_error_message());
    tt_check(tok, "abc", LH_ENCODE_PLAIN, "3 7");
    tt_check(tok, "ab", LH_ENCODE_PLAIN, "6");
    tt_check(tok, "aaa", LH_ENCODE_PLAIN, "9 3");
    tt_check(tok, "d", LH_ENCODE_PLAIN, "8");
    tt_check(tok, "x", LH_ENCODE_PLAIN, "0");
    tt_check(tok, "a b", LH_ENCODE_PLAIN, "3 2 4");
    tt_check(tok, "a   b", LH_ENCODE_PLAIN, "3 10 2 4"); /* a user-defined piece with real spaces */
    tt_check(tok, "a▁▁b", LH_ENCODE_PLAIN, "3 10 4");
    tt_check(tok, "<s>", LH_ENCODE_SPECIAL, "1");
    ck_assert(lh_tokenizer_bos(tok) == 1 && lh_tokenizer_adds_bos(tok));
    lh_buf text = {0};
    ck_assert_int_eq(lh_tokenizer_decode(tok, (const int32_t[]){3, 10, 8, 7}, 4, &text), LH_OK);
    ck_assert_str_eq(text.data, "a  dbc");
    lh_buf_clear(&text), lh_buf_clear(&b);
    lh_tokenizer_close(tok);
}
END_TEST

/* ---- tokenizer.model ---- */

static void put_model(const lh_buf *b)
{
    char *path = NULL;
    ck_assert_int_eq(lh_path_join(&path, folder, "tokenizer.model"), LH_OK);
    ck_assert_int_eq(lh_file_write(path, b->data, b->bytes), LH_OK);
    lh_free(path);
}

START_TEST(test_a_model_of_sentencepiece_is_read)
{
    for (int prefix = 0; prefix < 2; prefix++) {
        lh_buf b = {0};
        sm_tiny(&b, 1, prefix);
        make_folder();
        put_model(&b);
        lh_tokenizer *tok = open_folder();
        tt_check(tok, "abc", LH_ENCODE_PLAIN, prefix ? "3 4 8" : "4 8");
        tt_check(tok, "aaa", LH_ENCODE_PLAIN, prefix ? "3 10 4" : "10 4");
        tt_check(tok, "a d", LH_ENCODE_PLAIN, prefix ? "3 4 3 9" : "4 3 9");
        tt_check(tok, "xx", LH_ENCODE_PLAIN, prefix ? "3 0" : "0"); /* unknown characters are one token */
        tt_check(tok, "<tool>", LH_ENCODE_SPECIAL, "11");
        tt_check(tok, "<s>", LH_ENCODE_SPECIAL, "1");
        ck_assert(lh_tokenizer_bos(tok) == 1 && lh_tokenizer_adds_bos(tok) && lh_tokenizer_eos(tok) == 2);
        lh_tokenizer_close(tok);
        put("tokenizer_config.json", "{'add_bos_token': false, 'eos_token': '<tool>'}");
        tok = open_folder();
        ck_assert(!lh_tokenizer_adds_bos(tok) && lh_tokenizer_eos(tok) == 11);
        lh_tokenizer_close(tok);
        put("tokenizer.json", tiny); /* is read first */
        tok = open_folder();
        ck_assert_int_eq(lh_tokenizer_find(tok, "<tool>"), -1);
        lh_tokenizer_close(tok);
        remove_folder();
        lh_buf_clear(&b);
    }
}
END_TEST

START_TEST(test_a_model_of_sentencepiece_may_have_no_first_token)
{
    lh_buf b = {0};
    sm_tiny(&b, -1, 1);
    make_folder();
    put_model(&b);
    lh_tokenizer *tok = open_folder();
    ck_assert(!lh_tokenizer_adds_bos(tok));
    lh_tokenizer_close(tok);
    remove_folder();
    lh_buf_clear(&b);
}
END_TEST

static void refuses_model(const lh_buf *b, const char *part)
{
    lh_tokenizer *tok = NULL;
    make_folder();
    put_model(b);
    ck_assert_int_eq(lh_tokenizer_open(&tok, folder), LH_EINPUT);
    ck_assert_msg(strstr(lh_error_message(), part), "%s", lh_error_message());
    lh_error_clear();
    remove_folder();
}

START_TEST(test_other_models_of_sentencepiece_are_refused_by_name)
{
    static const struct {
        int type, normalizer;
        const char *part;
    } cases[] = {{1, 0, "is a unigram model of SentencePiece, supported is BPE"},
                 {3, 0, "is a word or character model"},
                 {2, 2, "normalises texts by 'identity'"},
                 {2, 4, "removes white space ('remove_extra_whitespaces')"},
                 {2, 5, "leaves spaces as they are ('escape_whitespaces')"}};
    lh_buf b = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        b.bytes = 0;
        sm_piece(&b, "a", 0, 1);
        sm_trainer(&b, cases[i].type, 1);
        sm_normalizer(&b, 1, cases[i].normalizer);
        refuses_model(&b, cases[i].part);
    }
    b.bytes = 0;
    sm_piece(&b, "\xff", 0, 1);
    refuses_model(&b, "piece 0 is not UTF-8 text");
    b.bytes = 0;
    sm_tiny(&b, 1, 1);
    b.bytes--;
    refuses_model(&b, "is no model of SentencePiece, or damaged: AutoTokenizer");
    b.bytes = 0;
    refuses_model(&b, "is no model of SentencePiece");
    lh_buf_clear(&b);
}
END_TEST

static void byte_level_gguf(lh_buf *b, const char *pre)
{
    static const char *const tokens[] = {"a", "b", "ab", "1", "Ġ", "<|im_end|>", "<|end|>"};
    static const char *const merges[] = {"a b"};
    static const int32_t types[] = {1, 1, 1, 1, 1, 3, 3};
    gm_head(b, 3, 0, 7);
    gm_key_text(b, "tokenizer.ggml.model", "gpt2");
    gm_key_text(b, "tokenizer.ggml.pre", pre);
    gm_key_texts(b, "tokenizer.ggml.tokens", tokens, 7);
    gm_key_texts(b, "tokenizer.ggml.merges", merges, 1);
    gm_key_numbers(b, "tokenizer.ggml.token_type", 5, types, 7);
    gm_key_u32(b, "tokenizer.ggml.eos_token_id", 6);
    gm_key_text(b, "tokenizer.chat_template", CHATML);
}

START_TEST(test_a_byte_level_vocabulary_of_a_gguf)
{
    lh_tokenizer *tok = NULL;
    lh_buf b = {0};
    byte_level_gguf(&b, "smollm");
    ck_assert_msg(open_gguf(&tok, &b) == LH_OK, "%s", lh_error_message());
    tt_check(tok, "ab 11<|im_end|>", LH_ENCODE_SPECIAL, "2 4 3 3 5");
    ck_assert(lh_tokenizer_bos(tok) == -1 && lh_tokenizer_eos(tok) == 6 && !lh_tokenizer_adds_bos(tok));
    ck_assert(lh_tokenizer_is_eos(tok, 5)); /* the end of a turn in the template */
    ck_assert_str_eq(lh_tokenizer_chat_format(tok), "template");
    lh_tokenizer_close(tok);
    lh_buf_clear(&b);
}
END_TEST

/* Each cuts a text of letters, digits and signs as its expressions say; nothing of it is lost. */
START_TEST(test_every_pre_tokenizer_of_a_gguf_reads_text)
{
    lh_buf names = {0};
    int64_t n = 0;
    char *rest = NULL;
    ck_assert_int_eq(lh_vocab_pre_names(&names), LH_OK);
    for (char *name = strtok_r(names.data, " ", &rest); name; name = strtok_r(NULL, " ", &rest), n++) {
        lh_tokenizer *tok = NULL;
        lh_buf b = {0};
        byte_level_gguf(&b, name);
        ck_assert_msg(open_gguf(&tok, &b) == LH_OK, "%s: %s", name, lh_error_message());
        tt_check(tok, "a1a", LH_ENCODE_PLAIN, "0 3 0");
        lh_tokenizer_close(tok);
        lh_buf_clear(&b);
    }
    ck_assert_int_ge(n, 70);
    lh_buf_clear(&names);
}
END_TEST

START_TEST(test_an_unknown_pre_tokenizer_of_a_gguf_is_named)
{
    lh_tokenizer *tok = NULL;
    lh_buf b = {0};
    byte_level_gguf(&b, "magic");
    ck_assert_int_eq(open_gguf(&tok, &b), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'magic'"));
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "llama-bpe"));
    lh_buf_clear(&b);
}
END_TEST

START_TEST(test_lists_of_a_gguf_must_be_of_one_length)
{
    static const char *const tokens[] = {"a", "b"};
    static const float scores[] = {0};
    lh_tokenizer *tok = NULL;
    lh_buf b = {0};
    gm_head(&b, 3, 0, 3);
    gm_key_text(&b, "tokenizer.ggml.model", "llama");
    gm_key_texts(&b, "tokenizer.ggml.tokens", tokens, 2);
    gm_key_numbers(&b, "tokenizer.ggml.scores", 6, scores, 1);
    ck_assert_int_eq(open_gguf(&tok, &b), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "scores"));
    lh_buf_clear(&b);
}
END_TEST

int main(void)
{
    return suite_run(
        "tokenizer sources",
        (const TTest *const[]){
            test_a_folder_without_companions_has_the_usual_tokens, test_companions_name_first_and_end_tokens,
            test_a_null_first_token_is_none, test_the_chat_template_of_a_processor_is_read,
            test_a_folder_without_tokenizer_gives_nothing, test_what_import_stores_is_the_same_tokenizer,
            test_added_tokens_that_companions_name_are_added, test_damaged_companions_are_refused_by_name,
            test_scores_of_a_gguf_decide_what_is_merged, test_a_model_of_sentencepiece_is_read,
            test_a_model_of_sentencepiece_may_have_no_first_token,
            test_other_models_of_sentencepiece_are_refused_by_name, test_a_byte_level_vocabulary_of_a_gguf,
            test_every_pre_tokenizer_of_a_gguf_reads_text, test_an_unknown_pre_tokenizer_of_a_gguf_is_named,
            test_lists_of_a_gguf_must_be_of_one_length, NULL});
}
