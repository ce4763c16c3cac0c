/* chat.c - chat formats by name, by file and of a tokenizer, and how they mark turns. */
#include "text/chat.h"

#include <string.h>

#include "base/file.h"
#include "base/unicode.h"
#include "text/template/template.h"

enum { TEMPLATE_BYTES = 1 << 24 };

static const char unnamed[] = "template"; /* name of formats that are not built in */

struct lh_chat_format {
    char *name, *source;
    lh_template *jinja;
};

/* ---- opening ---- */

lh_status lh_chat_open(const lh_chat_format **out, const char *name, const char *jinja, int64_t bytes)
{
    lh_status st = LH_OK;
    lh_chat_format *f = NULL;
    *out = NULL;
    LH_TRY_DONE(lh_calloc(&f, 1, sizeof *f));
    LH_TRY_DONE(lh_strdup(&f->name, name));
    LH_TRY_DONE(lh_strndup(&f->source, jinja, bytes));
    LH_TRY_DONE(lh_template_open(&f->jinja, jinja, bytes));
    *out = f;
    f = NULL;
done:
    lh_chat_close(f);
    return st;
}

void lh_chat_close(const lh_chat_format *format)
{
    lh_chat_format *f = (lh_chat_format *)(uintptr_t)format;
    if (!f) return;
    lh_template_close(f->jinja);
    lh_free(f->source);
    lh_free(f->name);
    lh_free(f);
}

const char *lh_chat_name(const lh_chat_format *format)
{
    return format->name;
}

const char *lh_chat_jinja(const lh_chat_format *format)
{
    return format->source;
}

/* ---- finding ---- */

const char *lh_chat_builtin_name(int i)
{
    const lh_chat_builtin *row = lh_chat_builtins;
    while (row->name && i-- > 0) row++;
    return row->name;
}

lh_status lh_chat_named(const lh_chat_format **out, const char *name)
{
    *out = NULL;
    for (const lh_chat_builtin *row = lh_chat_builtins; row->name; row++)
        if (strcmp(row->name, name) == 0) return lh_chat_open(out, name, row->jinja, row->bytes);
    return LH_OK;
}

lh_status lh_chat_of(const lh_chat_format **out, const lh_tokenizer *tok)
{
    const char *name = lh_tokenizer_chat_format(tok), *jinja = lh_tokenizer_chat_template(tok);
    *out = NULL;
    if (!jinja) return name ? lh_chat_named(out, name) : LH_OK;
    if (lh_chat_open(out, unnamed, jinja, (int64_t)strlen(jinja)) == LH_OK) return LH_OK;
    return lh_fail_within(LH_EINPUT, "the chat template of the model cannot be read");
}

lh_status lh_chat_resolve(const lh_chat_format **out, const char *name_or_file)
{
    lh_status st = LH_OK;
    lh_buf text = {0}, names = {0};
    LH_TRY_DONE(lh_chat_named(out, name_or_file));
    if (*out) goto done;
    for (const lh_chat_builtin *row = lh_chat_builtins; row->name; row++)
        LH_TRY_DONE(lh_buf_printf(&names, "%s%s", row == lh_chat_builtins ? "" : " ", row->name));
    if (!lh_file_exists(name_or_file) || lh_file_is_folder(name_or_file))
        LH_FAIL_DONE(LH_EUSAGE, "'%s' is neither a chat format nor a file with a template; formats are: %s",
                     name_or_file, names.data);
    LH_TRY_DONE(lh_file_read(&text, name_or_file, TEMPLATE_BYTES));
    if (lh_chat_open(out, unnamed, text.data ? text.data : "", text.bytes) != LH_OK)
        st = lh_fail_within(LH_EUSAGE, "the template '%s'", name_or_file);
done:
    lh_buf_clear(&text);
    lh_buf_clear(&names);
    return st;
}

/* ---- arguments ---- */

/* True for a number with a fraction or a text with a zero byte, also within lists and objects. */
static int is_unreadable(const json_t *value)
{
    const char *key;
    json_t *member;
    int found =
        json_is_real(value) || (json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value));
    for (size_t i = 0; i < json_array_size(value); i++) found |= is_unreadable(json_array_get(value, i));
    json_object_foreach((json_t *)(uintptr_t)value, key, member) found |= is_unreadable(member);
    return found;
}

