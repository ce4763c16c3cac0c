#include "lab/trace/after_prompt.h"

#include <stdlib.h>
#include <string.h>

#include "lab/trace/segment.h"

lh_status lh_trace_identity(const lh_trace_file *f, uint64_t *identity)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    char *end = NULL;
    LH_TRY_DONE(lh_trace_json(f, "/model", &json));
    const char *digits = json_string_value(json_object_get(json, "identity"));
    *identity = digits ? strtoull(digits, &end, 16) : 0;
    if (!digits || strlen(digits) != 16 || *end)
        LH_FAIL_DONE(LH_EFILE, "'/model' of '%s' has no identity of 16 hexadecimal digits", lh_h5_path(f->h5));
done:
    json_decref(json);
    return st;
}

lh_status lh_trace_run_tokens(const lh_trace_file *f, int64_t *tokens)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    LH_TRY_DONE(lh_trace_json(f, "/recording", &json));
    *tokens = json_integer_value(json_object_get(json, "run_tokens"));
    if (*tokens < f->prompt || *tokens > INT32_MAX)
        LH_FAIL_DONE(LH_EFILE, "'run_tokens' of '/recording' in '%s' is missing or not between %lld and %d",
                     lh_h5_path(f->h5), (long long)f->prompt, INT32_MAX);
done:
    json_decref(json);
    return st;
}

lh_status lh_trace_after_tokens(const lh_trace_file *f, int64_t vocab, int32_t **out)
{
    lh_h5_shape shape;
    LH_TRY(lh_h5_get(f->h5, "/decode/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {f->after_count}},
                     &shape, out));
    for (int64_t i = 0; i < f->after_count; i++)
        if ((*out)[i] < 0 || (*out)[i] >= vocab)
            LH_FAIL(LH_EFILE, "element %lld of '/decode/tokens' in '%s' is %d, the vocabulary has %lld tokens",
                    (long long)i, lh_h5_path(f->h5), (*out)[i], (long long)vocab);
    return LH_OK;
}

lh_status lh_trace_logits(const lh_trace_file *f, int64_t vocab, float **out)
{
    lh_h5_shape shape;
    return lh_h5_get(f->h5, "/logits", &(lh_h5_shape){.type = LH_F32, .rank = 2, .dims = {1, vocab}}, &shape, out);
}

static lh_status read_heads(const lh_trace_file *f, const lh_trace_entries *to, const char *array, void *data)
{
    lh_status st = LH_OK;
    lh_h5_array *a = NULL;
    char name[LH_SEGMENT_NAME];
    snprintf(name, sizeof name, "/layers/%03lld/prefill/%s", (long long)to->layer, array);
    LH_TRY_DONE(lh_h5_array_open(&a, f->h5, name));
    LH_TRY_DONE(lh_h5_array_check(a));
    const lh_h5_shape *s = lh_h5_array_shape(a);
    const int64_t dims[] = {f->shape.heads.kv_heads, f->prompt, f->shape.head_dim};
    if (s->type != f->shape.type || s->rank != 3 || memcmp(s->dims, dims, sizeof dims) != 0)
        LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' is not %s of %lld heads, %lld tokens and %lld dimensions", name,
                     lh_h5_path(f->h5), lh_dtype_name(f->shape.type), (long long)dims[0], (long long)dims[1],
                     (long long)dims[2]);
    LH_TRY_DONE(lh_h5_array_read(a, &(lh_h5_slab){.at = {to->first}, .count = {to->count, dims[1], dims[2]}}, data));
    LH_TRY_DONE(lh_h5_array_checked(a));
done:
    lh_h5_array_close(a);
    return st;
}

lh_status lh_trace_read_entries(const lh_trace_file *f, const lh_trace_entries *to)
{
    LH_TRY(read_heads(f, to, "keys", to->keys));
    return read_heads(f, to, "values", to->values);
}
