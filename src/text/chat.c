/* chat.c - chat formats by name, by file and of a tokenizer. */
#include "text/chat.h"

#include <string.h>

#include "base/file.h"
#include "text/chat_builtin.h"
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

/* ---- rendering ---- */

lh_status lh_chat_render(const lh_chat_format *format, const lh_chat_request *request, lh_chat_text *out)
{
    if (request->n < 1) LH_FAIL(LH_EINPUT, "a conversation needs at least one message");
    LH_TRY(lh_template_render(format->jinja, request, out));
    return lh_buf_append(&out->text, NULL, 0);
}
