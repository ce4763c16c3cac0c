/* Real tokenizers against Hugging Face's and llama.cpp's ids, in the folder LONGHAUL_TEST_DATA; what is not there is
 * skipped. LONGHAUL_TEST_GEMMA3 names the GGUF file of Gemma 3 270M. */
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/file.h"
#include "import/tokenizer_source.h"
#include "suite.h"
#include "tiny_tokenizers.h"

static const char *data_folder(void)
{
    const char *folder = getenv("LONGHAUL_TEST_DATA");
    return folder ? folder : LH_TEST_DATA;
}

/* NULL, and a word about it, where there is no such file. */
static char *find(const char *format, const char *name)
{
    char *path = NULL, *file = NULL;
    ck_assert_int_eq(lh_asprintf(&file, format, name), LH_OK);
    ck_assert_int_eq(file[0] == '/' ? lh_strdup(&path, file) : lh_path_join(&path, data_folder(), file), LH_OK);
    lh_free(file);
    if (lh_file_exists(path)) return path;
    printf("skipped: there is no '%s'\n", path);
    lh_free(path);
    return NULL;
}

/* One line of a golden: {"text", "ids", "decoded"}. */
static void check_row(const lh_tokenizer *tok, const json_t *row)
{
    const json_t *text = json_object_get(row, "text"), *ids = json_object_get(row, "ids");
    const json_t *decoded = json_object_get(row, "decoded");
    lh_tokens got = {0}, wanted = {0};
    lh_buf back = {0}, stream = {0};
    lh_detokenizer d = {.tok = tok};
    for (size_t i = 0; i < json_array_size(ids); i++)
        lh_tokens_push(&wanted, (int32_t)json_integer_value(json_array_get(ids, i)));
    ck_assert_int_eq(
        lh_tokenizer_encode(tok, json_string_value(text), (int64_t)json_string_length(text), LH_ENCODE_SPECIAL, &got),
        LH_OK);
    ck_assert_msg(got.n == wanted.n && (!got.n || !memcmp(got.ids, wanted.ids, (size_t)got.n * sizeof *got.ids)),
                  "ids of '%s' differ", json_string_value(text));
    ck_assert_int_eq(lh_tokenizer_decode(tok, wanted.ids, wanted.n, &back), LH_OK);
    ck_assert_msg(back.bytes == (int64_t)json_string_length(decoded) &&
                      !memcmp(back.data, json_string_value(decoded), (size_t)back.bytes),
                  "decoded '%s', wanted '%s'", back.data, json_string_value(decoded));
    for (int64_t i = 0; i < wanted.n; i++) ck_assert_int_eq(lh_detokenizer_push(&d, wanted.ids[i], &stream), LH_OK);
    ck_assert_int_eq(lh_detokenizer_finish(&d, &stream), LH_OK);
    back.bytes = 0;
    ck_assert_int_eq(lh_tokenizer_decode(tok, d.ids.ids, d.ids.n, &back), LH_OK);
    ck_assert_msg(back.bytes == stream.bytes && !memcmp(back.data, stream.data, (size_t)back.bytes),
                  "streamed '%s', at once '%s'", stream.data, back.data);
    lh_tokens_clear(&got), lh_tokens_clear(&wanted);
    lh_buf_clear(&back), lh_buf_clear(&stream);
    lh_detokenizer_clear(&d);
}

static void check_golden(const char *name, const char *source)
{
    char *golden = find("golden/tokenize/%s.jsonl", name);
    lh_tokenizer *tok = NULL;
    lh_buf text = {0};
    int rows = 0;
    if (!golden || !source) goto done;
    ck_assert_msg(lh_tokenizer_open(&tok, source) == LH_OK, "%s", lh_error_message());
    ck_assert_int_eq(lh_file_read(&text, golden, 1 << 28), LH_OK);
    for (char *at = text.data, *end; (end = strchr(at, '\n')); at = end + 1, rows++) {
        json_t *row = json_loadb(at, (size_t)(end - at), JSON_ALLOW_NUL, NULL);
        ck_assert_ptr_nonnull(row);
        check_row(tok, row);
        json_decref(row);
    }
    printf("%s: %d strings agree\n", name, rows);
done:
    lh_buf_clear(&text);
    lh_tokenizer_close(tok);
    lh_free(golden);
}

static const char *const published[] = {"gpt2",      "llama3",          "qwen2_5", "gemma2",
                                        "codellama", "mistral_7b_v0_3", "smollm2", "minimind2"};

