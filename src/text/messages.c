/* messages.c - reads conversations by a table of members. A member that would change the conversation and is not
 * rendered, such as the call of a tool, is refused by its name, and so is an unknown member. */
#include "text/messages.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options.h"

static const int64_t MESSAGES_BYTES = INT64_C(1) << 32;

const char *const lh_message_members[] = {"reasoning_content", "name", "tool_call_id", NULL};

/* Appends copies of the texts. */
static lh_status add_message(lh_messages *messages, const lh_message *message)
{
    lh_status st = LH_OK;
    char *role = NULL, *content = NULL, *members[LH_MESSAGE_MEMBERS] = {NULL};
    LH_TRY_DONE(lh_strdup(&role, message->role));
    LH_TRY_DONE(lh_strdup(&content, message->content));
    for (int k = 0; k < LH_MESSAGE_MEMBERS; k++)
        if (message->members[k]) LH_TRY_DONE(lh_strdup(&members[k], message->members[k]));
    LH_TRY_DONE(lh_realloc(&messages->at, messages->n + 1, sizeof *messages->at));
    lh_message *added = &messages->at[messages->n++];
    *added = (lh_message){role, content, {NULL}};
    for (int k = 0; k < LH_MESSAGE_MEMBERS; k++) added->members[k] = members[k];
    role = content = NULL;
    memset(members, 0, sizeof members);
done:
    lh_free(role);
    lh_free(content);
    for (int k = 0; k < LH_MESSAGE_MEMBERS; k++) lh_free(members[k]);
    return st;
}

lh_status lh_messages_add(lh_messages *messages, const char *role, const char *content)
{
    return add_message(messages, &(lh_message){role, content, {NULL}});
}

void lh_messages_drop(lh_messages *messages)
{
    const lh_message last = messages->at[--messages->n];
    lh_free((char *)(uintptr_t)last.role);
    lh_free((char *)(uintptr_t)last.content);
    for (int k = 0; k < LH_MESSAGE_MEMBERS; k++) lh_free((char *)(uintptr_t)last.members[k]);
}

void lh_messages_clear(lh_messages *messages)
{
    while (messages->n) lh_messages_drop(messages);
    lh_free(messages->at);
    *messages = (lh_messages){0};
}

/* ---- members ---- */

/* A member of a message, or of a part of its content. */
typedef struct member {
    const char *name;
    const char *
        why; /* remedy for a member that is not rendered and refused unless empty; NULL: it is read, or has no effect */
} member;

static const char in_words[] = "put it into words in 'content'";
static const char as_reasoning[] = "templates read 'reasoning_content'";
static const char text_alone[] = "the model reads text alone";
static const char no_prefix[] = "the answer begins where the model's turn begins";

static const member message_members[] = {{"role", NULL},
                                         {"content", NULL},
                                         {"reasoning_content", NULL},
                                         {"name", NULL},
                                         {"tool_call_id", NULL},
                                         {"tool_calls", in_words},
                                         {"function_call", in_words},
                                         {"tool_name", in_words},
                                         {"refusal", in_words},
                                         {"annotations", in_words},
                                         {"reasoning", NULL},
                                         {"reasoning_details", as_reasoning},
                                         {"thinking", as_reasoning},
                                         {"images", text_alone},
                                         {"audio", text_alone},
                                         {"prefix", no_prefix},
                                         {"partial", no_prefix},
                                         {NULL, NULL}};
static const member part_members[] = {
    {"type", NULL}, {"text", NULL}, {"cache_control", NULL}, {"annotations", in_words}, {NULL, NULL}};

