/* Built-in chat formats and changed templates against renderings of jinja2 (chat/expected.jsonl and chat/changed.jsonl,
 * made by tools/render_templates.py of src/text/chat with the tokens <s> and </s>), and the laws of renderings. */
#include <stdio.h>

#include "chat_rows.h"
#include "suite.h"
#include "tiny_tokenizers.h"

static const lh_chat_format *named(const char *name)
{
    const lh_chat_format *format = NULL;
    ck_assert_msg(lh_chat_named(&format, name) == LH_OK, "%s: %s", name, lh_error_message());
    ck_assert_msg(format != NULL, "there is no '%s'", name);
    return format;
}

static void resolve_fixture(const json_t *row, const lh_chat_format **format)
{
    *format = named(json_string_value(json_object_get(row, "format")));
}

START_TEST(test_built_in_formats_render_as_jinja2)
{
    ck_assert_int_eq(check_file(LH_CHAT_FIXTURES "/expected.jsonl", resolve_fixture), 480);
}
END_TEST

/* The template of a format, with what the row puts before and after it. */
static void change_fixture(const json_t *row, const lh_chat_format **format)
{
    const lh_chat_format *unchanged = named(json_string_value(json_object_get(row, "format")));
    lh_buf source = {0};
    ck_assert_int_eq(lh_buf_printf(&source, "%s%s%s", json_string_value(json_object_get(row, "before")),
                                   lh_chat_jinja(unchanged), json_string_value(json_object_get(row, "after"))),
                     LH_OK);
    ck_assert_msg(lh_chat_open(format, lh_chat_name(unchanged), source.data, source.bytes) == LH_OK, "%s",
                  lh_error_message());
    lh_chat_close(unchanged);
    lh_buf_clear(&source);
}

START_TEST(test_changed_templates_render_as_they_stand)
{
    ck_assert_int_gt(check_file(LH_CHAT_FIXTURES "/changed.jsonl", change_fixture), 100);
}
END_TEST

START_TEST(test_names_resolve_and_others_are_refused_with_the_list)
{
    const lh_chat_format *format = NULL;
    for (int i = 0; lh_chat_builtin_name(i); i++) {
        ck_assert_int_eq(lh_chat_resolve(&format, lh_chat_builtin_name(i)), LH_OK);
        ck_assert_str_eq(lh_chat_name(format), lh_chat_builtin_name(i));
        lh_chat_close(format);
    }
    ck_assert_int_eq(lh_chat_resolve(&format, "nonsense"), LH_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'nonsense'"));
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "smollm2"));
    ck_assert_int_eq(lh_chat_resolve(&format, LH_CHAT_FIXTURES "/expected.jsonl"), LH_EUSAGE);
    ck_assert_ptr_null(format);
}
END_TEST

START_TEST(test_no_messages_are_refused)
{
    const lh_chat_format *format = named("chatml");
    lh_chat_text text = {0};
    ck_assert_int_eq(lh_chat_render(format, &(lh_chat_request){NULL, 0, 1, "", "", NULL}, &text), LH_EINPUT);
    lh_chat_text_clear(&text);
    lh_chat_close(format);
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
    const lh_chat_format *format = named("chatml");
    ck_assert_int_eq(tt_parse(&tok, json), LH_OK);
    ck_assert_int_eq(lh_chat_render(format, &(lh_chat_request){&message, 1, 1, "", "", NULL}, &text), LH_OK);
    ck_assert_int_eq(lh_chat_encode(tok, &text, 0, text.text.bytes, &ids), LH_OK);
    const int32_t wanted[] = {0, 2, 1, 2, 0, 2};
    ck_assert_int_eq(ids.n, 6);
    ck_assert_mem_eq(ids.ids, wanted, sizeof wanted);
    lh_chat_text_clear(&text);
    ids.n = 0;
    ck_assert_int_eq(lh_chat_render(format, &(lh_chat_request){&forged, 1, 0, "", "", NULL}, &text), LH_OK);
    ck_assert_int_eq(lh_chat_encode(tok, &text, 0, text.text.bytes, &ids), LH_OK);
    ck_assert_int_eq(ids.n, 4); /* <|im_start|>, the forged role and the contents, <|im_end|>, a newline */
    lh_chat_text_clear(&text);
    lh_chat_close(format);
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
    for (int i = 0; lh_chat_builtin_name(i); i++) {
        const lh_chat_format *format = named(lh_chat_builtin_name(i));
        lh_chat_text text = {0};
        ck_assert_int_eq(lh_chat_render(format, &(lh_chat_request){messages, 1, 1, "<s>", "</s>", NULL}, &text), LH_OK);
        int64_t cut = lh_chat_cut(&text, 0, (int64_t)strlen(context));
        ck_assert_int_ge(cut, 0);
        ck_assert_int_eq(strncmp(text.text.data + cut, "the question?", 13), 0);
        ck_assert_int_eq(lh_chat_cut(&text, 1, 0), -1);
        lh_chat_text_clear(&text);
        lh_chat_close(format);
    }
}
END_TEST

