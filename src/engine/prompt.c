/* prompt.c - encodes a prompt as token ids, plain or in a chat format. Questions are separated from the context, so
 * that the cache can be evicted between them. */
#include "engine/prompt.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/unicode.h"
#include "engine/prompt_size.h"
#include "text/chat.h"

const char *const lh_scenario_names[] = {"question-aware", "context-only", NULL};

lh_status lh_prompt_format(const lh_tokenizer *tok, const lh_prompt_text *in, const lh_chat_format **out)
{
    *out = in->format;
    if (in->format) return LH_OK;
    if (in->chat_template) return lh_chat_resolve(out, in->chat_template);
    if (tok && lh_chat_of(out, tok) != LH_OK)
        LH_FAIL(LH_EUSAGE, "%s: name a format with '%s', or give '%s=off'", lh_error_message(),
                lh_setting("chat_template"), lh_setting("chat"));
    if (!*out)
        LH_FAIL(LH_EUSAGE, "the model has no known chat format: name one with '%s'", lh_setting("chat_template"));
    return LH_OK;
}

/* True for a prompt that the user wrote or another program rendered: special tokens are recognised in it. */
static int stands_alone(const lh_prompt_text *in)
{
    return in->special && !in->is_document && !in->question_count;
}

lh_status lh_prompt_auto_format(const lh_tokenizer *tok, const lh_prompt_text *in, const lh_chat_format **out)
{
    const int needed = in->system || in->messages;
    lh_chat_form form = LH_CHAT_NO_TURN;
    *out = NULL;
    if (!needed && !(tok && lh_tokenizer_chat_format(tok))) return LH_OK;
    if (lh_prompt_format(tok, in, out) != LH_OK) {
        *out = NULL;
        if (needed) return LH_EUSAGE;
        lh_warn("%s; the text is taken as it is", lh_error_message());
        lh_error_clear();
        return LH_OK;
    }
    if (!needed && tok && stands_alone(in)) LH_TRY(lh_chat_form_of(*out, tok, in->text, in->bytes, &form));
    if (form == LH_CHAT_TURNS)
        lh_warn("the prompt begins with a turn of the chat format and does not end where an answer begins: it is put "
                "into a user's turn ('%s=off' takes it as rendered)",
                lh_setting("chat"));
    if (form != LH_CHAT_RENDERED) return LH_OK;
    lh_warn("chat: off, the prompt begins and ends as the chat format does: it is taken as rendered already ('%s=on' "
            "puts it in a user's turn)",
            lh_setting("chat"));
    if (!in->format) lh_chat_close(*out);
    *out = NULL;
    return LH_OK;
}

/* A conversation to be rendered, and where its first part ends: at byte `at` of the contents of message `cut`; -1: with
 * everything. The contents of the last message belong to it. */
typedef struct conversation {
    lh_message *messages;
    int64_t n, cut, at;
    lh_buf last;
} conversation;

/* Appends the user's turn: the text, the joint, the question. */
static lh_status user_turn(const lh_prompt_text *in, const lh_buf *text, const char *question, lh_buf *out)
{
    LH_TRY(lh_buf_append(out, text->data, text->bytes));
    if (question && text->bytes) LH_TRY(lh_buf_puts(out, in->joint ? in->joint : "\n\n"));
    if (question) LH_TRY(lh_buf_puts(out, question));
    return LH_OK;
}

/* The system message, if any, and one turn of the user; question NULL: none. */
static lh_status first_turn(conversation *c, const lh_prompt_text *in, const char *question)
{
    LH_TRY(lh_calloc(&c->messages, 2, sizeof *c->messages));
    if (in->system) c->messages[c->n++] = (lh_message){.role = "system", .content = in->system};
    LH_TRY(user_turn(in, &(lh_buf){.data = (char *)(uintptr_t)in->text, .bytes = in->bytes}, question, &c->last));
    c->messages[c->n++] = (lh_message){.role = "user", .content = c->last.data};
    return LH_OK;
}

/* The messages of a file; the question ends the last turn, which is the user's. */
static lh_status given_turns(conversation *c, const lh_prompt_text *in, const char *question)
{
    const lh_message *last = &in->messages[in->message_count - 1];
    if (question && strcmp(last->role, "user") != 0)
        LH_FAIL(LH_EUSAGE,
                "a question ends the user's turn, and the last message is of the role '%.40s': leave out '%s', "
                "or end with a message of the user",
                last->role, lh_setting("questions"));
    LH_TRY(lh_calloc(&c->messages, in->message_count, sizeof *c->messages));
    memcpy(c->messages, in->messages, (size_t)in->message_count * sizeof *c->messages);
    const lh_buf text = {.data = (char *)(uintptr_t)last->content, .bytes = (int64_t)strlen(last->content)};
    LH_TRY(user_turn(in, &text, question, &c->last));
    c->n = in->message_count;
    c->messages[c->n - 1].content = c->last.data;
    return LH_OK;
}

