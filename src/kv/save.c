#include "kv/save.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "kv/kv_impl.h"

/* ---- save ---- */

static lh_status policy_text(const lh_kv *kv, char **out)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    LH_TRY_DONE(lh_policy_json(&kv->policy, &json));
    LH_TRY_DONE(lh_profiles_put_json(kv->shape.profiles, &kv->policy, json));
    *out = json_dumps(json, JSON_COMPACT);
    if (!*out) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
done:
    json_decref(json);
    return st;
}

static lh_cache_numbers numbers_of(const lh_kv *kv)
{
    int asks = kv->policy.proxies.kind == LH_PROXIES_QUESTION;
    return (lh_cache_numbers){.layers = kv->shape.layers,
                              .heads = kv->shape.heads.heads,
                              .kv_heads = kv->shape.heads.kv_heads,
                              .head_dim = kv->shape.head_dim,
                              .window = kv->shape.window,
                              .budget = kv->numbers.budget,
                              .prompt_tokens = kv->prompt.tokens,
                              .seen = kv->timeline.seen,
                              .steps = kv->timeline.steps,
                              .evictions = kv->timeline.evictions,
                              .budgets_made = kv->timeline.budgets_made,
                              .question = asks ? kv->policy.proxies.question : 0};
}

static lh_cache_layer layer_of(const lh_kv *kv, int64_t layer)
{
    int64_t budget = kv->arrays.budgets[layer], seen = kv->timeline.seen;
    lh_protection p = lh_policy_protect(
        &kv->numbers, &(lh_protect_request){
                          .budget = budget, .seen = seen, .visible_from = lh_kv_visible_from(&kv->shape, layer, seen)});
    return (lh_cache_layer){.arena = &kv->layers[layer].arena,
                            .ring = &kv->layers[layer].ring,
                            .budget = budget,
                            .sinks = p.sinks,
                            .recents = p.recents,
                            .slides = lh_kv_slides(&kv->shape, layer)};
}

/* What an allocation or the policy can fail in, on one rank alone. */
static lh_status prepare(lh_kv *kv, char **policy, lh_cache_layer **layers)
{
    LH_TRY(lh_kv_part(kv));
    LH_TRY(lh_kv_fetch_lens(kv));
    LH_TRY(policy_text(kv, policy));
    LH_TRY(lh_calloc(layers, kv->shape.layers, sizeof **layers));
    for (int64_t l = 0; l < kv->shape.layers; l++) (*layers)[l] = layer_of(kv, l);
    return LH_OK;
}

lh_status lh_kv_save(lh_kv *kv, const char *path, const lh_cache_extra *extra)
{
    char *policy = NULL;
    lh_cache_layer *layers = NULL;
    lh_status st = lh_comm_agree(kv->exec.comm, prepare(kv, &policy, &layers));
    if (st == LH_OK)
        st =
            lh_cache_write(path, &(lh_cache_contents){.exec = &kv->exec,
                                                      .heads = &kv->shape.heads,
                                                      .numbers = numbers_of(kv),
                                                      .positions = lh_kv_uses_slots(&kv->numbers) ? "slot" : "original",
                                                      .policy = policy,
                                                      .layers = layers,
                                                      .extra = extra});
    lh_free(layers);
    free(policy);
    return st;
}

/* ---- load ---- */

lh_status lh_saved_kv_open(lh_saved_kv *s, const char *path)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    LH_TRY_DONE(lh_cache_file_open(&s->file, path));
    const lh_cache_numbers *n = &s->file.numbers;
    if (lh_json_parse(&json, path, s->file.policy, s->file.policy_bytes) != LH_OK)
        LH_FAIL_DONE(LH_EFILE, "the policy in %s", lh_error_message());
    LH_TRY_DONE(lh_profiles_get_json(&s->profiles, json, path));
    LH_TRY_DONE(lh_policy_from_json(&s->policy, json, path));
    if (s->policy.proxies.kind == LH_PROXIES_QUESTION && (n->question < 1 || n->question > n->prompt_tokens))
        LH_FAIL_DONE(LH_EFILE, "'%s': 'question_tokens' of '/state' is missing or %lld, it must be between 1 and %lld",
                     path, (long long)n->question, (long long)n->prompt_tokens);
    lh_policy_ask(&s->policy, n->question);
    if (lh_profiles_check(&s->profiles, &s->policy, n->layers, n->kv_heads) != LH_OK)
        LH_FAIL_DONE(LH_EFILE, "the policy in '%s' does not fit: %s", path, lh_error_message());
done:
    json_decref(json);
    return st;
}

void lh_saved_kv_close(lh_saved_kv *s)
{
    lh_cache_file_close(&s->file);
    lh_profiles_clear(&s->profiles);
}

