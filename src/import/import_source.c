/* import_source.c - opens the source of an import and lists its tensors by name: a safetensors file, shards with an
 * index, or a GGUF file; joins the tensors of a quantised matrix. Also reads the configuration, with the end tokens
 * that generation_config.json adds. */
#include "import/import_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "import/import_hints.h"
#include "import/quantised.h"
#include "import/safetensors.h"

enum { SHARDS_MAX = 10000 };

struct lh_source {
    char *path, *config;
    lh_gguf *gguf;
    lh_safetensors **files;
    int64_t file_count;
    lh_quantiser quantiser;
    lh_source_tensors tensors;
};

/* ---- Hugging Face ---- */
static lh_status add_file(lh_source *s, const char *name)
{
    lh_status st = LH_OK;
    char *path = NULL;
    lh_source_tensor *t = NULL;
    if (s->file_count == SHARDS_MAX)
        LH_FAIL_DONE(LH_EINPUT, "'%s' has more than %d safetensors files", s->path, SHARDS_MAX);
    LH_TRY_DONE(lh_path_join(&path, s->path, name));
    LH_TRY_DONE(lh_realloc(&s->files, s->file_count + 1, sizeof *s->files));
    LH_TRY_DONE(lh_safetensors_open(&s->files[s->file_count], path));
    const lh_safetensors *file = s->files[s->file_count++];
    for (int64_t i = 0; i < lh_safetensors_count(file); i++) {
        const lh_safetensor *from = lh_safetensors_at(file, i);
        LH_TRY_DONE(lh_source_tensors_add(&s->tensors, from->name, (int64_t)strlen(from->name), &t));
        LH_TRY_DONE(lh_strdup(&t->format_name, from->dtype));
        t->format = from->format;
        t->rank = from->rank < 4 ? from->rank : 4;
        for (int d = 0; d < from->rank; d++) t->dims[d < 4 ? d : 3] *= from->shape[d];
        t->map = lh_safetensors_map(file);
        t->data = from->data;
        t->bytes = from->bytes;
    }
done:
    lh_free(path);
    return st;
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files that the index names, each once, sorted. */
static lh_status add_shards(lh_source *s, const json_t *index, const char *index_path)
{
    lh_status st = LH_OK;
    const char **names = NULL, *tensor;
    const json_t *map = json_object_get(index, "weight_map");
    json_t *file;
    int64_t n = 0;
    if (!json_is_object(map) || json_object_size(map) == 0)
        LH_FAIL_DONE(LH_EINPUT, "'%s' has no 'weight_map'", index_path);
    LH_TRY_DONE(lh_calloc(&names, (int64_t)json_object_size(map), sizeof *names));
    json_object_foreach((json_t *)(uintptr_t)map, tensor, file)
    {
        const char *name = json_string_value(file);
        if (!name || !*name || *name == '.' || strchr(name, '/'))
            LH_FAIL_DONE(LH_EINPUT, "'%s': the file of tensor '%s' must be a file name in the same folder", index_path,
                         tensor);
        names[n++] = name;
    }
    qsort(names, (size_t)n, sizeof *names, compare_text);
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0) LH_TRY_DONE(add_file(s, names[i]));
done:
    lh_free(names);
    return st;
}

/* Chat models end at more than one token, and often only generation_config.json lists them all. */
static lh_status merge_generation(const lh_source *s, json_t *config, int *changed)
{
    lh_status st = LH_OK;
    char *path = NULL;
    json_t *generation = NULL, *text = json_object_get(config, "text_config");
    LH_TRY_DONE(lh_path_join(&path, s->path, "generation_config.json"));
    if (!lh_file_exists(path)) goto done;
    LH_TRY_DONE(lh_json_read(&generation, path, LH_CONFIG_BYTES_MAX));
    json_t *eos = json_object_get(generation, "eos_token_id"),
           *owner = json_is_object(text) && json_object_get(text, "eos_token_id") ? text : config;
    if (!eos || json_is_null(eos) || json_equal(eos, json_object_get(owner, "eos_token_id"))) goto done;
    LH_TRY_DONE(lh_json_set(owner, "eos_token_id", json_incref(eos)));
    *changed = 1;
done:
    json_decref(generation);
    lh_free(path);
    return st;
}

lh_status lh_source_find_weights(char **path, int *is_index, const char *folder)
{
    for (*is_index = 0; *is_index < 2; ++*is_index) {
        LH_TRY(lh_path_join(path, folder, *is_index ? "model.safetensors.index.json" : "model.safetensors"));
        if (lh_file_exists(*path)) return LH_OK;
        lh_free(*path);
    }
    *path = NULL;
    return LH_OK;
}

