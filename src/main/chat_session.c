/* chat_session.c - the session of `chat`. Rank 0 reads lines and broadcasts what to do next, one order at a time;
 * while no line arrives, it broadcasts the order to wait several times a second, so that no rank waits in a collective
 * for a person. */
#include "main/chat_session.h"

#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/unicode.h"
#include "engine/prompt.h"
#include "shell/check_files.h"
#include "shell/shell.h"
#include "text/text_check.h"

typedef enum what { WAIT, ASK, SAVE, RESET, END } what;

/* What all ranks do next; bytes of the file's name that come with it. */
typedef struct order {
    int64_t what, n;
} order;

enum { WAIT_MS = 50 };

typedef lh_chat_session session;
typedef lh_chat_talk talk;

/* ---- commands ---- */

typedef lh_status (*command)(session *s, const char *rest, order *o);

static lh_status say_help(session *s, const char *rest, order *o);

static lh_status say_history(session *s, const char *rest, order *o)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    (void)rest, (void)o;
    for (int64_t i = 0; i < s->talk->history.n; i++)
        LH_TRY_DONE(lh_buf_printf(&text, "%s: %s\n", s->talk->history.at[i].role, s->talk->history.at[i].content));
    LH_TRY_DONE(lh_buf_printf(&text, "%lld tokens, room for %lld more\n",
                              (long long)lh_conversation_tokens(s->conversation),
                              (long long)lh_conversation_room(s->conversation)));
    LH_TRY_DONE(lh_shell_write_plain(&text));
done:
    lh_buf_clear(&text);
    return st;
}

/* *out: the option that names this file, which the session reads or writes; NULL: none. A loaded cache may be replaced.
 */
static lh_status find_user(const session *s, const char *path, const char **out)
{
    lh_named_file *files = NULL;
    int64_t n = 0;
    *out = NULL;
    LH_TRY(lh_options_files(s->options, &files, &n));
    for (int64_t i = 0; i < n; i++)
        if (strcmp(files[i].option, "load-cache") != 0 && lh_file_is_same(path, files[i].path)) *out = files[i].option;
    lh_free(files);
    return LH_OK;
}

static lh_status ask_save(session *s, const char *rest, order *o)
{
    const char *user = NULL;
    s->path.bytes = 0;
    LH_TRY(lh_buf_puts(&s->path, rest));
    if (*rest) LH_TRY(find_user(s, rest, &user));
    if (!*rest) {
        lh_warn("'/save' needs the name of a file: /save book.cache.h5");
    } else if (user) {
        lh_warn("'%s' is the file of '--%s': name another file", rest, user);
    } else if (lh_shell_check_replaced("/save", rest, "cache") != LH_OK) {
        lh_warn("%s", lh_error_message());
        lh_error_clear();
    } else {
        o->what = SAVE;
        o->n = s->path.bytes;
    }
    return LH_OK;
}

static lh_status ask_reset(session *s, const char *rest, order *o)
{
    (void)s, (void)rest;
    o->what = RESET;
    return LH_OK;
}

static lh_status ask_end(session *s, const char *rest, order *o)
{
    (void)rest, (void)o;
    s->talk->end = 1;
    return LH_OK;
}

static const struct {
    const char *name, *help;
    command run;
} commands[] = {{"/help", "lists these commands", say_help},
                {"/save", "FILE: saves the cache, with the conversation so far", ask_save},
                {"/reset", "forgets the conversation and goes back to the document", ask_reset},
                {"/history", "prints the conversation", say_history},
                {"/quit", "ends the session, as the end of the input does", ask_end}};