static int is_empty(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) || (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static lh_status fail_unknown(const char *where, const char *name, const member *known)
{
    enum { SHOWN = 48, NAMES = 32 };
    const char *names[NAMES];
    int n = 0;
    for (; known->name && n < NAMES - 1; known++) names[n++] = known->name;
    names[n] = NULL;
    const char *near = lh_nearest(name, names);
    LH_FAIL(LH_EINPUT, "%s has the unknown member '%.*s'%s%s%s", where, (int)SHOWN, name,
            near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static lh_status check_members(const char *where, const json_t *object, const member *known)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        const member *m = known;
        while (m->name && strcmp(m->name, name) != 0) m++;
        if (!m->name) LH_TRY(fail_unknown(where, name, known));
        if (m->why && !is_empty(value))
            LH_FAIL(LH_EINPUT, "%s has '%s', which is not rendered: %s", where, name, m->why);
    }
    return LH_OK;
}

/* ---- messages ---- */

/* Appends a JSON string, which may hold any character but NUL. */
static lh_status add_text(const char *where, const json_t *text, lh_buf *out)
{
    const char *s = json_string_value(text);
    if (strlen(s) != json_string_length(text)) LH_FAIL(LH_EINPUT, "%s holds a zero byte: it is not text", where);
    LH_TRY(lh_buf_append(out, s, (int64_t)json_string_length(text)));
    return LH_OK;
}

/* Texts of several parts are joined by line feeds, as in vLLM and llama.cpp. */
static lh_status read_content(const char *where, const json_t *content, lh_buf *out)
{
    size_t i;
    json_t *part;
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
        LH_TRY(check_members(where, part, part_members));
        if (i) LH_TRY(lh_buf_puts(out, "\n"));
        LH_TRY(add_text(where, text, out));
    }
    return LH_OK;
}

/* *out: the text of a member, borrowed; NULL if the message has none. */
static lh_status read_member(const char *where, const json_t *message, const char *name, const char **out)
{
    const json_t *value = lh_json_member(message, name);
    if (!value) return LH_OK;
    if (!json_is_string(value)) LH_FAIL(LH_EINPUT, "%s: '%s' must be a string", where, name);
    *out = json_string_value(value);
    if (strlen(*out) != json_string_length(value))
        LH_FAIL(LH_EINPUT, "%s: '%s' holds a zero byte: it is not text", where, name);
    return LH_OK;
}

/* True for a turn of the assistant that says nothing: an answer that ended within its thoughts has null. */
static int is_silent(const json_t *message)
{
    return !lh_json_member(message, "content") &&
           strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0;
}

static lh_status read_message(const char *where, const json_t *message, lh_messages *out)
{
    lh_status st = LH_OK;
    lh_buf role = {0}, content = {0};
    lh_message read = {0};
    if (!json_is_string(json_object_get(message, "role")))
        LH_FAIL_DONE(LH_EINPUT, "%s must have the texts 'role' and 'content'", where);
    LH_TRY_DONE(check_members(where, message, message_members));
    LH_TRY_DONE(add_text(where, json_object_get(message, "role"), &role));
    LH_TRY_DONE(lh_buf_puts(&content, ""));
    if (!is_silent(message)) LH_TRY_DONE(read_content(where, json_object_get(message, "content"), &content));
    read.role = role.data;
    read.content = content.data;
    LH_TRY_DONE(read_member(where, message, "reasoning", &read.members[LH_MESSAGE_THOUGHTS])); /* vLLM's new name */
    for (int k = 0; k < LH_MESSAGE_MEMBERS; k++)
        LH_TRY_DONE(read_member(where, message, lh_message_members[k], &read.members[k]));
    LH_TRY_DONE(add_message(out, &read));
done:
    lh_buf_clear(&role);
    lh_buf_clear(&content);
    return st;
}

/* A file may hold a whole request: members that are not read are named in a warning. */
static lh_status warn_of_neighbours(const char *name, const json_t *object)
{
    lh_status st = LH_OK;
    lh_buf beside = {0};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (strcmp(key, "messages") == 0 || strcmp(key, "add_generation_prompt") == 0 || is_empty(value)) continue;
        LH_TRY_DONE(lh_buf_printf(&beside, "%s'%.40s'", beside.bytes ? ", " : "", key));
    }
    if (beside.bytes) lh_warn("%s: 'messages' is read, and not %s", name, beside.data);
done:
    lh_buf_clear(&beside);
    return st;
}

lh_status lh_messages_parse(lh_messages *out, const char *name, const json_t *json)
{
    lh_status st = LH_OK;
    lh_buf where = {0};
    const json_t *list = json_is_object(json) ? json_object_get(json, "messages") : json;
    if (!json_is_array(list))
        LH_FAIL_DONE(LH_EINPUT, "%s must be an array of messages, or an object with an array 'messages'", name);
    LH_TRY_DONE(warn_of_neighbours(name, json));
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
    LH_TRY_DONE(lh_json_parse_asked(&json, said, text.data, text.bytes));
    LH_TRY_DONE(lh_messages_parse(out, name.data, json));
    if (out->n == 0) LH_FAIL_DONE(LH_EINPUT, "%s holds no message", name.data);
done:
    json_decref(json);
    lh_buf_clear(&text);
    lh_buf_clear(&name);
    return st;
}
