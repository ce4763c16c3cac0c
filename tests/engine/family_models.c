#include "engine/family_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "mpi_check.h"

const tiny_shape family_shapes[FAMILIES] = {
    {.name = "qwen2", .family = "qwen2", .heads = 9, .kv_heads = 3, .head_dim = 8, .layers = 3, .ff = 50},
    {.name = "qwen2, late layers slide, yarn",
     .family = "qwen2",
     .heads = 7,
     .kv_heads = 1,
     .head_dim = 8,
     .layers = 3,
     .ff = 40,
     .window = 30,
     .more = "\"use_sliding_window\": true, \"max_window_layers\": 2, "
             "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 64}"},
    {.name = "qwen3",
     .family = "qwen3",
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 12,
     .hidden = 56,
     .layers = 3,
     .ff = 50},
    {.name = "gemma2",
     .family = "gemma2",
     .heads = 4,
     .kv_heads = 1,
     .head_dim = 12,
     .hidden = 40,
     .layers = 4,
     .ff = 48,
     .window = 48,
     .more = "\"query_pre_attn_scalar\": 7, \"attn_logit_softcapping\": 4, \"final_logit_softcapping\": 6"},
    {.name = "gemma3",
     .family = "gemma3_text",
     .heads = 6,
     .kv_heads = 2,
     .head_dim = 8,
     .hidden = 40,
     .layers = FAMILY_LAYERS,
     .ff = 40,
     .window = 36,
     .more = "\"sliding_window_pattern\": 6, \"query_pre_attn_scalar\": 6, \"rope_theta\": 1000000.0, "
             "\"rope_local_base_freq\": 100.0"},
    {.name = "ministral3, queries grow with their position",
     .family = "ministral3",
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 8,
     .layers = 3,
     .ff = 50,
     .window = 52,
     .more = "\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4, \"rope_theta\": 10000.0, "
             "\"original_max_position_embeddings\": 20, \"llama_4_scaling_beta\": 0.4}"},
    {.name = "smollm3, one layer is not rotated",
     .family = "smollm3",
     .heads = 6,
     .kv_heads = 2,
     .head_dim = 8,
     .layers = 3,
     .ff = 40,
     .more = "\"no_rope_layers\": [1, 0, 1]"},
    {.name = "olmo2, queries and keys normed over all heads",
     .family = "olmo2",
     .heads = 6,
     .kv_heads = 3,
     .head_dim = 8,
     .layers = 2,
     .ff = 40},
    {.name = "exaone4, full layers are not rotated",
     .family = "exaone4",
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 8,
     .layers = 3,
     .ff = 40,
     .window = 44,
     .more = "\"sliding_window_pattern\": 3"},
    {.name = "mixtral, three of five experts",
     .family = "mixtral",
     .heads = 6,
     .kv_heads = 2,
     .head_dim = 8,
     .layers = 3,
     .ff = 30,
     .more = "\"num_local_experts\": 5, \"num_experts_per_tok\": 3"},
};

void family_models_make(family_models *m)
{
    *m = (family_models){0};
    mt_folder_make(m->folder);
    for (int i = 0; i < FAMILIES; i++) {
        tiny_shape shape = family_shapes[i];
        shape.vocab = FAMILY_VOCAB;
        snprintf(m->paths[i], sizeof m->paths[i], "%s/model%d.h5", m->folder, i);
        if (mt_rank() == 0) tiny_model_make(m->paths[i], &shape);
    }
    for (int i = 0; i < FAMILY_PROMPT + FAMILY_STEPS; i++) m->ids[i] = (i * 37 + 5) % FAMILY_VOCAB; /* a prime */
    mt_try(lh_comm_barrier(mt_comm()));
}

void family_models_remove(family_models *m)
{
    mt_folder_remove(m->folder);
}

int family_is_long(void)
{
    return getenv("LONGHAUL_LONG") != NULL;
}

int family_policy(lh_policy_options *out, int preset, int number)
{
    /* above all windows, hardly any, above those of policies alone, a share below all, all but one */
    static const char *const budgets[] = {"80", "7", "40", "17%", "139"};
    static const char *const rules[] = {NULL, "every:1", "every:3", "block:6", "block:38,every:4", "never"};
    static const lh_policy_parts others[] = {{0}, {.layer_budget = "adaptive"}, {.positions = "slot"}};
    const lh_policy_preset *p = lh_policy_at(preset);
    lh_policy plan;
    *out = (lh_policy_options){.policy = p->name, .budget = budgets[number % 5], .parts = others[number / 30]};
    out->parts.evict = rules[number / 5 % 6];
    if (!p->parts) { /* it keeps everything */
        *out = (lh_policy_options){.policy = p->name};
        return number == 0;
    }
    return lh_policy_resolve(&plan, out) == LH_OK && lh_policy_check(&plan, FAMILY_PROMPT) == LH_OK;
}

int64_t family_roll(family_dice *d, int64_t n)
{
    uint32_t out[4], key[2] = {d->seed, 78}, counter[4] = {d->count++};
    lh_philox(out, key, counter);
    return (int64_t)(out[0] % (uint64_t)n);
}

int family_next(family_dice *d, int preset, int *number, lh_policy_options *out)
{
    if (family_is_long()) {
        while (*number < FAMILY_CASES)
            if (family_policy(out, preset, (*number)++)) return 1;
        return 0;
    }
    if (*number > 1 || (*number == 1 && !lh_policy_at(preset)->parts)) return 0;
    if (mt_size() > 1) *number = (int)family_roll(d, 2); /* one of the two */
    int as_it_is = *number == 0 || !lh_policy_at(preset)->parts;
    *number = mt_size() > 1 ? 2 : *number + 1;
    if (as_it_is) return family_policy(out, preset, 0);
    while (!family_policy(out, preset, (int)family_roll(d, FAMILY_CASES))) continue;
    return 1;
}
