/* chat_render.c - renders messages in a chat format, byte for byte as its Jinja template would: turns alone (ChatML and
 * the like), alternating user and assistant with the system text inside a user turn (Llama 2, Mistral, Gemma), tool
 * turns and thinking (Qwen), a dated system turn (Llama 3.1). */
#include <string.h>

#include "base/unicode.h"
#include "text/chat_impl.h"

struct lh_chat_writer {
    const lh_chat_request *request;
    lh_chat_text *out;
};

const lh_chat_request *lh_chat_writer_request(const lh_chat_writer *w)
{
    return w->request;
}

lh_chat_text *lh_chat_writer_text(const lh_chat_writer *w)
{
    return w->out;
}

/* ---- writing ---- */

static lh_status add_piece(lh_chat_writer *w, lh_chat_piece piece)
{
    lh_chat_text *t = w->out;
    lh_chat_piece *last = t->n ? &t->pieces[t->n - 1] : NULL;
    if (last && !last->from_content && !piece.from_content) {
        last->bytes += piece.bytes;
        return LH_OK;
    }
    if (t->n == t->cap) {
        int64_t cap = t->cap ? 2 * t->cap : 16;
        LH_TRY(lh_realloc(&t->pieces, cap, sizeof *t->pieces));
        t->cap = cap;
    }
    t->pieces[t->n++] = piece;
    return LH_OK;
}

/* Text of the template; the placeholders of first and end token become those of the tokenizer. */
static lh_status put(lh_chat_writer *w, const char *text)
{
    int64_t start = w->out->text.bytes;
    for (; text && *text; text++) {
        const char *token = *text == *LH_CHAT_BOS ? w->request->bos : *text == *LH_CHAT_EOS ? w->request->eos : NULL;
        if (*text == *LH_CHAT_BOS || *text == *LH_CHAT_EOS)
            LH_TRY(lh_buf_puts(&w->out->text, token ? token : ""));
        else
            LH_TRY(lh_buf_append(&w->out->text, text, 1));
    }
    if (w->out->text.bytes > start) LH_TRY(add_piece(w, (lh_chat_piece){start, w->out->text.bytes - start, 0, -1, 0}));
    return LH_OK;
}

/* A slice of a message's contents. */
typedef struct slice {
    const char *start, *end;
} slice;

static lh_status put_slice(lh_chat_writer *w, int64_t message, slice s)
{
    int64_t start = w->out->text.bytes;
    LH_TRY(lh_buf_append(&w->out->text, s.start, s.end - s.start));
    LH_TRY(add_piece(
        w, (lh_chat_piece){start, s.end - s.start, 1, (int)message, s.start - w->request->messages[message].content}));
    return LH_OK;
}

/* A role. The user's file may name any, so special tokens are recognised in the usual ones only. */
static lh_status put_role(lh_chat_writer *w, const char *role)
{
    static const char *const usual[] = {"system", "user", "assistant", "tool", "developer", "model", "ipython"};
    int64_t start = w->out->text.bytes;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(role, usual[i]) == 0) {
            LH_TRY(put(w, role));
            return LH_OK;
        }
    LH_TRY(lh_buf_puts(&w->out->text, role));
    LH_TRY(add_piece(w, (lh_chat_piece){start, w->out->text.bytes - start, 1, -1, 0}));
    return LH_OK;
}

static slice whole(const lh_message *m)
{
    return (slice){m->content, m->content + strlen(m->content)};
}

static slice strip_left(slice s)
{
    uint32_t cp;
    int skip;
    while (s.start < s.end && lh_utf8_read(s.start, s.end - s.start, &cp, &skip) && lh_char_is_python_space(cp))
        s.start += skip;
    return s;
}

static slice strip_right(slice s)
{
    while (s.end > s.start) {
        const char *last = s.end - 1;
        uint32_t cp;
        int skip;
        while (last > s.start && ((unsigned char)*last & 0xC0) == 0x80) last--;
        if (!lh_utf8_read(last, s.end - last, &cp, &skip) || !lh_char_is_python_space(cp)) break;
        s.end = last;
    }
    return s;
}

