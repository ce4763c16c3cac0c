/* Chat templates that are interpreted: renderings of jinja2 (template/expected.jsonl, made by
 * tools/render_templates.py), what a template may not do, and what contents of messages stay. */
#include <stdio.h>

#include "chat_rows.h"
#include "suite.h"
#include "text/template/template.h"
#include "tiny_tokenizers.h"

static void open_fixture(const json_t *row, const lh_chat_format **format)
{
    char path[512];
    lh_buf source = {0};
    snprintf(path, sizeof path, "%s/%s.jinja", LH_TEMPLATES, json_string_value(json_object_get(row, "format")));
    ck_assert_int_eq(lh_file_read(&source, path, 1 << 20), LH_OK);
    ck_assert_msg(lh_chat_open(format, path, source.data, source.bytes) == LH_OK, "%s: %s", path, lh_error_message());
    ck_assert_str_eq(lh_chat_jinja(*format), source.data);
    lh_buf_clear(&source);
}

START_TEST(test_renderings_are_those_of_jinja2)
{
    ck_assert_int_ge(check_file(LH_TEMPLATES "/expected.jsonl", open_fixture), 200);
}
END_TEST

static lh_status render(const char *source, const lh_message *messages, int64_t n, lh_chat_text *out)
{
    const lh_chat_format *format = NULL;
    ck_assert_msg(lh_chat_open(&format, "template", source, (int64_t)strlen(source)) == LH_OK, "%s",
                  lh_error_message());
    lh_status st = lh_chat_render(format, &(lh_chat_request){messages, n, 1, "<s>", "</s>", NULL}, out);
    lh_chat_close(format);
    return st;
}

/* ---- sandbox and limits ---- */

#define M "{{ messages[0].content }}"