lh_status lh_chat_arguments_check(const char *name, const json_t *arguments)
{
    enum { SHOWN = 48 };
    static const char *const ours[] = {"messages",
                                       "add_generation_prompt",
                                       "continue_final_message",
                                       "tools",
                                       "documents",
                                       "bos_token",
                                       "eos_token",
                                       "chat_template",
                                       "tokenize"};
    const char *key;
    json_t *value;
    if (!json_is_object(arguments)) LH_FAIL(LH_EINPUT, "'%s' must be an object: variables of the chat template", name);
    json_object_foreach((json_t *)(uintptr_t)arguments, key, value)
    {
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            if (strcmp(key, ours[i]) == 0)
                LH_FAIL(LH_EINPUT, "'%s' sets '%s', which is no variable of a chat template's own", name, key);
        if (is_unreadable(value))
            LH_FAIL(LH_EINPUT,
                    "'%s': '%.*s' holds a number with a fraction, or a zero byte, which chat templates do not read",
                    name, (int)SHOWN, key);
    }
    return LH_OK;
}

static int is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

int lh_chat_names(const lh_chat_format *format, const char *name)
{
    const size_t bytes = strlen(name);
    for (const char *at = format->source; bytes && (at = strstr(at, name)); at++)
        if ((at == format->source || !is_word(at[-1])) && !is_word(at[bytes])) return 1;
    return 0;
}

/* ---- rendering ---- */

lh_status lh_chat_render(const lh_chat_format *format, const lh_chat_request *request, lh_chat_text *out)
{
    if (request->n < 1) LH_FAIL(LH_EINPUT, "a conversation needs at least one message");
    LH_TRY(lh_template_render(format->jinja, request, out));
    return lh_buf_append(&out->text, NULL, 0);
}

/* ---- marks of turns ----
 *
 * A template does not state them: short conversations with the contents "x" are rendered, and the text around the
 * contents are the marks. A conversation that the template refuses, such as one with a system message, has none. */

typedef struct slice {
    const char *at;
    int64_t bytes;
} slice;

static slice trimmed(slice s)
{
    while (s.bytes && lh_is_ascii_space(s.at[0])) s.at++, s.bytes--;
    while (s.bytes && lh_is_ascii_space(s.at[s.bytes - 1])) s.bytes--;
    return s;
}

static int begins_with(slice s, slice with)
{
    return with.bytes <= s.bytes && (!with.bytes || memcmp(s.at, with.at, (size_t)with.bytes) == 0);
}

static int ends_with(slice s, slice with)
{
    return with.bytes <= s.bytes && memcmp(s.at + s.bytes - with.bytes, with.at, (size_t)with.bytes) == 0;
}

static slice without_first(slice s, const char *bos)
{
    const slice first = {bos, (int64_t)strlen(bos)};
    return trimmed(begins_with(s, first) ? (slice){s.at + first.bytes, s.bytes - first.bytes} : s);
}

/* ---- conversations ---- */

enum { SYSTEM_FIRST = 1, ANSWERED = 2, ASKED_AGAIN = 4, GENERATES = 8 };

/* Renders a conversation of the user's message "x" and the messages of `with`; empty if the template refuses it. */
static lh_status render_short(const lh_chat_format *format, int with, const char *bos, const char *eos,
                              lh_chat_text *out)
{
    lh_message messages[4];
    int64_t n = 0;
    if (with & SYSTEM_FIRST) messages[n++] = (lh_message){.role = "system", .content = "x"};
    messages[n++] = (lh_message){.role = "user", .content = "x"};
    if (with & ANSWERED) messages[n++] = (lh_message){.role = "assistant", .content = "x"};
    if (with & ASKED_AGAIN) messages[n++] = (lh_message){.role = "user", .content = "x"};
    const lh_status st =
        lh_chat_render(format, &(lh_chat_request){messages, n, (with & GENERATES) != 0, bos, eos, NULL}, out);
    if (st != LH_EINPUT) return st;
    lh_error_clear();
    lh_chat_text_clear(out);
    return LH_OK;
}

/* The text before the contents of the first message, and between the contents of `message` and of the next. */
static slice before(const lh_chat_text *text)
{
    const int64_t end = lh_chat_cut(text, 0, 0);
    return end < 0 ? (slice){"", 0} : (slice){text->text.data, end};
}

static slice after(const lh_chat_text *text, int64_t message)
{
    const int64_t from = lh_chat_cut(text, message, 1), until = lh_chat_cut(text, message + 1, 0);
    if (from < 0) return (slice){"", 0};
    return (slice){text->text.data + from, (until > from ? until : text->text.bytes) - from};
}

lh_status lh_chat_after_answer(const lh_chat_format *format, const char *eos, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_chat_text text = {0};
    LH_TRY_DONE(render_short(format, ANSWERED | ASKED_AGAIN, "", eos, &text));
    const slice found = after(&text, 1);
    LH_TRY_DONE(lh_buf_append(out, found.at, found.bytes));
done:
    lh_chat_text_clear(&text);
    return st;
}