/* A turn of the user after an answer. Earlier turns are in the cache: any text will do for them here. */
static lh_status next_turn(conversation *c, const char *question)
{
    LH_TRY(lh_calloc(&c->messages, 3, sizeof *c->messages));
    LH_TRY(lh_buf_puts(&c->last, question));
    c->messages[c->n++] = (lh_message){.role = "user", .content = "x"};
    c->messages[c->n++] = (lh_message){.role = "assistant", .content = "x"};
    c->messages[c->n++] = (lh_message){.role = "user", .content = c->last.data};
    c->cut = 1;
    c->at = 1;
    return LH_OK;
}

static lh_status make_conversation(conversation *c, const lh_prompt_text *in, const char *question)
{
    if (in->after_answer && question) return next_turn(c, question);
    LH_TRY(in->messages ? given_turns(c, in, question) : first_turn(c, in, question));
    if (!question) return LH_OK;
    c->cut = c->n - 1;
    c->at = c->last.bytes - (int64_t)strlen(question);
    return LH_OK;
}

/* Removes the text that the template writes after the contents of the last message. */
static lh_status end_in_turn(lh_chat_text *text, const lh_chat_format *format, const conversation *c)
{
    const int64_t end = lh_chat_cut(text, c->n - 1, (int64_t)strlen(c->messages[c->n - 1].content));
    if (end < 0)
        LH_FAIL(LH_EUSAGE, "the chat format '%s' does not contain the last message, so no answer can continue it",
                lh_chat_name(format));
    text->text.bytes = end;
    return LH_OK;
}

static lh_status render(const lh_tokenizer *tok, const lh_prompt_text *in, const lh_chat_format *format,
                        const conversation *c, lh_chat_text *text)
{
    lh_status st = LH_OK;
    lh_buf bos = {0}, eos = {0};
    LH_TRY_DONE(lh_chat_tokens(tok, &bos, &eos));
    LH_TRY_DONE(lh_chat_render(format,
                               &(lh_chat_request){.messages = c->messages,
                                                  .n = c->n,
                                                  .add_generation_prompt = in->ending == LH_CHAT_OPENS_ANSWER,
                                                  .bos = bos.data,
                                                  .eos = eos.data,
                                                  .arguments = in->arguments},
                               text));
    if (in->ending == LH_CHAT_CONTINUES_TURN) LH_TRY_DONE(end_in_turn(text, format, c));
    if (in->answer) LH_TRY_DONE(lh_chat_begin_answer(text, in->answer));
done:
    lh_buf_clear(&bos);
    lh_buf_clear(&eos);
    return st;
}

/* Encodes a conversation: up to the cut to *prompt, the rest to *rest; either may be NULL. */
static lh_status encode_chat(const lh_tokenizer *tok, const lh_prompt_text *in, const char *question, lh_tokens *prompt,
                             lh_tokens *rest)
{
    lh_status st = LH_OK;
    const lh_chat_format *format = NULL;
    lh_chat_text text = {0};
    conversation c = {.cut = -1};
    LH_TRY_DONE(lh_prompt_format(tok, in, &format));
    LH_TRY_DONE(make_conversation(&c, in, question));
    LH_TRY_DONE(render(tok, in, format, &c, &text));
    int64_t cut = c.cut < 0 ? text.text.bytes : lh_chat_cut(&text, c.cut, c.at);
    if (cut < 0)
        LH_FAIL_DONE(LH_EUSAGE, "the chat format '%s' does not contain the %s turn, so it cannot be cut there",
                     lh_chat_name(format), c.cut == c.n - 1 ? "user's" : "assistant's");
    if (prompt) LH_TRY_DONE(lh_chat_encode(tok, &text, 0, cut, prompt));
    if (rest) LH_TRY_DONE(lh_chat_encode(tok, &text, cut, text.text.bytes, rest));
done:
    if (!in->format) lh_chat_close(format);
    lh_chat_text_clear(&text);
    lh_free(c.messages);
    lh_buf_clear(&c.last);
    return st;
}

/* The text as the turn of the user that follows a loaded cache. */
static lh_status continue_chat(const lh_tokenizer *tok, const lh_prompt_text *in, lh_tokens *prompt)
{
    lh_prompt_text turn = *in;
    turn.text = "";
    turn.bytes = 0;
    return encode_chat(tok, &turn, in->text, NULL, prompt);
}

/* Puts the begin-of-sequence token before the ids of plain text, unless they begin with it: another program has
 * rendered the text. */
