#include "cache/file_layout.h"

lh_entry_array lh_entry_array_of(const lh_arena *arena, int i)
{
    const lh_ragged *v = &arena->view;
    lh_entry_array arrays[LH_ENTRY_ARRAYS] = {
        {"positions", NULL, LH_I32, 1, 0, 1, 0, v->positions},
        {"k", "keys and values", v->type, 2, LH_NUMBER_LIMIT, v->head_dim, 0, v->k},
        {"v", "keys and values", v->type, 2, LH_NUMBER_LIMIT, v->head_dim, 0, v->v},
        {"bias", "bias", LH_F32, 1, LH_BIAS_LIMIT, arena->form.has_bias, 0, v->bias},
        {"stats", "stats", LH_F32, 2, LH_NUMBER_LIMIT, arena->form.stats, 0, v->stats}};
    arrays[i].bytes = arrays[i].width * lh_dtype_bytes(arrays[i].type);
    return arrays[i];
}

const lh_cache_number lh_cache_number_list[LH_CACHE_NUMBERS] = {
    {"layers", offsetof(lh_cache_numbers, layers), 1, 1000},
    {"heads", offsetof(lh_cache_numbers, heads), 1, 1 << 20},
    {"kv_heads", offsetof(lh_cache_numbers, kv_heads), 1, 1 << 20},
    {"head_dim", offsetof(lh_cache_numbers, head_dim), 1, 1 << 20},
    {"window", offsetof(lh_cache_numbers, window), 0, INT64_MAX},
    {"entries", offsetof(lh_cache_numbers, budget), 1, INT64_MAX},
    {"prompt_tokens", offsetof(lh_cache_numbers, prompt_tokens), 1, INT32_MAX},
    {"seen_tokens", offsetof(lh_cache_numbers, seen), 1, INT32_MAX},
    {"steps", offsetof(lh_cache_numbers, steps), 0, INT32_MAX},
    {"evictions", offsetof(lh_cache_numbers, evictions), 0, INT32_MAX},
    {"budgets_made", offsetof(lh_cache_numbers, budgets_made), 0, 1}};