static lh_status say_help(session *s, const char *rest, order *o)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    (void)s, (void)rest, (void)o;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        LH_TRY_DONE(lh_buf_printf(&text, "%-9s %s\n", commands[i].name, commands[i].help));
    LH_TRY_DONE(lh_buf_puts(&text, "//…       a question that begins with a slash; every other line is a question\n"));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status run_typed_command(session *s, const char *line, order *o)
{
    const size_t bytes = strcspn(line, " \t");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *rest = line + bytes;
        if (strlen(commands[i].name) != bytes || memcmp(commands[i].name, line, bytes) != 0) continue;
        return commands[i].run(s, rest + strspn(rest, " \t"), o);
    }
    lh_warn("there is no command '%.*s': '/help' lists them, '//' begins a question with a slash",
            (int)(bytes < 40 ? bytes : 40), line);
    return LH_OK;
}

/* ---- rank 0: the next order ---- */

/* The question as the user's next turn. A question that is no text, or that the template refuses, is a warning, and
 * the session continues. */
static lh_status ask_question(session *s, const char *question, order *o)
{
    lh_status st = LH_OK;
    talk *t = s->talk;
    lh_tokens *list = NULL, none = {0};
    const lh_prompt_text text = {.text = "",
                                 .questions = &question,
                                 .question_count = 1,
                                 .chat = 1,
                                 .format = t->chat.format,
                                 .arguments = t->chat.arguments,
                                 .positions = lh_engine_get(s->engine)->config->max_positions,
                                 .after_cache = 1,
                                 .after_answer = t->chat.answers};
    st = lh_text_check("the question", question, (int64_t)strlen(question));
    if (st == LH_OK) st = lh_prompt_encode(lh_engine_tokenizer(s->engine), &text, &none, &list);
    if (st == LH_EINPUT || st == LH_EUSAGE) {
        lh_warn("%s", lh_error_message());
        lh_error_clear();
        st = LH_OK;
        goto done;
    }
    LH_TRY_DONE(st);
    LH_TRY_DONE(lh_messages_add(&t->history, "user", question));
    lh_tokens_clear(&s->ids);
    s->ids = list[0];
    list[0] = (lh_tokens){0};
    o->what = ASK;
done:
    if (list) lh_tokens_clear(&list[0]);
    lh_free(list);
    lh_tokens_clear(&none);
    return st;
}

/* Cuts white space at both ends of a line without zero bytes. */
static char *trimmed(lh_buf *line)
{
    char *text = line->data;
    while (lh_is_ascii_space(*text)) text++;
    for (char *end = line->data + line->bytes; end > text && lh_is_ascii_space(end[-1]);) *--end = '\0';
    return text;
}

static lh_status take_line(session *s, order *o)
{
    lh_buf *line = &s->talk->line;
    if (memchr(line->data, '\0', (size_t)line->bytes)) {
        lh_warn("the line holds a zero byte: it is not text");
        return LH_OK;
    }
    const char *text = trimmed(line);
    if (*text == '/' && text[1] != '/') return run_typed_command(s, text, o);
    return *text ? ask_question(s, *text == '/' ? text + 1 : text, o) : LH_OK;
}

static lh_status next_order(session *s, order *o)
{
    talk *t = s->talk;
    lh_chat_event event;
    *o = (order){WAIT, 0};
    LH_TRY(t->failed);
    if (!t->end) LH_TRY(lh_chat_next_line(&t->lines, WAIT_MS, &t->line, &event));
    if (t->end) event = LH_CHAT_INPUT_ENDED;
    if (lh_interrupt_asked()) LH_FAIL(LH_EINTERRUPTED, "interrupted");
    if (event == LH_CHAT_LINE) return take_line(s, o);
    if (event == LH_CHAT_INPUT_ENDED) o->what = END;
    if (event == LH_CHAT_STOPPED) {
        lh_interrupt_forget_stop();
        lh_info("no answer to stop: '/quit' or Ctrl-D ends the session");
    }
    return LH_OK;
}

/* ---- all ranks: the orders ---- */

static lh_status wait_for_more(session *s, const order *o)
{
    (void)s, (void)o;
    if (!lh_shell_first()) nanosleep(&(struct timespec){.tv_nsec = (WAIT_MS - 10) * 1000000}, NULL);
    return LH_OK;
}

