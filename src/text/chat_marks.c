/* chat_marks.c - how a chat format marks turns. A template says it nowhere: short conversations are rendered, whose
 * contents are "x", and what stands around the contents are the marks. A conversation that the template refuses, such
 * as one with a system message, has none. */
#include <string.h>

#include "base/unicode.h"
#include "text/chat.h"

/* ---- texts without the white space around them ---- */

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

/* Renders a conversation of the user's message "x" and what `with` adds to it: nothing where it is refused. */
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
        lh_chat_render(format, &(lh_chat_request){messages, n, (with & GENERATES) != 0, bos, eos}, out);
    if (st != LH_EINPUT) return st;
    lh_error_clear();
    lh_chat_text_clear(out);
    return LH_OK;
}

/* What stands before the contents of the first message, and after those of `message` up to those of the next. */
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

/* What opens a turn of the user that is not the first: what stands between two turns, without the end of a turn. Where
 * something else stands at the end of a conversation, the two cannot be told apart, and there is nothing. */
static slice later_opening(const marks *m)
{
    const slice between = after(&m->asked_again, 1), end = after(&m->answered, 1);
    if (!begins_with(between, end)) return (slice){"", 0};
    return (slice){between.at + end.bytes, between.bytes - end.bytes};
}

/* The same with the role of a system message in it: an opening that holds neither a default text nor a date. */
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

/* What begins an answer: the generation prompt, or, where a template writes none of its own, the end of the user's
 * turn. */
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