static slice strip(slice s)
{
    return strip_right(strip_left(s));
}

static slice strip_newlines(slice s)
{
    while (s.start < s.end && *s.start == '\n') s.start++;
    while (s.end > s.start && s.end[-1] == '\n') s.end--;
    return s;
}

/* ---- turns ---- */

static const lh_chat_turn *turn_of(const lh_chat_format *f, const char *role)
{
    for (const lh_chat_turn *t = f->turns; t->open; t++)
        if (!t->role || strcmp(t->role, role) == 0) return t;
    return NULL;
}

static lh_status open_turn(lh_chat_writer *w, const lh_chat_turn *t, const char *role)
{
    LH_TRY(put(w, t->open));
    if (!t->role) LH_TRY(put_role(w, role));
    LH_TRY(put(w, t->middle));
    return LH_OK;
}

static lh_status put_turn(const lh_chat_format *f, lh_chat_writer *w, int64_t i)
{
    const lh_message *m = &w->request->messages[i];
    const lh_chat_turn *t = turn_of(f, m->role);
    if (!t || (t->skip_empty && !*m->content)) return LH_OK;
    LH_TRY(open_turn(w, t, m->role));
    LH_TRY(put_slice(w, i, t->trim ? strip(whole(m)) : whole(m)));
    LH_TRY(put(w, t->close));
    return LH_OK;
}

static int begins_with_system(const lh_chat_writer *w)
{
    return strcmp(w->request->messages[0].role, "system") == 0;
}

static lh_status put_default_system(const lh_chat_format *f, lh_chat_writer *w)
{
    if (!f->default_system || begins_with_system(w)) return LH_OK;
    const lh_chat_turn *t = turn_of(f, "system");
    LH_TRY(open_turn(w, t, "system"));
    LH_TRY(put(w, f->default_system));
    LH_TRY(put(w, t->close));
    return LH_OK;
}

static lh_status put_generation(const lh_chat_format *f, lh_chat_writer *w)
{
    return put(w, w->request->add_generation_prompt || f->always_generates ? f->generation : f->otherwise);
}

lh_status lh_chat_render_turns(const lh_chat_format *f, lh_chat_writer *w)
{
    LH_TRY(put(w, f->before));
    LH_TRY(put_default_system(f, w));
    for (int64_t i = 0; i < w->request->n; i++) LH_TRY(put_turn(f, w, i));
    LH_TRY(put_generation(f, w));
    return LH_OK;
}

/* ---- user and assistant alternate, the system text is part of a user turn ---- */

/* The turn that carries the system text. */
static lh_status put_joined_turn(const lh_chat_format *f, lh_chat_writer *w, int64_t i)
{
    const lh_message *m = &w->request->messages[i], *system = &w->request->messages[0];
    const lh_chat_turn *t = turn_of(f, m->role);
    slice content = whole(m);
    if (f->strip_joined)
        content = strip_right(content);
    else if (t->trim)
        content = strip(content);
    LH_TRY(open_turn(w, t, m->role));
    LH_TRY(put(w, f->system_open));
    LH_TRY(put_slice(w, 0, whole(system)));
    /* Stripping both together also strips the newlines of system_close when nothing follows them. */
    if (f->strip_joined && content.end == content.start)
        LH_TRY(put(w, "\n<</SYS>>"));
    else
        LH_TRY(put(w, f->system_close));
    LH_TRY(put_slice(w, i, content));
    LH_TRY(put(w, t->close));
    return LH_OK;
}

static int is_tool(const lh_message *m)
{
    return strcmp(m->role, "tool") == 0 || strcmp(m->role, "tool_results") == 0;
}

