/* template.c - a chat template: the limits of its rendering, the names that it sees, and its text as pieces. */
#include "text/template/template.h"

#include <string.h>

#include "text/template/run.h"

/* Of 131 published templates, all but one take below 1,100 steps and 14 bytes per byte of a document; the one looks at
 * every character, at 17 steps and 280 bytes each, because it expects lists of parts. */
enum { SOURCE_BYTES = 1 << 20, STEPS = 4 << 20, STEPS_PER_BYTE = 4, MEMORY = 32 << 20, MEMORY_PER_BYTE = 64 };

struct lh_template {
    lh_tpl_pool pool;
    char *source;
    const lh_tpl_stmt *statements;
};

lh_status lh_template_open(lh_template **out, const char *source, int64_t bytes)
{
    lh_status st = LH_OK;
    lh_template *t = NULL;
    if (bytes > SOURCE_BYTES) LH_FAIL(LH_EINPUT, "it has more than %d bytes", SOURCE_BYTES);
    LH_TRY_DONE(lh_calloc(&t, 1, sizeof *t));
    LH_TRY_DONE(lh_strndup(&t->source, source, bytes));
    t->pool =
        (lh_tpl_pool){.bytes_left = MEMORY + MEMORY_PER_BYTE * bytes, .steps_left = STEPS + STEPS_PER_BYTE * bytes};
    LH_TRY_DONE(lh_tpl_parse(&t->pool, t->source, bytes, &t->statements));
    *out = t;
    t = NULL;
done:
    lh_template_close(t);
    return st;
}

void lh_template_close(lh_template *t)
{
    if (!t) return;
    lh_tpl_pool_clear(&t->pool);
    lh_free(t->source);
    lh_free(t);
}

/* ---- names ---- */

static lh_status put(lh_tpl_pool *pool, lh_tpl_value dict, const char *name, lh_tpl_value value)
{
    lh_tpl_value key;
    LH_TRY(lh_tpl_text_borrow(pool, name, (int64_t)strlen(name), &key));
    LH_TRY(lh_tpl_list_push(pool, &dict.dict->keys, key));
    return lh_tpl_list_push(pool, &dict.dict->values, value);
}

/* A role. The user's file may name any, so special tokens are recognised in the usual ones only. */
static lh_status make_role(lh_tpl_pool *pool, const char *role, lh_tpl_value *out)
{
    static const char *const usual[] = {"system", "user", "assistant", "tool", "developer", "model", "ipython"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(role, usual[i]) == 0) return lh_tpl_text_borrow(pool, role, (int64_t)strlen(role), out);
    return lh_tpl_text_content(pool, role, -1, out);
}

static lh_status make_messages(lh_tpl_pool *pool, const lh_chat_request *request, lh_tpl_value *out)
{
    LH_TRY(lh_tpl_list_make(pool, out));
    for (int64_t i = 0; i < request->n; i++) {
        lh_tpl_value message, role, content;
        LH_TRY(lh_tpl_dict_make(pool, &message, LH_TPL_DICT));
        LH_TRY(make_role(pool, request->messages[i].role, &role));
        LH_TRY(lh_tpl_text_content(pool, request->messages[i].content, (int)i, &content));
        LH_TRY(put(pool, message, "role", role));
        LH_TRY(put(pool, message, "content", content));
        for (int k = 0; k < LH_MESSAGE_MEMBERS; k++) {
            const char *text = request->messages[i].members[k];
            if (!text) continue;
            LH_TRY(lh_tpl_text_content(pool, text, -1, &content));
            LH_TRY(put(pool, message, lh_message_members[k], content));
        }
        LH_TRY(lh_tpl_list_push(pool, out->list, message));
    }
    return LH_OK;
}

/* A value of JSON as the template sees it; texts are contents, in which no special token is recognised. */
static lh_status make_value(lh_tpl_pool *pool, const json_t *json, lh_tpl_value *out);

static lh_status make_list(lh_tpl_pool *pool, const json_t *json, lh_tpl_value *out)
{
    size_t i;
    json_t *element;
    LH_TRY(lh_tpl_list_make(pool, out));
    json_array_foreach((json_t *)(uintptr_t)json, i, element)
    {
        lh_tpl_value value;
        LH_TRY(make_value(pool, element, &value));
        LH_TRY(lh_tpl_list_push(pool, out->list, value));
    }
    return LH_OK;
}

static lh_status make_dict(lh_tpl_pool *pool, const json_t *json, lh_tpl_value *out)
{
    const char *name;
    json_t *member;
    LH_TRY(lh_tpl_dict_make(pool, out, LH_TPL_DICT));
    json_object_foreach((json_t *)(uintptr_t)json, name, member)
    {
        lh_tpl_value value;
        LH_TRY(make_value(pool, member, &value));
        LH_TRY(put(pool, *out, name, value));
    }
    return LH_OK;
}

