/* quantiser.c - reads 'quantization_config': one function for each method. Documentation of the members: transformers'
 * utils/quantization_config.py, compressed-tensors' quantization/quant_args.py. */
#include "import/quantiser.h"

#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/mem.h"

static const char member[] = "quantization_config";

/* Bound of group and block sizes: products with a size of a matrix stay far below 2^63. */
enum { GROUP_MAX = 1 << 24 };

static lh_status add_layout(lh_quantiser *q, const char *name, const lh_quant_layout *layout)
{
    if (q->n == LH_QUANT_LAYOUTS)
        LH_FAIL(LH_EINPUT, "'%s': '%s' has more than %d groups of modules", name, member, LH_QUANT_LAYOUTS);
    q->layouts[q->n++] = *layout;
    return LH_OK;
}

/* A layout with a scale for each block [rows, columns], which is a list of two sizes. */
static lh_status add_blocks(lh_quantiser *q, const char *name, int bits, const json_t *block)
{
    const json_t *rows = json_array_get(block, 0), *cols = json_array_get(block, 1);
    const int64_t r = json_integer_value(rows), c = json_integer_value(cols);
    if (json_array_size(block) != 2 || r < 1 || c < 1 || r > GROUP_MAX || c > GROUP_MAX)
        LH_FAIL(LH_EINPUT, "'%s': the size of a block in '%s' must be a list of two sizes, such as [128, 128]", name,
                member);
    return add_layout(q, name, &(lh_quant_layout){bits, r, c});
}

/* A layout with a scale for each `group_size` columns of a row; -1: for each row. */
static lh_status add_groups(lh_quantiser *q, const char *name, int bits, const json_t *json)
{
    int64_t group = -1;
    LH_TRY(lh_json_i64(json, name, "group_size", -1, GROUP_MAX, &group));
    if (group == 0) LH_FAIL(LH_EINPUT, "'%s': 'group_size' is 0, it must be -1 or at least 1", name);
    return add_layout(q, name, &(lh_quant_layout){bits, 1, group < 0 ? 0 : group});
}

/* 'bits' of GPTQ and AWQ. */
static lh_status read_bits(const json_t *json, const char *name, int64_t max, int64_t *bits)
{
    *bits = 0;
    LH_TRY(lh_json_i64(json, name, "bits", INT64_MIN, INT64_MAX, bits));
    if (*bits != 4 && *bits != max)
        LH_FAIL(LH_EINPUT, "'%s': 'bits' of '%s' is %lld: %s supported", name, member, (long long)*bits,
                max == 8 ? "4 and 8 are" : "only 4 is");
    return LH_OK;
}

/* A text that must be one of a list, in any case of letters; absent: the first. */
static lh_status check_text(const json_t *json, const char *name, const char *key, const char *const *allowed)
{
    const char *value = allowed[0];
    LH_TRY(lh_json_string(json, name, key, &value));
    for (int i = 0; allowed[i]; i++)
        if (strcasecmp(value, allowed[i]) == 0) return LH_OK;
    LH_FAIL(LH_EINPUT, "'%s': '%s' of '%s' is '%s': only '%s' is supported", name, key, member, value, allowed[0]);
}

static lh_status read_fp8(lh_quantiser *q, const json_t *json, const char *name)
{
    static const char *const formats[] = {"e4m3", "float8_e4m3fn", NULL};
    const json_t *block = lh_json_member(json, "weight_block_size");
    LH_TRY(check_text(json, name, "fmt", formats));
    if (block) return add_blocks(q, name, 8, block);
    LH_TRY(add_layout(q, name, &(lh_quant_layout){.bits = 8}));
    return add_layout(q, name, &(lh_quant_layout){.bits = 8, .rows = 1});
}

static lh_status read_gptq(lh_quantiser *q, const json_t *json, const char *name)
{
    const char *format = "gptq";
    int64_t bits;
    LH_TRY(read_bits(json, name, 8, &bits));
    LH_TRY(lh_json_string(json, name, "checkpoint_format", &format));
    q->zeros_less_one = strcmp(format, "gptq") == 0;
    if (!q->zeros_less_one && strcmp(format, "gptq_v2") != 0)
        LH_FAIL(LH_EINPUT, "'%s': 'checkpoint_format' of '%s' is '%s': gptq and gptq_v2 are supported", name, member,
                format);
    return add_groups(q, name, (int)bits, json);
}

static lh_status read_awq(lh_quantiser *q, const json_t *json, const char *name)
{
    static const char *const versions[] = {"gemm", NULL};
    int64_t bits;
    LH_TRY(read_bits(json, name, 4, &bits));
    LH_TRY(check_text(json, name, "version", versions));
    return add_groups(q, name, (int)bits, json);
}

/* ---- compressed-tensors ---- */

