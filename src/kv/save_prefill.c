/* A prefill in flight to a file and back, between two layers: the layers that are done as in a cache file, and the
 * competition of the layers. Everything else follows from policy and prompt. */
#include "kv/files.h"

/* ---- save ---- */

static lh_status list_layers(const lh_kv *kv, int64_t layers_done, lh_prefill_layer **out)
{
    LH_TRY(lh_calloc(out, layers_done, sizeof **out));
    for (int64_t l = 0; l < layers_done; l++)
        (*out)[l] = (lh_prefill_layer){.normless = kv->layers[l].entries_without_norm, .held = lh_kv_held_rows(kv, l)};
    return LH_OK;
}

lh_status lh_kv_save_prefill(lh_kv *kv, const char *path, const lh_prefill_extra *extra)
{
    lh_kv_contents contents;
    lh_prefill_layer *layers = NULL;
    const int64_t *divided = lh_kv_divided(kv);
    lh_status st = lh_kv_contents_make(&contents, kv, kv->prompt.tokens, &extra->cache);
    if (st == LH_OK) st = list_layers(kv, extra->layers_done, &layers);
    st = lh_comm_agree(kv->exec.comm, st);
    if (st == LH_OK)
        st = lh_prefill_write(path, &(lh_prefill_contents){.cache = contents.of,
                                                           .state = {.layers_done = extra->layers_done,
                                                                     .divided = divided ? *divided : 0,
                                                                     .identity = extra->identity},
                                                           .layers = layers,
                                                           .hidden = extra->hidden,
                                                           .rows = extra->rows,
                                                           .width = extra->width});
    lh_free(layers);
    lh_kv_contents_clear(&contents);
    return st;
}

/* ---- load ---- */

lh_status lh_saved_prefill_open(lh_saved_prefill *s, const char *path)
{
    LH_TRY(lh_prefill_file_open(&s->file, path));
    return lh_kv_read_policy(&s->file.cache, &s->policy, &s->profiles);
}

void lh_saved_prefill_close(lh_saved_prefill *s)
{
    lh_prefill_file_close(&s->file);
    lh_profiles_clear(&s->profiles);
}

/* Every head holds the protected entries; and exactly the plan's number where the plan decides alone. */
static lh_status check_layer(const lh_kv *kv, const lh_cache_file *file)
{
    const lh_layer_plan *plan = &kv->layers[file->layer].plan;
    const char *path = lh_h5_path(file->h5);
    const int is_exact = !plan->ranked || (kv->numbers.budgets.heads == LH_HEADS_UNIFORM && !kv->competition);
    LH_TRY(lh_kv_check_lengths(kv, file));
    if (file->budget != kv->arrays.budgets[file->layer])
        LH_FAIL(LH_EFILE, "'%s': layer %lld has a budget of %lld entries, the policy gives it %lld", path,
                (long long)file->layer, (long long)file->budget, (long long)kv->arrays.budgets[file->layer]);
    for (int64_t g = 0; g < kv->shape.heads.kv_heads && !kv->numbers.block; g++) {
        const int64_t n = file->offsets[g + 1] - file->offsets[g],
                      least = is_exact ? plan->kept : lh_kv_protected(plan);
        if (n < least || (is_exact && n > least))
            LH_FAIL(LH_EFILE, "'%s': head %lld of layer %lld holds %lld entries, by '%s' it holds %s%lld", path,
                    (long long)g, (long long)file->layer, (long long)n, kv->policy.name, is_exact ? "" : "at least ",
                    (long long)least);
    }
    return LH_OK;
}