lh_status lh_chat_end(const lh_tokenizer *tok, const lh_buf *after_answer, int32_t *id)
{
    lh_tokens ids = {0};
    const lh_status st = lh_tokenizer_encode(tok, after_answer->data, after_answer->bytes,
                                             LH_ENCODE_SPECIAL | LH_ENCODE_CONTINUES, &ids);
    *id = -1;
    for (int64_t i = 0; i < ids.n && i < 2 && *id < 0; i++) /* white space may stand before it */
        if (lh_tokenizer_is_special(tok, ids.ids[i])) *id = ids.ids[i];
    lh_tokens_clear(&ids);
    return st;
}

/* ---- the form of a text ---- */

typedef struct marks {
    lh_chat_text plain, asks, system, answered, asked_again; /* short conversations */
    lh_buf bos, eos, turn;                                   /* turn: the opening of a system turn */
} marks;

static lh_status render_marks(marks *m, const lh_chat_format *format, const lh_tokenizer *tok)
{
    const struct {
        lh_chat_text *text;
        int with;
    } all[] = {{&m->plain, 0},
               {&m->asks, GENERATES},
               {&m->system, SYSTEM_FIRST},
               {&m->answered, ANSWERED},
               {&m->asked_again, ANSWERED | ASKED_AGAIN}};
    LH_TRY(lh_chat_tokens(tok, &m->bos, &m->eos));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        LH_TRY(render_short(format, all[i].with, m->bos.data, m->eos.data, all[i].text));
    return LH_OK;
}

static void clear_marks(marks *m)
{
    lh_chat_text_clear(&m->plain);
    lh_chat_text_clear(&m->asks);
    lh_chat_text_clear(&m->system);
    lh_chat_text_clear(&m->answered);
    lh_chat_text_clear(&m->asked_again);
    lh_buf_clear(&m->bos);
    lh_buf_clear(&m->eos);
    lh_buf_clear(&m->turn);
}

/* The opening of a later turn of the user: the text between two turns, without the end of a turn. Empty if a
 * conversation ends with another text than a turn, because then the two cannot be separated. */
static slice later_opening(const marks *m)
{
    const slice between = after(&m->asked_again, 1), end = after(&m->answered, 1);
    if (!begins_with(between, end)) return (slice){"", 0};
    return (slice){between.at + end.bytes, between.bytes - end.bytes};
}

/* The same with the role of a system message: an opening without a default text or a date. */
static lh_status system_opening(marks *m, slice user)
{
    static const char role[] = "user";
    const char *at = user.bytes ? memmem(user.at, (size_t)user.bytes, role, sizeof role - 1) : NULL;
    LH_TRY(lh_buf_puts(&m->turn, ""));
    if (!at) return LH_OK;
    LH_TRY(lh_buf_append(&m->turn, user.at, at - user.at));
    LH_TRY(lh_buf_puts(&m->turn, "system"));
    at += sizeof role - 1;
    return lh_buf_append(&m->turn, at, user.at + user.bytes - at);
}

/* The opening of an answer: the generation prompt, or, if the template writes none, the end of the user's turn. */
static slice answer_opening(const marks *m)
{
    const slice asks = after(&m->asks, 0), plain = after(&m->plain, 0);
    if (plain.bytes >= asks.bytes || !begins_with(asks, plain)) return asks;
    return (slice){asks.at + plain.bytes, asks.bytes - plain.bytes};
}

lh_status lh_chat_form_of(const lh_chat_format *format, const lh_tokenizer *tok, const char *text, int64_t bytes,
                          lh_chat_form *out)
{
    lh_status st = LH_OK;
    marks m = {0};
    *out = LH_CHAT_NO_TURN;
    LH_TRY_DONE(render_marks(&m, format, tok));
    const slice later = later_opening(&m), end = trimmed(answer_opening(&m));
    LH_TRY_DONE(system_opening(&m, later));
    const slice all = trimmed((slice){text, bytes}), conversation = without_first(all, m.bos.data);
    const slice openings[] = {before(&m.plain), before(&m.system), later, {m.turn.data, m.turn.bytes}};
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
        const slice opening = without_first(trimmed(openings[i]), m.bos.data);
        if (opening.bytes && begins_with(conversation, opening)) *out = LH_CHAT_TURNS;
    }
    if (*out == LH_CHAT_TURNS && end.bytes && ends_with(all, end)) *out = LH_CHAT_RENDERED;
done:
    clear_marks(&m);
    return st;
}
