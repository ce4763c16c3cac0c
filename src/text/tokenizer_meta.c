/* tokenizer_meta.c - the companion object of a tokenizer.json: first and end tokens, whether a first token is added,
 * and the chat template. Collected from the other files of a Hugging Face folder, and written as JSON. Also adds
 * tokens that a tokenizer.json lacks. */
#include "text/tokenizer_meta.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "text/tokenizer_impl.h"

enum { CONFIG_BYTES = 64 << 20 };

/* ---- the object itself ---- */

lh_status lh_tokenizer_meta_ends(lh_tokenizer_meta *meta, int64_t id)
{
    if (id < 0 || id > INT32_MAX) return LH_OK;
    for (int64_t i = 0; i < meta->eos.n; i++)
        if (meta->eos.ids[i] == id) return LH_OK;
    LH_TRY(lh_tokens_push(&meta->eos, (int32_t)id));
    return LH_OK;
}

lh_status lh_tokenizer_meta_after_answer(const lh_tokenizer_meta *meta, const char *eos, lh_buf *out)
{
    const lh_chat_format *format = NULL;
    lh_status st = lh_buf_puts(out, "");
    if (st != LH_OK || !meta->chat_template.bytes) return st;
    st = lh_chat_open(&format, "", meta->chat_template.data, meta->chat_template.bytes);
    if (st == LH_OK) st = lh_chat_after_answer(format, eos, out);
    lh_chat_close(format);
    if (st != LH_EINPUT) return st;
    lh_error_clear();
    return LH_OK;
}

void lh_tokenizer_meta_warn_end(const char *name, const char *after_answer)
{
    enum { SHOWN = 60 };
    const char *mark = after_answer + strspn(after_answer, " \t\r\n");
    const char *end = *mark == '<' ? strchr(mark, '>') : *mark == '[' ? strchr(mark, ']') : NULL;
    const int bytes = end ? (int)(end + 1 - mark) : 0;
    if (bytes)
        lh_warn(
            "'%s': the chat template ends an answer with '%.*s', which is no added token of the tokenizer: it is spelt "
            "in several tokens, and ends no answer",
            name, bytes < SHOWN ? bytes : SHOWN, mark);
}

void lh_tokenizer_meta_clear(lh_tokenizer_meta *meta)
{
    lh_tokens_clear(&meta->eos);
    lh_buf_clear(&meta->chat_template);
}

lh_status lh_tokenizer_meta_write(const lh_tokenizer_meta *meta, const char *name, lh_buf *out)
{
    lh_status st = LH_OK;
    char *text = NULL;
    json_t *eos = json_array();
    for (int64_t i = 0; i < meta->eos.n; i++) json_array_append_new(eos, json_integer(meta->eos.ids[i]));
    json_t *jinja = meta->chat_template.bytes
                        ? json_stringn(meta->chat_template.data, (size_t)meta->chat_template.bytes)
                        : json_null();
    if (!jinja) LH_FAIL_DONE(LH_EINPUT, "'%s': the chat template is not UTF-8 text", name);
    json_t *object = json_pack("{s:o, s:O, s:b, s:o}", "bos", meta->bos < 0 ? json_null() : json_integer(meta->bos),
                               "eos", eos, "add_bos", meta->add_bos, "chat_template", jinja);
    st = lh_json_dump(&text, object, JSON_INDENT(1));
    json_decref(object);
    LH_TRY_DONE(st);
    LH_TRY_DONE(lh_buf_puts(out, text));
done:
    json_decref(eos);
    lh_free(text);
    return st;
}

/* ---- from a folder ---- */

/* *out: the object of a companion file, NULL if there is no such file; LH_EINPUT if it is not valid. Numbers are read
 * as floats: the lengths in some tokenizer_config.json (1e30, written out) fit in no integer. */