static lh_thoughts parts_of(const talk *t, int64_t bytes, lh_text_stage stage)
{
    const char *text = t->answer.data ? t->answer.data : "";
    if (t->splits) return lh_thoughts_split(text, bytes, t->opened, stage);
    return (lh_thoughts){.content = text, .content_bytes = bytes};
}

/* Rank 0. Prints what is new among the first bytes of the answer; its thoughts to a terminal on stderr. */
static lh_status show_parts(talk *t, int64_t bytes, lh_text_stage stage)
{
    const lh_thoughts p = parts_of(t, bytes, stage);
    const int64_t shown = t->shown, shown_thoughts = t->shown_thoughts;
    t->shown = p.content_bytes;
    t->shown_thoughts = p.thoughts_bytes;
    if (p.thoughts_bytes > shown_thoughts)
        lh_shell_show(p.thoughts + shown_thoughts, p.thoughts_bytes - shown_thoughts);
    return p.content_bytes > shown ? lh_shell_write(p.content + shown, p.content_bytes - shown) : LH_OK;
}

/* Rank 0. Prints what has become final of the answer, which ends before a stop text. */
static lh_status show_text(session *s)
{
    talk *t = s->talk;
    t->stopped = lh_stops_cut(&s->stops, &t->answer, t->final, 0, &t->final);
    return show_parts(t, t->final, LH_TEXT_GROWS);
}

/* Shows a token on rank 0, and stops the answer on all ranks when it was asked to there. */
static lh_status show_token(void *self, int32_t id, int *stop)
{
    session *s = self;
    if (lh_shell_first()) {
        talk *t = s->talk;
        if (t->failed == LH_OK) t->failed = lh_detokenizer_push(&t->decoder, id, &t->answer);
        if (t->failed == LH_OK) t->failed = show_text(s);
        *stop = t->failed != LH_OK || t->stopped || lh_interrupt_stop_asked();
    }
    return lh_comm_bcast(s->comm, 0, stop, sizeof *stop);
}

/* What follows an answer on rank 0: the rest of its text, the end of its line. */
static lh_status finish_answer(session *s, int64_t tokens)
{
    talk *t = s->talk;
    if (!t->stopped) LH_TRY(lh_detokenizer_finish(&t->decoder, &t->answer));
    if (!t->stopped) lh_stops_cut(&s->stops, &t->answer, t->final, 0, &t->final);
    LH_TRY(lh_buf_puts(&t->answer, ""));
    LH_TRY(show_parts(t, t->answer.bytes, LH_TEXT_WHOLE));
    LH_TRY(lh_shell_write("\n", 1));
    const lh_thoughts p = parts_of(t, t->answer.bytes, LH_TEXT_WHOLE);
    if (p.thinks && !p.closed) lh_info("the answer ends within its thoughts: give it more tokens ('--max-new')");
    LH_TRY(lh_messages_add(&t->history, "assistant", p.content_bytes ? p.content : ""));
    t->chat.answers = 1;
    if (tokens == 1 && t->answer.bytes == 0 && !t->stopped)
        lh_info("the answer is empty: the model's first token ends it");
    if (lh_interrupt_stop_asked() && !lh_interrupt_asked()) lh_info("stopped");
    lh_interrupt_forget_stop();
    return LH_OK;
}

