/* generate_input.c - prompt and questions of `generate`: reads options and files as text, and encodes text as token
 * ids. */
#include "main/generate_input.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/minmax.h"
#include "engine/prompt.h"
#include "shell/shell.h"
#include "text/text_check.h"
#include "text/thoughts.h"

#define FIELD(member) LH_FIELD(lh_input_options, member)
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'p',
     .name = "prompt",
     FIELD(prompt),
     .arg = "TEXT",
     .help = "The prompt, or with --prompt-file the question about that document. Default: standard input."},
    {.type = LH_OPT_STR,
     .letter = 'f',
     .name = "prompt-file",
     FIELD(prompt_file),
     .arg = "FILE",
     .help = "File with the prompt, used unchanged; '-' is standard input. With --prompt: the document that is asked "
             "about, '--scenario question-aware' unless stated otherwise."},
    {.type = LH_OPT_STR,
     .name = "prompt-tokens",
     .detail = 1,
     FIELD(prompt_tokens),
     .arg = "FILE",
     .help = "File with token ids, separated by white space, instead of text. No begin-of-sequence token is added."},
    {.type = LH_OPT_STR,
     .name = "messages",
     FIELD(messages),
     .arg = "FILE",
     .help = "Conversation of several turns as JSON: [{\"role\": \"user\", \"content\": \"…\"}, …], or an object with "
             "such an array as \"messages\"; '-' is standard input."},
    {.type = LH_OPT_FLAG,
     .name = "continue-final-message",
     .detail = 1,
     FIELD(continues_turn),
     .help = "Continue the last message of --messages, such as the beginning of an answer, in place of a new turn."},
    {.type = LH_OPT_LIST,
     .name = "question",
     FIELD(questions),
     .arg = "TEXT",
     .help = "Evict after the prompt alone, then answer this question; each starts from the same cache ('--scenario' "
             "changes that)."},
    {.type = LH_OPT_LIST,
     .name = "question-file",
     FIELD(question_files),
     .arg = "FILE",
     .help = "File with one question; asked after the questions of --question."},
    {.type = LH_OPT_STR,
     .name = "questions",
     FIELD(question_list),
     .arg = "FILE",
     .help = "File with one question a line; '-' is standard input."},
    {.type = LH_OPT_ENUM,
     .name = "scenario",
     FIELD(scenario),
     .def = "context-only",
     .choices = lh_scenario_names,
     .help = "question-aware: the only question is the end of the prompt, and policies that observe it see it before "
             "they evict; '--proxies question' implies it. context-only: it comes after the eviction."},
    {.type = LH_OPT_SWITCH,
     .name = "chat",
     FIELD(chat),
     .def = "auto",
     .choices = lh_shell_chat_choices,
     .help = "Put prompt and question into the user's turn of the model's chat format. auto: if the model has one and "
             "the prompt is text that is not rendered in it yet; after a loaded cache, as it was saved."},
    {.type = LH_OPT_STR, .name = "system", FIELD(system), .arg = "TEXT", .help = "System message."},
    {LH_SHELL_TRUNCATE, FIELD(truncate)},
    {.type = LH_OPT_STR,
     .name = "force-tokens",
     .detail = 1,
     FIELD(force_tokens),
     .arg = "FILE",
     .help = "Teacher forcing: file with ids to feed instead of the generated ones."},
    {0}};
#undef FIELD
const lh_option_table lh_input_option_table = {"prompt", rows};

int lh_input_is_pair(const lh_input_options *in)
{
    return in->prompt && in->prompt_file;
}

int64_t lh_input_questions(const lh_input_options *in)
{
    return in->questions.n + in->question_files.n + lh_input_is_pair(in) + (in->question_list ? 2 : 0);
}

lh_status lh_input_check(const lh_options *options, const lh_input_options *in, const lh_shell_chat *chat)
{
    static const char *const texts[] = {"prompt", "prompt-file", "prompt-tokens", "messages"};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!lh_options_given(options, texts[i])) continue;
        if (first && !(lh_input_is_pair(in) && i == 1))
            LH_FAIL(LH_EUSAGE, "'--%s' and '--%s' both set the prompt: give one", first, texts[i]);
        first = texts[i];
    }
    int on = strcmp(in->chat, "on") == 0 || chat->format, off = strcmp(in->chat, "off") == 0;
    const char *const rendered[][2] = {{"chat-template", chat->format},
                                       {"template-arg", chat->arguments.n ? chat->arguments.at[0] : NULL},
                                       {"system", in->system},
                                       {"messages", in->messages}};
    for (size_t i = 0; i < sizeof rendered / sizeof *rendered; i++)
        if (off && rendered[i][1])
            LH_FAIL(LH_EUSAGE, "'--%s' has no effect with '--chat=off': leave one of them out", rendered[i][0]);
    if (in->prompt_tokens && (on || in->system))
        LH_FAIL(LH_EUSAGE, "'--prompt-tokens' are ids already and '--%s' renders text: give one of them",
                in->system ? "system" : "chat");
    if (in->continues_turn && (!in->messages || lh_input_questions(in)))
        LH_FAIL(LH_EUSAGE, "'--continue-final-message' continues the last of '--messages': give that option, and no "
                           "question");
    if (in->messages && in->system)
        LH_FAIL(LH_EUSAGE, "'--messages' and '--system' both begin the chat: give the system message as the first of "
                           "the messages");
    return LH_OK;
}

