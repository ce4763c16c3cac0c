#include "shell/chat_options.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"

#define FIELD(member) LH_FIELD(lh_shell_chat, member)
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .name = "chat-template",
     FIELD(format),
     .arg = "NAME|FILE",
     .help = "Chat format: a built-in name, or a file with a Jinja template. 'longhaul info' lists the names. Default: "
             "the model's. It turns the chat on."},
    {.type = LH_OPT_LIST,
     .name = "template-arg",
     .detail = 1,
     FIELD(arguments),
     .arg = "NAME=JSON",
     .help = "Variable of the chat template, such as 'enable_thinking=false' or 'reasoning_effort=\"low\"': the "
             "chat_template_kwargs of vLLM."},
    {0}};
#undef FIELD
const lh_option_table lh_shell_chat_options = {"chat format", rows};

static lh_status add_argument(json_t *arguments, const char *text)
{
    const char *is = strchr(text, '=');
    json_t *value = NULL;
    lh_status st = LH_OK;
    char *name = NULL;
    if (!is || is == text)
        LH_FAIL_DONE(LH_EUSAGE, "'--template-arg' got '%s', it must be NAME=JSON, such as enable_thinking=false", text);
    LH_TRY_DONE(lh_strndup(&name, text, is - text));
    if (lh_json_parse_asked(&value, name, is + 1, (int64_t)strlen(is + 1)) != LH_OK)
        LH_FAIL_DONE(LH_EUSAGE,
                     "'--template-arg' got '%s', and '%s' is no JSON: it must be true, false, a number, or a text in "
                     "double quotes, such as '%s=\"%s\"'",
                     text, is + 1, name, is + 1);
    LH_TRY_DONE(lh_json_set(arguments, name, json_incref(value)));
done:
    json_decref(value);
    lh_free(name);
    return st;
}

lh_status lh_shell_template_arguments(const lh_shell_chat *chat, json_t **out)
{
    if (chat->arguments.n == 0) return LH_OK;
    *out = json_object();
    if (!*out) LH_FAIL(LH_ENOMEM, "cannot allocate host memory for the arguments of a template");
    for (int64_t i = 0; i < chat->arguments.n; i++) LH_TRY(add_argument(*out, chat->arguments.at[i]));
    if (lh_chat_arguments_check("--template-arg", *out) != LH_OK) LH_FAIL(LH_EUSAGE, "%s", lh_error_message());
    return LH_OK;
}

void lh_shell_warn_of_arguments(const lh_chat_format *format, const json_t *arguments)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)arguments, name, value) if (!format || !lh_chat_names(format, name))
        lh_warn("the chat template does not read '%s', which '--template-arg' sets", name);
}