/* Some templates check all roles before they write; the others fail at the first bad one. */
static lh_status check_roles(const lh_chat_format *f, const lh_chat_writer *w, int64_t first)
{
    int64_t turns = 0;
    for (int64_t i = first; i < w->request->n; i++) {
        const lh_message *m = &w->request->messages[i];
        if (f->tools && is_tool(m)) continue;
        if (f->alternate && (strcmp(m->role, "user") == 0) != (turns++ % 2 == 0))
            LH_FAIL(LH_EINPUT, "%s", f->alternate);
        if (!f->tools && f->others && !turn_of(f, m->role)) LH_FAIL(LH_EINPUT, "%s", f->others);
    }
    for (int64_t i = first; f->tools && i < w->request->n; i++) {
        const lh_message *m = &w->request->messages[i];
        if (is_tool(m)) LH_FAIL(LH_EINPUT, "%s", f->tools);
        if (f->others && !turn_of(f, m->role)) LH_FAIL(LH_EINPUT, "%s", f->others);
    }
    return LH_OK;
}

lh_status lh_chat_render_alternating(const lh_chat_format *f, lh_chat_writer *w)
{
    int64_t first = begins_with_system(w) && (f->system == LH_CHAT_SYSTEM_FIRST || f->system == LH_CHAT_SYSTEM_LAST);
    int64_t carrier = f->system == LH_CHAT_SYSTEM_FIRST ? first : w->request->n - 1;
    if (begins_with_system(w) && f->system == LH_CHAT_SYSTEM_REFUSED) LH_FAIL(LH_EINPUT, "%s", f->refusal);
    LH_TRY(check_roles(f, w, first));
    LH_TRY(put(w, f->before));
    for (int64_t i = first; i < w->request->n; i++) {
        int joined = first && i == carrier && strcmp(w->request->messages[i].role, "user") == 0;
        LH_TRY(joined ? put_joined_turn(f, w, i) : put_turn(f, w, i));
    }
    LH_TRY(put_generation(f, w));
    return LH_OK;
}

/* ---- Qwen: tool turns and thinking ---- */

static int has_role(const lh_chat_writer *w, int64_t i, const char *role)
{
    return i >= 0 && i < w->request->n && strcmp(w->request->messages[i].role, role) == 0;
}

static lh_status put_tool(lh_chat_writer *w, int64_t i)
{
    if (!has_role(w, i - 1, "tool")) LH_TRY(put(w, "<|im_start|>user"));
    LH_TRY(put(w, "\n<tool_response>\n"));
    LH_TRY(put_slice(w, i, whole(&w->request->messages[i])));
    LH_TRY(put(w, "\n</tool_response>"));
    if (!has_role(w, i + 1, "tool")) LH_TRY(put(w, "<|im_end|>\n"));
    return LH_OK;
}

/* The last user message that is not the wrapped answer of a tool; the last message if there is none. */
static int64_t last_query(const lh_chat_writer *w)
{
    static const char open[] = "<tool_response>", close[] = "</tool_response>";
    for (int64_t i = w->request->n - 1; i >= 0; i--) {
        if (!has_role(w, i, "user")) continue;
        slice s = whole(&w->request->messages[i]);
        size_t n = (size_t)(s.end - s.start);
        int opens = strncmp(s.start, open, sizeof open - 1) == 0;
        int closes = n >= sizeof close - 1 && strcmp(s.end - (sizeof close - 1), close) == 0;
        if (!opens || !closes) return i;
    }
    return w->request->n - 1;
}

static const char *find_last(slice s, const char *text)
{
    const char *last = NULL;
    for (const char *at = strstr(s.start, text); at && at < s.end; at = strstr(at + strlen(text), text)) last = at;
    return last;
}

/* Thoughts are repeated only after the last query of the user. */
static lh_status put_thinking(const lh_chat_format *f, lh_chat_writer *w, int64_t i)
{
    static const char open[] = "<think>", close[] = "</think>";
    const lh_message *m = &w->request->messages[i];
    slice content = whole(m), thought = {m->content, m->content};
    const char *first_close = strstr(m->content, close);
    if (first_close) {
        thought.end = first_close;
        while (thought.end > thought.start && thought.end[-1] == '\n') thought.end--;
        const char *last_open = find_last(thought, open);
        if (last_open) thought.start = last_open + strlen(open);
        content.start = find_last(content, close) + strlen(close);
        while (content.start < content.end && *content.start == '\n') content.start++;
    }
    thought = strip_newlines(thought);
    LH_TRY(open_turn(w, turn_of(f, m->role), m->role));
    if (i > last_query(w) && (i == w->request->n - 1 || thought.end > thought.start)) {
        LH_TRY(put(w, "<think>\n"));
        LH_TRY(put_slice(w, i, thought));
        LH_TRY(put(w, "\n</think>\n\n"));
        while (content.start < content.end && *content.start == '\n') content.start++;
    }
    LH_TRY(put_slice(w, i, content));
    LH_TRY(put(w, "<|im_end|>\n"));
    return LH_OK;
}