static lh_status check_fit(const lh_saved_kv *saved, const lh_kv *kv, uint64_t model)
{
    lh_status st = LH_OK;
    const lh_kv_shape *s = &kv->shape;
    const lh_cache_numbers *n = &saved->file.numbers;
    const char *path = lh_h5_path(saved->file.h5);
    lh_policy mine = kv->policy, theirs = saved->policy;
    lh_buf text = {0};
    mine.by_default = theirs.by_default = 0;
    const struct {
        const char *name;
        int64_t file, wanted;
    } shape[] = {{"layers", n->layers, s->layers},
                 {"query heads", n->heads, s->heads.heads},
                 {"KV heads", n->kv_heads, s->heads.kv_heads},
                 {"dimensions a head", n->head_dim, s->head_dim},
                 {"keys a window", n->window, s->window}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        if (shape[i].file != shape[i].wanted)
            LH_FAIL_DONE(LH_EFILE, "'%s' holds a cache of %lld %s, the model has %lld", path, (long long)shape[i].file,
                         shape[i].name, (long long)shape[i].wanted);
    if (saved->file.extra.model != model)
        LH_FAIL_DONE(LH_EFILE, "'%s' is the cache of another model (%016llx, not %016llx)", path,
                     (unsigned long long)saved->file.extra.model, (unsigned long long)model);
    if (memcmp(&mine, &theirs, sizeof mine) != 0) {
        LH_TRY_DONE(lh_policy_text(&theirs, &text));
        LH_FAIL_DONE(LH_EUSAGE, "'%s' was made with the policy '%s': leave out '--policy', '--budget' and their parts",
                     path, text.data);
    }
done:
    lh_buf_clear(&text);
    return st;
}

/* Heads that nothing makes uneven hold as many entries as each other; in a sliding layer, what the next row sees at
 * most. */
static lh_status check_lengths(const lh_cache_file *file, const lh_kv *kv)
{
    const char *path = lh_h5_path(file->h5);
    int slides = lh_kv_slides(&kv->shape, file->layer);
    for (int64_t g = 0; g < kv->shape.heads.kv_heads; g++) {
        int64_t n = file->offsets[g + 1] - file->offsets[g];
        if (slides && n >= kv->shape.window)
            LH_FAIL(LH_EFILE,
                    "'%s': head %lld of layer %lld holds %lld entries, more than the %lld that its window shows", path,
                    (long long)g, (long long)file->layer, (long long)n, (long long)kv->shape.window - 1);
        if (!slides && kv->policy.budgets.heads == LH_HEADS_UNIFORM && n != file->offsets[1])
            LH_FAIL(LH_EFILE, "'%s': the heads of layer %lld hold %lld and %lld entries, by '%s' they hold as many",
                    path, (long long)file->layer, (long long)file->offsets[1], (long long)n, kv->policy.name);
    }
    return LH_OK;
}

static lh_status load_layer(lh_kv *kv, lh_cache_file *file, int64_t l)
{
    const lh_heads *heads = &kv->shape.heads;
    lh_kv_layer *layer = &kv->layers[l];
    int64_t *caps = kv->arrays.kept;
    LH_TRY(lh_cache_file_seek(file, l, &layer->arena));
    LH_TRY(check_lengths(file, kv));
    kv->arrays.budgets[l] = file->budget;
    if (kv->stats.norms >= 0) layer->normless = file->numbers.seen; /* norms are made again */
    lh_layer_request request = {.layer = l, .budget = file->budget, .prompt = kv->prompt};
    for (int64_t h = 0; h < heads->kv_count; h++) {
        const int64_t *from = file->offsets + heads->kv_first + h;
        caps[h] = from[1] - from[0] + lh_kv_slack(&kv->shape, &kv->numbers, &request, from[1] - from[0]);
    }
    LH_TRY(lh_arena_alloc(&layer->arena, &kv->exec, caps));
    return lh_cache_file_read(file, &kv->exec, heads, &layer->arena, &layer->ring);
}

lh_status lh_kv_load(lh_kv *kv, lh_saved_kv *saved, uint64_t model, int64_t more)
{
    const lh_cache_numbers *n = &saved->file.numbers;
    LH_TRY(check_fit(saved, kv, model));
    LH_TRY(lh_kv_begin_layers(kv, &(lh_prompt){.tokens = n->prompt_tokens, .more = more}));
    for (int64_t l = 0; l < kv->shape.layers; l++) LH_TRY(load_layer(kv, &saved->file, l));
    kv->timeline = (lh_timeline){.phase = LH_KV_DECODE,
                                 .seen = n->seen,
                                 .steps = n->steps,
                                 .evictions = n->evictions,
                                 .budgets_made = (int)n->budgets_made};
    return LH_OK;
}

/* ---- keep sets ---- */

lh_status lh_kv_gather_positions(lh_kv *kv, int64_t layer, lh_positions *out)
{
    *out = (lh_positions){0};
    lh_status st = lh_kv_part(kv);
    if (st == LH_OK) st = lh_kv_fetch_lens(kv);
    LH_TRY(lh_comm_agree(kv->exec.comm, st));
    return lh_positions_gather(out, &kv->exec, &kv->shape.heads, &kv->layers[layer].arena);
}

lh_status lh_kv_take_keep_sets(lh_kv *kv, lh_keep_part part, lh_keep_sets *out)
{
    LH_TRY(lh_comm_agree(kv->exec.comm, lh_keep_sets_reserve(out, part, kv->shape.layers)));
    for (int64_t l = 0; l < kv->shape.layers; l++) LH_TRY(lh_kv_gather_positions(kv, l, &out->parts[part][l]));
    return LH_OK;
}
