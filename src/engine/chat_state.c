/* chat_state.c - the text /chat of a cache file: {"format": name, "turn": "user" or "assistant", "template": text,
 * "arguments": variables of the template, where there are any}. Older files name a built-in format without its
 * template. */
#include "engine/chat_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cache/cache_file.h"

static const char *const turns[] = {"user", "assistant"};

lh_status lh_chat_state_write(const lh_chat_state *state, lh_buf *out)
{
    lh_status st = LH_OK;
    char *text = NULL;
    if (!state->format) return LH_OK;
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:O*}", "format", lh_chat_name(state->format), "turn", turns[state->answers],
                  "template", lh_chat_jinja(state->format), "arguments", state->arguments);
    text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (!text) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate host memory for the state of the chat");
    LH_TRY_DONE(lh_buf_puts(out, text));
done:
    json_decref(json);
    free(text);
    return st;
}

lh_status lh_chat_state_arguments(lh_chat_state *state, const json_t *arguments)
{
    if (!arguments) return LH_OK;
    if (!state->arguments) state->arguments = json_object();
    if (json_object_update(state->arguments, (json_t *)(uintptr_t)arguments) != 0)
        LH_FAIL(LH_ENOMEM, "cannot allocate host memory for the state of the chat");
    return LH_OK;
}

void lh_chat_state_clear(lh_chat_state *state)
{
    lh_chat_close(state->format);
    json_decref(state->arguments);
    *state = (lh_chat_state){0};
}

/* LH_EFILE also where the JSON itself is bad, which would be bad input of a user elsewhere. */
static lh_status read_members(lh_chat_state *out, const char *path, const char *text, json_t **json)
{
    const char *format = NULL, *turn = NULL, *jinja = NULL;
    if (lh_json_parse(json, path, text, (int64_t)strlen(text)) != LH_OK ||
        lh_json_string(*json, path, "format", &format) != LH_OK ||
        lh_json_string(*json, path, "turn", &turn) != LH_OK || lh_json_string(*json, path, "template", &jinja) != LH_OK)
        LH_FAIL(LH_EFILE, "the chat of %s", lh_error_message());
    if (!turn || (strcmp(turn, turns[0]) != 0 && strcmp(turn, turns[1]) != 0))
        LH_FAIL(LH_EFILE, "'%s': the chat ends in the turn of '%.20s', it must be 'user' or 'assistant'", path,
                turn ? turn : "");
    out->answers = strcmp(turn, turns[1]) == 0;
    out->arguments = json_incref(json_object_get(*json, "arguments"));
    if (out->arguments && lh_chat_arguments_check("arguments", out->arguments) != LH_OK)
        LH_FAIL(LH_EFILE, "'%s': the chat: %s", path, lh_error_message());
    if (jinja && format && lh_chat_open(&out->format, format, jinja, (int64_t)strlen(jinja)) != LH_OK)
        LH_FAIL(LH_EFILE, "'%s': the chat template: %s", path, lh_error_message());
    if (!jinja && format) LH_TRY(lh_chat_named(&out->format, format));
    if (!out->format)
        LH_FAIL(LH_EFILE,
                "'%s': the chat is of the format '%.40s', which this version does not know: '%s=off' continues it "
                "as text",
                path, format ? format : "", lh_setting("chat"));
    return LH_OK;
}

lh_status lh_chat_state_read(lh_chat_state *out, const char *path)
{
    lh_status st = LH_OK;
    char *text = NULL;
    json_t *json = NULL;
    *out = (lh_chat_state){0};
    LH_TRY_DONE(lh_cache_read_chat(path, &text));
    if (text) LH_TRY_DONE(read_members(out, path, text, &json));
done:
    json_decref(json);
    lh_free(text);
    return st;
}