lh_status lh_chat_render_tools(const lh_chat_format *f, lh_chat_writer *w)
{
    LH_TRY(put_default_system(f, w));
    for (int64_t i = 0; i < w->request->n; i++) {
        if (has_role(w, i, "tool"))
            LH_TRY(put_tool(w, i));
        else if (has_role(w, i, "assistant") && f->thinks)
            LH_TRY(put_thinking(f, w, i));
        else if (has_role(w, i, "assistant") || has_role(w, i, "user") || has_role(w, i, "system"))
            LH_TRY(put_turn(f, w, i));
    }
    LH_TRY(put_generation(f, w));
    return LH_OK;
}

/* ---- Llama 3.1 ---- */

/* The contents as a JSON string, as Python's json.dumps(ensure_ascii=False) writes it: how the template renders the
 * answer of a tool. */
static lh_status put_json(lh_chat_writer *w, int64_t i)
{
    static const char escaped[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    lh_buf *text = &w->out->text;
    int64_t start = text->bytes;
    LH_TRY(lh_buf_puts(text, "\""));
    for (const char *c = w->request->messages[i].content; *c; c++) {
        const char *found = strchr(escaped, *c);
        if (found)
            LH_TRY(lh_buf_printf(text, "\\%c", letters[found - escaped]));
        else if ((unsigned char)*c < 0x20)
            LH_TRY(lh_buf_printf(text, "\\u%04x", (unsigned)*c));
        else
            LH_TRY(lh_buf_append(text, c, 1));
    }
    LH_TRY(lh_buf_puts(text, "\""));
    LH_TRY(add_piece(w, (lh_chat_piece){start, text->bytes - start, 1, (int)i, 0}));
    return LH_OK;
}

/* The date is the template's fallback: today's would give other ids tomorrow. */
lh_status lh_chat_render_dated(const lh_chat_format *f, lh_chat_writer *w)
{
    int64_t first = begins_with_system(w);
    const lh_chat_turn *t = turn_of(f, "system");
    LH_TRY(put(w, f->before));
    LH_TRY(open_turn(w, t, "system"));
    LH_TRY(put(w, "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"));
    if (first) LH_TRY(put_slice(w, 0, strip(whole(&w->request->messages[0]))));
    LH_TRY(put(w, t->close));
    for (int64_t i = first; i < w->request->n; i++) {
        if (!has_role(w, i, "tool") && !has_role(w, i, "ipython")) {
            LH_TRY(put_turn(f, w, i));
            continue;
        }
        LH_TRY(open_turn(w, t, "ipython"));
        LH_TRY(put_json(w, i));
        LH_TRY(put(w, t->close));
    }
    LH_TRY(put_generation(f, w));
    return LH_OK;
}

lh_status lh_chat_render(const lh_chat_format *format, const lh_chat_request *request, lh_chat_text *out)
{
    lh_chat_writer w = {request, out};
    if (request->n < 1) LH_FAIL(LH_EINPUT, "a conversation needs at least one message");
    LH_TRY(format->render(format, &w));
    LH_TRY(lh_buf_append(&out->text, NULL, 0));
    return LH_OK;
}

lh_status lh_chat_begin_answer(lh_chat_text *text, const char *answer)
{
    lh_chat_writer w = {NULL, text};
    const int64_t start = text->text.bytes;
    LH_TRY(lh_buf_puts(&text->text, answer));
    return add_piece(&w, (lh_chat_piece){start, text->text.bytes - start, 1, -1, 0});
}
