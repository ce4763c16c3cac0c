/* profile.c - stores equal profiles once, by hash; reads lines of text (profile_weights.c reads weights); profiles as
 * the value of a part and as JSON. */
#include "policies/profile.h"

#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/unicode.h"
#include "policies/policy_impl.h"
#include "text/text_check.h"

static const int64_t file_bytes = 16 << 20;

/* ---- the collection ---- */

void lh_profile_free(lh_profile *p)
{
    if (!p) return;
    lh_free(p->name);
    lh_free(p->weights);
    for (int64_t i = 0; i < p->line_count; i++) lh_free(p->lines[i]);
    lh_free(p->lines);
    lh_free(p);
}

void lh_profiles_clear(lh_profiles *all)
{
    for (int64_t i = 0; i < all->n; i++) lh_profile_free(all->at[i]);
    lh_free(all->at);
    *all = (lh_profiles){0};
}

const lh_profile *lh_profiles_find(const lh_profiles *all, lh_profile_kind kind, uint64_t hash)
{
    for (int64_t i = 0; all && i < all->n; i++)
        if (all->at[i]->kind == kind && all->at[i]->hash == hash) return all->at[i];
    return NULL;
}

/* The hash includes the kind: a profile of the heads of a layer differs from a profile of layers. */
static lh_status hash_of(const lh_profile *p, uint64_t *out)
{
    lh_status st = LH_OK;
    lh_hasher *hasher = NULL;
    const int64_t shape[] = {p->kind, p->layers, p->heads};
    LH_TRY_DONE(lh_hasher_open(&hasher));
    lh_hasher_add(hasher, shape, sizeof shape);
    lh_hasher_add(hasher, p->weights, p->layers * p->heads * (int64_t)sizeof *p->weights);
    for (int64_t i = 0; i < p->line_count; i++) /* with the NUL, where they end */
        lh_hasher_add(hasher, p->lines[i], (int64_t)strlen(p->lines[i]) + 1);
    *out = lh_hasher_value(hasher);
    if (!*out) *out = 1; /* 0: no profile */
done:
    lh_hasher_close(hasher);
    return st;
}

/* Takes *p unless an equal profile is stored; the caller frees *p if it is not NULL. */
static lh_status add_profile(lh_profiles *all, lh_profile **p, uint64_t *hash)
{
    LH_TRY(hash_of(*p, &(*p)->hash));
    *hash = (*p)->hash;
    if (lh_profiles_find(all, (*p)->kind, *hash)) return LH_OK;
    LH_TRY(lh_realloc(&all->at, all->n + 1, sizeof *all->at));
    all->at[all->n++] = *p;
    *p = NULL;
    return LH_OK;
}

static lh_status copy_profile(lh_profiles *out, const lh_profile *p)
{
    lh_status st = LH_OK;
    lh_profile *own = NULL;
    uint64_t hash;
    LH_TRY_DONE(lh_calloc(&own, 1, sizeof *own));
    *own = (lh_profile){.kind = p->kind, .layers = p->layers, .heads = p->heads};
    LH_TRY_DONE(lh_strdup(&own->name, p->name));
    LH_TRY_DONE(lh_calloc(&own->weights, p->layers * p->heads, sizeof *own->weights));
    for (int64_t i = 0; i < p->layers * p->heads; i++) own->weights[i] = p->weights[i];
    LH_TRY_DONE(lh_calloc(&own->lines, p->line_count, sizeof *own->lines));
    for (; own->line_count < p->line_count; own->line_count++)
        LH_TRY_DONE(lh_strdup(&own->lines[own->line_count], p->lines[own->line_count]));
    LH_TRY_DONE(add_profile(out, &own, &hash));
done:
    lh_profile_free(own);
    return st;
}

lh_status lh_profiles_copy(lh_profiles *out, const lh_profiles *all)
{
    for (int64_t i = 0; all && i < all->n; i++) LH_TRY(copy_profile(out, all->at[i]));
    return LH_OK;
}

/* ---- lines of text ---- */

static lh_status add_line(lh_profile *p, lh_piece line)
{
    if (p->line_count == LH_PROFILE_MAX_LINES)
        LH_FAIL(LH_EINPUT, "'%s' has more than %d lines: leave some questions out", p->name, LH_PROFILE_MAX_LINES);
    LH_TRY(lh_calloc(&p->lines[p->line_count], line.bytes + 1, 1));
    memcpy(p->lines[p->line_count++], line.at, (size_t)line.bytes);
    return LH_OK;
}

