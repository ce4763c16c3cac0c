/* cmd_chat.c - `chat`: questions typed and answers streamed, on one document whose cache is evicted once. Rank 0 reads
 * lines (chat_lines.h) and tells all ranks what to do next, one order at a time; while nobody types it tells them to
 * wait, several times a second, so that no rank waits in a collective for a person. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "cli/chat_lines.h"
#include "cli/cli.h"
#include "cli/policy_notes.h"
#include "cli/text_input.h"
#include "engine/chat_state.h"
#include "engine/conversation.h"
#include "engine/prompt.h"
#include "text/messages.h"

struct chat_options {
    const char *prompt, *prompt_file, *load_cache, *chat_template, *system;
    int64_t room, max_new;
};

struct values {
    lh_cli_common common;
    lh_engine_options engine;
    lh_policy_options policy;
    lh_sampling sampling;
    struct chat_options chat;
};

#define FIELD(member) LH_FIELD(struct chat_options, member)
static const lh_option chat_rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'f',
     .name = "prompt-file",
     FIELD(prompt_file),
     .arg = "FILE",
     .help = "File with the document that the session is about. Without one, the session is about nothing."},
    {.type = LH_OPT_STR, .letter = 'p', .name = "prompt", FIELD(prompt), .arg = "TEXT", .help = "The document itself."},
    {.type = LH_OPT_STR,
     .name = "load-cache",
     FIELD(load_cache),
     .arg = "FILE",
     .help = "Go on after a saved cache, with the policy and the chat format it was made with."},
    {.type = LH_OPT_STR, .name = "system", FIELD(system), .arg = "TEXT", .help = "System message."},
    {.type = LH_OPT_STR,
     .name = "chat-template",
     FIELD(chat_template),
     .arg = "NAME|FILE",
     .help =
         "Chat format: a name ('longhaul info' lists them), or a file with a Jinja template. Default: the model's."},
    {.type = LH_OPT_TOKENS,
     .letter = 'n',
     .name = "max-new",
     FIELD(max_new),
     .arg = "TOKENS",
     .def = "512",
     .min = 1,
     .max = 1 << 30,
     .help = "Maximum number of tokens of an answer."},
    {.type = LH_OPT_TOKENS,
     .name = "room",
     FIELD(room),
     .arg = "TOKENS",
     .def = "4096",
     .min = 2,
     .max = 1 << 30,
     .help = "Room for questions and answers after the document; less if the model has fewer positions."},
    {0}};
#undef FIELD
static const lh_option_table chat_table = {"session", chat_rows};

static const lh_option_group groups[] = {{&chat_table, offsetof(struct values, chat)},
                                         {&lh_cli_sampling_options, offsetof(struct values, sampling)},
                                         {&lh_cli_policy_options, offsetof(struct values, policy)},
                                         {&lh_cli_engine_options, offsetof(struct values, engine)},
                                         {&lh_cli_common_options, offsetof(struct values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"longhaul chat -m m.h5 -f book.txt --policy keydiff --pool avg --pool-size 15 --budget 50%",
     "ask about a document, with half of its cache"},
    {"mpirun --bind-to none -n 2 longhaul chat -m m.h5 -f book.txt", "on two ranks; rank 0 reads what is typed"},
    {"longhaul chat -m m.h5 --load-cache book.cache.h5 < questions.txt", "one question a line, from a file"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "chat",
    .usage = "-m FILE [-f FILE] [options]",
    .summary = "Ask about a document, question by question",
    .text = "The document is read once and its cache evicted; then every line is a question, and answers are streamed. "
            "Questions and answers follow each other; '/reset' goes back to the document alone, '/save FILE' saves the "
            "cache with the conversation so far, '/history' prints it, '/help' lists the commands. A line that ends "
            "with a backslash goes on in the next. Ctrl-C stops an answer, Ctrl-D ends the session.\n\nmpirun takes "
            "Ctrl-C for itself and ends all ranks: there, 'kill -USR2' of mpirun or of rank 0 stops an answer.",
    .groups = groups,
    .examples = examples};

/* ---- the session ---- */

