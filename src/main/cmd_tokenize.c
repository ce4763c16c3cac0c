/* cmd_tokenize.c - `tokenize`: text to ids and back, chat formats included; one text, or one JSON value per line. */
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "engine/prompt.h"
#include "import/tokenizer_source.h"
#include "shell/chat_options.h"
#include "shell/shell.h"
#include "text/messages.h"

struct values {
    lh_shell_common common;
    const char *model, *prompt, *prompt_file;
    int decode, count, bos, jsonl, json;
    int chat, text;
    const char *system;
    lh_shell_chat format;
};

#define FIELD(member) LH_FIELD(struct values, member)
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'm',
     .required = 1,
     .name = "model",
     FIELD(model),
     .arg = "FILE|FOLDER",
     .help = "Where the tokenizer comes from: a checkpoint, a GGUF file, a Hugging Face folder, a tokenizer.json or a "
             "tokenizer.model."},
    {.type = LH_OPT_STR,
     .letter = 'p',
     .name = "prompt",
     FIELD(prompt),
     .arg = "TEXT",
     .help = "The text. Default: standard input."},
    {.type = LH_OPT_STR,
     .letter = 'f',
     .name = "prompt-file",
     FIELD(prompt_file),
     .arg = "FILE",
     .help = "File with the text, used unchanged; '-' is standard input."},
    {.type = LH_OPT_FLAG,
     .name = "bos",
     FIELD(bos),
     .help = "Prepend the begin-of-sequence token if the tokenizer asks for one."},
    {.type = LH_OPT_FLAG,
     .name = "decode",
     FIELD(decode),
     .help = "Detokenize: the input is ids separated by white space."},
    {.type = LH_OPT_FLAG, .name = "count", FIELD(count), .help = "Print the number of tokens only."},
    {.type = LH_OPT_FLAG,
     .name = "jsonl",
     FIELD(jsonl),
     .help = "Read and write one JSON value per line: a string (with --decode an array of ids, with --chat an object "
             "with \"messages\" and \"add_generation_prompt\"). null if a template refuses the messages."},
    {0}};
static const lh_option chat_rows[] = {
    {.type = LH_OPT_FLAG, .name = "chat", FIELD(chat), .help = "Put the text into the user's turn of a chat."},
    {.type = LH_OPT_STR, .name = "system", FIELD(system), .arg = "TEXT", .help = "System message."},
    {.type = LH_OPT_FLAG, .name = "text", FIELD(text), .help = "Print the rendered text instead of its ids."},
    {0}};
#undef FIELD
static const lh_option_table table = {"text", rows}, chat_table = {"chat", chat_rows};
static const lh_option_group groups[] = {{&table, 0},
                                         {&chat_table, 0},
                                         {&lh_shell_chat_options, offsetof(struct values, format)},
                                         {&lh_shell_common_options, offsetof(struct values, common)},
                                         {0}};
