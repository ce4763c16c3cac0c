#include "kv/save.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "kv/files.h"

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

static lh_cache_numbers numbers_of(const lh_kv *kv, int64_t seen)
{
    int asks = kv->policy.proxies.kind == LH_PROXIES_QUESTION;
    return (lh_cache_numbers){.layers = kv->shape.layers,
                              .heads = kv->shape.heads.heads,
                              .kv_heads = kv->shape.heads.kv_heads,
                              .head_dim = kv->shape.head_dim,
                              .window = kv->shape.window,
                              .budget = kv->numbers.budget,
                              .prompt_tokens = kv->prompt.tokens,
                              .seen = seen,
                              .steps = kv->timeline.steps,
                              .evictions = kv->timeline.evictions,
                              .budgets_made = kv->timeline.budgets_made,
                              .question = asks ? kv->policy.proxies.question : 0};
}

static lh_cache_layer layer_of(const lh_kv *kv, int64_t layer, int64_t seen)
{
    int64_t budget = kv->arrays.budgets[layer];
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

lh_status lh_kv_contents_make(lh_kv_contents *out, lh_kv *kv, int64_t seen, const lh_cache_extra *extra)
{
    *out = (lh_kv_contents){.of = {.exec = &kv->exec,
                                   .heads = &kv->shape.heads,
                                   .numbers = numbers_of(kv, seen),
                                   .positions = lh_kv_uses_slots(&kv->numbers) ? "slot" : "original",
                                   .extra = extra}};
    LH_TRY(lh_kv_wait_lens(kv));
    LH_TRY(policy_text(kv, &out->policy));
    LH_TRY(lh_calloc(&out->layers, kv->shape.layers, sizeof *out->layers));
    for (int64_t l = 0; l < kv->shape.layers; l++) out->layers[l] = layer_of(kv, l, seen);
    out->of.policy = out->policy;
    out->of.layers = out->layers;
    return LH_OK;
}

void lh_kv_contents_clear(lh_kv_contents *contents)
{
    lh_free(contents->layers);
    free(contents->policy);
}

lh_status lh_kv_save(lh_kv *kv, const char *path, const lh_cache_extra *extra)
{
    lh_kv_contents contents;
    lh_status st = lh_comm_agree(kv->exec.comm, lh_kv_contents_make(&contents, kv, kv->timeline.seen, extra));
    if (st == LH_OK) st = lh_cache_write(path, &contents.of);
    lh_kv_contents_clear(&contents);
    return st;
}

/* ---- load ---- */

lh_status lh_kv_read_policy(const lh_cache_file *file, lh_policy *policy, lh_profiles *profiles)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    const lh_cache_numbers *n = &file->numbers;
    const char *path = lh_h5_path(file->h5);
    if (lh_json_parse(&json, path, file->policy, file->policy_bytes) != LH_OK)
        LH_FAIL_DONE(LH_EFILE, "the policy in %s", lh_error_message());
    LH_TRY_DONE(lh_profiles_get_json(profiles, json, path));
    LH_TRY_DONE(lh_policy_from_json(policy, json, path));
    if (policy->proxies.kind == LH_PROXIES_QUESTION && (n->question < 1 || n->question > n->prompt_tokens))
        LH_FAIL_DONE(LH_EFILE, "'%s': 'question_tokens' of '/state' is missing or %lld, it must be between 1 and %lld",
                     path, (long long)n->question, (long long)n->prompt_tokens);
    lh_policy_ask(policy, n->question);
    if (lh_profiles_check(profiles, policy, n->layers, n->kv_heads) != LH_OK)
        LH_FAIL_DONE(LH_EFILE, "the policy in '%s' does not fit: %s", path, lh_error_message());
done:
    json_decref(json);
    return st;
}

lh_status lh_saved_kv_open(lh_saved_kv *s, const char *path)
{
    LH_TRY(lh_cache_file_open(&s->file, path));
    return lh_kv_read_policy(&s->file, &s->policy, &s->profiles);
}

void lh_saved_kv_close(lh_saved_kv *s)
{
    lh_cache_file_close(&s->file);
    lh_profiles_clear(&s->profiles);
}