typedef enum lh_chat_what { WAIT, ASK, SAVE, RESET, END } lh_chat_what;

/* What all ranks do next; bytes of text or number of ids that come with it. */
typedef struct order {
    int64_t what, n;
} order;

enum { WAIT_MS = 50 };

typedef struct session {
    struct values *v;
    lh_call *call;
    lh_policy policy;
    lh_profiles profiles;
    lh_engine *engine;
    lh_comm *comm;
    lh_conversation *conversation;
    lh_tokens ids, ends; /* of the order; that end an answer */
    lh_buf path;         /* of the order */
    char *record;
    uint64_t answered;
    struct talk *talk;
} session;

/* What rank 0 alone knows. */
typedef struct talk {
    lh_chat_lines lines;
    lh_chat_state chat, begun; /* now, and after the document */
    lh_messages history;
    lh_buf line, answer;
    lh_detokenizer decoder;
    lh_progress progress;
    lh_status failed;
    int end; /* 1: the input has ended, or '/quit' was typed */
} talk;

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
    LH_TRY_DONE(lh_cli_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status ask_save(session *s, const char *rest, order *o)
{
    s->path.bytes = 0;
    LH_TRY(lh_buf_puts(&s->path, rest));
    if (!*rest) {
        lh_warn("'/save' needs the name of a file: /save book.cache.h5");
    } else if (lh_file_is_same(rest, s->v->engine.model)) {
        lh_warn("'%s' is the model: name another file", rest);
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
    LH_TRY_DONE(lh_cli_write(text.data, text.bytes));
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

/* The question as the user's next turn. What its template refuses is said, and the session goes on. */
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
                                 .after_cache = 1,
                                 .after_answer = t->chat.answers};
    st = lh_prompt_encode(lh_engine_tokenizer(s->engine), &text, &none, &list);
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
    o->n = s->ids.n;
done:
    if (list) lh_tokens_clear(&list[0]);
    lh_free(list);
    lh_tokens_clear(&none);
    return st;
}

/* Cuts white space at both ends. */
static char *trimmed(lh_buf *line)
{
    char *text = line->data + strspn(line->data, " \t\r\n");
    for (char *end = text + strlen(text); end > text && strchr(" \t\r\n", end[-1]);) *--end = '\0';
    return text;
}

static lh_status take_line(session *s, order *o)
{
    char *text = trimmed(&s->talk->line);
    if ((int64_t)strlen(s->talk->line.data) < s->talk->line.bytes) {
        lh_warn("the line holds a zero byte: it is not text");
        return LH_OK;
    }
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
    if (lh_chat_end_asked()) LH_FAIL(LH_EINTERRUPTED, "interrupted");
    if (event == LH_CHAT_LINE) return take_line(s, o);
    if (event == LH_CHAT_INPUT_ENDED) o->what = END;
    if (event == LH_CHAT_STOPPED) {
        lh_chat_forget_stop();
        lh_info("no answer to stop: '/quit' or Ctrl-D ends the session");
    }
    return LH_OK;
}

/* ---- all ranks: the orders ---- */

static lh_status wait_for_more(session *s, const order *o)
{
    (void)s, (void)o;
    if (!lh_cli_first()) nanosleep(&(struct timespec){.tv_nsec = (WAIT_MS - 10) * 1000000}, NULL);
    return LH_OK;
}

/* Shows a token on rank 0, and stops the answer on all ranks when it was asked to there. */
static lh_status show_token(void *self, int32_t id, int *stop)
{
    session *s = self;
    if (lh_cli_first()) {
        talk *t = s->talk;
        const int64_t before = t->answer.bytes;
        if (t->failed == LH_OK) t->failed = lh_detokenizer_push(&t->decoder, id, &t->answer);
        if (t->failed == LH_OK && t->answer.bytes > before)
            t->failed = lh_cli_write(t->answer.data + before, t->answer.bytes - before);
        *stop = t->failed != LH_OK || lh_chat_stop_asked();
    }
    return lh_comm_bcast(s->comm, 0, stop, sizeof *stop);
}

/* What follows an answer on rank 0: the rest of its text, the end of its line. */
static lh_status finish_answer(session *s, int64_t tokens)
{
    talk *t = s->talk;
    const int64_t before = t->answer.bytes;
    LH_TRY(lh_detokenizer_finish(&t->decoder, &t->answer));
    LH_TRY(lh_buf_puts(&t->answer, "\n"));
    LH_TRY(lh_cli_write(t->answer.data + before, t->answer.bytes - before));
    t->answer.data[--t->answer.bytes] = '\0';
    LH_TRY(lh_messages_add(&t->history, "assistant", t->answer.data));
    t->chat.answers = 1;
    if (tokens == 1 && t->answer.bytes == 0) lh_info("the answer is empty: the model's first token ends it");
    if (lh_chat_stop_asked() && !lh_chat_end_asked()) lh_info("stopped");
    lh_chat_forget_stop();
    return LH_OK;
}

/* Rank 0's ids of the order, on all ranks. */
static lh_status share_ids(session *s, lh_tokens *ids, int64_t n)
{
    lh_status st = LH_OK;
    if (!lh_cli_first()) st = lh_realloc(&ids->ids, n, sizeof *ids->ids);
    LH_TRY(lh_comm_agree(s->comm, st));
    if (!lh_cli_first()) ids->cap = n;
    ids->n = n;
    return n ? lh_comm_bcast(s->comm, 0, ids->ids, n * (int64_t)sizeof *ids->ids) : LH_OK;
}

static lh_status answer(session *s, const order *o)
{
    lh_status st = LH_OK;
    lh_tokens ids = {0};
    lh_decode how = {
        .sampling = s->v->sampling, .max_new = s->v->chat.max_new, .ends = &s->ends, .self = s, .token = show_token};
    LH_TRY_DONE(share_ids(s, &s->ids, o->n));
    how.sampling.request += s->answered++;
    if (lh_cli_first()) {
        lh_detokenizer_clear(&s->talk->decoder);
        s->talk->decoder = (lh_detokenizer){.tok = lh_engine_tokenizer(s->engine)};
        s->talk->answer.bytes = 0;
        lh_chat_forget_stop();
    }
    st = lh_conversation_ask(s->conversation, &s->ids, &how, &ids);
    if (st == LH_EUSAGE) { /* the same on all ranks */
        if (lh_cli_first()) lh_warn("%s: '/reset' forgets the conversation, '--room' gives more", lh_error_message());
        if (lh_cli_first()) lh_messages_drop(&s->talk->history);
        lh_error_clear();
        st = LH_OK;
        goto done;
    }
    LH_TRY_DONE(st);
    if (lh_cli_first() && s->talk->failed == LH_OK) s->talk->failed = finish_answer(s, ids.n);
done:
    lh_tokens_clear(&ids);
    return st;
}

static lh_status save(session *s, const order *o)
{
    lh_status st = LH_OK;
    lh_buf chat = {0};
    if (!lh_cli_first()) st = lh_realloc(&s->path.data, o->n + 1, 1);
    if (!lh_cli_first() && st == LH_OK) s->path = (lh_buf){s->path.data, o->n, o->n + 1};
    if (lh_cli_first()) st = lh_chat_state_write(&s->talk->chat, &chat);
    LH_TRY_DONE(lh_comm_agree(s->comm, st));
    LH_TRY_DONE(lh_comm_bcast(s->comm, 0, s->path.data, o->n));
    s->path.data[o->n] = '\0';
    st = lh_conversation_save(s->conversation, s->path.data, s->record, chat.data);
    if (st == LH_EWRITE) {
        if (lh_cli_first()) lh_warn("%s", lh_error_message());
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
    if (!lh_cli_first()) return LH_OK;
    lh_messages_clear(&s->talk->history);
    s->talk->chat.answers = s->talk->begun.answers;
    lh_info("back to the document: %lld tokens, room for %lld more", (long long)lh_conversation_tokens(s->conversation),
            (long long)lh_conversation_room(s->conversation));
    return LH_OK;
}

static lh_status go_on(session *s)
{
    static lh_status (*const orders[])(session * s, const order *o) = {
        [WAIT] = wait_for_more, [ASK] = answer, [SAVE] = save, [RESET] = reset};
    lh_status st = LH_OK;
    for (order o = {WAIT, 0}; o.what != END;) {
        if (lh_cli_first()) st = next_order(s, &o);
        if (st != LH_OK) o.what = END;
        LH_TRY(lh_comm_bcast(s->comm, 0, &o, sizeof o));
        if (o.what != END) LH_TRY(orders[o.what](s, &o));
    }
    return lh_comm_agree(s->comm, st);
}

/* ---- the beginning ---- */

static lh_status check_options(session *s)
{
    const struct chat_options *c = &s->v->chat;
    static const lh_policy_parts none = {0};
    const lh_policy_options *p = &s->v->policy;
    const int given = p->policy || p->budget || memcmp(&p->parts, &none, sizeof none) != 0;
    if (c->load_cache && given)
        LH_FAIL(LH_EUSAGE, "a loaded cache continues with the policy it was made with: leave out '--policy', "
                           "'--budget' and the parts of a policy");
    if (c->prompt && c->prompt_file)
        LH_FAIL(LH_EUSAGE, "'--prompt' and '--prompt-file' both set the document: give one");
    if (c->load_cache && (c->prompt || c->prompt_file || c->system))
        LH_FAIL(LH_EUSAGE, "a loaded cache holds the document and the beginning of the chat: leave out '--%s'",
                c->system   ? "system"
                : c->prompt ? "prompt"
                            : "prompt-file");
    if (c->prompt_file && strcmp(c->prompt_file, "-") == 0)
        LH_FAIL(LH_EUSAGE, "standard input holds the questions: name a file with '--prompt-file'");
    s->v->policy.profiles = &s->profiles;
    LH_TRY(lh_policy_resolve(&s->policy, &s->v->policy));
    if (s->policy.proxies.kind == LH_PROXIES_QUESTION)
        LH_FAIL(LH_EUSAGE, "'--proxies question' evicts when the question is known, and here it comes later");
    return lh_sampling_check(&s->v->sampling);
}

/* Rank 0: the chat format, and the document as the beginning of the user's first turn. */
static lh_status begin_talk(session *s, lh_tokens *context)
{
    lh_status st = LH_OK;
    static const char *const question = "x"; /* what the document is cut off from */
    const struct chat_options *o = &s->v->chat;
    const lh_tokenizer *tok = lh_engine_tokenizer(s->engine);
    talk *t = s->talk;
    lh_tokens *list = NULL;
    lh_buf document = {0};
    lh_prompt_text text = {.chat = 1, .chat_template = o->chat_template, .system = o->system};
    if (!tok) LH_FAIL_DONE(LH_EUSAGE, "the model has no tokenizer: a chat needs text");
    if (o->load_cache) LH_TRY_DONE(lh_chat_state_read(&t->chat, o->load_cache));
    if (o->chat_template) lh_chat_close(t->chat.format);
    if (o->chat_template || !t->chat.format) LH_TRY_DONE(lh_prompt_format(tok, &text, &t->chat.format));
    lh_info("chat: %s", lh_chat_name(t->chat.format));
    t->begun = t->chat;
    LH_TRY_DONE(lh_buf_puts(&document, o->prompt ? o->prompt : ""));
    if (o->prompt_file) LH_TRY_DONE(lh_text_read(&document, o->prompt_file));
    text.format = t->chat.format;
    text.text = document.data;
    text.bytes = document.bytes;
    LH_TRY_DONE(lh_prompt_ends(tok, &text, &s->ends));
    if (o->load_cache) goto done;
    text.questions = &question;
    text.question_count = 1;
    LH_TRY_DONE(lh_prompt_encode(tok, &text, context, &list));
    if (context->n == 0)
        LH_FAIL_DONE(LH_EUSAGE,
                     "the chat format '%s' writes nothing before a question: give a document with "
                     "'--prompt-file'",
                     lh_chat_name(t->chat.format));
done:
    if (list) lh_tokens_clear(&list[0]);
    lh_free(list);
    lh_buf_clear(&document);
    return st;
}

static void show_prefill(void *self, int64_t done, int64_t total)
{
    talk *t = ((session *)self)->talk;
    if (!t) return;
    lh_progress_update(&t->progress, (int64_t)((double)done / (double)total * (double)t->progress.total));
    if (done >= total) lh_progress_clear(&t->progress);
}

static lh_status open_conversation(session *s)
{
    lh_status st = LH_OK;
    lh_tokens context = {0};
    int64_t n[2] = {0};
    if (lh_cli_first()) st = begin_talk(s, &context);
    LH_TRY_DONE(lh_comm_agree(s->comm, st));
    n[0] = context.n;
    n[1] = s->ends.n;
    LH_TRY_DONE(lh_comm_bcast(s->comm, 0, n, sizeof n));
    LH_TRY_DONE(share_ids(s, &context, n[0]));
    LH_TRY_DONE(share_ids(s, &s->ends, n[1]));
    if (!s->v->chat.load_cache) LH_TRY_DONE(lh_comm_agree(s->comm, lh_cli_note_policy(&s->policy, context.n, 1)));
    if (s->talk) lh_progress_init(&s->talk->progress, "reading", "tokens", context.n);
    LH_TRY_DONE(lh_conversation_open(&s->conversation, s->engine,
                                     &(lh_conversation_options){.context = context,
                                                                .load_cache = s->v->chat.load_cache,
                                                                .policy = &s->policy,
                                                                .profiles = &s->profiles,
                                                                .room = s->v->chat.room,
                                                                .seed = s->v->sampling.seed,
                                                                .self = s,
                                                                .prefill = show_prefill}));
    lh_info("%lld tokens read, room for %lld more; '/help' lists the commands, Ctrl-D ends the session",
            (long long)lh_conversation_tokens(s->conversation), (long long)lh_conversation_room(s->conversation));
done:
    lh_tokens_clear(&context);
    return st;
}

static lh_status open_engine(session *s)
{
    const char *const files[] = {s->v->engine.model, s->v->chat.load_cache, NULL};
    LH_TRY(lh_cli_record(s->call, &s->record));
    LH_TRY(lh_cli_open_world(s->call, files));
    LH_TRY(lh_cli_same_profiles(s->call, &s->profiles));
    LH_TRY(lh_engine_open(&s->engine, s->call->world, &s->v->engine));
    s->comm = lh_engine_get(s->engine)->comm;
    return LH_OK;
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

static lh_status run_chat(lh_call *call)
{
    lh_status st = LH_OK;
    talk t = {.lines = {.terminal = isatty(0)}};
    session s = {.call = call, .v = call->values, .talk = lh_cli_first() ? &t : NULL};
    LH_TRY_DONE(check_options(&s));
    LH_TRY_DONE(open_engine(&s));
    LH_TRY_DONE(open_conversation(&s));
    lh_chat_catch_signals();
    LH_TRY_DONE(go_on(&s));
done:
    close_talk(&t);
    lh_conversation_close(s.conversation);
    lh_engine_close(s.engine);
    lh_profiles_clear(&s.profiles);
    lh_tokens_clear(&s.ids);
    lh_tokens_clear(&s.ends);
    lh_buf_clear(&s.path);
    lh_free(s.record);
    return st;
}

const lh_command lh_command_chat = {&syntax, sizeof(struct values), run_chat, NULL};
