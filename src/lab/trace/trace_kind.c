/* trace_kind.c - traces for `verify` and `info`: how a trace was recorded and how far it got. */
#include <string.h>

#include "base/json.h"
#include "lab/trace/segment.h"
#include "lab/trace/trace_file.h"

/* The suffix of "/layers/NNN/suffix"; NULL: another array. */
static const char *in_layer(const char *name)
{
    return strncmp(name, "/layers/", 8) == 0 && strlen(name) > 12 && name[11] == '/' ? name + 12 : NULL;
}

static int same_array(const json_t *a, const char *name)
{
    const char *other = in_layer(json_string_value(json_object_get(a, "name"))), *own = in_layer(name);
    return other && own && strcmp(other, own) == 0;
}

/* One entry for an array of all layers, with their number; all layers have the same shapes. */
static json_t *collapse(const json_t *arrays)
{
    json_t *out = json_array(), *array, *before;
    size_t i, k;
    json_array_foreach(arrays, i, array)
    {
        const char *name = json_string_value(json_object_get(array, "name"));
        int found = 0;
        if (!name) continue;
        json_array_foreach(out, k, before)
        {
            if (found || !same_array(before, name)) continue;
            found = 1;
            json_object_set_new(before, "layers",
                                json_integer(json_integer_value(json_object_get(before, "layers")) + 1));
        }
        if (found) continue;
        before = json_deep_copy(array);
        json_object_del(before, "at");
        if (in_layer(name)) json_object_set_new(before, "layers", json_integer(1));
        json_array_append_new(out, before);
    }
    return out;
}

/* A text of the file that is JSON; it may be missing. */
static lh_status put_text(json_t *object, lh_h5 *h5, const char *key, const char *name)
{
    lh_status st = LH_OK;
    char *text = NULL;
    int64_t bytes = 0;
    json_t *json = NULL;
    if (!lh_h5_has(h5, name)) return LH_OK;
    LH_TRY_DONE(lh_h5_get_text(h5, name, &text, &bytes));
    if (lh_json_parse(&json, lh_h5_path(h5), text, bytes) != LH_OK)
        LH_FAIL_DONE(LH_EFILE, "the text '%s' in %s", name, lh_error_message());
    json_object_set(object, key, json);
done:
    json_decref(json);
    lh_free(text);
    return st;
}

/* The arrays of layers once for all. */
static lh_status describe(json_t *object, lh_h5 *h5, const json_t *arrays)
{
    json_t *list = collapse(arrays), *array;
    int64_t layers = 0, after = 0;
    size_t i;
    json_array_foreach(list, i, array)
    {
        const char *name = json_string_value(json_object_get(array, "name")), *layer = in_layer(name);
        const int64_t n = json_integer_value(json_object_get(array, "layers"));
        if (layer && strcmp(layer, "prefill/queries") == 0) layers = n;
        if (strcmp(name, "/decode/positions") == 0)
            after = json_integer_value(json_array_get(json_object_get(array, "shape"), 0));
    }
    LH_TRY(put_text(object, h5, "model", "/model"));
    LH_TRY(put_text(object, h5, "recording", "/recording"));
    LH_TRY(put_text(object, h5, "policy", "/policy"));
    json_object_set_new(object, "layers_recorded", json_integer(layers));
    json_object_set_new(object, "tokens_after_the_prompt", json_integer(after));
    json_object_set_new(object, "whole_run", json_boolean(lh_h5_has(h5, "/timings/prefill")));
    json_object_set_new(object, "arrays", list);
    return LH_OK;
}

const lh_file_kind lh_trace_kind = {.name = "trace",
                                    .schema = LH_TRACE_SCHEMA,
                                    .objects = {"/model", "/recording", "/policy", "/tokens", "/rows"},
                                    .describe = describe};
