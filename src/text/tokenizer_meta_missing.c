/* tokenizer_meta_missing.c - added tokens that a tokenizer.json lacks and the files beside it name, as those of
 * fine-tuned models do. transformers adds them when it loads the folder; without them the marks of a chat are spelt
 * letter by letter. Follows PreTrainedTokenizerFast and from_pretrained of transformers. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "text/tokenizer_impl.h"
#include "text/tokenizer_meta.h"

/* Maximum number of tokens that are looked for by their text: each search passes over all added tokens. */
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

/* 1 if the id is that of another token, or too large. */
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

/* A token that a companion file names. id: as it says, -1: it does not. A token of the model's vocabulary has its id.
 */
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

/* In the order of transformers: what is listed with ids, then tokens with a role. */
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
    text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!text) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate the tokenizer of '%s'", m->folder);
    json->bytes = start;
    LH_TRY_DONE(lh_buf_puts(json, text));
done:
    json_decref(root);
    free(text);
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
    LH_TRY_DONE(lh_tokenizer_companion(folder, "tokenizer_config.json", &m.config));
    name_tokens(&m, m.config);
    if (!json_object_get(m.config, "added_tokens_decoder")) { /* older folders */
        LH_TRY_DONE(lh_tokenizer_companion(folder, "special_tokens_map.json", &m.special_map));
        LH_TRY_DONE(lh_tokenizer_companion(folder, "added_tokens.json", &m.added));
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