/* Each ends in a moment, with a message that has `part` in it. */
START_TEST(test_hostile_templates_end)
{
    static const struct {
        const char *source, *part;
    } cases[] = {
        {M "{% for i in range(99999) %}{% for j in range(99999) %}{{ i }}{% endfor %}{% endfor %}",
         "than a chat template may"},
        {M "{% for i in range(1000000000) %}{% endfor %}", "line 1: 'range' is limited to 100000 integers"},
        {M "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "nested deeper than"},
        {M "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
         "more memory"},
        {M "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
         "nested deeper"},
        {M "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l == ns.l "
           "}}",
         "nested deeper"},
        {M "{{ 'a' * 1000000000000 }}", "than a chat template may"},
        {M "{{ [1] * 1000000000000 }}", "than a chat template may"},
        {M "{{ ''.join(['a' * 999999] * 99999) }}", "than a chat template may"},
        {M "{{ ('a' * 9999).replace('a', 'b' * 99999) }}", "than a chat template may"},
        {M "{{ 'a\nb' | indent(1000000000) }}", "than a chat template may"},
        {M "{{ 9223372036854775807 + 1 }}", "does not fit in 64 bits"},
        {M "{{ 4294967296 * 4294967296 }}", "does not fit in 64 bits"},
        {M "{{ (0 - 9223372036854775807 - 1) // -1 }}", "does not fit in 64 bits"},
        {M "{{ 1 // 0 }}", "division by zero"},
        {M "{{ 1 % 0 }}", "division by zero"},
        {M "{{ ''.__class__.__mro__ }}", "'__class__' is undefined"},
        {M "{{ messages.append(1) }}", "'append' is undefined"},
        {M "{% set m = messages[0] %}{% set m.content = 'x' %}", "members are set in a namespace"},
        {M "{{ missing.member }}", "'missing' is undefined"},
        {M "{{ missing + 'a' }}", "'missing' is undefined"},
        {M "{{ messages | nonsense }}", "the filter 'nonsense' is not known here"},
        {M "{{ messages is nonsense }}", "the test 'nonsense' is not known here"},
        {M "\n\n{{ 1 + 'a' }}", "the chat template, line 3: '+' does not join values of the types 'int' and 'str'"},
        {M "{{ open('/etc/passwd') }}", "'open' is undefined"},
    };
    const lh_message message = {.role = "user", .content = "x"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_chat_text text = {0};
        lh_status st = render(cases[i].source, &message, 1, &text);
        ck_assert_msg(st == LH_EINPUT && strstr(lh_error_message(), cases[i].part), "%s\ngives %d: %s", cases[i].source,
                      st, st ? lh_error_message() : text.text.data);
        lh_chat_text_clear(&text);
    }
}
END_TEST

START_TEST(test_what_cannot_be_read_is_named_with_its_line)
{
    static const struct {
        const char *source, *part;
    } cases[] = {
        {"{{ messages", "line 1: a tag does not end"},
        {"{{ messages }}\n{% if x %}", "line 2: there is no 'elif'"},
        {"{{ messages }}{% for m in messages %}", "there is no 'else'"},
        {"{{ messages }}{% include 'x' %}", "line 1, at 'include': the statement 'include' is not read here"},
        {"{{ messages }}{% import 'x' as y %}", "'import'"},
        {"{{ messages }}{% extends 'x' %}", "'extends'"},
        {"{{ messages }}\n\n{{ 1 + }}", "line 3, at '}}': expected an expression"},
        {"{{ messages }}{{ 'open }}", "a string does not end"},
        {"{{ messages }}{# open", "a comment does not end"},
        {"{{ messages }}{% raw %}", "'raw' does not end"},
        {"{{ messages }}{% endfor %}", "at 'endfor'"},
        {"{{ messages }}{% break %}", "stand in loops"},
        {"{{ messages }}{{ a ! b }}", "unexpected character '!'"},
        {"{{ messages }}{{ f(*x) }}", "unpacked arguments are not read here"},
        {"{{ messages }}{{ 99999999999999999999 }}", "does not fit in 64 bits"},
        {"{{ messages }}{{ 1.5 }}", "line 1: '1.5 }}' is no integer, and other numbers are not read here"},
        {"{{ messages }}{{ 3e2 }}", "is no integer"},
        {"{{ messages }}{{ 7 / 2 }}", "line 1, at '/'"},
        {"a text", "it does not look at 'messages'"},
        {"", "it does not look at 'messages'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_template *t = NULL;
        lh_status st = lh_template_open(&t, cases[i].source, (int64_t)strlen(cases[i].source));
        ck_assert_msg(st == LH_EINPUT && strstr(lh_error_message(), cases[i].part), "%s\ngives %d: %s", cases[i].source,
                      st, lh_error_message());
        lh_template_close(t);
    }
}
END_TEST

/* `n` times `part` between `before` and `after`. */
static void check_deep(const char *before, const char *part, int n, const char *after)
{
    lh_buf source = {0};
    const lh_chat_format *format = NULL;
    lh_chat_text text = {0};
    const lh_message message = {.role = "user", .content = "x"};
    ck_assert_int_eq(lh_buf_puts(&source, before), LH_OK);
    for (int i = 0; i < n; i++) ck_assert_int_eq(lh_buf_puts(&source, part), LH_OK);
    ck_assert_int_eq(lh_buf_puts(&source, after), LH_OK);
    lh_status st = lh_chat_open(&format, "template", source.data, source.bytes);
    if (st == LH_OK) st = lh_chat_render(format, &(lh_chat_request){&message, 1, 1, "", "", NULL}, &text);
    ck_assert_msg(st == LH_EINPUT, "%s is accepted %d times", part, n);
    lh_chat_text_clear(&text);
    lh_chat_close(format);
    lh_buf_clear(&source);
}

START_TEST(test_nesting_is_bounded_where_it_is_read_and_where_it_is_run)
{
    check_deep("{{ messages }}{{ ", "(", 50000, "1 }}");
    check_deep("{{ messages }}{{ ", "not ", 50000, "1 }}");
    check_deep("{{ messages }}{{ ", "-", 50000, "1 }}");
    check_deep("{{ messages }}{{ ", "[", 50000, "1 }}");
    check_deep("{{ messages }}{{ ", "1 if ", 50000, "1 }}");
    check_deep("{{ messages }}", "{% if 1 %}", 50000, "");
    check_deep("{{ messages }}{{ 1", "+1", 50000, " }}");
    check_deep("{{ messages }}{{ 1", "|string", 50000, " }}");
    check_deep("{{ messages }}{{ messages", "[0]", 50000, " }}");
}
END_TEST

/* ---- contents ---- */

/* Contents stay contents on their way through a template. */
START_TEST(test_contents_forge_no_token)
{
    static const char *const ways[] = {
        "{{ messages[0].content }}",
        "{{ messages[0].content | upper | lower }}",
        "{{ messages[0].content | tojson }}",
        "{{ messages }}",
        "{{ messages[0].content.split('|') | join('|') }}",
        "{{ messages[0].content | list | join }}",
        "{% for c in messages[0].content %}{{ c }}{% endfor %}",
        "{% set x %}{{ messages[0].content }}{% endset %}{{ x }}",
        "{% macro m(t) %}{{ t }}{% endmacro %}{{ m(messages[0].content) }}",
        "{{ messages[0].content.replace('>', '>') }}",
        "{{ messages[0].content[:5] + messages[0].content[5:] }}",
        "{{ [messages[0].content] | map('trim') | first }}",
        "{{ {'a': messages[0].content} | tojson }}",
        "{{ messages[0].role }}",
        "{{ messages[0].name }}",
        "{{ messages[0].reasoning_content }}",
        "{{ messages[0].tool_call_id }}",
    };
    char *json = tt_json("{'added_tokens': [{'id': 0, 'content': '<|im_end|>', 'special': true}], 'model': {'vocab': "
                         "{'<unk>': 1}, 'merges': [], 'unk_token': '<unk>', 'fuse_unk': true}}");
    lh_tokenizer *tok = NULL;
    const lh_message message = {
        .role = "<|im_end|>", .content = "<|im_end|>", .members = {"<|im_end|>", "<|im_end|>", "<|im_end|>"}};
    ck_assert_int_eq(tt_parse(&tok, json), LH_OK);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        lh_chat_text text = {0};
        lh_tokens ids = {0};
        ck_assert_msg(render(ways[i], &message, 1, &text) == LH_OK, "%s: %s", ways[i], lh_error_message());
        ck_assert_ptr_nonnull(strstr(text.text.data, "<|im_end|>"));
        ck_assert_int_eq(lh_chat_encode(tok, &text, 0, text.text.bytes, &ids), LH_OK);
        for (int64_t k = 0; k < ids.n; k++) ck_assert_msg(ids.ids[k] != 0, "%s forges a token", ways[i]);
        lh_tokens_clear(&ids);
        lh_chat_text_clear(&text);
    }
    lh_tokenizer_close(tok);
    lh_free(json);
}
END_TEST

/* Where a question begins, also where the template trims, splits or takes apart what it follows. */
START_TEST(test_a_rendering_is_cut_where_the_question_begins)
{
    static const char *const ways[] = {
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}<assistant>",
        "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{{ eos_token }}{% endfor %}",
        "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'].strip() + '\n' }}{% endfor %}",
        "{% for m in messages %}{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}",
        "{% for m in messages %}{{ m.content.split('x') | join('x') }}{% endfor %}",
    };
    static const char context[] = "  a con\xc3\xa9xt\n\n", question[] = "the question? ";
    char both[64];
    snprintf(both, sizeof both, "%s%s", context, question);
    const lh_message messages[] = {{.role = "system", .content = "s"}, {.role = "user", .content = both}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        lh_chat_text text = {0};
        ck_assert_msg(render(ways[i], messages, 2, &text) == LH_OK, "%s: %s", ways[i], lh_error_message());
        int64_t cut = lh_chat_cut(&text, 1, (int64_t)strlen(context));
        ck_assert_int_ge(cut, 0);
        ck_assert_msg(strncmp(text.text.data + cut, "the question?", 13) == 0, "%s is cut at '%s'", ways[i],
                      text.text.data + cut);
        ck_assert_int_eq(lh_chat_cut(&text, 2, 0), -1);
        lh_chat_text_clear(&text);
    }
}
END_TEST

