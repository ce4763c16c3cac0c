/* cmd_chat.c - `chat`: questions typed and answers streamed, on one document. Its cache is evicted once. This file has
 * the options and the start of the session; chat_session.c has the session. */
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/plan.h"
#include "engine/prompt_fit.h"
#include "engine/world.h"
#include "main/chat_session.h"
#include "shell/chat_options.h"
#include "shell/policy_options.h"
#include "shell/shell.h"

struct chat_options {
    const char *prompt, *prompt_file, *load_cache, *system, *truncate;
    int64_t room, max_new;
    int keep_thinking;
    lh_strings stops;
};

struct values {
    lh_shell_common common;
    lh_engine_options engine;
    lh_policy_options policy;
    lh_sampling sampling;
    struct chat_options chat;
    lh_shell_chat format;
    lh_context_store_options store;
};

#define FIELD(member) LH_FIELD(struct chat_options, member)
static const lh_option chat_rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'f',
     .name = "prompt-file",
     FIELD(prompt_file),
     .arg = "FILE",
     .help = "File with the document that the session is about. Without one, the session has no document."},
    {.type = LH_OPT_STR, .letter = 'p', .name = "prompt", FIELD(prompt), .arg = "TEXT", .help = "The document itself."},
    {.type = LH_OPT_STR,
     .name = "load-cache",
     FIELD(load_cache),
     .arg = "FILE",
     .help = "Continue a saved cache, with its policy and chat format."},
    {.type = LH_OPT_STR, .name = "system", FIELD(system), .arg = "TEXT", .help = "System message."},
    {.type = LH_OPT_TOKENS,
     .letter = 'n',
     .name = "max-new",
     FIELD(max_new),
     .arg = "TOKENS",
     .def = "512",
     .min = 1,
     .max = 1 << 30,
     .help = "Maximum number of tokens of an answer."},
    {.type = LH_OPT_LIST,
     .name = "stop",
     FIELD(stops),
     .arg = "TEXT",
     .help = "Stop sequence: end an answer before this text, or at this special token."},
    {LH_SHELL_TRUNCATE, FIELD(truncate)},
    {LH_SHELL_KEEP_THINKING, FIELD(keep_thinking)},
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
                                         {&lh_shell_chat_options, offsetof(struct values, format)},
                                         {&lh_shell_sampling_options, offsetof(struct values, sampling)},
                                         {&lh_shell_policy_options, offsetof(struct values, policy)},
                                         {&lh_shell_engine_options, offsetof(struct values, engine)},
                                         {&lh_shell_context_store_options, offsetof(struct values, store)},
                                         {&lh_shell_common_options, offsetof(struct values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"longhaul chat -m m.h5 -f book.txt --budget 20%", "ask about a document, with a fifth of its cache"},
    {"mpirun --bind-to none -n 2 longhaul chat -m m.h5 -f book.txt", "on two ranks; rank 0 reads what is typed"},
    {"longhaul chat -m m.h5 --load-cache book.cache.h5 < questions.txt", "one question a line, from a file"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "chat",
    .usage = "-m FILE [-f FILE] [options]",
    .summary = "Ask about a document, question by question",
    .text = "The document is read once and its cache evicted; then every line is a question, and answers are streamed. "
            "Without --policy a budget selects ask-later, which keeps what any question may need. Questions and "
            "answers follow each other; '/reset' goes back to the document alone, '/save FILE' saves the "
            "cache with the conversation so far, '/history' prints it, '/help' lists the commands. A line that ends "
            "with a backslash goes on in the next. Ctrl-C stops an answer, Ctrl-D ends the session. "
            "What is typed during an answer waits for the next prompt.\n\nmpirun takes "
            "Ctrl-C for itself and ends all ranks: there, 'kill -USR2' of mpirun or of rank 0 stops an answer.",
    .groups = groups,
    .examples = examples};

/* ---- the beginning ---- */

typedef struct run {
    struct values *v;
    lh_call *call;
    lh_policy policy;
    lh_profiles profiles; /* those that the policy names */
    char *record;
    lh_context_store *store;
    lh_chat_session session;
} run;

static lh_status check_options(run *r)
{
    const struct chat_options *c = &r->v->chat;
    LH_TRY(lh_shell_check_loaded(&r->v->policy, c->load_cache));
    LH_TRY(lh_shell_check_store(&r->v->store));
    if (c->load_cache && r->v->store.folder)
        LH_FAIL(LH_EUSAGE, "'--context-cache' is where the document's cache may be, and '--load-cache' names one: give "
                           "one of them");
    if (c->prompt && c->prompt_file)
        LH_FAIL(LH_EUSAGE, "'--prompt' and '--prompt-file' both set the document: give one");
    if (c->load_cache && (c->prompt || c->prompt_file || c->system))
        LH_FAIL(LH_EUSAGE, "a loaded cache holds the document and the beginning of the chat: leave out '--%s'",
                c->system   ? "system"
                : c->prompt ? "prompt"
                            : "prompt-file");
    if (c->load_cache && c->truncate)
        LH_FAIL(LH_EUSAGE, "'--truncate' shortens a document, and a loaded cache has read it: leave it out");
    if (c->prompt_file && strcmp(c->prompt_file, "-") == 0)
        LH_FAIL(LH_EUSAGE, "standard input holds the questions: name a file with '--prompt-file'");
    r->v->policy.profiles = &r->profiles;
    r->v->policy.asked = LH_ASKED_LATER;
    LH_TRY(lh_policy_resolve(&r->policy, &r->v->policy));
    if (r->policy.proxies.kind == LH_PROXIES_QUESTION)
        LH_FAIL(LH_EUSAGE, "'--proxies question' evicts when the question is known, and here it comes later");
    LH_TRY(lh_shell_check_stops(&c->stops));
    return lh_sampling_check(&r->v->sampling);
}

/* Rank 0: the chat format and the variables of its template, of the options or of the loaded cache. */
static lh_status choose_format(const run *r, const lh_tokenizer *tok, const lh_prompt_text *text, lh_chat_state *chat)
{
    lh_status st = LH_OK;
    const lh_shell_chat *o = &r->v->format;
    json_t *given = NULL;
    if (r->v->chat.load_cache) LH_TRY_DONE(lh_chat_state_read(chat, r->v->chat.load_cache));
    if (o->format) lh_chat_close(chat->format);
    if (o->format || !chat->format) LH_TRY_DONE(lh_prompt_format(tok, text, &chat->format));
    lh_info("chat: %s", lh_chat_name(chat->format));
    LH_TRY_DONE(lh_shell_template_arguments(o, &given));
    lh_shell_warn_of_arguments(chat->format, given);
    LH_TRY_DONE(lh_chat_state_arguments(chat, given));
done:
    json_decref(given);
    return st;
}

/* Rank 0: the chat format, and the document as the beginning of the user's first turn. */
static lh_status begin_talk(run *r, lh_tokens *context)
{
    lh_status st = LH_OK;
    static const char *const question = "x"; /* the document ends before it */
    const struct chat_options *o = &r->v->chat;
    const lh_tokenizer *tok = lh_engine_tokenizer(r->session.engine);
    lh_chat_talk *t = r->session.talk;
    lh_tokens *list = NULL;
    lh_buf document = {0}, said = {0};
    const int64_t positions = lh_engine_get(r->session.engine)->config->max_positions;
    const lh_prompt_limit limit = {o->truncate, positions - o->room};
    lh_prompt_cut cut;
    lh_prompt_text text = {.chat = 1,
                           .chat_template = r->v->format.format,
                           .system = o->system,
                           .positions = positions,
                           .stops = r->session.stops};
    if (!tok) LH_FAIL_DONE(LH_EUSAGE, "the model has no tokenizer: a chat needs text");
    LH_TRY_DONE(choose_format(r, tok, &text, &t->chat));
    t->begun = t->chat;
    LH_TRY_DONE(lh_buf_puts(&document, o->prompt ? o->prompt : ""));
    if (o->prompt_file) LH_TRY_DONE(lh_text_read(&document, o->prompt_file));
    if (o->prompt_file && document.bytes == 0)
        LH_FAIL_DONE(LH_EINPUT, "the document is empty: nothing was read from '%s'", o->prompt_file);
    text.format = t->chat.format;
    text.arguments = t->chat.arguments;
    text.text = document.data;
    text.bytes = document.bytes;
    LH_TRY_DONE(lh_prompt_ends(tok, &text, &r->session.ends));
    if (o->load_cache) goto done;
    text.questions = &question;
    text.question_count = 1;
    LH_TRY_DONE(lh_prompt_encode_within(tok, &text, &limit, context, &list, &cut));
    if (cut.left_out) LH_TRY_DONE(lh_prompt_cut_text(&said, &limit, &cut));
    if (said.bytes)
        lh_warn("%s, to fit the %lld positions of the model with '--room %lld'", said.data, (long long)positions,
                (long long)o->room);
    if (context->n == 0)
        LH_FAIL_DONE(LH_EUSAGE,
                     "the chat format '%s' writes nothing before a question: give a document with "
                     "'--prompt-file'",
                     lh_chat_name(t->chat.format));
done:
    if (list) lh_tokens_clear(&list[0]);
    lh_free(list);
    lh_buf_clear(&document);
    lh_buf_clear(&said);
    return st;
}

/* Collective. Before the session begins, a signal of any rank ends the run on all of them. */
static lh_status look_for_interrupt(run *r)
{
    if (!lh_shell_interrupted(r->session.comm)) return LH_OK;
    if (r->session.talk) lh_progress_clear(&r->session.talk->progress);
    lh_warn("interrupted before the first question");
    LH_FAIL(LH_EINTERRUPTED, "interrupted before the first question");
}

static lh_status show_prefill(void *self, int64_t done, int64_t total)
{
    run *r = self;
    lh_chat_talk *t = r->session.talk;
    const lh_config *config = lh_engine_get(r->session.engine)->config;
    if (t)
        lh_progress_update(&t->progress, (int64_t)(lh_plan_prefill_share(config, t->progress.total, done) *
                                                   (double)t->progress.total));
    if (t && done >= total) lh_progress_clear(&t->progress);
    return look_for_interrupt(r);
}

static lh_status open_conversation(run *r)
{
    lh_status st = LH_OK;
    lh_tokens context = {0};
    if (lh_shell_first()) st = begin_talk(r, &context);
    LH_TRY_DONE(lh_comm_agree(r->session.comm, st));
    LH_TRY_DONE(lh_prompt_share(r->session.comm, &context));
    LH_TRY_DONE(lh_prompt_share(r->session.comm, &r->session.ends));
    if (!r->v->chat.load_cache)
        LH_TRY_DONE(lh_comm_agree(r->session.comm, lh_shell_note_policy(&r->policy, context.n, LH_ASKED_LATER)));
    if (r->session.talk) lh_progress_init(&r->session.talk->progress, "reading", "tokens", context.n);
    LH_TRY_DONE(lh_conversation_open(&r->session.conversation, r->session.engine,
                                     &(lh_conversation_options){.context = context,
                                                                .load_cache = r->v->chat.load_cache,
                                                                .policy = &r->policy,
                                                                .profiles = &r->profiles,
                                                                .store = r->store,
                                                                .room = r->v->chat.room,
                                                                .seed = r->v->sampling.seed,
                                                                .self = r,
                                                                .prefill = show_prefill}));
    lh_info("%lld tokens read, room for %lld more; '/help' lists the commands, Ctrl-D ends the session",
            (long long)lh_conversation_tokens(r->session.conversation),
            (long long)lh_conversation_room(r->session.conversation));
done:
    lh_tokens_clear(&context);
    return st;
}

static lh_status open_engine(run *r)
{
    const char *const files[] = {r->v->engine.model, r->v->chat.load_cache, NULL};
    LH_TRY(lh_shell_record(r->call, &r->record));
    LH_TRY(lh_shell_open_world(r->call, files));
    LH_TRY(lh_shell_same_policies(r->call, &r->profiles));
    lh_interrupt_begin();
    LH_TRY(lh_engine_open_on(&r->session.engine, lh_world_comm(r->call->world), &r->v->engine));
    LH_TRY(lh_engine_size_policy(r->session.engine, &r->policy));
    LH_TRY(lh_context_store_open(&r->store, r->session.engine, &r->v->store,
                                 (lh_context_store_about){r->v->engine.model, r->record}));
    r->session.record = r->record;
    r->session.comm = lh_engine_get(r->session.engine)->comm;
    return LH_OK;
}

static lh_status run_chat(lh_call *call)
{
    lh_status st = LH_OK;
    struct values *v = call->values;
    lh_chat_talk talk = {.lines = {.terminal = isatty(0)}, .splits = !v->chat.keep_thinking};
    run r = {.call = call,
             .v = v,
             .session = {.options = call->options,
                         .sampling = v->sampling,
                         .max_new = v->chat.max_new,
                         .stops = {v->chat.stops.at, v->chat.stops.n},
                         .talk = lh_shell_first() ? &talk : NULL}};
    lh_interrupt_ignore_stop();
    LH_TRY_DONE(check_options(&r));
    LH_TRY_DONE(open_engine(&r));
    LH_TRY_DONE(open_conversation(&r));
    if (r.session.talk) LH_TRY_DONE(lh_line_editor_open(&talk.lines.editor));
    lh_interrupt_begin_session();
    LH_TRY_DONE(look_for_interrupt(&r)); /* of what came since the last look */
    LH_TRY_DONE(lh_chat_go_on(&r.session));
done:
    lh_chat_session_clear(&r.session);
    lh_context_store_close(r.store);
    lh_engine_close(r.session.engine);
    lh_profiles_clear(&r.profiles);
    lh_free(r.record);
    return st;
}

const lh_command lh_command_chat = {&syntax, sizeof(struct values), run_chat, NULL};