lh_status lh_kv_check_model(const lh_kv *kv, const lh_cache_file *file, uint64_t model)
{
    const lh_kv_shape *s = &kv->shape;
    const lh_cache_numbers *n = &file->numbers;
    const char *path = lh_h5_path(file->h5), *kind = lh_h5_kind(file->h5);
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
            LH_FAIL(LH_EFILE, "'%s' holds a %s of %lld %s, the model has %lld", path, kind, (long long)shape[i].file,
                    shape[i].name, (long long)shape[i].wanted);
    if (file->extra.model != model)
        LH_FAIL(LH_EFILE, "'%s' is the %s of another model (%016llx, not %016llx)", path, kind,
                (unsigned long long)file->extra.model, (unsigned long long)model);
    return LH_OK;
}

lh_status lh_kv_check_policy(const lh_kv *kv, const lh_policy *of_file, const char *path, const char *advice)
{
    lh_status st = LH_OK;
    lh_policy mine = kv->policy, theirs = *of_file;
    lh_buf text = {0};
    if (lh_policy_lacks_scorer(&theirs) && theirs.score.scorer.reads == mine.score.scorer.reads)
        theirs.score.scorer = mine.score.scorer; /* a function is in no file */
    if (lh_policy_same(&mine, &theirs)) return LH_OK;
    LH_TRY_DONE(lh_policy_text(&theirs, &text));
    LH_FAIL_DONE(LH_EUSAGE, "'%s' was made with the policy '%s': %s", path, text.data, advice);
done:
    lh_buf_clear(&text);
    return st;
}

lh_status lh_kv_check_lengths(const lh_kv *kv, const lh_cache_file *file)
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
    layer->arena.view.type = kv->kept_type;
    LH_TRY(lh_cache_file_seek(file, l, &layer->arena));
    LH_TRY(lh_kv_check_lengths(kv, file));
    kv->arrays.budgets[l] = file->budget;
    if (kv->stats.norms >= 0) layer->entries_without_norm = file->numbers.seen; /* norms are made again */
    lh_layer_request request = {.layer = l, .budget = file->budget, .prompt = kv->prompt};
    for (int64_t h = 0; h < heads->kv_count; h++) {
        const int64_t *from = file->offsets + heads->kv_first + h;
        caps[h] = from[1] - from[0] + lh_kv_slack(&kv->shape, &kv->numbers, &request, from[1] - from[0]);
    }
    LH_TRY(lh_arena_alloc(&layer->arena, &kv->exec, caps));
    LH_TRY(lh_cache_file_read(file, &kv->exec, heads, &layer->arena, &layer->ring));
    return lh_arena_convert(&layer->arena, &kv->exec, kv->kept_type);
}

/* LH_EUSAGE if scores are needed after the load, and there is no function that scores. */
static lh_status check_scorer(const lh_kv *kv, const char *path)
{
    const lh_policy *p = &kv->policy;
    if (lh_policy_lacks_scorer(p) && (p->every || p->block))
        LH_FAIL(LH_EUSAGE,
                "'%s' evicts while decoding by the score '%s', which is not in the file: load the plug-in with "
                "'--plugin FILE', or in a program the session with its policy",
                path, p->name);
    return LH_OK;
}

lh_status lh_kv_load(lh_kv *kv, lh_saved_kv *saved, uint64_t model, int64_t more)
{
    const lh_cache_numbers *n = &saved->file.numbers;
    LH_TRY(lh_kv_check_model(kv, &saved->file, model));
    LH_TRY(lh_kv_check_policy(kv, &saved->policy, lh_h5_path(saved->file.h5),
                              "leave out '--policy', '--budget' and their parts"));
    LH_TRY(check_scorer(kv, lh_h5_path(saved->file.h5)));
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
    LH_TRY(lh_comm_agree(kv->exec.comm, lh_kv_wait_lens(kv)));
    return lh_positions_gather(out, &kv->exec, &kv->shape.heads, &kv->layers[layer].arena);
}

lh_status lh_kv_take_keep_sets(lh_kv *kv, lh_keep_part part, lh_keep_sets *out)
{
    LH_TRY(lh_comm_agree(kv->exec.comm, lh_keep_sets_reserve(out, part, kv->shape.layers)));
    for (int64_t l = 0; l < kv->shape.layers; l++) LH_TRY(lh_kv_gather_positions(kv, l, &out->parts[part][l]));
    return LH_OK;
}