static lh_status read_companion(const char *folder, const char *file, json_t **out)
{
    lh_status st = LH_OK;
    char *path = NULL;
    lh_buf text = {0};
    json_error_t error;
    LH_TRY_DONE(lh_path_join(&path, folder, file));
    if (!lh_file_exists(path)) goto done;
    LH_TRY_DONE(lh_file_read_regular(&text, path, CONFIG_BYTES));
    *out = json_loadb(text.data, (size_t)text.bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    if (!*out)
        LH_FAIL_DONE(LH_EINPUT, "'%s' is not valid JSON: line %d, column %d: %s", path, error.line, error.column,
                     error.text);
    if (!json_is_object(*out)) LH_FAIL_DONE(LH_EINPUT, "'%s' must be a JSON object", path);
done:
    lh_free(path);
    lh_buf_clear(&text);
    return st;
}

typedef struct companions {
    const lh_tokenizer *tok;
    const char *path;
    json_t *tokenizer_config, *special_map, *generation, *config; /* NULL if the file does not exist */
} companions;

/* Id of a token given by its text, or by an object with the text in 'content'; -1: none. */
static int32_t named_token(const companions *f, const json_t *value)
{
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    return text ? lh_tokenizer_find(f->tok, text) : -1;
}

/* The first name that is a special token: for tokenizers without companion files. */
static int32_t usual_token(const companions *f, const char *const *names)
{
    for (; *names; names++) {
        int32_t id = lh_tokenizer_find(f->tok, *names);
        if (id >= 0 && lh_added_is_special(f->tok->added, id)) return id;
    }
    return -1;
}

static int64_t first_id(const json_t *value)
{
    if (json_is_array(value)) value = json_array_get(value, 0);
    double id = json_is_real(value) ? json_real_value(value) : -1;
    return id >= 0 && id <= INT32_MAX ? (int64_t)id : -1;
}

static int32_t folder_bos(const companions *f)
{
    static const char *const usual[] = {"<s>", "<bos>", "<|begin_of_text|>", NULL};
    const json_t *named = json_object_get(f->tokenizer_config, "bos_token");
    if (!named) named = json_object_get(f->special_map, "bos_token");
    if (json_is_null(named)) return f->tok->bos; /* "there is none" */
    int64_t id = named_token(f, named);
    if (id < 0) id = first_id(json_object_get(f->generation, "bos_token_id"));
    if (id < 0) id = first_id(json_object_get(f->config, "bos_token_id"));
    if (id >= lh_tokenizer_vocab(f->tok)) id = -1;
    if (id < 0) id = f->tok->bos;
    return id < 0 ? usual_token(f, usual) : (int32_t)id;
}

static lh_status folder_eos(const companions *f, lh_tokenizer_meta *meta)
{
    static const char *const usual[] = {"</s>", "<eos>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>", NULL};
    const json_t *named = json_object_get(f->tokenizer_config, "eos_token");
    const json_t *const lists[] = {f->generation, f->config};
    if (!named) named = json_object_get(f->special_map, "eos_token");
    LH_TRY(lh_tokenizer_meta_ends(meta, named_token(f, named)));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_t *ids = json_object_get(lists[i], "eos_token_id");
        LH_TRY(lh_tokenizer_meta_ends(meta, first_id(ids)));
        for (size_t k = 1; k < json_array_size(ids); k++)
            LH_TRY(lh_tokenizer_meta_ends(meta, first_id(json_array_get(ids, k))));
    }
    if (meta->eos.n == 0) LH_TRY(lh_tokenizer_meta_ends(meta, usual_token(f, usual)));
    return LH_OK;
}

/* A 'chat_template': a text, or a list with one named 'default'. */
static lh_status add_template(const json_t *value, lh_buf *out)
{
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
        const json_t *one = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (!name || strcmp(name, "default") != 0) continue;
        value = json_object_get(one, "template");
        break;
    }
    return json_is_string(value) ? lh_buf_append(out, json_string_value(value), (int64_t)json_string_length(value))
                                 : LH_OK;
}