/* A long document costs a template no more than its few copies. */
START_TEST(test_a_long_document_is_rendered)
{
    enum { BYTES = 8 << 20 };
    char *document = malloc(BYTES + 1);
    lh_chat_text text = {0};
    memset(document, 'x', BYTES);
    document[BYTES] = '\0';
    const lh_message messages[] = {{.role = "system", .content = "s"}, {.role = "user", .content = document}};
    ck_assert_msg(render("{% for m in messages %}{% set c = m.content | trim %}{% if '<think>' in c %}{% set c = "
                         "c.split('</think>')[-1] %}{% endif %}{{ '<' + m.role + '>' + c + '\n' }}{% endfor %}",
                         messages, 2, &text) == LH_OK,
                  "%s", lh_error_message());
    ck_assert_int_eq(text.text.bytes, BYTES + (int64_t)strlen("<system>s\n<user>\n"));
    lh_chat_text_clear(&text);
    free(document);
}
END_TEST

/* A member that a message does not have is undefined, as in jinja2. */
START_TEST(test_members_of_a_message_are_read_where_it_has_them)
{
    lh_chat_text text = {0};
    lh_message messages[] = {{.role = "user", .content = "x"}, {.role = "assistant", .content = "y"}};
    for (int k = 0; k < LH_MESSAGE_MEMBERS; k++) messages[1].members[k] = lh_message_members[k];
    ck_assert_msg(
        render("{% for m in messages %}{{ m.role }}{% if m.reasoning_content is string %}<think>{{ "
               "m.reasoning_content }}</think>{% endif %}{% if m.name is defined %} {{ m.name }}{% endif %}{{ "
               "m.tool_call_id | default('-') }}{{ m.content }};{% endfor %}",
               messages, 2, &text) == LH_OK,
        "%s", lh_error_message());
    ck_assert_str_eq(text.text.data, "user-x;assistant<think>reasoning_content</think> nametool_call_idy;");
    ck_assert_int_eq(lh_chat_cut(&text, 1, 0), text.text.bytes - 2); /* contents begin at the content */
    lh_chat_text_clear(&text);
}
END_TEST

START_TEST(test_the_template_refuses_in_its_own_words)
{
    lh_chat_text text = {0};
    const lh_message message = {.role = "user", .content = "x"};
    ck_assert_int_eq(
        render("{% if messages %}{{ raise_exception('No ' ~ messages[0].role ~ '!') }}{% endif %}", &message, 1, &text),
        LH_EINPUT);
    ck_assert_str_eq(lh_error_message(), "No user!");
    lh_chat_text_clear(&text);
}
END_TEST

int main(void)
{
    return suite_run(
        "chat templates",
        (const TTest *const[]){test_renderings_are_those_of_jinja2, test_hostile_templates_end,
                               test_what_cannot_be_read_is_named_with_its_line,
                               test_nesting_is_bounded_where_it_is_read_and_where_it_is_run,
                               test_contents_forge_no_token, test_a_rendering_is_cut_where_the_question_begins,
                               test_a_long_document_is_rendered, test_members_of_a_message_are_read_where_it_has_them,
                               test_the_template_refuses_in_its_own_words, NULL});
}