static lh_status make_lines(lh_profile **out, const lh_profile_text *in)
{
    lh_status st = LH_OK;
    lh_profile *p = NULL;
    lh_buf text = {0};
    char **lines = NULL;
    int64_t n = 0;
    LH_TRY_DONE(lh_text_check_kind(in->name, in->text, in->bytes));
    if (!lh_utf8_valid(in->text, in->bytes) || memchr(in->text, '\0', (size_t)in->bytes))
        LH_FAIL_DONE(LH_EINPUT, "'%s' is not text in UTF-8: it must have a question in each line", in->name);
    LH_TRY_DONE(lh_buf_append(&text, in->text, in->bytes));
    lh_text_drop_mark(&text, 0);
    LH_TRY_DONE(lh_text_lines(&text, &lines, &n));
    LH_TRY_DONE(lh_calloc(&p, 1, sizeof *p));
    p->kind = LH_PROFILE_LINES;
    LH_TRY_DONE(lh_strdup(&p->name, in->name));
    LH_TRY_DONE(lh_calloc(&p->lines, LH_PROFILE_MAX_LINES, sizeof *p->lines));
    for (int64_t i = 0; i < n; i++)
        LH_TRY_DONE(add_line(p, lh_piece_trim((lh_piece){lines[i], (int64_t)strlen(lines[i])})));
    if (!p->line_count) LH_FAIL_DONE(LH_EINPUT, "'%s' is empty: it must have a question in each line", in->name);
    *out = p;
    p = NULL;
done:
    for (int64_t i = 0; i < n; i++) lh_free(lines[i]);
    lh_free(lines);
    lh_buf_clear(&text);
    lh_profile_free(p);
    return st;
}

/* ---- files ---- */

lh_status lh_profile_parse(lh_profiles *all, lh_profile_kind kind, const lh_profile_text *in, uint64_t *hash)
{
    lh_status st = LH_OK;
    lh_profile *p = NULL;
    LH_TRY_DONE(kind == LH_PROFILE_LINES ? make_lines(&p, in) : lh_profile_weights(&p, kind, in));
    LH_TRY_DONE(add_profile(all, &p, hash));
done:
    lh_profile_free(p);
    return st;
}

lh_status lh_profile_read(lh_profiles *all, lh_profile_kind kind, const char *path, uint64_t *hash)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_file_read_regular(&text, path, file_bytes));
    LH_TRY_DONE(lh_profile_parse(all, kind, &(lh_profile_text){path, text.data, text.bytes}, hash));
done:
    lh_buf_clear(&text);
    return st;
}

/* ---- the profiles that a policy names ---- */

/* By lh_profile_kind: the option, and the contents of its file. */
static const struct {
    const char *option, *contents;
} kinds[] = {{"layer-budget", "weights of layers"}, {"head-budget", "weights of heads"}, {"rows-at", "questions"}};

/* 0: the policy names no profile of this kind. */
static uint64_t hash_in(const lh_policy *policy, lh_profile_kind kind)
{
    uint64_t hash;
    memcpy(&hash, (const char *)policy + lh_part_find(kinds[kind].option)->profile->hash_at, sizeof hash);
    return hash;
}

lh_status lh_profiles_check_loaded(const lh_profiles *all, const lh_policy *policy)
{
    lh_part_value name;
    for (lh_profile_kind kind = LH_PROFILE_OF_LAYERS; kind < LH_PROFILE_KINDS; kind++) {
        const uint64_t hash = hash_in(policy, kind);
        if (!hash || lh_profiles_find(all, kind, hash)) continue;
        lh_profile_hash_write(lh_part_find(kinds[kind].option), hash, &name);
        LH_FAIL(LH_EINPUT, "'--%s %s': no %s with this hash are loaded", kinds[kind].option, name.text,
                kinds[kind].contents);
    }
    return LH_OK;
}

static lh_status check_shape(const lh_profile *p, int64_t layers, int64_t heads)
{
    if (!p) return LH_OK;
    if (p->layers != layers)
        LH_FAIL(LH_EINPUT, "'%s' has weights of %lld layers, the model has %lld layers", p->name, (long long)p->layers,
                (long long)layers);
    if (p->heads != heads)
        LH_FAIL(LH_EINPUT, "'%s' has weights of %lld heads in each layer, the model has %lld KV heads", p->name,
                (long long)p->heads, (long long)heads);
    return LH_OK;
}

