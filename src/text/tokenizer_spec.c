/* tokenizer_spec.c - walks the members 'normalizer', 'pre_tokenizer' and 'decoder' of a tokenizer.json, which have one
 * form: an object with a 'type', or nested Sequences of such objects. */
#include "text/tokenizer_spec.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"

enum { DEPTH = 16 };

typedef struct walk {
    const lh_spec *spec;
    int parts, depth;
} walk;

static lh_status unknown(const lh_spec *spec, const char *type)
{
    lh_status st = LH_OK;
    lh_buf known = {0};
    for (int i = 0; spec->type_at(i); i++) LH_TRY_DONE(lh_buf_printf(&known, ", %s", spec->type_at(i)));
    LH_FAIL_DONE(LH_EINPUT, "'%s': %s '%s' is not known, known are Sequence%s", spec->name, spec->member, type,
                 known.data);
done:
    lh_buf_clear(&known);
    return st;
}

static lh_status read_part(walk *w, const json_t *part);

static lh_status read_sequence(walk *w, const json_t *part)
{
    const lh_spec *spec = w->spec;
    const json_t *list = json_object_get(part, spec->list);
    if (!json_is_array(list)) LH_FAIL(LH_EINPUT, "'%s': '%s' of a Sequence must be a list", spec->name, spec->list);
    if (++w->depth > DEPTH) LH_FAIL(LH_EINPUT, "'%s': '%s' is nested too deep", spec->name, spec->member);
    for (size_t i = 0; i < json_array_size(list); i++) LH_TRY(read_part(w, json_array_get(list, i)));
    w->depth--;
    return LH_OK;
}

static lh_status read_part(walk *w, const json_t *part)
{
    const lh_spec *spec = w->spec;
    const char *type = "";
    LH_TRY(lh_json_string(part, spec->name, "type", &type));
    if (strcmp(type, "Sequence") == 0) {
        LH_TRY(read_sequence(w, part));
        return LH_OK;
    }
    for (int i = 0; spec->type_at(i); i++) {
        if (strcmp(type, spec->type_at(i)) != 0) continue;
        if (w->parts++ == LH_SPEC_PARTS)
            LH_FAIL(LH_EINPUT, "'%s': more than %d steps in '%s'", spec->name, (int)LH_SPEC_PARTS, spec->member);
        LH_TRY(spec->read(spec->self, i, part));
        return LH_OK;
    }
    LH_TRY(unknown(spec, type));
    return LH_OK;
}

lh_status lh_spec_read(const lh_spec *spec, const json_t *json)
{
    walk w = {.spec = spec};
    return json && !json_is_null(json) ? read_part(&w, json) : LH_OK;
}

lh_status lh_spec_text(const lh_spec *spec, const char *key, const json_t *text, char **out, int64_t *bytes)
{
    if (!json_is_string(text)) LH_FAIL(LH_EINPUT, "'%s': '%s' in '%s' must be a string", spec->name, key, spec->member);
    LH_TRY(lh_strndup(out, json_string_value(text), (int64_t)json_string_length(text)));
    *bytes = (int64_t)json_string_length(text);
    return LH_OK;
}