START_TEST(test_published_tokenizers)
{
    const char *name = published[_i];
    char *source = strcmp(name, "minimind2") == 0 ? find("models/%s-small", name) : find("tokenizers/%s", name);
    check_golden(name, source);
    lh_free(source);
}
END_TEST

START_TEST(test_the_vocabulary_of_gemma3)
{
    const char *file = getenv("LONGHAUL_TEST_GEMMA3");
    if (!file) printf("skipped: LONGHAUL_TEST_GEMMA3 is not set\n");
    char *source = file ? find("%s", file) : NULL;
    check_golden("gemma3-gguf", source);
    lh_free(source);
}
END_TEST

/* Llama 2's tokenizer.model gives the ids of Code Llama's tokenizer.json, but for tokens that Code Llama added. */
START_TEST(test_a_model_of_sentencepiece)
{
    char *source = find("models/%s/tokenizer.model", "stories15M");
    check_golden("codellama", source);
    lh_free(source);
}
END_TEST

static const char *const vocabularies[] = {"gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2"};

/* llama.cpp's vectors: texts between lines __ggml_vocab_test__, a line of ids for each. */
START_TEST(test_vectors_of_llama_cpp)
{
    static const char between[] = "\n__ggml_vocab_test__\n";
    char *source = find("vocab-gguf/ggml-vocab-%s.gguf", vocabularies[_i]);
    char *in = find("vocab-gguf/ggml-vocab-%s.gguf.inp", vocabularies[_i]);
    char *out = find("vocab-gguf/ggml-vocab-%s.gguf.out", vocabularies[_i]);
    lh_buf texts = {0}, ids = {0};
    lh_tokenizer *tok = NULL;
    int rows = 0;
    if (!source || !in || !out) goto done;
    ck_assert_msg(lh_tokenizer_open(&tok, source) == LH_OK, "%s", lh_error_message());
    ck_assert_int_eq(lh_file_read(&texts, in, 1 << 20), LH_OK);
    ck_assert_int_eq(lh_file_read(&ids, out, 1 << 20), LH_OK);
    char *line = ids.data, *newline;
    for (char *at = texts.data, *end; at && (newline = strchr(line, '\n')); rows++, line = newline + 1) {
        end = strstr(at, between);
        if (end) *end = '\0';
        *newline = '\0';
        while (*line == ' ') line++;
        for (char *last = newline; last > line && last[-1] == ' ';) *--last = '\0';
        tt_check(tok, at, LH_ENCODE_PLAIN, line);
        at = end ? end + strlen(between) : NULL;
    }
    ck_assert_int_eq(rows, 46);
    printf("%s: %d texts agree\n", vocabularies[_i], rows);
done:
    lh_tokenizer_close(tok);
    lh_buf_clear(&texts), lh_buf_clear(&ids);
    lh_free(source), lh_free(in), lh_free(out);
}
END_TEST

/* A megabyte of a novel takes about a tenth of a second; a hundred times that would be an algorithm gone wrong. */
START_TEST(test_a_megabyte_is_quick_and_comes_back)
{
    char *source = find("tokenizers/%s", published[_i]), *novel = find("texts/longtext/%s.txt", "moby_dick");
    lh_tokenizer *tok = NULL;
    lh_tokens ids = {0};
    lh_buf text = {0}, back = {0};
    if (!source || !novel) goto done;
    ck_assert_int_eq(lh_tokenizer_open(&tok, source), LH_OK);
    ck_assert_int_eq(lh_file_read(&text, novel, 1 << 24), LH_OK);
    ck_assert_int_eq(lh_tokenizer_encode(tok, text.data, text.bytes, LH_ENCODE_SPECIAL, &ids), LH_OK);
    ck_assert_int_eq(lh_tokenizer_decode(tok, ids.ids, ids.n, &back), LH_OK);
    ck_assert_int_eq(back.bytes, text.bytes);
    ck_assert_mem_eq(back.data, text.data, (size_t)text.bytes);
    printf("%s: %lld bytes are %lld tokens\n", published[_i], (long long)text.bytes, (long long)ids.n);
done:
    lh_tokens_clear(&ids);
    lh_buf_clear(&text), lh_buf_clear(&back);
    lh_tokenizer_close(tok);
    lh_free(source), lh_free(novel);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizers that people use");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, test_published_tokenizers, 0, 8);
    tcase_add_test(all, test_the_vocabulary_of_gemma3);
    tcase_add_test(all, test_a_model_of_sentencepiece);
    tcase_add_loop_test(all, test_vectors_of_llama_cpp, 0, 5);
    tcase_add_loop_test(all, test_a_megabyte_is_quick_and_comes_back, 0, 7);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