/* Appends a copy. */
static lh_status add_question(lh_input *out, const char *text)
{
    LH_TRY(lh_realloc(&out->questions, out->n + 1, sizeof *out->questions));
    LH_TRY(lh_strdup(&out->questions[out->n], text));
    out->n++;
    return LH_OK;
}

/* The question of an option. */
static lh_status add_given(lh_input *out, const char *option, const char *text)
{
    if (!*text) LH_FAIL(LH_EUSAGE, "the question is empty: '--%s' got no text", option);
    LH_TRY(lh_text_check("the question", text, (int64_t)strlen(text)));
    return add_question(out, text);
}

/* Lines of a file from which somebody may have meant each to be a question. */
enum { MANY_LINES = 3 };

static lh_status read_question_file(lh_input *out, const char *path)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    int64_t lines = 1;
    LH_TRY_DONE(lh_text_read(&text, path));
    while (text.bytes && (text.data[text.bytes - 1] == '\n' || text.data[text.bytes - 1] == '\r'))
        text.data[--text.bytes] = '\0';
    if ((int64_t)strlen(text.data) < text.bytes)
        LH_FAIL_DONE(LH_EINPUT, "'%s' holds a zero byte: it is not text", path);
    if (!text.bytes) LH_FAIL_DONE(LH_EINPUT, "the question is empty: '%s' holds no text", path);
    for (int64_t i = 0; i < text.bytes; i++) lines += text.data[i] == '\n';
    if (lines >= MANY_LINES)
        lh_warn("the %lld lines of '%s' are one question: '--questions %s' asks one a line", (long long)lines, path,
                path);
    LH_TRY_DONE(add_question(out, text.data));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status read_question_list(lh_input *out, const char *path)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    char **lines = NULL;
    int64_t n = 0;
    LH_TRY_DONE(lh_text_read(&text, path));
    if ((int64_t)strlen(text.data) < text.bytes)
        LH_FAIL_DONE(LH_EINPUT, "'%s' holds a zero byte: it is not text", path);
    LH_TRY_DONE(lh_text_lines(&text, &lines, &n));
    if (n == 0) LH_FAIL_DONE(LH_EINPUT, "'%s' holds no question: it must have one a line", path);
    for (int64_t i = 0; i < n; i++) LH_TRY_DONE(add_question(out, lines[i]));
done:
    for (int64_t i = 0; i < n; i++) lh_free(lines[i]);
    lh_free(lines);
    lh_buf_clear(&text);
    return st;
}

static lh_status read_questions(lh_input *out)
{
    const lh_input_options *in = out->options;
    if (lh_input_is_pair(in)) LH_TRY(add_given(out, "prompt", in->prompt));
    for (int64_t i = 0; i < in->questions.n; i++) LH_TRY(add_given(out, "question", in->questions.at[i]));
    for (int64_t i = 0; i < in->question_files.n; i++) LH_TRY(read_question_file(out, in->question_files.at[i]));
    if (in->question_list) LH_TRY(read_question_list(out, in->question_list));
    return LH_OK;
}

static lh_status read_prompt_file(lh_input *out)
{
    const lh_input_options *in = out->options;
    const char *path = in->prompt_file ? in->prompt_file : "-";
    if (strcmp(path, "-") == 0 && isatty(0)) lh_info("reading the prompt from the terminal, Ctrl-D ends it");
    LH_TRY(lh_text_read(&out->prompt, path));
    /* a document that is empty is a mistake also where there is a question about it */
    if (out->prompt.bytes == 0 && (in->prompt_file || lh_input_questions(in) == 0))
        LH_FAIL(LH_EINPUT, "the prompt is empty: nothing was read from %s%s%s", in->prompt_file ? "'" : "",
                in->prompt_file ? path : "standard input", in->prompt_file ? "'" : "");
    return LH_OK;
}

