/* model_header.c - reads the header of a model from a checkpoint, a source of an import, a config.json or the table of
 * random shapes. */
#include "import/model_header.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "import/checkpoint.h"
#include "import/import_impl.h"
#include "import/import_source.h"
#include "import/quantiser.h"
#include "import/random_shapes.h"
#include "import/random_weights.h"

/* The type that a config.json states. */
static lh_dtype type_of(const json_t *config)
{
    static const char *const members[] = {"torch_dtype", "dtype"};
    const json_t *text = json_object_get(config, "text_config"), *const parts[] = {text, config};
    for (int i = 0; i < 4; i++) {
        const char *name = json_string_value(json_object_get(parts[i / 2], members[i % 2]));
        if (name) return strcmp(name, "bfloat16") == 0 ? LH_BF16 : strcmp(name, "float16") == 0 ? LH_F16 : LH_F32;
    }
    return LH_F32;
}

/* Without weights the formats of a quantised model are unknown. `weights`: sets the types in place of the file. */
static lh_status read_config(lh_model_header *out, const char *path, const char *weights)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    lh_quantiser quantiser = {0};
    LH_TRY_DONE(lh_json_read(&json, path, LH_CONFIG_BYTES_MAX));
    LH_TRY_DONE(lh_config_parse(&out->config, json, path));
    if (!weights) LH_TRY_DONE(lh_quantiser_read(&quantiser, json, path));
    out->quantiser = quantiser.name;
    out->stored = quantiser.name ? LH_BF16 : type_of(json);
done:
    json_decref(json);
    return st;
}

/* The formats that an import would store. */
static lh_status read_source(lh_model_header *out, const char *path)
{
    LH_TRY(lh_import_formats(&out->formats, &out->config, path));
    out->stored = lh_weight_formats_type(out->formats);
    return lh_format_tally_of(&out->weights, &out->config, out->formats);
}

static lh_status read_folder(lh_model_header *out, const char *folder, const char *weights)
{
    lh_status st = LH_OK;
    char *path = NULL, *files = NULL;
    int is_index;
    LH_TRY_DONE(lh_path_join(&path, folder, "config.json"));
    if (!lh_file_exists(path)) LH_FAIL_DONE(LH_EINPUT, "'%s' has no 'config.json'", folder);
    if (!weights) LH_TRY_DONE(lh_source_find_weights(&files, &is_index, folder));
    if (files)
        LH_TRY_DONE(read_source(out, folder));
    else
        LH_TRY_DONE(read_config(out, path, weights));
done:
    lh_free(files);
    lh_free(path);
    return st;
}

static lh_status read_shape(lh_model_header *out, const char *name)
{
    lh_status st = LH_OK;
    char *text = NULL;
    LH_TRY_DONE(lh_random_shape_config(name, &text));
    out->stored = LH_BF16;
    LH_TRY_DONE(lh_config_parse_text(&out->config, text, (int64_t)strlen(text), name));
done:
    lh_free(text);
    return st;
}

static lh_status read_checkpoint(lh_model_header *out, const char *path, const char *weights)
{
    lh_status st = LH_OK;
    lh_checkpoint *ck = NULL;
    LH_TRY_DONE(lh_checkpoint_open_model(&ck, path, weights));
    LH_TRY_DONE(lh_config_copy(&out->config, lh_checkpoint_config(ck)));
    out->stored = lh_checkpoint_dtype(ck);
    out->identity = lh_checkpoint_identity(ck);
    LH_TRY_DONE(lh_weight_formats_copy(&out->formats, lh_checkpoint_formats(ck), &out->config));
    LH_TRY_DONE(lh_format_tally_of(&out->weights, &out->config, out->formats));
done:
    lh_checkpoint_close(ck);
    return st;
}

/* Refuses a word that is neither a path nor the name of a shape. */
static lh_status refuse_name(const char *name)
{
    LH_FAIL(LH_EFILE, "'%s' is no file, and no shape of 'import --random' ('longhaul info' lists those)", name);
}

/* Sources that are no checkpoints; *found: true if the model is such a source. */
static lh_status read_other(lh_model_header *out, const char *source, const char *weights, int *found)
{
    const char *ending = strrchr(source, '.'), *shape = lh_random_shape_of(source);
    const int is_config = ending && strcmp(ending, ".json") == 0, exists = lh_file_exists(source),
              is_path = strchr(source, '/') || is_config || (ending && strcmp(ending, ".h5") == 0);
    *found = 1;
    if (shape) return read_shape(out, shape);
    if (lh_file_is_folder(source)) return read_folder(out, source, weights);
    if (!exists && lh_random_shape_is_known(source)) return read_shape(out, source);
    if (!exists && !is_path) return refuse_name(source);
    if (is_config) return read_config(out, source, weights);
    if (!weights && exists && lh_file_begins_with(source, "GGUF", 4)) return read_source(out, source);
    *found = 0;
    return LH_OK;
}

lh_status lh_model_header_read(lh_model_header *out, const char *source, const char *weights)
{
    lh_import_types types;
    int found;
    *out = (lh_model_header){0};
    LH_TRY(lh_random_types(&types, weights));
    LH_TRY(read_other(out, source, weights, &found));
    if (!found) return read_checkpoint(out, source, weights);
    if (!weights) return LH_OK;
    out->stored = LH_BF16;
    LH_TRY(lh_random_formats(&out->formats, &out->config, &types));
    return lh_format_tally_of(&out->weights, &out->config, out->formats);
}

void lh_model_header_clear(lh_model_header *header)
{
    lh_config_clear(&header->config);
    lh_free(header->formats);
    header->formats = NULL;
}