/* chat_template.jinja, or the member 'chat_template' of tokenizer_config.json or of a file of multimodal folders. */
static lh_status folder_template(const companions *f, lh_buf *out)
{
    static const char *const others[] = {"chat_template.json", "processor_config.json"};
    lh_status st = LH_OK;
    char *path = NULL;
    json_t *other = NULL;
    LH_TRY_DONE(lh_path_join(&path, f->path, "chat_template.jinja"));
    if (lh_file_exists(path)) {
        LH_TRY_DONE(lh_file_read_regular(out, path, CONFIG_BYTES));
        goto done;
    }
    LH_TRY_DONE(add_template(json_object_get(f->tokenizer_config, "chat_template"), out));
    for (size_t i = 0; i < sizeof others / sizeof *others && !out->bytes; i++) {
        json_decref(other);
        other = NULL;
        LH_TRY_DONE(read_companion(f->path, others[i], &other));
        LH_TRY_DONE(add_template(json_object_get(other, "chat_template"), out));
    }
done:
    json_decref(other);
    lh_free(path);
    return st;
}

/* True if the first token of the text is an added token, special or not. */
static int begins_with_added(const lh_tokenizer *tok, const lh_buf *text)
{
    const int64_t skip = (int64_t)strspn(text->data, " \t\r\n");
    const lh_subject rest = {text->data + skip, text->bytes - skip};
    lh_added_hit raw = {0}, normalized = {0};
    lh_added_next(tok->added, LH_ADDED_RAW, rest, (lh_added_mask){NULL, 0}, &raw);
    lh_added_next(tok->added, LH_ADDED_NORMALIZED, rest, (lh_added_mask){NULL, 0}, &normalized);
    return (raw.found && raw.start == 0) || (normalized.found && normalized.start == 0);
}

static lh_status folder_turn_end(const companions *f, lh_tokenizer_meta *meta)
{
    lh_status st = LH_OK;
    lh_buf eos = {0}, after = {0};
    int32_t id;
    LH_TRY_DONE(lh_buf_puts(&eos, ""));
    if (meta->eos.n) LH_TRY_DONE(lh_tokenizer_decode(f->tok, meta->eos.ids, 1, &eos));
    LH_TRY_DONE(lh_tokenizer_meta_after_answer(meta, eos.data, &after));
    LH_TRY_DONE(lh_chat_end(f->tok, &after, &id));
    LH_TRY_DONE(lh_tokenizer_meta_ends(meta, id));
    if (id < 0 && !begins_with_added(f->tok, &after)) lh_tokenizer_meta_warn_end(f->path, after.data);
done:
    lh_buf_clear(&eos);
    lh_buf_clear(&after);
    return st;
}

lh_status lh_tokenizer_meta_folder(const lh_tokenizer *tok, const char *path, lh_buf *out)
{
    lh_status st = LH_OK;
    companions f = {.tok = tok, .path = path};
    lh_tokenizer_meta meta = {.bos = -1, .add_bos = tok->adds_bos};
    LH_TRY_DONE(read_companion(path, "tokenizer_config.json", &f.tokenizer_config));
    LH_TRY_DONE(read_companion(path, "special_tokens_map.json", &f.special_map));
    LH_TRY_DONE(read_companion(path, "generation_config.json", &f.generation));
    LH_TRY_DONE(read_companion(path, "config.json", &f.config));
    LH_TRY_DONE(folder_template(&f, &meta.chat_template));
    meta.bos = folder_bos(&f);
    LH_TRY_DONE(lh_json_bool(f.tokenizer_config, path, "add_bos_token", &meta.add_bos));
    LH_TRY_DONE(folder_eos(&f, &meta));
    LH_TRY_DONE(folder_turn_end(&f, &meta));
    LH_TRY_DONE(lh_tokenizer_meta_write(&meta, path, out));
done:
    lh_tokenizer_meta_clear(&meta);
    json_decref(f.tokenizer_config);
    json_decref(f.special_map);
    json_decref(f.generation);
    json_decref(f.config);
    return st;
}

/* ---- missing added tokens ----
 *
 * Fine-tuned models often name added tokens in other files of the folder than tokenizer.json. transformers adds them
 * when it loads the folder; without them the marks of a chat are spelt letter by letter. Follows
 * PreTrainedTokenizerFast and from_pretrained of transformers. */

/* Maximum number of tokens that are searched for by their text: each search passes over all added tokens. */
enum { SOUGHT_MAX = 1 << 14 };