static lh_status answer(session *s, const order *o)
{
    lh_status st = LH_OK;
    (void)o;
    lh_tokens ids = {0};
    lh_decode how = {.sampling = s->sampling, .max_new = s->max_new, .ends = &s->ends, .self = s, .token = show_token};
    LH_TRY_DONE(lh_prompt_share(s->comm, &s->ids));
    how.sampling.request += s->answered++;
    if (lh_shell_first()) {
        lh_detokenizer_clear(&s->talk->decoder);
        s->talk->decoder = (lh_detokenizer){.tok = lh_engine_tokenizer(s->engine)};
        s->talk->answer.bytes = s->talk->final = s->talk->shown = s->talk->shown_thoughts = 0;
        s->talk->failed = lh_thoughts_opened(lh_engine_tokenizer(s->engine), &s->ids, &s->talk->opened);
        s->talk->stopped = 0;
        lh_interrupt_forget_stop();
    }
    st = lh_conversation_ask(s->conversation, &s->ids, &how, &ids);
    if (st == LH_EUSAGE) { /* the same on all ranks */
        if (lh_shell_first()) lh_warn("%s: '/reset' forgets the conversation, '--room' gives more", lh_error_message());
        if (lh_shell_first()) lh_messages_drop(&s->talk->history);
        lh_error_clear();
        st = LH_OK;
        goto done;
    }
    LH_TRY_DONE(st);
    if (lh_shell_first() && s->talk->failed == LH_OK) s->talk->failed = finish_answer(s, ids.n);
done:
    lh_tokens_clear(&ids);
    return st;
}

static lh_status save(session *s, const order *o)
{
    lh_status st = LH_OK;
    lh_buf chat = {0};
    if (!lh_shell_first()) st = lh_realloc(&s->path.data, o->n + 1, 1);
    if (!lh_shell_first() && st == LH_OK) s->path = (lh_buf){s->path.data, o->n, o->n + 1};
    if (lh_shell_first()) st = lh_chat_state_write(&s->talk->chat, &chat);
    LH_TRY_DONE(lh_comm_agree(s->comm, st));
    LH_TRY_DONE(lh_comm_bcast(s->comm, 0, s->path.data, o->n));
    s->path.data[o->n] = '\0';
    st = lh_conversation_save(s->conversation, s->path.data, s->record, chat.data);
    if (st == LH_EWRITE) {
        if (lh_shell_first()) lh_warn("%s", lh_error_message());
        lh_error_clear();
        st = LH_OK;
    } else if (st == LH_OK) {
        lh_info("saved to '%s': '--load-cache' goes on from here", s->path.data);
    }
done:
    lh_buf_clear(&chat);
    return st;
}

static lh_status reset(session *s, const order *o)
{
    (void)o;
    LH_TRY(lh_conversation_reset(s->conversation));
    if (!lh_shell_first()) return LH_OK;
    lh_messages_clear(&s->talk->history);
    s->talk->chat.answers = s->talk->begun.answers;
    lh_info("back to the document: %lld tokens, room for %lld more", (long long)lh_conversation_tokens(s->conversation),
            (long long)lh_conversation_room(s->conversation));
    return LH_OK;
}

lh_status lh_chat_go_on(session *s)
{
    static lh_status (*const orders[])(session * s, const order *o) = {
        [WAIT] = wait_for_more, [ASK] = answer, [SAVE] = save, [RESET] = reset};
    lh_status st = LH_OK;
    for (order o = {WAIT, 0}; o.what != END;) {
        if (lh_shell_first()) st = next_order(s, &o);
        if (st != LH_OK) o.what = END;
        LH_TRY(lh_comm_bcast(s->comm, 0, &o, sizeof o));
        if (o.what != END) LH_TRY(orders[o.what](s, &o));
    }
    return lh_comm_agree(s->comm, st);
}

static void close_talk(talk *t)
{
    lh_progress_clear(&t->progress);
    lh_chat_lines_clear(&t->lines);
    lh_chat_state_clear(&t->chat);
    lh_messages_clear(&t->history);
    lh_buf_clear(&t->line);
    lh_buf_clear(&t->answer);
    lh_detokenizer_clear(&t->decoder);
}

void lh_chat_session_clear(session *s)
{
    if (s->talk) close_talk(s->talk);
    lh_conversation_close(s->conversation);
    lh_tokens_clear(&s->ids);
    lh_tokens_clear(&s->ends);
    lh_buf_clear(&s->path);
}