static const lh_example examples[] = {{"longhaul tokenize -m m.h5 --prompt 'Hello, world'", "ids of a text"},
                                      {"longhaul tokenize -m tokenizer.json --count < book.txt", "number of tokens"},
                                      {"longhaul tokenize -m m.h5 --decode --prompt '9906 11'", "and back"},
                                      {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "tokenize",
    .usage = "-m SRC [-p TEXT | -f FILE] [options]",
    .summary = "Turn text into token ids, and back",
    .text = "No begin-of-sequence token is added ('generate' adds it if the tokenizer asks for one). Special tokens "
            "are recognised in text, but not in the contents of messages.",
    .groups = groups,
    .examples = examples};

static const int64_t TEXT_BYTES = INT64_C(1) << 32;

typedef struct run {
    const struct values *v;
    const char *name; /* name of the input in messages */
    lh_tokenizer *tok;
    const lh_chat_format *format;
    json_t *arguments; /* variables of its template; NULL: none */
    lh_buf bos, eos;   /* texts of these two tokens, for templates */
} run;

/* ---- chat ---- */

static lh_status open_chat(run *r)
{
    const struct values *v = r->v;
    if (v->format.format)
        LH_TRY(lh_chat_resolve(&r->format, v->format.format));
    else
        LH_TRY(lh_chat_of(&r->format, r->tok));
    if (!r->format) LH_FAIL(LH_EUSAGE, "'%s' has no known chat format: name one with '--chat-template'", v->model);
    LH_TRY(lh_shell_template_arguments(&v->format, &r->arguments));
    lh_shell_warn_of_arguments(r->format, r->arguments);
    return lh_chat_tokens(r->tok, &r->bos, &r->eos);
}

/* Renders the request with the tokenizer's bos and eos. */
static lh_status render(const run *r, lh_chat_request request, lh_chat_text *out)
{
    request.bos = r->bos.data;
    request.eos = r->eos.data;
    request.arguments = r->arguments;
    return lh_chat_render(r->format, &request, out);
}

/* ---- one text ---- */

static lh_status print_ids(const run *r, const lh_tokens *ids)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    if (r->v->count)
        LH_TRY_DONE(lh_buf_printf(&text, "%lld", (long long)ids->n));
    else
        for (int64_t i = 0; i < ids->n; i++) LH_TRY_DONE(lh_buf_printf(&text, "%s%d", i ? " " : "", ids->ids[i]));
    LH_TRY_DONE(lh_buf_puts(&text, "\n"));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status chat_one(const run *r, const lh_buf *in)
{
    lh_status st = LH_OK;
    lh_tokens ids = {0};
    lh_chat_text text = {0};
    lh_message messages[2];
    int64_t n = 0;
    if ((int64_t)strlen(in->data) < in->bytes)
        LH_FAIL_DONE(LH_EINPUT, "'%s' holds a zero byte: it is not text", r->name);
    if (r->v->system) messages[n++] = (lh_message){.role = "system", .content = r->v->system};
    messages[n++] = (lh_message){.role = "user", .content = in->data};
    LH_TRY_DONE(render(r, (lh_chat_request){.messages = messages, .n = n, .add_generation_prompt = 1}, &text));
    if (r->v->text) {
        LH_TRY_DONE(lh_shell_write(text.text.data, text.text.bytes));
    } else {
        LH_TRY_DONE(lh_chat_encode(r->tok, &text, 0, text.text.bytes, &ids));
        LH_TRY_DONE(print_ids(r, &ids));
    }
done:
    lh_tokens_clear(&ids);
    lh_chat_text_clear(&text);
    return st;
}

static lh_status decode_one(const run *r, const lh_buf *in)
{
    lh_status st = LH_OK;
    lh_tokens ids = {0};
    lh_buf text = {0};
    LH_TRY_DONE(lh_prompt_ids_parse(r->name, in, lh_tokenizer_vocab(r->tok), &ids));
    LH_TRY_DONE(lh_tokenizer_decode(r->tok, ids.ids, ids.n, &text));
    LH_TRY_DONE(lh_shell_write(text.data ? text.data : "", text.bytes));
done:
    lh_tokens_clear(&ids);
    lh_buf_clear(&text);
    return st;
}

/* The ids of a text; with --bos the ids of the same text as a prompt of `generate`. */
static lh_status encode_text(const run *r, const char *text, int64_t bytes, lh_tokens *ids)
{
    lh_tokens *none = NULL;
    if (!r->v->bos) return lh_tokenizer_encode(r->tok, text, bytes, LH_ENCODE_SPECIAL, ids);
    const lh_status st =
        lh_prompt_encode(r->tok, &(lh_prompt_text){.text = text, .bytes = bytes, .special = 1}, ids, &none);
    lh_free(none);
    return st;
}

static lh_status encode_one(const run *r, const lh_buf *in)
{
    lh_status st = LH_OK;
    lh_tokens ids = {0};
    LH_TRY_DONE(encode_text(r, in->data, in->bytes, &ids));
    LH_TRY_DONE(print_ids(r, &ids));
done:
    lh_tokens_clear(&ids);
    return st;
}

/* ---- one value per line ---- */

static json_t *ids_json(const run *r, const lh_tokens *ids)
{
    json_t *list = r->v->count ? json_integer(ids->n) : json_array();
    for (int64_t i = 0; !r->v->count && i < ids->n; i++) json_array_append_new(list, json_integer(ids->ids[i]));
    return list;
}

static lh_status encode_line(const run *r, const char *where, const json_t *in, json_t **out)
{
    lh_status st = LH_OK;
    lh_tokens ids = {0};
    if (!json_is_string(in)) LH_FAIL_DONE(LH_EINPUT, "%s must be a JSON string", where);
    LH_TRY_DONE(encode_text(r, json_string_value(in), (int64_t)json_string_length(in), &ids));
    *out = ids_json(r, &ids);
done:
    lh_tokens_clear(&ids);
    return st;
}

/* Text of single tokens need not be UTF-8; JSON is. */
static lh_status decode_line(const run *r, const char *where, const json_t *in, json_t **out)
{
    lh_status st = LH_OK;
    lh_tokens ids = {0};
    lh_buf text = {0};
    if (!json_is_array(in)) LH_FAIL_DONE(LH_EINPUT, "%s must be a JSON array of ids", where);
    for (size_t i = 0; i < json_array_size(in); i++) {
        const json_t *id = json_array_get(in, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= lh_tokenizer_vocab(r->tok))
            LH_FAIL_DONE(LH_EINPUT, "%s: element %zu must be a token id below %lld", where, i,
                         (long long)lh_tokenizer_vocab(r->tok));
        LH_TRY_DONE(lh_tokens_push(&ids, (int32_t)json_integer_value(id)));
    }
    LH_TRY_DONE(lh_tokenizer_decode(r->tok, ids.ids, ids.n, &text));
    *out = lh_json_text(text.data ? text.data : "", text.bytes);
    if (!*out) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the text of %s", where);
done:
    lh_tokens_clear(&ids);
    lh_buf_clear(&text);
    return st;
}

static lh_status chat_line(const run *r, const char *where, const json_t *in, json_t **out)
{
    lh_status st = LH_OK;
    lh_messages messages = {0};
    lh_chat_text text = {0};
    lh_tokens ids = {0};
    if (!json_is_array(json_object_get(in, "messages")))
        LH_FAIL_DONE(LH_EINPUT, "%s must be an object with an array 'messages'", where);
    LH_TRY_DONE(lh_messages_parse(&messages, where, in));
    lh_chat_request request = {.messages = messages.at, .n = messages.n};
    request.add_generation_prompt = json_is_true(json_object_get(in, "add_generation_prompt"));
    st = render(r, request, &text);
    if (st == LH_EINPUT) { /* the template refused: continue with the next line */
        lh_warn("%s: %s", where, lh_error_message());
        lh_error_clear();
        *out = json_null();
        st = LH_OK;
        goto done;
    }
    LH_TRY_DONE(st);
    if (r->v->text) {
        *out = lh_json_text(text.text.data, text.text.bytes);
    } else {
        LH_TRY_DONE(lh_chat_encode(r->tok, &text, 0, text.text.bytes, &ids));
        *out = ids_json(r, &ids);
    }
done:
    lh_messages_clear(&messages);
    lh_chat_text_clear(&text);
    lh_tokens_clear(&ids);
    return st;
}

static lh_status one_line(const run *r, const char *where, const char *line, int64_t bytes)
{
    lh_status st = LH_OK;
    json_t *in = NULL, *out = NULL;
    LH_TRY_DONE(lh_json_parse_line(&in, where, line, bytes));
    if (r->v->chat || r->v->format.format)
        LH_TRY_DONE(chat_line(r, where, in, &out));
    else if (r->v->decode)
        LH_TRY_DONE(decode_line(r, where, in, &out));
    else
        LH_TRY_DONE(encode_line(r, where, in, &out));
    LH_TRY_DONE(lh_shell_write_json(out));
done:
    json_decref(in);
    json_decref(out);
    return st;
}

/* Lines end at \n only: strings may contain characters that other standards treat as line ends. */
static lh_status all_lines(const run *r, const lh_buf *in)
{
    lh_status st = LH_OK;
    lh_buf where = {0};
    int64_t number = 0;
    for (int64_t at = 0; at < in->bytes && !lh_shell_unread();) {
        const char *end = memchr(in->data + at, '\n', (size_t)(in->bytes - at));
        int64_t bytes = end ? end - (in->data + at) : in->bytes - at;
        const char *line = in->data + at;
        number++;
        where.bytes = 0;
        LH_TRY_DONE(lh_buf_printf(&where, "line %lld of %s", (long long)number, r->name));
        if (strspn(line, " \t\r") < (size_t)bytes) LH_TRY_DONE(one_line(r, where.data, line, bytes));
        at += bytes + 1;
    }
done:
    lh_buf_clear(&where);
    return st;
}

/* ---- the command ---- */

static lh_status check_options(const struct values *v)
{
    const int chat = v->chat || v->format.format;
    if (v->prompt && v->prompt_file) LH_FAIL(LH_EUSAGE, "'--prompt' and '--prompt-file' both set the text: give one");
    if (v->decode && (chat || v->count || v->bos))
        LH_FAIL(LH_EUSAGE, "'--%s' has no effect with '--decode', which turns ids into text: leave it out",
                chat       ? "chat"
                : v->count ? "count"
                           : "bos");
    if (v->text && !chat) LH_FAIL(LH_EUSAGE, "'--text' shows a rendered chat: give '--chat', too");
    if (v->text && v->count) LH_FAIL(LH_EUSAGE, "'--text' shows the text and '--count' the number of ids: give one");
    if (v->system && (!chat || v->jsonl))
        LH_FAIL(LH_EUSAGE, "'--system' adds a turn to the chat of one text: give '--chat', without '--jsonl'");
    if (v->format.arguments.n && !chat)
        LH_FAIL(LH_EUSAGE, "'--template-arg' is a variable of a chat's template: give '--chat', too");
    if (chat && v->bos)
        LH_FAIL(LH_EUSAGE, "a chat format writes the begin-of-sequence token itself: leave out '--bos'");
    return LH_OK;
}

static lh_status run_tokenize(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    run r = {.v = v, .name = "standard input"};
    const char *path = v->prompt_file ? v->prompt_file : "-";
    lh_buf in = {0};
    LH_TRY_DONE(check_options(v));
    if (!lh_shell_first()) goto done;
    if (v->prompt) r.name = "--prompt";
    if (v->prompt_file) r.name = v->prompt_file;
    LH_TRY_DONE(lh_shell_probe(v->model));
    LH_TRY_DONE(lh_tokenizer_open(&r.tok, v->model));
    if (v->chat || v->format.format) LH_TRY_DONE(open_chat(&r));
    if (v->prompt)
        LH_TRY_DONE(lh_buf_puts(&in, v->prompt));
    else
        LH_TRY_DONE(v->decode || v->jsonl ? lh_file_read(&in, path, TEXT_BYTES) : lh_text_read(&in, path));
    if (v->jsonl)
        LH_TRY_DONE(all_lines(&r, &in));
    else if (v->decode)
        LH_TRY_DONE(decode_one(&r, &in));
    else if (v->chat || v->format.format)
        LH_TRY_DONE(chat_one(&r, &in));
    else
        LH_TRY_DONE(encode_one(&r, &in));
done:
    lh_chat_close(r.format);
    json_decref(r.arguments);
    lh_tokenizer_close(r.tok);
    lh_buf_clear(&r.bos);
    lh_buf_clear(&r.eos);
    lh_buf_clear(&in);
    return st;
}

const lh_command lh_command_tokenize = {&syntax, sizeof(struct values), run_tokenize, NULL};