typedef struct missing {
    const lh_tokenizer *tok;
    const char *folder;
    int64_t limit; /* ids are below it */
    int64_t sought;
    json_t *config, *special_map, *added; /* companion files, NULL if there is none */
    json_t *named;                        /* text of a token with a role: its entry */
    json_t *list, *texts, *ids;           /* entries to be added; their texts and ids as keys */
} missing;

/* Text of a token that is written as a text or as an object with its 'content'; NULL: no text, or one with a zero byte.
 */
static const char *text_of(const json_t *value)
{
    if (json_is_object(value)) value = json_object_get(value, "content");
    const char *text = json_string_value(value);
    return text && *text && strlen(text) == json_string_length(value) ? text : NULL;
}

static void name_token(missing *m, json_t *value)
{
    const char *text = text_of(value);
    if (text && !json_object_get(m->named, text)) json_object_set(m->named, text, value);
}

/* Tokens with a role of a companion file. */
static void name_tokens(missing *m, const json_t *map)
{
    static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    const char *key;
    json_t *value;
    size_t i;
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) name_token(m, json_object_get(map, roles[r]));
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        json_t *list = json_object_get(map, lists[l]);
        json_array_foreach(list, i, value) name_token(m, value);
        json_object_foreach(list, key, value) name_token(m, value);
    }
}

static int has_id(const missing *m, int64_t id, const char *text)
{
    int64_t bytes = 0;
    const char *added = id >= 0 && id < m->limit ? lh_added_text(m->tok->added, (int32_t)id, &bytes) : NULL;
    return added && bytes == (int64_t)strlen(text) && memcmp(added, text, (size_t)bytes) == 0;
}

/* True if the id belongs to another token, or is too large. */
static int is_taken(const missing *m, int64_t id)
{
    char key[32];
    int64_t bytes;
    if (id >= m->limit) return 1;
    snprintf(key, sizeof key, "%lld", (long long)id);
    return lh_bpe_piece(m->tok->bpe, (int32_t)id, &bytes) || lh_added_text(m->tok->added, (int32_t)id, &bytes) ||
           json_object_get(m->ids, key);
}

static lh_status add_entry(missing *m, const char *text, int64_t id, const json_t *entry)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized"};
    char key[32];
    const int special = json_is_true(json_object_get(entry, "special")) || json_object_get(m->named, text);
    json_t *token = json_pack("{s:I, s:s, s:b}", "id", (json_int_t)id, "content", text, "special", special);
    if (!token) LH_FAIL(LH_ENOMEM, "cannot allocate an added token of '%s'", m->folder);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        json_t *flag = json_object_get(entry, flags[i]);
        if (json_is_boolean(flag)) json_object_set(token, flags[i], flag);
    }
    snprintf(key, sizeof key, "%lld", (long long)id);
    json_object_set(m->texts, text, token);
    json_object_set(m->ids, key, token);
    json_array_append_new(m->list, token);
    return LH_OK;
}

/* A token that a companion file names. id: its id there, -1: none. A token of the model's vocabulary has its id. */
static lh_status take(missing *m, const char *file, const char *text, int64_t id, const json_t *entry)
{
    const int64_t bytes = (int64_t)strlen(text);
    if (has_id(m, id, text) || json_object_get(m->texts, text)) return LH_OK;
    if (m->sought++ == SOUGHT_MAX)
        LH_FAIL(LH_EINPUT, "'%s/%s' names more than %d tokens that are not those of 'tokenizer.json'", m->folder, file,
                (int)SOUGHT_MAX);
    if (lh_added_find(m->tok->added, text, bytes) >= 0) return LH_OK;
    const int32_t known = lh_bpe_find(m->tok->bpe, text, bytes);
    if (known >= 0) return add_entry(m, text, known, entry);
    if (id < 0) return LH_OK;
    if (!is_taken(m, id)) return add_entry(m, text, id, entry);
    lh_warn(
        "'%s/%s': the token '%.60s' has the id %lld, which 'tokenizer.json' has for another token or not at all: it "
        "is left out",
        m->folder, file, text, (long long)id);
    return LH_OK;
}

