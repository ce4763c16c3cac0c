/* chat.c - recognises or opens chat templates and encodes renderings. A Jinja template is brought into a canonical form
 * (comments, white space outside strings and spelling variants removed) and compared with the marks of each row of
 * chat_formats.c. A rendering is encoded as one text, in which only the pieces that come from the template may hold
 * special tokens: a message cannot forge a turn. */
#include "text/chat.h"

#include <string.h>

#include "base/file.h"
#include "base/unicode.h"
#include "text/chat_impl.h"
#include "text/template/template.h"

enum { TEMPLATE_BYTES = 1 << 24 };

/* ---- the table ---- */

const lh_chat_format *lh_chat_at(int i)
{
    const lh_chat_format *f = lh_chat_formats;
    while (f->name && i-- > 0) f++;
    return f->name ? f : NULL;
}

const lh_chat_format *lh_chat_find(const char *name)
{
    for (const lh_chat_format *f = lh_chat_formats; f->name; f++)
        if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

const char *lh_chat_name(const lh_chat_format *format)
{
    return format->name;
}

const char *lh_chat_end(const lh_chat_format *format)
{
    return format->end;
}

/* ---- recognising ---- */

typedef struct canon {
    const char *at, *end;
    lh_buf *out;
} canon;

static int looking_at(const canon *c, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(c->end - c->at) >= n && memcmp(c->at, text, n) == 0;
}

static int is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A string literal, from its opening quote past its closing one; literals that + appends become part of it. */
static lh_status canonical_string(canon *c)
{
    LH_TRY(lh_buf_puts(c->out, "'"));
    for (;;) {
        char quote = *c->at++;
        while (c->at < c->end && *c->at != quote) {
            if (*c->at == '\n') {
                LH_TRY(lh_buf_puts(c->out, "\\n"));
            } else if (*c->at == '\\' && c->at + 1 < c->end) {
                c->at++;
                LH_TRY(lh_buf_append(c->out, *c->at == '"' || *c->at == '\'' ? c->at : c->at - 1,
                                     *c->at == '"' || *c->at == '\'' ? 1 : 2));
            } else {
                LH_TRY(lh_buf_append(c->out, c->at, 1));
            }
            c->at++;
        }
        if (c->at < c->end) c->at++;
        const char *next = c->at;
        while (next < c->end && lh_is_ascii_space(*next)) next++;
        if (next == c->end || *next != '+') break;
        for (next++; next < c->end && lh_is_ascii_space(*next);) next++;
        if (next == c->end || (*next != '"' && *next != '\'')) break;
        c->at = next;
    }
    LH_TRY(lh_buf_puts(c->out, "'"));
    return LH_OK;
}

/* The inside of a tag, up to and including its end. */
static lh_status canonical_tag(canon *c, const char *close)
{
    static const char *const members[] = {".role", ".content"};
    while (c->at < c->end) {
        if ((*c->at == '-' || *c->at == '+') && (size_t)(c->end - c->at) >= 3 && memcmp(c->at + 1, close, 2) == 0)
            c->at++;
        if (looking_at(c, close)) {
            LH_TRY(lh_buf_puts(c->out, close));
            c->at += 2;
            break;
        }
        const char *member = NULL;
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
            const char *after = c->at + strlen(members[i]);
            if (looking_at(c, members[i]) && (after == c->end || !is_name(*after))) member = members[i];
        }
        if (member) {
            LH_TRY(lh_buf_printf(c->out, "['%s']", member + 1));
            c->at += strlen(member);
        } else if (*c->at == '"' || *c->at == '\'') {
            LH_TRY(canonical_string(c));
        } else {
            if (!lh_is_ascii_space(*c->at)) LH_TRY(lh_buf_append(c->out, c->at, 1));
            c->at++;
        }
    }
    return LH_OK;
}

static void skip_comment(canon *c)
{
    const char *end = memmem(c->at, (size_t)(c->end - c->at), "#}", 2);
    c->at = end ? end + 2 : c->end;
}

/* The canonical form of a template: no comments, no white space and trim markers outside strings, members written as
 * ['role'], single quotes, newlines in strings as \n, concatenated strings joined. */
static lh_status canonical(const char *jinja, int64_t bytes, lh_buf *out)
{
    canon c = {jinja, jinja + bytes, out};
    LH_TRY(lh_buf_append(out, NULL, 0));
    while (bytes && c.at < c.end) {
        if (looking_at(&c, "{#")) {
            skip_comment(&c);
        } else if (looking_at(&c, "{{") || looking_at(&c, "{%")) {
            const char *close = c.at[1] == '{' ? "}}" : "%}";
            LH_TRY(lh_buf_append(out, c.at, 2));
            c.at += 2;
            if (c.at < c.end && (*c.at == '-' || *c.at == '+')) c.at++;
            LH_TRY(canonical_tag(&c, close));
        } else {
            if (!lh_is_ascii_space(*c.at)) LH_TRY(lh_buf_append(out, c.at, 1));
            c.at++;
        }
    }
    return LH_OK;
}

static int has_marks(const lh_chat_format *f, const char *text)
{
    int marks = (int)(sizeof f->all / sizeof *f->all);
    for (int i = 0; i < marks && f->all[i]; i++)
        if (!strstr(text, f->all[i])) return 0;
    for (int i = 0; i < marks && f->none[i]; i++)
        if (strstr(text, f->none[i])) return 0;
    return 1;
}