static lh_status make_value(lh_tpl_pool *pool, const json_t *json, lh_tpl_value *out)
{
    *out = json_is_boolean(json)   ? lh_tpl_bool(json_is_true(json))
           : json_is_integer(json) ? lh_tpl_int(json_integer_value(json))
                                   : lh_tpl_none();
    if (json_is_string(json)) return lh_tpl_text_content(pool, json_string_value(json), -1, out);
    if (!json_is_array(json) && !json_is_object(json)) return LH_OK;
    LH_TRY(lh_tpl_enter(pool));
    return lh_tpl_leave(pool, (json_is_array(json) ? make_list : make_dict)(pool, json, out));
}

static lh_status set_arguments(lh_tpl_run *run, const json_t *arguments)
{
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)arguments, name, member)
    {
        lh_tpl_value value;
        const lh_status st = make_value(run->pool, member, &value);
        if (st != LH_OK) return lh_fail_within(st, "the variable '%.40s' of the chat template", name);
        LH_TRY(lh_tpl_set_name(run, name, value));
    }
    return LH_OK;
}

static lh_status set_names(lh_tpl_run *run, const lh_chat_request *request)
{
    const char *bos = request->bos ? request->bos : "", *eos = request->eos ? request->eos : "";
    lh_tpl_value v;
    LH_TRY(make_messages(run->pool, request, &v));
    LH_TRY(lh_tpl_set_name(run, "messages", v));
    LH_TRY(lh_tpl_set_name(run, "add_generation_prompt", lh_tpl_bool(request->add_generation_prompt)));
    LH_TRY(lh_tpl_set_name(run, "tools", lh_tpl_none()));
    LH_TRY(lh_tpl_set_name(run, "documents", lh_tpl_none()));
    LH_TRY(lh_tpl_text_borrow(run->pool, bos, (int64_t)strlen(bos), &v));
    LH_TRY(lh_tpl_set_name(run, "bos_token", v));
    LH_TRY(lh_tpl_text_borrow(run->pool, eos, (int64_t)strlen(eos), &v));
    LH_TRY(lh_tpl_set_name(run, "eos_token", v));
    return request->arguments ? set_arguments(run, request->arguments) : LH_OK;
}

/* ---- pieces ---- */

static lh_status take_text(const lh_tpl_builder *b, lh_chat_text *out)
{
    int64_t at = 0;
    LH_TRY(lh_buf_append(&out->text, b->data, b->bytes));
    for (int64_t i = 0; i < b->span_count; i++) {
        const lh_tpl_span *s = &b->spans[i];
        if (s->start > at) LH_TRY(lh_chat_text_add(out, (lh_chat_piece){at, s->start - at, 0, -1, 0}));
        LH_TRY(lh_chat_text_add(out, (lh_chat_piece){s->start, s->bytes, 1, s->message, s->skipped}));
        at = s->start + s->bytes;
    }
    return b->bytes > at ? lh_chat_text_add(out, (lh_chat_piece){at, b->bytes - at, 0, -1, 0}) : LH_OK;
}

static int64_t conversation_bytes(const lh_chat_request *request)
{
    int64_t bytes = request->arguments ? (int64_t)json_dumpb(request->arguments, NULL, 0, 0) : 0;
    for (int64_t i = 0; i < request->n; i++) {
        const lh_message *m = &request->messages[i];
        bytes += (int64_t)strlen(m->content) + (int64_t)strlen(m->role) + 64;
        for (int k = 0; k < LH_MESSAGE_MEMBERS; k++) bytes += m->members[k] ? (int64_t)strlen(m->members[k]) : 0;
    }
    return bytes;
}

lh_status lh_template_render(const lh_template *t, const lh_chat_request *request, lh_chat_text *out)
{
    lh_status st = LH_OK;
    const int64_t bytes = conversation_bytes(request);
    lh_tpl_pool pool = {.bytes_left = MEMORY + MEMORY_PER_BYTE * bytes, .steps_left = STEPS + STEPS_PER_BYTE * bytes};
    lh_tpl_scope scope = {0};
    lh_tpl_builder text = {0};
    lh_tpl_run run = {.pool = &pool, .scope = &scope, .out = &text};
    LH_TRY_DONE(set_names(&run, request));
    LH_TRY_DONE(lh_tpl_execute(&run, t->statements));
    LH_TRY_DONE(take_text(&text, out));
done:
    lh_tpl_pool_clear(&pool);
    return st;
}