/* Protected entries must exist: a division of budgets depends on them. */
static lh_status check_protected(lh_kv *kv, const lh_cache_file *file, const lh_evict_job *job)
{
    lh_status st = LH_OK;
    const lh_arena *arena = &kv->layers[file->layer].arena;
    const int64_t wanted = lh_kv_protected(&kv->layers[file->layer].plan);
    uint8_t *state = NULL;
    lh_evict_classify(kv->evictor, job, 1);
    const lh_keep mask = lh_evict_keep(kv->evictor);
    LH_TRY_DONE(lh_calloc(&state, mask.ld, 1));
    for (int64_t h = 0; h < arena->view.heads; h++) {
        int64_t kept = 0;
        lh_exec_fetch(&kv->exec, state, mask.state + h * mask.ld, arena->len[h]);
        LH_TRY_DONE(lh_exec_take(&kv->exec));
        for (int64_t s = 0; s < arena->len[h]; s++) kept += state[s] == LH_ENTRY_KEEP;
        if (kept != wanted)
            LH_FAIL_DONE(LH_EFILE, "'%s': head %lld of layer %lld holds %lld of %lld protected entries",
                         lh_h5_path(file->h5), (long long)(kv->shape.heads.kv_first + h), (long long)file->layer,
                         (long long)kept, (long long)wanted);
    }
done:
    lh_evict_end(kv->evictor);
    lh_free(state);
    return st;
}

/* The layer competes again. */
static lh_status rejoin(lh_kv *kv, const lh_cache_file *file, lh_held_rows *held)
{
    const lh_arena *arena = &kv->layers[file->layer].arena;
    lh_evict_job job = lh_kv_end_job(kv, file->layer, arena);
    for (int64_t g = 0; g < kv->shape.heads.kv_heads; g++)
        kv->arrays.room[g] = file->offsets[g + 1] - file->offsets[g] - lh_kv_protected(&kv->layers[file->layer].plan);
    LH_TRY(check_protected(kv, file, &job));
    return lh_kv_rejoin(kv, &job, held);
}

static lh_status load_layer(lh_kv *kv, lh_prefill_file *file, int64_t l)
{
    const lh_heads *heads = &kv->shape.heads;
    lh_cache_file *cache = &file->cache;
    lh_kv_layer *layer = &kv->layers[l];
    lh_prefill_layer state = {0};
    int64_t *caps = kv->arrays.kept;
    const int had_bias = layer->arena.form.has_bias;
    if (!lh_kv_competes(kv, l)) layer->arena.view.type = kv->kept_type;
    LH_TRY(lh_cache_file_seek(cache, l, &layer->arena));
    if (layer->arena.form.has_bias != had_bias)
        LH_FAIL(LH_EFILE, "'%s': layer %lld has %s biases, which '%s' does not agree with", lh_h5_path(cache->h5),
                (long long)l, had_bias ? "no" : "some", kv->policy.name);
    LH_TRY(check_layer(kv, cache));
    for (int64_t h = 0; h < heads->kv_count; h++) {
        const int64_t *from = cache->offsets + heads->kv_first + h;
        caps[h] = from[1] - from[0] + (lh_kv_competes(kv, l) ? 0 : layer->plan.slack);
    }
    LH_TRY(lh_arena_alloc(&layer->arena, &kv->exec, caps));
    LH_TRY(lh_cache_file_read(cache, &kv->exec, heads, &layer->arena, &layer->ring));
    if (lh_kv_competes(kv, l)) LH_TRY(rejoin(kv, cache, &state.held));
    LH_TRY(lh_prefill_file_read(file, &kv->exec, heads, &state));
    layer->entries_without_norm = state.normless;
    return LH_OK;
}

lh_status lh_kv_load_prefill(lh_kv *kv, lh_saved_prefill *saved, uint64_t model)
{
    lh_prefill_file *file = &saved->file;
    const lh_cache_numbers *n = &file->cache.numbers;
    const char *path = lh_h5_path(file->cache.h5);
    LH_TRY(lh_kv_check_model(kv, &file->cache, model));
    LH_TRY(lh_kv_check_policy(kv, &saved->policy, path, "it goes on with the same"));
    if (n->prompt_tokens != kv->prompt.tokens)
        LH_FAIL(LH_EUSAGE, "'%s' is the prefill of %lld tokens, this prompt has %lld", path,
                (long long)n->prompt_tokens, (long long)kv->prompt.tokens);
    lh_kv_resume_competition(kv, file->state.layers_done);
    for (int64_t l = 0; l < file->state.layers_done; l++) LH_TRY(load_layer(kv, file, l));
    int64_t *divided = lh_kv_divided(kv);
    if (divided) *divided = file->state.divided;
    return LH_OK;
}
