/* Profiles in a policy: as the value of a part ("profile:" and a hash, or the file that has it), checked against a
 * model, and as JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "policies/policy_impl.h"

static lh_status check(const lh_profiles *all, uint64_t hash, int64_t layers, int64_t heads)
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
    LH_TRY(check(all, policy->budgets.layer_profile, layers, 1));
    LH_TRY(check(all, policy->budgets.head_profile, layers, kv_heads));
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

static int number_of_words(const lh_part *part)
{
    int n = 0;
    while (part->words[n]) n++;
    return n;
}

lh_status lh_part_read_profile(lh_policy *policy, const lh_part *part, const char *text)
{
    uint64_t hash;
    if (!hash_in(text, &hash)) return lh_part_read_word(policy, part, text);
    int number = number_of_words(part);
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
    for (int i = 0; part->words[i]; i++)
        if (strcmp(part->words[i], *text) == 0) return LH_OK;
    if (hash_in(*text, &hash) && lh_profiles_find(options->profiles, hash)) return LH_OK;
    if (!lh_file_exists(*text) && lh_part_read_word(&none, part, *text) != LH_OK)
        LH_FAIL(LH_EUSAGE, "%s; nor is there a file of that name", lh_error_message());
    LH_TRY(lh_profile_read(options->profiles, part->profile->kind, *text, &hash));
    write_hash(hash, value);
    *text = value->text;
    return LH_OK;
}

/* ---- as JSON ---- */

static const char *const members[] = {"layer-budget", "head-budget"}; /* lh_profile_kind */

static lh_status write_text(const lh_profile *p, lh_buf *out)
{
    lh_part_value weight;
    int heads = p->kind == LH_PROFILE_OF_HEADS;
    LH_TRY(lh_buf_printf(out, "%s\n", lh_profile_header(p->kind)));
    for (int64_t i = 0; i < p->layers * p->heads; i++) {
        lh_decimal_write((lh_decimal){p->weights[i], LH_WEIGHT_SCALE}, &weight);
        LH_TRY(lh_buf_printf(out, "%lld,", (long long)(i / p->heads)));
        if (heads) LH_TRY(lh_buf_printf(out, "%lld,", (long long)(i % p->heads)));
        LH_TRY(lh_buf_printf(out, "%s\n", weight.text));
    }
    return LH_OK;
}

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
        LH_TRY_DONE(write_text(p, &text));
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