const lh_chat_format *lh_chat_recognise(const char *jinja, int64_t bytes)
{
    lh_buf text = {0};
    const lh_chat_format *found = NULL;
    if (bytes > 0 && bytes <= TEMPLATE_BYTES && canonical(jinja, bytes, &text) == LH_OK)
        for (const lh_chat_format *f = lh_chat_formats; f->name && !found; f++)
            if (has_marks(f, text.data)) found = f;
    lh_buf_clear(&text);
    return found;
}

/* A template that is interpreted. */
typedef struct interpreted {
    lh_chat_format format; /* first: a format with this renderer is one of these */
    lh_template *jinja;
    char *source;
} interpreted;

static lh_status render_interpreted(const lh_chat_format *format, lh_chat_writer *w)
{
    return lh_template_render(((const interpreted *)format)->jinja, lh_chat_writer_request(w), lh_chat_writer_text(w));
}

lh_status lh_chat_open(const lh_chat_format **out, const char *jinja, int64_t bytes)
{
    lh_status st = LH_OK;
    interpreted *t = NULL;
    *out = lh_chat_recognise(jinja, bytes);
    if (*out) goto done;
    LH_TRY_DONE(lh_calloc(&t, 1, sizeof *t));
    t->format = (lh_chat_format){.name = "template", .end = "", .render = render_interpreted};
    LH_TRY_DONE(lh_strndup(&t->source, jinja, bytes));
    LH_TRY_DONE(lh_template_open(&t->jinja, jinja, bytes));
    *out = &t->format;
    t = NULL;
done:
    lh_chat_close(t ? &t->format : NULL);
    return st;
}

void lh_chat_close(const lh_chat_format *format)
{
    if (!format || format->render != render_interpreted) return;
    interpreted *t = (interpreted *)(uintptr_t)format;
    lh_template_close(t->jinja);
    lh_free(t->source);
    lh_free(t);
}

const char *lh_chat_jinja(const lh_chat_format *format)
{
    return format->render == render_interpreted ? ((const interpreted *)format)->source : NULL;
}

lh_status lh_chat_of(const lh_chat_format **out, const lh_tokenizer *tok)
{
    const char *name = lh_tokenizer_chat_format(tok), *jinja = lh_tokenizer_chat_template(tok);
    *out = name ? lh_chat_find(name) : NULL;
    if (*out || !jinja) return LH_OK;
    if (lh_chat_open(out, jinja, (int64_t)strlen(jinja)) == LH_OK) return LH_OK;
    *out = NULL;
    return lh_fail_within(LH_EINPUT, "the chat template of the model cannot be read");
}

lh_status lh_chat_resolve(const lh_chat_format **out, const char *name_or_file)
{
    lh_status st = LH_OK;
    lh_buf text = {0}, names = {0};
    *out = lh_chat_find(name_or_file);
    if (*out) goto done;
    for (const lh_chat_format *f = lh_chat_formats; f->name; f++)
        LH_TRY_DONE(lh_buf_printf(&names, "%s%s", f == lh_chat_formats ? "" : " ", f->name));
    if (!lh_file_exists(name_or_file) || lh_file_is_folder(name_or_file))
        LH_FAIL_DONE(LH_EUSAGE, "'%s' is neither a chat format nor a file with a template; formats are: %s",
                     name_or_file, names.data);
    LH_TRY_DONE(lh_file_read(&text, name_or_file, TEMPLATE_BYTES));
    if (lh_chat_open(out, text.data ? text.data : "", text.bytes) != LH_OK) {
        *out = NULL;
        st = lh_fail_within(LH_EUSAGE, "the template '%s'", name_or_file);
        goto done;
    }
done:
    lh_buf_clear(&text);
    lh_buf_clear(&names);
    return st;
}

/* ---- a rendering ---- */

void lh_chat_text_clear(lh_chat_text *text)
{
    lh_buf_clear(&text->text);
    lh_free(text->pieces);
    *text = (lh_chat_text){0};
}

int64_t lh_chat_cut(const lh_chat_text *text, int64_t message, int64_t content_at)
{
    int64_t cut = -1;
    for (int64_t i = 0; i < text->n; i++) {
        const lh_chat_piece *p = &text->pieces[i];
        if (!p->from_content || p->message != message) continue;
        int64_t in_piece = content_at - p->skipped;
        if (cut >= 0 && in_piece < 0) break;
        cut = p->start + (in_piece < 0 ? 0 : in_piece > p->bytes ? p->bytes : in_piece);
    }
    return cut;
}

lh_status lh_chat_encode(const lh_tokenizer *tok, const lh_chat_text *text, int64_t from, int64_t until, lh_tokens *out)
{
    lh_status st = LH_OK;
    lh_text_slice *slices = NULL;
    int64_t n = 0;
    LH_TRY_DONE(lh_calloc(&slices, text->n, sizeof *slices));
    for (int64_t i = 0; i < text->n; i++) {
        const lh_chat_piece *p = &text->pieces[i];
        int64_t start = p->start > from ? p->start : from;
        int64_t end = p->start + p->bytes < until ? p->start + p->bytes : until;
        if (start >= end) continue;
        slices[n] = (lh_text_slice){text->text.data + start, end - start,
                                    p->from_content ? LH_ENCODE_PLAIN : LH_ENCODE_SPECIAL};
        if (n == 0 && from > 0) slices[n].how |= LH_ENCODE_CONTINUES;
        n++;
    }
    LH_TRY_DONE(lh_tokenizer_encode_slices(tok, slices, n, out));
done:
    lh_free(slices);
    return st;
}