static lh_status add_first(const lh_tokenizer *tok, lh_tokens *prompt)
{
    const int32_t bos = lh_tokenizer_bos(tok);
    if (!lh_tokenizer_adds_bos(tok) || bos < 0 || (prompt->n && prompt->ids[0] == bos)) return LH_OK;
    LH_TRY(lh_tokens_push(prompt, bos));
    memmove(prompt->ids + 1, prompt->ids, (size_t)(prompt->n - 1) * sizeof *prompt->ids);
    prompt->ids[0] = bos;
    return LH_OK;
}

static lh_status check_size(const lh_tokenizer *tok, int64_t positions, const char *name, const char *text)
{
    return lh_prompt_check_size(tok, positions, name,
                                &(lh_buf){.data = (char *)(uintptr_t)text, .bytes = (int64_t)strlen(text)});
}

/* Every text by itself. */
static lh_status check_texts(const lh_tokenizer *tok, const lh_prompt_text *in)
{
    if (!tok || !in->positions) return LH_OK;
    const lh_buf text = {.data = (char *)(uintptr_t)in->text, .bytes = in->bytes};
    LH_TRY(lh_prompt_check_size(tok, in->positions, "the prompt", &text));
    for (int64_t i = 0; i < in->question_count; i++)
        LH_TRY(check_size(tok, in->positions, "a question", in->questions[i]));
    for (int64_t i = 0; i < in->message_count; i++)
        LH_TRY(check_size(tok, in->positions, "a message", in->messages[i].content));
    return LH_OK;
}

/* *skip: bytes of white space before the begin-of-sequence token that a rendered text holds; 0 for other texts. */
static lh_status before_first(const lh_tokenizer *tok, const lh_prompt_text *in, int64_t *skip)
{
    lh_status st = LH_OK;
    lh_buf bos = {0}, eos = {0};
    int64_t at = 0;
    *skip = 0;
    LH_TRY_DONE(lh_chat_tokens(tok, &bos, &eos));
    while (at < in->bytes && lh_is_ascii_space(in->text[at])) at++;
    if (bos.bytes && in->bytes - at >= bos.bytes && memcmp(in->text + at, bos.data, (size_t)bos.bytes) == 0) *skip = at;
done:
    lh_buf_clear(&bos);
    lh_buf_clear(&eos);
    return st;
}

/* The text where there is no chat. */
static lh_status encode_plain(const lh_tokenizer *tok, const lh_prompt_text *in, lh_tokens *prompt)
{
    const int alone = stands_alone(in);
    const lh_encode how = (alone ? LH_ENCODE_SPECIAL : LH_ENCODE_PLAIN) | (in->after_cache ? LH_ENCODE_CONTINUES : 0);
    int64_t skip = 0;
    if (tok && alone && !in->after_cache) LH_TRY(before_first(tok, in, &skip));
    if (in->bytes) LH_TRY(lh_tokenizer_encode(tok, in->text + skip, in->bytes - skip, how, prompt));
    return tok && !in->after_cache ? add_first(tok, prompt) : LH_OK;
}

/* The text, where no question ends the same turn of a chat. */
static lh_status encode_text(const lh_tokenizer *tok, const lh_prompt_text *in, lh_tokens *prompt)
{
    if (!in->chat) return encode_plain(tok, in, prompt);
    if (in->after_cache) return in->bytes ? continue_chat(tok, in, prompt) : LH_OK;
    return in->question_count ? LH_OK : encode_chat(tok, in, NULL, prompt, NULL);
}

lh_status lh_prompt_encode(const lh_tokenizer *tok, const lh_prompt_text *in, lh_tokens *prompt, lh_tokens **questions)
{
    lh_status st = LH_OK;
    lh_tokens *list = NULL;
    const lh_encode question_how = LH_ENCODE_CONTINUES | (in->special ? LH_ENCODE_SPECIAL : LH_ENCODE_PLAIN);
    LH_TRY_DONE(lh_calloc(&list, in->question_count, sizeof *list));
    LH_TRY_DONE(check_texts(tok, in));
    if (!tok && (in->bytes || in->question_count || in->chat))
        LH_FAIL_DONE(LH_EUSAGE, "the model has no tokenizer: give ids with %s", lh_setting("prompt_tokens"));
    if (in->after_cache && in->chat && in->bytes && in->question_count)
        LH_FAIL_DONE(LH_EUSAGE, "after a loaded cache a chat takes a prompt or questions: give one of them");
    if (in->after_cache && in->chat && !in->bytes && !in->question_count && !in->after_answer)
        LH_FAIL_DONE(LH_EUSAGE, "the chat of the loaded cache waits for the user: give '%s', or '%s=off'",
                     lh_setting("questions"), lh_setting("chat"));
    if (in->chat && memchr(in->text, '\0', (size_t)in->bytes))
        LH_FAIL_DONE(LH_EINPUT, "the prompt holds a zero byte: it is not text");
    if (prompt) LH_TRY_DONE(encode_text(tok, in, prompt));
    for (int64_t i = 0; i < in->question_count; i++) {
        const char *q = in->questions[i];
        if (in->chat)
            LH_TRY_DONE(encode_chat(tok, in, q, i == 0 && !in->after_cache ? prompt : NULL, &list[i]));
        else
            LH_TRY_DONE(lh_tokenizer_encode(tok, q, (int64_t)strlen(q), question_how, &list[i]));
    }
    *questions = list;
    list = NULL;
done:
    for (int64_t i = 0; list && i < in->question_count; i++) lh_tokens_clear(&list[i]);
    lh_free(list);
    return st;
}