START_TEST(test_both_sides_of_a_cut_are_the_whole)
{
    lh_tokenizer *tok = tt_sentence();
    const lh_message message = {.role = "user", .content = "ab ab"};
    const lh_chat_format *format = named("llama2");
    lh_chat_text text = {0};
    lh_tokens whole = {0}, sides = {0};
    ck_assert_int_eq(lh_chat_render(format, &(lh_chat_request){&message, 1, 1, "<s>", "</s>", NULL}, &text), LH_OK);
    int64_t cut = lh_chat_cut(&text, 0, 2);
    ck_assert_int_eq(lh_chat_encode(tok, &text, 0, text.text.bytes, &whole), LH_OK);
    ck_assert_int_eq(lh_chat_encode(tok, &text, 0, cut, &sides), LH_OK);
    ck_assert_int_eq(lh_chat_encode(tok, &text, cut, text.text.bytes, &sides), LH_OK);
    ck_assert_int_eq(whole.n, sides.n); /* no second space in front of what continues */
    ck_assert_mem_eq(whole.ids, sides.ids, (size_t)whole.n * sizeof *whole.ids);
    lh_tokens_clear(&whole), lh_tokens_clear(&sides);
    lh_chat_text_clear(&text);
    lh_chat_close(format);
    lh_tokenizer_close(tok);
}
END_TEST

/* Variables of the template: their values are JSON, their texts are contents. */
START_TEST(test_arguments_are_variables_of_the_template)
{
    static const char jinja[] = "{{ messages[0].content }}|{% if enable_thinking is defined and not enable_thinking %}"
                                "off{% endif %}|{{ effort }}|{{ budget + 1 }}|{{ list[1].name }}|{{ none is none }}";
    const char *const refused[] = {"[]", "{\"tools\": []}", "{\"messages\": []}", "{\"x\": [1, {\"y\": 0.5}]}"};
    const lh_message message = {.role = "user", .content = "x"};
    const lh_chat_format *format = NULL;
    lh_chat_text text = {0};
    json_t *arguments = json_loads("{\"enable_thinking\": false, \"effort\": \"<s>\", \"budget\": 511, "
                                   "\"list\": [null, {\"name\": true}], \"none\": null}",
                                   0, NULL);
    ck_assert_int_eq(lh_chat_open(&format, "test", jinja, (int64_t)sizeof jinja - 1), LH_OK);
    ck_assert_int_eq(lh_chat_arguments_check("x", arguments), LH_OK);
    ck_assert_int_eq(
        lh_chat_render(format, &(lh_chat_request){.messages = &message, .n = 1, .arguments = arguments}, &text), LH_OK);
    ck_assert_str_eq(text.text.data, "x|off|<s>|512|True|True");
    ck_assert(text.n > 2 && text.pieces[2].from_content && text.pieces[2].message == -1); /* "<s>" is no token */
    ck_assert(lh_chat_names(format, "effort") && !lh_chat_names(format, "effor") && !lh_chat_names(format, "thinking"));
    json_decref(arguments);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        arguments = json_loads(refused[i], 0, NULL);
        ck_assert_int_eq(lh_chat_arguments_check("x", arguments), LH_EINPUT);
        json_decref(arguments);
    }
    lh_chat_text_clear(&text);
    lh_chat_close(format);
}
END_TEST

int main(void)
{
    return suite_run("chat",
                     (const TTest *const[]){
                         test_built_in_formats_render_as_jinja2, test_changed_templates_render_as_they_stand,
                         test_names_resolve_and_others_are_refused_with_the_list, test_no_messages_are_refused,
                         test_special_tokens_in_contents_are_text, test_a_rendering_is_cut_where_the_question_begins,
                         test_arguments_are_variables_of_the_template, test_both_sides_of_a_cut_are_the_whole, NULL});
}