lh_status lh_input_read(lh_input *out)
{
    const lh_input_options *in = out->options;
    if (!lh_shell_first()) return LH_OK;
    if (in->messages) {
        LH_TRY(lh_messages_read(&out->messages, in->messages));
        if (!out->keep_thinking)
            LH_TRY(lh_messages_split(&out->messages, out->messages.n - (in->continues_turn ? 1 : 0)));
    } else if (in->prompt_file || (!in->prompt && !in->prompt_tokens && !out->load_cache)) {
        LH_TRY(read_prompt_file(out));
    } else if (in->prompt) {
        LH_TRY(lh_buf_puts(&out->prompt, in->prompt));
        LH_TRY(lh_text_check("the prompt", out->prompt.data, out->prompt.bytes));
        if (!*in->prompt && lh_input_questions(in) == 0)
            LH_FAIL(LH_EUSAGE, "the prompt is empty: '--prompt' got no text");
    }
    return read_questions(out);
}

void lh_input_clear(lh_input *input)
{
    lh_buf_clear(&input->prompt);
    lh_messages_clear(&input->messages);
    for (int64_t i = 0; input->questions && i < input->n; i++) lh_free(input->questions[i]);
    lh_free(input->questions);
    *input = (lh_input){0};
}

/* --chat auto: as the loaded cache, or as the model has it. */
static lh_status choose_format(const lh_input *input, const lh_prompt_text *text, const lh_tokenizer *tok,
                               lh_chat_state *chat)
{
    if (input->options->prompt_tokens)
        lh_chat_state_clear(chat); /* token ids continue a loaded cache without a chat format */
    if (input->load_cache) {
        if (chat->format)
            lh_info("chat: %s, as the cache was saved ('--chat=off': plain text)", lh_chat_name(chat->format));
        return LH_OK;
    }
    if (input->options->prompt_tokens) return LH_OK;
    LH_TRY(lh_prompt_auto_format(tok, text, &chat->format));
    if (chat->format)
        lh_info("chat: %s, the format of the model ('--chat=off': plain text)", lh_chat_name(chat->format));
    return LH_OK;
}

/* Rank 0. The chat format of the run: NULL in *chat if it has none. */
static lh_status choose_chat(const lh_input *input, const lh_prompt_text *text, const lh_tokenizer *tok,
                             lh_chat_state *chat)
{
    const lh_input_options *in = input->options;
    int off = strcmp(in->chat, "off") == 0;
    if (input->load_cache && !off) LH_TRY(lh_chat_state_read(chat, input->load_cache));
    if (off) return LH_OK;
    if (input->chat->format) lh_chat_close(chat->format);
    if (input->chat->format || (strcmp(in->chat, "on") == 0 && !chat->format))
        return lh_prompt_format(tok, text, &chat->format);
    if (strcmp(in->chat, "on") == 0) return LH_OK;
    return choose_format(input, text, tok, chat);
}

/* The variables of the template, of the options or of the loaded cache. */
static lh_status choose_arguments(const lh_input *input, lh_chat_state *chat)
{
    json_t *given = NULL;
    lh_status st = lh_shell_template_arguments(input->chat, &given);
    if (st == LH_OK) lh_shell_warn_of_arguments(chat->format, given);
    if (st == LH_OK) st = lh_chat_state_arguments(chat, given);
    json_decref(given);
    return st;
}

/* The prompt and its questions, truncated where that is asked for and the model has too few positions. */
static lh_status encode_prompt(const lh_input *input, const lh_engine *engine, const lh_prompt_text *text,
                               lh_input_ids *out)
{
    lh_status st = LH_OK;
    const lh_input_options *in = input->options;
    const lh_tokenizer *tok = lh_engine_tokenizer(engine);
    const lh_config *c = lh_engine_get(engine)->config;
    lh_prompt_limit limit = {in->truncate, c->max_positions - input->max_new};
    lh_tokens none = {0}; /* context of the questions when the prompt is ids: only questions are text */
    lh_buf said = {0};
    if (in->prompt_tokens) LH_TRY_DONE(lh_prompt_ids(in->prompt_tokens, c->vocab, &out->prompt));
    if (in->prompt_tokens && out->prompt.n == 0 && input->n == 0)
        LH_FAIL_DONE(LH_EINPUT, "the prompt is empty: '%s' holds no token ids", in->prompt_tokens);
    if (!in->prompt_tokens)
        LH_TRY_DONE(lh_prompt_encode_within(tok, text, &limit, &out->prompt, &out->questions, &out->cut));
    else if (input->n)
        LH_TRY_DONE(lh_prompt_encode(tok, text, &none, &out->questions));
    if (!in->prompt_tokens || input->n) LH_TRY_DONE(lh_prompt_ends(tok, text, &out->ends));
    for (int64_t i = 0; i < input->n; i++)
        limit.max_tokens = lh_min_i64(limit.max_tokens, c->max_positions - input->max_new - out->questions[i].n);
    if (in->prompt_tokens && limit.part) LH_TRY_DONE(lh_prompt_limit_check(&limit, out->prompt.n));
    if (in->prompt_tokens && limit.part)
        lh_prompt_truncate_ids(&out->prompt, lh_prompt_limit_part(&limit), limit.max_tokens, &out->cut);
    if (!input->load_cache && !limit.part && out->prompt.n > limit.max_tokens)
        LH_FAIL_DONE(LH_EUSAGE,
                     "%lld tokens of prompt and %lld more to come are longer than the %lld positions of the model: "
                     "'--truncate middle', 'start' or 'end' leaves out what does not fit, or generate less "
                     "('--max-new')",
                     (long long)out->prompt.n, (long long)(c->max_positions - limit.max_tokens),
                     (long long)c->max_positions);
    if (out->cut.left_out) LH_TRY_DONE(lh_prompt_cut_text(&said, &limit, &out->cut));
    if (said.bytes) lh_warn("%s, to fit the %lld positions of the model", said.data, (long long)c->max_positions);
done:
    lh_tokens_clear(&none);
    lh_buf_clear(&said);
    return st;
}

