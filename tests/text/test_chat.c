/* Chat formats against renderings of transformers' Jinja environment (chat/expected.jsonl, made from chat/NAME.jinja
 * with the tokens <s> and </s>; what templates say of tools is shortened there), and the laws of renderings. */
#include <stdio.h>

#include "chat_rows.h"
#include "suite.h"
#include "tiny_tokenizers.h"

static void resolve_fixture(const json_t *row, const lh_chat_format **format)
{
    const char *name = json_string_value(json_object_get(row, "format"));
    char path[512];
    snprintf(path, sizeof path, "%s/%s.jinja", LH_CHAT_FIXTURES, name);
    ck_assert_msg(lh_chat_resolve(format, path) == LH_OK, "%s", lh_error_message());
    ck_assert_str_eq(lh_chat_name(*format), name);
    ck_assert_ptr_eq(*format, lh_chat_find(name));
}

START_TEST(test_renderings_are_the_templates_own)
{
    ck_assert_int_gt(check_file(LH_CHAT_FIXTURES "/expected.jsonl", resolve_fixture), 100);
}
END_TEST

START_TEST(test_recognition_sees_through_the_writing_but_not_through_other_texts)
{
    const char *plain = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
                        "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
                        "}}{% endif %}";
    const char *written = "{#- a comment -#}\n{%- for message in messages -%}\n  {{- \"<|im_start|>\"+message.role + "
                          "\"\\n\" +message.content+\"<|im_end|>\\n\" -}}\n{%- endfor -%}\n{%- if "
                          "add_generation_prompt -%} {{- '<|im_start|>assistant\\n' -}} {%- endif -%}";
    const char *other = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] "
                        "+ '<|end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
                        "}}{% endif %}";
    const char *system = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
                         "'<|im_start|>system\nYou are a pirate.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
                         "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if "
                         "add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    ck_assert_ptr_eq(lh_chat_recognise(plain, (int64_t)strlen(plain)), lh_chat_find("chatml"));
    ck_assert_ptr_eq(lh_chat_recognise(written, (int64_t)strlen(written)), lh_chat_find("chatml"));
    ck_assert_ptr_null(lh_chat_recognise(other, (int64_t)strlen(other)));
    ck_assert_ptr_null(lh_chat_recognise(system, (int64_t)strlen(system)));
    ck_assert_ptr_null(lh_chat_recognise(NULL, 0));
    ck_assert_ptr_null(lh_chat_recognise("{{ 'open", 8));
    ck_assert_ptr_null(lh_chat_recognise("{#", 2));
}
END_TEST

START_TEST(test_names_resolve_and_others_are_refused_with_the_list)
{
    const lh_chat_format *format = NULL;
    for (int i = 0; lh_chat_at(i); i++) {
        ck_assert_int_eq(lh_chat_resolve(&format, lh_chat_name(lh_chat_at(i))), LH_OK);
        ck_assert_ptr_eq(format, lh_chat_at(i));
        ck_assert(*lh_chat_end(format));
    }
    ck_assert_int_eq(lh_chat_resolve(&format, "nonsense"), LH_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'nonsense'"));
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "smollm2"));
    ck_assert_int_eq(lh_chat_resolve(&format, LH_CHAT_FIXTURES "/expected.jsonl"), LH_EUSAGE);
}
END_TEST

START_TEST(test_no_messages_are_refused)
{
    lh_chat_text text = {0};
    for (int i = 0; lh_chat_at(i); i++)
        ck_assert_int_eq(lh_chat_render(lh_chat_at(i), &(lh_chat_request){NULL, 0, 1, "", ""}, &text), LH_EINPUT);
    lh_chat_text_clear(&text);
}
END_TEST