lh_status lh_profiles_check(const lh_profiles *all, const lh_policy *policy, int64_t layers, int64_t kv_heads)
{
    const lh_profile_kind of_layers = LH_PROFILE_OF_LAYERS, of_heads = LH_PROFILE_OF_HEADS;
    LH_TRY(lh_profiles_check_loaded(all, policy));
    LH_TRY(check_shape(lh_profiles_find(all, of_layers, hash_in(policy, of_layers)), layers, 1));
    return check_shape(lh_profiles_find(all, of_heads, hash_in(policy, of_heads)), layers, kv_heads);
}

/* ---- as the value of a part ---- */

/* *file: NULL if the text is a word, or a value without a file. LH_EUSAGE if it may only be a file, and there is
 * none. */
static lh_status file_of(const lh_part *part, const char *text, const char **file)
{
    lh_policy none;
    const char *before = part->row.file_prefix ? part->row.file_prefix : "";
    *file = NULL;
    if (strncmp(text, before, strlen(before)) != 0) return LH_OK;
    for (int i = 0; part->row.choices && part->row.choices[i]; i++)
        if (strcmp(part->row.choices[i], text) == 0) return LH_OK;
    *file = text + strlen(before);
    if (!*before && !lh_file_exists(*file) && lh_part_read_word(&none, part, *file) != LH_OK)
        LH_FAIL(LH_EUSAGE, "%s; nor is there a file of that name", lh_error_message());
    return LH_OK;
}

lh_status lh_part_read_file(const lh_part *part, const lh_policy_options *options, lh_part_value *value,
                            const char **text)
{
    uint64_t hash;
    const char *file = NULL;
    if (!part->profile || !options->profiles) return LH_OK;
    const lh_profile_kind kind = (lh_profile_kind)part->profile->kind;
    if (lh_profile_hash_read(part, *text, &hash) && lh_profiles_find(options->profiles, kind, hash)) return LH_OK;
    LH_TRY(file_of(part, *text, &file));
    if (!file || !*file) return LH_OK;
    LH_TRY(lh_profile_read(options->profiles, kind, file, &hash));
    lh_profile_hash_write(part, hash, value);
    *text = value->text;
    return LH_OK;
}

/* ---- as text and as JSON ---- */

lh_status lh_profile_write(const lh_profile *p, lh_buf *out)
{
    for (int64_t i = 0; i < p->line_count; i++) LH_TRY(lh_buf_printf(out, "%s\n", p->lines[i]));
    return p->kind == LH_PROFILE_LINES ? LH_OK : lh_profile_write_weights(p, out);
}

lh_status lh_profiles_put_json(const lh_profiles *all, const lh_policy *policy, json_t *json)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    json_t *object = json_object();
    LH_TRY_DONE(lh_profiles_check_loaded(all, policy));
    for (lh_profile_kind kind = LH_PROFILE_OF_LAYERS; kind < LH_PROFILE_KINDS; kind++) {
        const lh_profile *p = lh_profiles_find(all, kind, hash_in(policy, kind));
        if (!p) continue;
        lh_buf_clear(&text);
        LH_TRY_DONE(lh_profile_write(p, &text));
        if (json_object_set_new(object, kinds[kind].option, json_string(text.data)))
            LH_FAIL_DONE(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
    }
    if (json_object_size(object) && json_object_set(json, "profiles", object))
        LH_FAIL_DONE(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
done:
    json_decref(object);
    lh_buf_clear(&text);
    return st;
}

lh_status lh_profiles_get_json(lh_profiles *out, const json_t *json, const char *name)
{
    const json_t *object = json_object_get(json, "profiles");
    uint64_t hash;
    for (lh_profile_kind kind = LH_PROFILE_OF_LAYERS; kind < LH_PROFILE_KINDS; kind++) {
        const json_t *text = json_object_get(object, kinds[kind].option);
        if (!text) continue;
        if (!json_is_string(text))
            LH_FAIL(LH_EFILE, "'%s': the profile '%s' of the policy must be a text", name, kinds[kind].option);
        const lh_profile_text in = {name, json_string_value(text), (int64_t)json_string_length(text)};
        if (lh_profile_parse(out, kind, &in, &hash) != LH_OK)
            LH_FAIL(LH_EFILE, "the profile '%s' of the policy in %s", kinds[kind].option, lh_error_message());
    }
    return LH_OK;
}
