#include "import/import_hints.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "import/config.h"

/* A file by its first bytes. */
lh_status lh_hint_file(const char *path)
{
    static const struct {
        const char *begins;
        int bytes;
        const char *is;
    } known[] = {
        {"\x89HDF", 4, ": it is HDF5 already ('longhaul info' shows its contents)"},
        {"PK\3\4", 4, ": it is a PyTorch file or a ZIP archive: save the model as safetensors"},
        {"\x80\2", 2, ": it is a PyTorch file (pickle): save the model as safetensors"},
        {"lmgg", 4, ": it is a GGML file of 2023: convert the model again, to GGUF"},
        {"fmgg", 4, ": it is a GGML file of 2023: convert the model again, to GGUF"},
        {"tjgg", 4, ": it is a GGML file of 2023: convert the model again, to GGUF"},
    };
    static const char *const parts[] = {".json", ".safetensors", ".jinja", NULL};
    const char *hint = lh_name_ends_with(path, parts) ? ": give the folder that holds it" : "";
    LH_TRY(lh_hint_lfs(path));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (lh_file_begins_with(path, known[i].begins, known[i].bytes)) hint = known[i].is;
    LH_FAIL(LH_EINPUT, "'%s' is neither a Hugging Face folder nor a GGUF file%s", path, hint);
}

/* At most three file names of the folder with these endings, in quotes; empty if there is none. */
static lh_status names_with(lh_buf *out, const char *folder, const char *const *endings)
{
    lh_status st = LH_OK;
    lh_paths found = {0};
    LH_TRY_DONE(lh_buf_puts(out, ""));
    LH_TRY_DONE(lh_folder_list(&found, NULL, folder, endings));
    for (int64_t i = 0; i < found.n && i < 3; i++)
        LH_TRY_DONE(lh_buf_printf(out, "%s'%s'", i ? ", " : "", lh_path_name(found.at[i])));
    if (found.n > 3) LH_TRY_DONE(lh_buf_puts(out, ", …"));
done:
    lh_paths_clear(&found);
    return st;
}

/* True if the folder has an entry of this name. */
static int has(const char *folder, const char *name)
{
    char *path = NULL;
    int there = 0;
    if (lh_path_join(&path, folder, name) == LH_OK) there = lh_file_exists(path);
    lh_free(path);
    return there;
}

/* An adapter names the model that it belongs to. */
static lh_status refuse_adapter(const char *folder)
{
    lh_status st = LH_OK;
    char *path = NULL;
    json_t *config = NULL;
    const char *base = NULL;
    LH_TRY_DONE(lh_path_join(&path, folder, "adapter_config.json"));
    LH_TRY_DONE(lh_json_read(&config, path, LH_CONFIG_BYTES_MAX));
    LH_TRY_DONE(lh_json_string(config, path, "base_model_name_or_path", &base));
    LH_FAIL_DONE(
        LH_EINPUT,
        "'%s' holds an adapter (LoRA) of '%s', no model: merge it with that model (peft: merge_and_unload) and "
        "import the result",
        folder, base ? base : "a base model");
done:
    json_decref(config);
    lh_free(path);
    return st;
}

lh_status lh_hint_no_config(const char *folder)
{
    static const char *const gguf[] = {".gguf", NULL};
    static const struct {
        const char *entry, *hint;
    } known[] = {
        {"snapshots", ": it is a folder of the Hugging Face cache: give the folder in its 'snapshots'"},
        {"params.json", ", but 'params.json', the layout of the model's authors: give the Hugging Face folder"},
        {"model_index.json", ": it is a diffusion model, no language model"},
    };
    lh_status st = LH_OK;
    lh_buf files = {0};
    const char *hint = "";
    if (has(folder, "adapter_config.json")) LH_TRY_DONE(refuse_adapter(folder));
    LH_TRY_DONE(names_with(&files, folder, gguf));
    if (files.bytes)
        LH_FAIL_DONE(LH_EINPUT, "'%s' has no 'config.json', but %s: give the GGUF file itself", folder, files.data);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (has(folder, known[i].entry)) hint = known[i].hint;
    LH_FAIL_DONE(LH_EINPUT, "'%s' has no 'config.json'%s", folder, hint);
done:
    lh_buf_clear(&files);
    return st;
}

lh_status lh_hint_no_weights(const char *folder)
{
    static const char *const safetensors[] = {".safetensors", NULL}, *const torch[] = {".bin", ".pth", ".pt", NULL};
    static const char wanted[] = "has neither 'model.safetensors' nor 'model.safetensors.index.json'";
    lh_status st = LH_OK;
    lh_buf files = {0}, others = {0};
    if (has(folder, "adapter_config.json")) LH_TRY_DONE(refuse_adapter(folder));
    LH_TRY_DONE(names_with(&files, folder, safetensors));
    LH_TRY_DONE(names_with(&others, folder, torch));
    if (has(folder, "consolidated.safetensors"))
        LH_FAIL_DONE(LH_EINPUT,
                     "'%s' %s, but 'consolidated.safetensors', Mistral's layout, which is not read: give the Hugging "
                     "Face layout of the model",
                     folder, wanted);
    if (files.bytes)
        LH_FAIL_DONE(LH_EINPUT,
                     "'%s' %s, but %s: a single file must have the first name, and several need the index that lists "
                     "their tensors",
                     folder, wanted, files.data);
    LH_FAIL_DONE(LH_EINPUT, "'%s' %s%s", folder, wanted,
                 others.bytes ? ": PyTorch files are not read, save the model as safetensors" : "");
done:
    lh_buf_clear(&files);
    lh_buf_clear(&others);
    return st;
}

lh_status lh_hint_gguf(const lh_gguf *gguf)
{
    static const struct {
        const char *key, *value, *is;
    } known[] = {
        {"general.architecture", "clip",
         "the part of a model for images or sound (mmproj): give the GGUF file of the "
         "language model"},
        {"general.type", "mmproj",
         "the part of a model for images or sound (mmproj): give the GGUF file of the "
         "language model"},
        {"general.type", "adapter",
         "an adapter (LoRA), no model: merge it with its model (llama-export-lora) and import "
         "the result"},
        {"general.type", "imatrix", "an importance matrix, no model"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        lh_gguf_text text = {.data = "", .bytes = 0};
        LH_TRY(lh_gguf_string(gguf, known[i].key, &text));
        if (lh_gguf_text_is(&text, known[i].value)) LH_FAIL(LH_EINPUT, "'%s' is %s", lh_gguf_path(gguf), known[i].is);
    }
    return LH_OK;
}

lh_status lh_hint_lfs(const char *path)
{
    static const char begins[] = "version https://"; /* 16 bytes of "version https://git-lfs.github.com/spec/v1" */
    if (lh_file_begins_with(path, begins, sizeof begins - 1))
        LH_FAIL(
            LH_EINPUT,
            "'%s' is a Git LFS pointer, not the file itself: run 'git lfs pull' in its folder, or download it again",
            path);
    return LH_OK;
}