static lh_status open_folder(lh_source *s)
{
    lh_status st = LH_OK;
    char *config_path = NULL, *weights = NULL;
    json_t *config = NULL, *index = NULL;
    lh_config known = {0};
    lh_buf text = {0};
    int changed = 0, is_index;
    LH_TRY_DONE(lh_path_join(&config_path, s->path, "config.json"));
    if (!lh_file_exists(config_path)) LH_TRY_DONE(lh_hint_no_config(s->path));
    LH_TRY_DONE(lh_hint_lfs(config_path));
    LH_TRY_DONE(lh_file_read_regular(&text, config_path, LH_CONFIG_BYTES_MAX));
    LH_TRY_DONE(lh_json_parse(&config, config_path, text.data, text.bytes));
    LH_TRY_DONE(lh_config_parse(&known, config, config_path)); /* an unknown family is reported first */
    LH_TRY_DONE(merge_generation(s, config, &changed));
    LH_TRY_DONE(lh_quantiser_read(&s->quantiser, config, config_path));
    changed |= lh_quantiser_drop(config); /* the checkpoint has rows, not the tensors that the member describes */
    if (changed)
        LH_TRY_DONE(lh_json_dump(&s->config, config, JSON_INDENT(2)));
    else
        LH_TRY_DONE(lh_strdup(&s->config, text.data));
    LH_TRY_DONE(lh_source_find_weights(&weights, &is_index, s->path));
    if (!weights) {
        LH_TRY_DONE(lh_hint_no_weights(s->path));
    } else if (is_index) {
        LH_TRY_DONE(lh_hint_lfs(weights));
        LH_TRY_DONE(lh_json_read(&index, weights, LH_CONFIG_BYTES_MAX));
        LH_TRY_DONE(add_shards(s, index, weights));
    } else {
        LH_TRY_DONE(add_file(s, "model.safetensors"));
    }
done:
    lh_config_clear(&known);
    lh_buf_clear(&text);
    json_decref(index);
    json_decref(config);
    lh_free(weights);
    lh_free(config_path);
    return st;
}

/* ---- GGUF ---- */
static lh_status open_gguf(lh_source *s)
{
    lh_status st = LH_OK;
    json_t *config = NULL;
    LH_TRY_DONE(lh_gguf_open(&s->gguf, s->path));
    LH_TRY_DONE(lh_hint_gguf(s->gguf));
    LH_TRY_DONE(lh_gguf_config(&config, s->gguf));
    LH_TRY_DONE(lh_json_dump(&s->config, config, JSON_INDENT(2)));
    for (int64_t i = 0; i < lh_gguf_tensors(s->gguf); i++) {
        const lh_gguf_tensor *from = lh_gguf_tensor_at(s->gguf, i);
        lh_source_tensor *t = NULL;
        LH_TRY_DONE(lh_source_tensors_add(&s->tensors, from->name.data, from->name.bytes, &t));
        t->format = lh_format_numbered(from->type);
        if (t->format)
            LH_TRY_DONE(lh_strdup(&t->format_name, t->format->name));
        else
            LH_TRY_DONE(lh_asprintf(&t->format_name, "number %d", from->type));
        t->rank = from->rank;
        for (int d = 0; d < from->rank; d++) t->dims[d] = from->dims[from->rank - 1 - d];
        t->map = from->map;
        t->data = from->data;
        t->bytes = from->bytes;
    }
done:
    json_decref(config);
    return st;
}

/* The tensor of the codes becomes the matrix, NAME.weight. */
static lh_status become_matrix(lh_source_tensor *t)
{
    const lh_quantised_info *info = lh_quantised_info_of(t->quantised);
    char *name = NULL;
    LH_TRY(lh_asprintf(&name, "%.*s.weight", (int)(strrchr(t->name, '.') - t->name), t->name));
    lh_free(t->name);
    t->name = name;
    t->format = info->format;
    t->rank = 2;
    t->dims[0] = info->rows;
    t->dims[1] = info->cols;
    t->used = 0;
    return LH_OK;
}

/* The tensors are found by name until all matrices are open. */
static lh_status join_quantised(lh_source_tensors *all, const lh_quantiser *quantiser)
{
    int64_t n = 0;
    for (int64_t i = 0; i < all->n; i++) {
        if (!lh_quantised_is_codes(quantiser, &all->at[i])) continue;
        LH_TRY(lh_quantised_open(&all->at[i].quantised, quantiser, all, &all->at[i]));
        n++;
    }
    if (n == 0 && quantiser->name)
        lh_warn(
            "'%s': no tensor holds codes of the method '%s', which 'quantization_config' names: all weights are read "
            "as plain numbers",
            all->path, quantiser->name);
    for (int64_t i = 0; i < all->n; i++)
        if (all->at[i].quantised) LH_TRY(become_matrix(&all->at[i]));
    return lh_source_tensors_sort(all);
}