static int64_t id_of(const json_t *value)
{
    const double id = json_is_real(value) ? json_real_value(value) : -1;
    return id >= 0 && id <= INT32_MAX ? (int64_t)id : -1;
}

/* In the order of transformers: tokens with ids, then tokens with a role. */
static lh_status take_all(missing *m)
{
    json_t *decoder = json_object_get(m->config, "added_tokens_decoder"), *value;
    const char *key;
    json_object_foreach(decoder, key, value)
    {
        char *end = NULL;
        const long long id = strtoll(key, &end, 10);
        const char *text = text_of(value);
        if (text) LH_TRY(take(m, "tokenizer_config.json", text, *end || id < 0 || id > INT32_MAX ? -1 : id, value));
    }
    if (!decoder) {
        json_object_foreach(m->added, key, value) if (*key)
            LH_TRY(take(m, "added_tokens.json", key, id_of(value), json_object_get(m->named, key)));
    }
    json_object_foreach(m->named, key, value) LH_TRY(take(m, "tokenizer_config.json", key, -1, value));
    return LH_OK;
}

/* Puts the entries into the JSON of the tokenizer. */
static lh_status write_entries(const missing *m, lh_buf *json, int64_t start)
{
    lh_status st = LH_OK;
    json_t *root = NULL;
    char *text = NULL;
    LH_TRY_DONE(lh_json_parse(&root, m->folder, json->data + start, json->bytes - start));
    if (!json_is_array(json_object_get(root, "added_tokens"))) json_object_set_new(root, "added_tokens", json_array());
    json_array_extend(json_object_get(root, "added_tokens"), m->list);
    LH_TRY_DONE(lh_json_dump(&text, root, JSON_COMPACT | JSON_REAL_PRECISION(17)));
    json->bytes = start;
    LH_TRY_DONE(lh_buf_puts(json, text));
done:
    json_decref(root);
    lh_free(text);
    return st;
}

static lh_status report(const missing *m)
{
    enum { SHOWN = 4 };
    lh_status st = LH_OK;
    lh_buf names = {0};
    const size_t n = json_array_size(m->list);
    for (size_t i = 0; i < n && i < SHOWN; i++)
        LH_TRY_DONE(lh_buf_printf(&names, "%s'%.60s'", i ? ", " : "",
                                  json_string_value(json_object_get(json_array_get(m->list, i), "content"))));
    lh_info("'%s': %zu added token%s that 'tokenizer.json' lacks and the files beside it name: %s%s", m->folder, n,
            n == 1 ? "" : "s", names.data, n > SHOWN ? ", …" : "");
done:
    lh_buf_clear(&names);
    return st;
}

lh_status lh_tokenizer_add_missing(const lh_tokenizer *tok, const char *folder, lh_buf *json, int64_t start, int64_t *n)
{
    lh_status st = LH_OK;
    missing m = {.tok = tok,
                 .folder = folder,
                 .limit = json->bytes - start,
                 .named = json_object(),
                 .list = json_array(),
                 .texts = json_object(),
                 .ids = json_object()};
    *n = 0;
    LH_TRY_DONE(read_companion(folder, "tokenizer_config.json", &m.config));
    name_tokens(&m, m.config);
    if (!json_object_get(m.config, "added_tokens_decoder")) { /* older folders */
        LH_TRY_DONE(read_companion(folder, "special_tokens_map.json", &m.special_map));
        LH_TRY_DONE(read_companion(folder, "added_tokens.json", &m.added));
        name_tokens(&m, m.special_map);
    }
    LH_TRY_DONE(take_all(&m));
    *n = (int64_t)json_array_size(m.list);
    if (*n == 0) goto done;
    LH_TRY_DONE(write_entries(&m, json, start));
    LH_TRY_DONE(report(&m));
done:
    json_decref(m.config), json_decref(m.special_map), json_decref(m.added);
    json_decref(m.named), json_decref(m.list), json_decref(m.texts), json_decref(m.ids);
    return st;
}