/* The weights of a group of modules. */
static lh_status read_weights(lh_quantiser *q, const json_t *json, const char *name)
{
    const char *type = "int", *strategy = "";
    int64_t bits = 8;
    LH_TRY(lh_json_i64(json, name, "num_bits", INT64_MIN, INT64_MAX, &bits));
    LH_TRY(lh_json_string(json, name, "type", &type));
    LH_TRY(lh_json_string(json, name, "strategy", &strategy));
    if ((bits != 4 && bits != 8) || (strcmp(type, "int") != 0 && strcmp(type, "float") != 0))
        LH_FAIL(LH_EINPUT,
                "'%s': '%s' has weights of type '%s' with %lld bits: int and float with 4 and 8 bits are supported",
                name, member, type, (long long)bits);
    if (strcmp(strategy, "tensor") == 0) return add_layout(q, name, &(lh_quant_layout){.bits = (int)bits});
    if (strcmp(strategy, "channel") == 0) return add_layout(q, name, &(lh_quant_layout){.bits = (int)bits, .rows = 1});
    if (strcmp(strategy, "block") == 0) return add_blocks(q, name, (int)bits, lh_json_member(json, "block_structure"));
    if (strcmp(strategy, "group") == 0 || strcmp(strategy, "tensor_group") == 0)
        return add_groups(q, name, (int)bits, json);
    LH_FAIL(LH_EINPUT,
            "'%s': 'strategy' of weights in '%s' is '%s': tensor, channel, group, tensor_group and block are supported",
            name, member, strategy);
}

/* LH_EINPUT for a format with tensors that are not read. */
static lh_status check_format(const json_t *json, const char *name)
{
    static const char *const known[] = {"float-quantized", "naive-quantized",      "int-quantized",
                                        "pack-quantized",  "nvfp4-pack-quantized", "mixed-precision"};
    const char *format = known[0];
    LH_TRY(lh_json_string(json, name, "format", &format));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(format, known[i]) == 0) return LH_OK;
    LH_FAIL(LH_EINPUT,
            "'%s': 'format' of '%s' is '%s': float-quantized, naive-quantized, int-quantized, pack-quantized, "
            "nvfp4-pack-quantized and mixed-precision are supported",
            name, member, format);
}

static lh_status read_compressed(lh_quantiser *q, const json_t *json, const char *name)
{
    static const char *const dense[] = {"dense", NULL};
    const char *group;
    json_t *value;
    LH_TRY(check_format(json, name));
    LH_TRY(check_text(json_object_get(json, "sparsity_config"), name, "format", dense));
    if (json_object_size(json_object_get(json, "transform_config")) > 0)
        LH_FAIL(LH_EINPUT, "'%s': '%s' has a 'transform_config': rotated weights are not supported", name, member);
    json_object_foreach(json_object_get(json, "config_groups"), group, value)
    {
        const json_t *weights = lh_json_member(value, "weights");
        LH_TRY(check_format(value, name));
        if (weights) LH_TRY(read_weights(q, weights, name));
    }
    if (q->n == 0) LH_FAIL(LH_EINPUT, "'%s': 'config_groups' of '%s' quantises no weights", name, member);
    return LH_OK;
}

/* ---- methods ---- */

static const struct {
    const char *name;
    lh_quant_method method;
    lh_status (*read)(lh_quantiser *q, const json_t *json, const char *name);
} methods[] = {{"fp8", LH_QUANT_FP8, read_fp8},
               {"compressed-tensors", LH_QUANT_COMPRESSED, read_compressed},
               {"gptq", LH_QUANT_GPTQ, read_gptq},
               {"awq", LH_QUANT_AWQ, read_awq}};

static lh_status refuse_method(const char *name, const char *method)
{
    lh_status st = LH_OK;
    lh_buf known = {0};
    const size_t n = sizeof methods / sizeof *methods;
    for (size_t i = 0; i < n; i++)
        LH_TRY_DONE(lh_buf_printf(&known, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " and ", methods[i].name));
    LH_FAIL_DONE(LH_EINPUT,
                 "'%s': the weights are quantised by the method '%s' ('quant_method' of '%s'): %s are supported, and "
                 "quantised GGUF files",
                 name, method, member, known.data);
done:
    lh_buf_clear(&known);
    return st;
}

/* The object that holds the member: the text model, or else the whole configuration; NULL if none holds it. */
static json_t *owner_of(const json_t *config)
{
    json_t *const owners[] = {json_object_get(config, "text_config"), (json_t *)(uintptr_t)config};
    for (int i = 0; i < 2; i++)
        if (lh_json_member(owners[i], member)) return owners[i];
    return NULL;
}

lh_status lh_quantiser_read(lh_quantiser *out, const json_t *config, const char *name)
{
    const json_t *json = lh_json_member(owner_of(config), member);
    const char *method = NULL;
    *out = (lh_quantiser){0};
    if (!json) return LH_OK;
    LH_TRY(lh_json_string(json, name, "quant_method", &method));
    if (!method) LH_FAIL(LH_EINPUT, "'%s': the weights are quantised, and '%s' has no 'quant_method'", name, member);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(method, methods[i].name) != 0) continue;
        out->method = methods[i].method;
        out->name = methods[i].name;
        return methods[i].read(out, json, name);
    }
    return refuse_method(name, method);
}

int lh_quantiser_drop(json_t *config)
{
    json_t *owner = owner_of(config);
    return owner && json_object_del(owner, member) == 0;
}