lh_status lh_source_open(lh_source **out, const char *path)
{
    lh_status st = LH_OK;
    lh_source *s = NULL;
    LH_TRY_DONE(lh_calloc(&s, 1, sizeof *s));
    LH_TRY_DONE(lh_strdup(&s->path, path));
    s->tensors.path = s->path;
    if (!lh_file_exists(path)) LH_FAIL_DONE(LH_EINPUT, "'%s' does not exist", path);
    if (lh_file_is_folder(path))
        LH_TRY_DONE(open_folder(s));
    else if (lh_file_begins_with(path, "GGUF", 4))
        LH_TRY_DONE(open_gguf(s));
    else
        LH_TRY_DONE(lh_hint_file(path));
    if (s->tensors.n == 0) LH_FAIL_DONE(LH_EINPUT, "'%s' holds no tensors: it is no model", path);
    LH_TRY_DONE(lh_source_tensors_sort(&s->tensors));
    LH_TRY_DONE(join_quantised(&s->tensors, &s->quantiser));
    *out = s;
    s = NULL;
done:
    lh_source_close(s);
    return st;
}

void lh_source_close(lh_source *s)
{
    if (!s) return;
    for (int64_t i = 0; i < s->tensors.n; i++) lh_quantised_close(s->tensors.at[i].quantised);
    lh_source_tensors_clear(&s->tensors);
    for (int64_t i = 0; i < s->file_count; i++) lh_safetensors_close(s->files[i]);
    lh_gguf_close(s->gguf);
    lh_free(s->files);
    lh_free(s->config);
    lh_free(s->path);
    lh_free(s);
}

const char *lh_source_path(const lh_source *s)
{
    return s->path;
}

int lh_source_is_gguf(const lh_source *s)
{
    return s->gguf != NULL;
}

const char *lh_source_quantiser(const lh_source *s)
{
    return s->quantiser.name;
}

void lh_source_row(const lh_source_tensor *t, int64_t row, int64_t cols, void *dst)
{
    const int64_t bytes = lh_format_bytes(t->format, cols);
    if (t->quantised)
        lh_quantised_row(t->quantised, row, dst);
    else
        memcpy(dst, t->data + row * bytes, (size_t)bytes);
}

void lh_source_release(const lh_source_tensor *t, int64_t row, int64_t n, int64_t cols)
{
    const int64_t bytes = lh_format_bytes(t->format, cols);
    if (t->quantised)
        lh_quantised_release(t->quantised, row, n);
    else
        lh_map_release(t->data + row * bytes, n * bytes);
}

lh_status lh_source_unchanged(const lh_source_tensor *t)
{
    return t->quantised ? lh_quantised_unchanged(t->quantised) : lh_map_unchanged(t->map);
}

const lh_format *lh_source_stored(const lh_source_tensor *t)
{
    return t->quantised ? lh_quantised_info_of(t->quantised)->stored : t->format;
}

const char *lh_source_config(const lh_source *s)
{
    return s->config;
}

lh_status lh_source_set_tied(lh_source *s, int tied)
{
    lh_status st = LH_OK;
    char *text = NULL;
    json_t *config = NULL;
    LH_TRY_DONE(lh_json_parse(&config, s->path, s->config, (int64_t)strlen(s->config)));
    LH_TRY_DONE(lh_json_set(config, "tie_word_embeddings", json_boolean(tied)));
    LH_TRY_DONE(lh_json_dump(&text, config, JSON_INDENT(2)));
    lh_free(s->config);
    s->config = text;
done:
    json_decref(config);
    return st;
}

lh_status lh_source_may_be_tied(const lh_source *s, int *tied)
{
    lh_status st = LH_OK;
    json_t *config = NULL;
    LH_TRY_DONE(lh_json_parse(&config, s->path, s->config, (int64_t)strlen(s->config)));
    const json_t *text = json_object_get(config, "text_config"),
                 *outer = json_object_get(config, "tie_word_embeddings"),
                 *inner = json_object_get(text, "tie_word_embeddings");
    *tied = json_is_true(outer) || json_is_true(inner) || (text && !json_is_false(outer) && !json_is_false(inner));
done:
    json_decref(config);
    return st;
}

int64_t lh_source_count(const lh_source *s)
{
    return s->tensors.n;
}

lh_source_tensor *lh_source_at(lh_source *s, int64_t i)
{
    return &s->tensors.at[i];
}

lh_source_tensor *lh_source_find(const lh_source *s, const char *name)
{
    return lh_source_tensors_find(&s->tensors, name);
}
