/* messages.c - reads conversations. What would be lost in silence, such as the call of a tool, is refused. */
#include "text/messages.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"

static const int64_t MESSAGES_BYTES = INT64_C(1) << 32;

lh_status lh_messages_add(lh_messages *messages, const char *role, const char *content)
{
    lh_status st = LH_OK;
    char *r = NULL, *c = NULL;
    LH_TRY_DONE(lh_strdup(&r, role));
    LH_TRY_DONE(lh_strdup(&c, content));
    LH_TRY_DONE(lh_realloc(&messages->at, messages->n + 1, sizeof *messages->at));
    messages->at[messages->n++] = (lh_message){r, c};
    r = c = NULL;
done:
    lh_free(r);
    lh_free(c);
    return st;
}

void lh_messages_drop(lh_messages *messages)
{
    const lh_message last = messages->at[--messages->n];
    lh_free((char *)(uintptr_t)last.role);
    lh_free((char *)(uintptr_t)last.content);
}

void lh_messages_clear(lh_messages *messages)
{
    while (messages->n) lh_messages_drop(messages);
    lh_free(messages->at);
    *messages = (lh_messages){0};
}

/* Appends a JSON string, which may hold any character but NUL. */
static lh_status add_text(const char *where, const json_t *text, lh_buf *out)
{
    const char *s = json_string_value(text);
    if (strlen(s) != json_string_length(text)) LH_FAIL(LH_EINPUT, "%s holds a zero byte: it is not text", where);
    LH_TRY(lh_buf_append(out, s, (int64_t)json_string_length(text)));
    return LH_OK;
}

static lh_status read_content(const char *where, const json_t *content, lh_buf *out)
{
    size_t i;
    json_t *part;
    LH_TRY(lh_buf_puts(out, ""));
    if (json_is_string(content)) return add_text(where, content, out);
    if (!json_is_array(content)) LH_FAIL(LH_EINPUT, "%s must have the texts 'role' and 'content'", where);
    json_array_foreach((json_t *)(uintptr_t)content, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        if (!type || strcmp(type, "text") != 0 || !json_is_string(text))
            LH_FAIL(
                LH_EINPUT,
                "%s: part %zu of its content is%s%.20s%s no {\"type\": \"text\", \"text\": …}, and only texts are read",
                where, i, type ? " of type '" : "", type ? type : "", type ? "':" : "");
        LH_TRY(add_text(where, text, out));
    }
    return LH_OK;
}

static lh_status read_message(const char *where, const json_t *message, lh_messages *out)
{
    lh_status st = LH_OK;
    static const char *const refused[] = {"tool_calls", "function_call", "audio"};
    lh_buf role = {0}, content = {0};
    if (!json_is_string(json_object_get(message, "role")))
        LH_FAIL_DONE(LH_EINPUT, "%s must have the texts 'role' and 'content'", where);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *member = json_object_get(message, refused[i]);
        if (member && !json_is_null(member))
            LH_FAIL_DONE(LH_EINPUT, "%s has '%s', which is not rendered: put it into words in 'content'", where,
                         refused[i]);
    }
    LH_TRY_DONE(add_text(where, json_object_get(message, "role"), &role));
    LH_TRY_DONE(read_content(where, json_object_get(message, "content"), &content));
    LH_TRY_DONE(lh_messages_add(out, role.data, content.data));
done:
    lh_buf_clear(&role);
    lh_buf_clear(&content);
    return st;
}

lh_status lh_messages_parse(lh_messages *out, const char *name, const json_t *json)
{
    lh_status st = LH_OK;
    lh_buf where = {0};
    const json_t *list = json_is_object(json) ? json_object_get(json, "messages") : json;
    if (!json_is_array(list))
        LH_FAIL_DONE(LH_EINPUT, "%s must be an array of messages, or an object with an array 'messages'", name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        where.bytes = 0;
        LH_TRY_DONE(lh_buf_printf(&where, "%s: message %zu", name, i));
        LH_TRY_DONE(read_message(where.data, json_array_get(list, i), out));
    }
done:
    lh_buf_clear(&where);
    return st;
}

lh_status lh_messages_read(lh_messages *out, const char *path)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    lh_buf text = {0}, name = {0};
    const char *said = strcmp(path, "-") == 0 ? "standard input" : path;
    LH_TRY_DONE(lh_buf_printf(&name, "'%s'", said));
    LH_TRY_DONE(lh_file_read(&text, path, MESSAGES_BYTES));
    LH_TRY_DONE(lh_json_parse(&json, said, text.data, text.bytes));
    LH_TRY_DONE(lh_messages_parse(out, name.data, json));
    if (out->n == 0) LH_FAIL_DONE(LH_EINPUT, "%s holds no message", name.data);
done:
    json_decref(json);
    lh_buf_clear(&text);
    lh_buf_clear(&name);
    return st;
}