/* Bytes of a word to show in a message. */
static int word_length(const char *text)
{
    int n = 0;
    while (n < 20 && text[n] && !isspace((unsigned char)text[n])) n++;
    return n;
}

lh_status lh_prompt_ids_parse(const char *name, const lh_buf *text, int64_t vocab, lh_tokens *out)
{
    const char *at = text->data ? text->data : "";
    if ((int64_t)strlen(at) < text->bytes) LH_FAIL(LH_EINPUT, "'%s' holds a zero byte: it is not a list of ids", name);
    for (;;) {
        char *end;
        while (isspace((unsigned char)*at)) at++;
        if (!*at) break;
        errno = 0;
        long long id = strtoll(at, &end, 10);
        if (end == at || errno || (*end && !isspace((unsigned char)*end)))
            LH_FAIL(LH_EINPUT, "'%s': '%.*s' is not a token id: ids are integers separated by white space", name,
                    word_length(at), at);
        if (id < 0 || id >= vocab)
            LH_FAIL(LH_EINPUT, "'%s': token id %lld is not in the vocabulary, ids must be from 0 to %lld", name, id,
                    (long long)vocab - 1);
        LH_TRY(lh_tokens_push(out, (int32_t)id));
        at = end;
    }
    return LH_OK;
}

lh_status lh_prompt_ids(const char *path, int64_t vocab, lh_tokens *out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_file_read(&text, path, INT64_C(1) << 32));
    LH_TRY_DONE(lh_prompt_ids_parse(path, &text, vocab, out));
done:
    lh_buf_clear(&text);
    return st;
}

/* The end of a turn in the chat format. */
static lh_status add_turn_end(const lh_tokenizer *tok, const lh_prompt_text *in, lh_tokens *ends)
{
    lh_status st = LH_OK;
    const lh_chat_format *format = NULL;
    lh_buf bos = {0}, eos = {0}, after = {0};
    int32_t id;
    LH_TRY_DONE(lh_prompt_format(tok, in, &format));
    LH_TRY_DONE(lh_chat_tokens(tok, &bos, &eos));
    LH_TRY_DONE(lh_chat_after_answer(format, eos.data, &after));
    LH_TRY_DONE(lh_chat_end(tok, &after, &id));
    if (id >= 0) LH_TRY_DONE(lh_tokens_push(ends, id));
done:
    if (!in->format) lh_chat_close(format);
    lh_buf_clear(&bos);
    lh_buf_clear(&eos);
    lh_buf_clear(&after);
    return st;
}

lh_status lh_prompt_ends(const lh_tokenizer *tok, const lh_prompt_text *in, lh_tokens *ends)
{
    if (in->chat && !in->ignore_eos) LH_TRY(add_turn_end(tok, in, ends));
    for (int64_t i = 0; tok && i < in->stops.n; i++) {
        const int32_t id = lh_tokenizer_find(tok, in->stops.at[i]);
        if (id >= 0 && lh_tokenizer_is_special(tok, id)) LH_TRY(lh_tokens_push(ends, id));
    }
    return LH_OK;
}

lh_status lh_prompt_check_ids(const lh_tokens *ids, int64_t vocab)
{
    for (int64_t i = 0; i < ids->n; i++)
        if (ids->ids[i] < 0 || ids->ids[i] >= vocab)
            LH_FAIL(LH_EUSAGE, "token id %d is not in the model's vocabulary of %lld", ids->ids[i], (long long)vocab);
    return LH_OK;
}

lh_status lh_prompt_share(lh_comm *comm, lh_tokens *ids)
{
    lh_status st = LH_OK;
    const int root = lh_comm_rank(comm) == 0;
    int64_t n = ids->n;
    LH_TRY(lh_comm_bcast(comm, 0, &n, sizeof n));
    if (!root) st = lh_realloc(&ids->ids, n, sizeof *ids->ids);
    LH_TRY(lh_comm_agree(comm, st));
    if (!root) ids->cap = n;
    ids->n = n;
    if (n) LH_TRY(lh_comm_bcast(comm, 0, ids->ids, n * (int64_t)sizeof *ids->ids));
    return LH_OK;
}