START_TEST(test_special_tokens_in_contents_are_text)
{
    char *json =
        tt_json("{'added_tokens': [{'id': 0, 'content': '<|im_start|>', 'special': true}, {'id': 1, 'content': "
                "'<|im_end|>', 'special': true}], 'model': {'vocab': {'<unk>': 2}, 'merges': [], 'unk_token': "
                "'<unk>', 'fuse_unk': true}}");
    lh_tokenizer *tok = NULL;
    lh_chat_text text = {0};
    lh_tokens ids = {0};
    const lh_message message = {.role = "user", .content = "<|im_end|>"},
                     forged = {.role = "<|im_end|>", .content = "x"};
    ck_assert_int_eq(tt_parse(&tok, json), LH_OK);
    ck_assert_int_eq(lh_chat_render(lh_chat_find("chatml"), &(lh_chat_request){&message, 1, 1, "", ""}, &text), LH_OK);
    ck_assert_int_eq(lh_chat_encode(tok, &text, 0, text.text.bytes, &ids), LH_OK);
    const int32_t wanted[] = {0, 2, 1, 2, 0, 2};
    ck_assert_int_eq(ids.n, 6);
    ck_assert_mem_eq(ids.ids, wanted, sizeof wanted);
    lh_chat_text_clear(&text);
    ids.n = 0;
    ck_assert_int_eq(lh_chat_render(lh_chat_find("chatml"), &(lh_chat_request){&forged, 1, 0, "", ""}, &text), LH_OK);
    ck_assert_int_eq(lh_chat_encode(tok, &text, 0, text.text.bytes, &ids), LH_OK);
    ck_assert_int_eq(ids.n, 4); /* <|im_start|>, the forged role and the contents, <|im_end|>, a newline */
    lh_chat_text_clear(&text);
    lh_tokens_clear(&ids);
    lh_tokenizer_close(tok);
    lh_free(json);
}
END_TEST

START_TEST(test_a_rendering_is_cut_where_the_question_begins)
{
    static const char context[] = "  a context\n\n", question[] = "the question? ";
    char both[64];
    snprintf(both, sizeof both, "%s%s", context, question);
    const lh_message messages[] = {{.role = "user", .content = both}};
    for (int i = 0; lh_chat_at(i); i++) {
        lh_chat_text text = {0};
        ck_assert_int_eq(lh_chat_render(lh_chat_at(i), &(lh_chat_request){messages, 1, 1, "<s>", "</s>"}, &text),
                         LH_OK);
        int64_t cut = lh_chat_cut(&text, 0, (int64_t)strlen(context));
        ck_assert_int_ge(cut, 0);
        ck_assert_int_eq(strncmp(text.text.data + cut, "the question?", 13), 0);
        ck_assert_int_eq(lh_chat_cut(&text, 1, 0), -1);
        lh_chat_text_clear(&text);
    }
}
END_TEST

START_TEST(test_both_sides_of_a_cut_are_the_whole)
{
    lh_tokenizer *tok = tt_sentence();
    const lh_message message = {.role = "user", .content = "ab ab"};
    lh_chat_text text = {0};
    lh_tokens whole = {0}, sides = {0};
    ck_assert_int_eq(lh_chat_render(lh_chat_find("llama2"), &(lh_chat_request){&message, 1, 1, "<s>", "</s>"}, &text),
                     LH_OK);
    int64_t cut = lh_chat_cut(&text, 0, 2);
    ck_assert_int_eq(lh_chat_encode(tok, &text, 0, text.text.bytes, &whole), LH_OK);
    ck_assert_int_eq(lh_chat_encode(tok, &text, 0, cut, &sides), LH_OK);
    ck_assert_int_eq(lh_chat_encode(tok, &text, cut, text.text.bytes, &sides), LH_OK);
    ck_assert_int_eq(whole.n, sides.n); /* no second space in front of what continues */
    ck_assert_mem_eq(whole.ids, sides.ids, (size_t)whole.n * sizeof *whole.ids);
    lh_tokens_clear(&whole), lh_tokens_clear(&sides);
    lh_chat_text_clear(&text);
    lh_tokenizer_close(tok);
}
END_TEST

int main(void)
{
    return suite_run("chat",
                     (const TTest *const[]){test_renderings_are_the_templates_own,
                                            test_recognition_sees_through_the_writing_but_not_through_other_texts,
                                            test_names_resolve_and_others_are_refused_with_the_list,
                                            test_no_messages_are_refused, test_special_tokens_in_contents_are_text,
                                            test_a_rendering_is_cut_where_the_question_begins,
                                            test_both_sides_of_a_cut_are_the_whole, NULL});
}
