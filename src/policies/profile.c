/* profile.c - stores equal profiles once, by hash (profile_weights.c reads their files); profiles as the value of a
 * part and as JSON. */
#include "policies/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "policies/policy_impl.h"

static const int64_t file_bytes = 16 << 20;

/* ---- the collection ---- */

void lh_profile_free(lh_profile *p)
{
    if (!p) return;
    lh_free(p->name);
    lh_free(p->weights);
    lh_free(p);
}

void lh_profiles_clear(lh_profiles *all)
{
    for (int64_t i = 0; i < all->n; i++) lh_profile_free(all->at[i]);
    lh_free(all->at);
    *all = (lh_profiles){0};
}

const lh_profile *lh_profiles_find(const lh_profiles *all, uint64_t hash)
{
    for (int64_t i = 0; all && i < all->n; i++)
        if (all->at[i]->hash == hash) return all->at[i];
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
    if (lh_profiles_find(all, *hash)) return LH_OK;
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
    *own = *p;
    own->name = NULL;
    own->weights = NULL;
    LH_TRY_DONE(lh_strdup(&own->name, p->name));
    LH_TRY_DONE(lh_calloc(&own->weights, p->layers * p->heads, sizeof *own->weights));
    memcpy(own->weights, p->weights, (size_t)(p->layers * p->heads) * sizeof *own->weights);
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

lh_status lh_profile_parse(lh_profiles *all, lh_profile_kind kind, const lh_profile_text *in, uint64_t *hash)
{
    lh_status st = LH_OK;
    lh_profile *p = NULL;
    LH_TRY_DONE(lh_profile_weights(&p, kind, in));
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

/* ---- checked against a model ---- */

static lh_status check_shape(const lh_profiles *all, uint64_t hash, int64_t layers, int64_t heads)
{
    const lh_profile *p = lh_profiles_find(all, hash);
    if (!hash) return LH_OK;
    if (!p) LH_FAIL(LH_EINTERNAL, "profile %016llx is not loaded", (unsigned long long)hash);
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
    LH_TRY(check_shape(all, policy->budgets.layer_profile, layers, 1));
    LH_TRY(check_shape(all, policy->budgets.head_profile, layers, kv_heads));
    return LH_OK;
}

/* ---- as the value of a part ---- */

static const char prefix[] = "profile:";
enum { HEX = 16 };

/* "profile:" and 16 hexadecimal digits: 1, or 0. */
static int hash_in(const char *text, uint64_t *out)
{
    const char *digits = text + sizeof prefix - 1;
    if (strncmp(text, prefix, sizeof prefix - 1) != 0 || strspn(digits, "0123456789abcdef") != HEX || digits[HEX])
        return 0;
    *out = strtoull(digits, NULL, 16);
    return *out != 0;
}

static void write_hash(uint64_t hash, lh_part_value *out)
{
    snprintf(out->text, sizeof out->text, "%s%016llx", prefix, (unsigned long long)hash);
}

lh_status lh_part_read_profile(lh_policy *policy, const lh_part *part, const char *text)
{
    uint64_t hash;
    int number = 0; /* follows the numbers of the words */
    if (!hash_in(text, &hash)) return lh_part_read_word(policy, part, text);
    while (part->row.choices[number]) number++;
    memcpy((char *)policy + part->at, &number, sizeof number);
    memcpy((char *)policy + part->profile->hash_at, &hash, sizeof hash);
    return LH_OK;
}

void lh_part_write_profile(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    uint64_t hash;
    memcpy(&hash, (const char *)policy + part->profile->hash_at, sizeof hash);
    if (hash)
        write_hash(hash, out);
    else
        lh_part_write_word(policy, part, out);
}

lh_status lh_part_read_file(const lh_part *part, const lh_policy_options *options, lh_part_value *value,
                            const char **text)
{
    uint64_t hash;
    lh_policy none;
    if (!part->profile || !options->profiles) return LH_OK;
    for (int i = 0; part->row.choices[i]; i++)
        if (strcmp(part->row.choices[i], *text) == 0) return LH_OK;
    if (hash_in(*text, &hash) && lh_profiles_find(options->profiles, hash)) return LH_OK;
    if (!lh_file_exists(*text) && lh_part_read_word(&none, part, *text) != LH_OK)
        LH_FAIL(LH_EUSAGE, "%s; nor is there a file of that name", lh_error_message());
    LH_TRY(lh_profile_read(options->profiles, (lh_profile_kind)part->profile->kind, *text, &hash));
    write_hash(hash, value);
    *text = value->text;
    return LH_OK;
}

/* ---- as text and as JSON ---- */

static const char *const members[] = {"layer-budget", "head-budget"}; /* lh_profile_kind */

lh_status lh_profiles_put_json(const lh_profiles *all, const lh_policy *policy, json_t *json)
{
    lh_status st = LH_OK;
    const uint64_t hashes[] = {policy->budgets.layer_profile, policy->budgets.head_profile};
    lh_buf text = {0};
    json_t *object = json_object();
    for (int i = 0; i < 2; i++) {
        if (!hashes[i]) continue;
        const lh_profile *p = lh_profiles_find(all, hashes[i]);
        if (!p) LH_FAIL_DONE(LH_EINTERNAL, "profile %016llx is not loaded", (unsigned long long)hashes[i]);
        lh_buf_clear(&text);
        LH_TRY_DONE(lh_profile_write(p, &text));
        if (json_object_set_new(object, members[i], json_string(text.data)))
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
    for (lh_profile_kind kind = LH_PROFILE_OF_LAYERS; kind <= LH_PROFILE_OF_HEADS; kind++) {
        const json_t *text = json_object_get(object, members[kind]);
        if (!text) continue;
        if (!json_is_string(text))
            LH_FAIL(LH_EFILE, "'%s': the profile '%s' of the policy must be a text", name, members[kind]);
        const lh_profile_text in = {name, json_string_value(text), (int64_t)json_string_length(text)};
        if (lh_profile_parse(out, kind, &in, &hash) != LH_OK)
            LH_FAIL(LH_EFILE, "the profile '%s' of the policy in %s", members[kind], lh_error_message());
    }
    return LH_OK;
}
