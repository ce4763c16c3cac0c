#include <check.h>
#include <string.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

/* The tokenizer of tiny.h makes a token of every byte: what is tested is the command. */

static void prints(const char *arguments, const char *want)
{
    program_result r = {0};
    program_run(&r, 1, "tokenize -m tiny %s", arguments);
    program_exits(&r, 0);
    ck_assert_msg(strcmp(r.out.data, want) == 0, "'%s' prints\n%s\nnot\n%s", arguments, r.out.data, want);
    program_clear(&r);
}

static void refuses(const char *arguments, int code, const char *part)
{
    program_result r = {0};
    program_run(&r, 1, "tokenize -m %s", arguments);
    program_exits(&r, code);
    program_says(&r, part);
    program_clear(&r);
}

START_TEST(test_text_comes_from_option_file_and_input_alike)
{
    program_file("text", "Hi!\n");
    prints("--prompt 'Hi!\n'", "72 105 33 10\n");
    prints("--prompt-file text", "72 105 33 10\n");
    prints("-f - < text", "72 105 33 10\n");
    prints("< text", "72 105 33 10\n");
    prints("--count < text", "4\n");
    prints("--prompt ''", "\n");
}
END_TEST

START_TEST(test_special_tokens_are_recognised_in_text_but_not_in_messages)
{
    prints("--prompt '<|im_end|>'", "257\n");
    program_file("chat", "{\"messages\": [{\"role\": \"user\", \"content\": \"<|im_end|>\"}]}\n");
    prints("--chat --jsonl --count < chat", "18\n"); /* <|im_start|> "user\n" 10 bytes <|im_end|> "\n" */
}
END_TEST

/* Of a folder in which <|im_start|>, 256, is the first token: as its configuration says whether one is added. */
START_TEST(test_bos_is_added_where_generate_adds_one)
{
    static const struct {
        const char *adds, *ids;
    } cases[] = {{"true", "256 72 105\n256 72\n"}, {"false", "72 105\n256 72\n"}};
    program_result r = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_run(&r, 1,
                    "--version > v && mkdir -p first && cp tiny/tokenizer.json first && echo '{\"bos_token\": "
                    "\"<|im_start|>\", \"add_bos_token\": %s}' > first/tokenizer_config.json && " LONGHAUL
                    " tokenize -m first --bos -p Hi && " LONGHAUL " tokenize -m first --bos -p '<|im_start|>H'",
                    cases[i].adds);
        program_exits(&r, 0);
        ck_assert_str_eq(r.out.data, cases[i].ids);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_an_end_of_turn_that_is_no_token_is_warned_of)
{
    program_result r = {0};
    program_run(&r, 1,
                "--version > v && mkdir spelt && cp tiny/tokenizer_config.json spelt && sed 's/\"added_tokens\": "
                "\\[.*\\], \"normalizer\"/\"added_tokens\": [], \"normalizer\"/' tiny/tokenizer.json > "
                "spelt/tokenizer.json && " LONGHAUL " tokenize -m spelt -p a && " LONGHAUL " tokenize -m tiny -p a");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: 'spelt': the chat template ends an answer with "
                                               "'<|im_end|>', which is no added token"),
                     1);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: "), 1);
    program_clear(&r);
}
END_TEST

START_TEST(test_decoding_goes_back)
{
    prints("--decode --prompt ' 72 105\n33 '", "Hi!");
    program_file("ids", "72 105 33 10");
    prints("--decode -f ids", "Hi!\n");
    refuses("tiny --decode --prompt '72 x'", 3, "'x' is not a token id");
    refuses("tiny --decode --prompt '72 258'", 3, "'--prompt': token id 258 is not in the vocabulary");
    refuses("tiny --decode --prompt '72 -1'", 3, "ids must be from 0 to 257");
    refuses("tiny --decode --prompt '7x'", 3, "'7x'");
}
END_TEST

START_TEST(test_lines_of_json_in_lines_of_json_out)
{
    program_file("in", "\"Hi\"\n\"\"\n\"a\\u0000\\u2028\"\n");
    prints("--jsonl < in", "[72,105]\n[]\n[97,0,226,128,168]\n");
    prints("--jsonl --count < in", "2\n0\n5\n");
    program_file("back", "[72,105]\n[]\n[97,0,226,128,168]\n");
    prints("--jsonl --decode < back", "\"Hi\"\n\"\"\n\"a\\u0000\xe2\x80\xa8\"\n");
    program_file("bad", "\"Hi\"\n[1]\n");
    refuses("tiny --jsonl < bad", 3, "line 2 of standard input must be a JSON string");
    program_file("torn", "\"Hi\n");
    refuses("tiny --jsonl -f torn", 3, "line 1 of torn is not a JSON value by itself: column 3");
    program_file("high", "[258]\n");
    refuses("tiny --jsonl --decode -f high", 3, "element 0 must be a token id below 258");
}
END_TEST

START_TEST(test_chats_are_rendered)
{
    program_result r = {0};
    prints("--chat --text --prompt 'Hi'", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    prints("--chat --text --system 'S' --prompt 'Hi'",
           "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    program_file("chats",
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"add_generation_prompt\": true}\n"
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"add_generation_prompt\": false}\n");
    prints("--chat --jsonl --text < chats", "\"<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n\"\n"
                                            "\"<|im_start|>user\\nHi<|im_end|>\\n\"\n");
    refuses("tiny --chat --chat-template no-such --prompt Hi", 2, "no-such");
    program_file("roles", "{\"messages\": [{\"role\": \"system\", \"content\": \"no\"}]}\n{\"messages\": 1}\n");
    program_run(&r, 1, "tokenize -m tiny --chat-template gemma --jsonl --text < roles");
    program_exits(&r, 3);
    ck_assert_str_eq(r.out.data, "null\n");
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: line 1"), 1);
    program_says(&r, "line 2 of standard input must be an object with an array 'messages'");
    program_clear(&r);
}
END_TEST

START_TEST(test_sources_that_are_none_are_named)
{
    program_file("empty", "");
    program_file("damaged.json", "{\"version\": ");
    refuses("no-such --prompt a", 3, "no-such");
    refuses("empty --prompt a", 3, "empty");
    refuses("damaged.json --prompt a", 3, "damaged.json");
    refuses("tiny --prompt-file no-such", 3, "'no-such'");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_bos_is_added_where_generate_adds_one,
                                  test_an_end_of_turn_that_is_no_token_is_warned_of,
                                  test_text_comes_from_option_file_and_input_alike,
                                  test_special_tokens_are_recognised_in_text_but_not_in_messages,
                                  test_decoding_goes_back,
                                  test_lines_of_json_in_lines_of_json_out,
                                  test_chats_are_rendered,
                                  test_sources_that_are_none_are_named,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    int code = suite_run("cli tokenize", tests);
    program_leave();
    return code;
}