static lh_status encode_text(const lh_input *input, const lh_engine *engine, lh_input_ids *out)
{
    lh_status st = LH_OK;
    const lh_input_options *in = input->options;
    const int64_t vocab = lh_engine_get(engine)->config->vocab;
    lh_prompt_text text = {.text = input->prompt.data ? input->prompt.data : "",
                           .bytes = input->prompt.bytes,
                           .questions = (const char *const *)input->questions,
                           .question_count = input->n,
                           .special = 1,
                           .is_document = input->saves_cache,
                           .chat_template = input->chat->format,
                           .ending = in->continues_turn ? LH_CHAT_CONTINUES_TURN : LH_CHAT_OPENS_ANSWER,
                           .system = in->system,
                           .messages = input->messages.at,
                           .message_count = input->messages.n,
                           .positions = lh_engine_get(engine)->config->max_positions,
                           .after_cache = input->load_cache != NULL,
                           .stops = input->stops,
                           .ignore_eos = input->ignore_eos};
    LH_TRY_DONE(choose_chat(input, &text, lh_engine_tokenizer(engine), &out->chat));
    LH_TRY_DONE(choose_arguments(input, &out->chat));
    text.format = out->chat.format;
    text.arguments = out->chat.arguments;
    text.chat = out->chat.format != NULL;
    text.after_answer = out->chat.answers;
    LH_TRY_DONE(encode_prompt(input, engine, &text, out));
    if (in->continues_turn) out->in_thoughts = lh_thoughts_begun(input->messages.at[input->messages.n - 1].content);
    if (in->force_tokens) LH_TRY_DONE(lh_prompt_ids(in->force_tokens, vocab, &out->force));
done:
    return st;
}

lh_status lh_input_encode(const lh_input *input, lh_engine *engine, lh_input_ids *out)
{
    lh_status st = LH_OK;
    lh_comm *comm = lh_engine_get(engine)->comm;
    if (lh_shell_first()) st = encode_text(input, engine, out);
    out->n = input->n;
    out->in_chat = out->chat.format != NULL;
    LH_TRY(lh_comm_agree_untimed(comm, st));
    LH_TRY(lh_comm_bcast(comm, 0, &out->n, sizeof out->n));
    LH_TRY(lh_comm_bcast(comm, 0, &out->in_chat, sizeof out->in_chat));
    LH_TRY(lh_comm_bcast(comm, 0, &out->in_thoughts, sizeof out->in_thoughts));
    if (!lh_shell_first()) st = lh_calloc(&out->questions, out->n, sizeof *out->questions);
    LH_TRY(lh_comm_agree(comm, st));
    LH_TRY(lh_prompt_share(comm, &out->prompt));
    LH_TRY(lh_prompt_share(comm, &out->force));
    LH_TRY(lh_prompt_share(comm, &out->ends));
    for (int64_t i = 0; i < out->n; i++) LH_TRY(lh_prompt_share(comm, &out->questions[i]));
    return st;
}

void lh_input_ids_clear(lh_input_ids *ids)
{
    lh_tokens_clear(&ids->prompt);
    lh_tokens_clear(&ids->force);
    lh_tokens_clear(&ids->ends);
    for (int64_t i = 0; ids->questions && i < ids->n; i++) lh_tokens_clear(&ids->questions[i]);
    lh_free(ids->questions);
    lh_chat_state_clear(&ids->chat);
    *ids = (lh_input_ids){0};
}
