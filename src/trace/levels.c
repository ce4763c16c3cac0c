#include "trace/levels.h"

#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "base/rng.h"

enum { WINDOW_COLUMNS = 32 }; /* what SnapKV and its kin observe */

static const lh_trace_level levels[] = {
    {"stats", "query rows, the window's columns of attention, norms", WINDOW_COLUMNS, 0, 0},
    {"keys", "also keys, values, output projections, and columns of all rows", INT64_MAX, 1, 0},
    {"full", "also all query rows", INT64_MAX, 1, 1},
};

const lh_trace_level *lh_trace_level_at(int i)
{
    return i >= 0 && i < (int)(sizeof levels / sizeof *levels) ? &levels[i] : NULL;
}

const lh_trace_level *lh_trace_level_find(const char *name)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcmp(levels[i].name, name) == 0) return &levels[i];
    return NULL;
}

lh_status lh_trace_layers(const lh_trace_options *options, int64_t count, uint8_t *layers)
{
    const char *at = options->layers;
    if (strcmp(at, "all") == 0) {
        memset(layers, 1, (size_t)count);
        return LH_OK;
    }
    memset(layers, 0, (size_t)count);
    for (char *end; *at; at = *end == ',' ? end + 1 : end) {
        long long first = strtoll(at, &end, 10), last = first;
        int given = end > at;
        if (given && *end == '-') {
            const char *second = end + 1;
            last = strtoll(second, &end, 10);
            given = end > second;
        }
        if (!given || first < 0 || last < first || last >= count || (*end && *end != ',') || strcmp(end, ",") == 0)
            LH_FAIL(LH_EUSAGE,
                    "'--trace-layers %s' is no list of layers of a model that has %lld: give 'all', or numbers from 0 "
                    "to %lld such as '0,4-7'",
                    options->layers, (long long)count, (long long)count - 1);
        memset(layers + first, 1, (size_t)(last - first + 1));
    }
    if (at == options->layers)
        LH_FAIL(LH_EUSAGE, "'--trace-layers' names no layer: give 'all', or a list such as '0,4-7'");
    return LH_OK;
}

int64_t lh_trace_rows(const lh_trace_options *o, int64_t tokens, uint64_t seed, int32_t *positions)
{
    const int64_t window = lh_trace_level_find(o->level)->all_rows ? tokens : lh_min_i64(o->window, tokens);
    const int64_t before = tokens - window, drawn = lh_min_i64(o->rows, before);
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    int64_t n = 0;
    for (int64_t p = 0; p < before && n < drawn && positions; p++) { /* selection sampling */
        uint32_t out[4], counter[4] = {(uint32_t)p, 0, 0, 0x74726163};
        lh_philox(out, key, counter);
        if ((double)lh_uniform(out[0]) * (double)(before - p) < (double)(drawn - n)) positions[n++] = (int32_t)p;
    }
    n = drawn;
    for (int64_t p = before; p < tokens && positions; p++) positions[n + p - before] = (int32_t)p;
    return drawn + window;
}

lh_trace_size lh_trace_bytes(const lh_trace_options *o, const lh_trace_shape *s, int64_t tokens, int64_t after)
{
    const lh_trace_level *level = lh_trace_level_find(o->level);
    const int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim, f32 = sizeof(float),
                  row = lh_dtype_bytes(strcmp(o->dtype, "f32") == 0 ? LH_F32 : LH_BF16),
                  entry = lh_dtype_bytes(s->kv_type);
    const int64_t query_row = 2 * q * row + s->heads * f32;
    lh_trace_size size = {0};
    size.layer = lh_trace_rows(o, tokens, 0, NULL) * query_row + 6 * s->kv_heads * tokens * f32;
    if (level->entries) size.layer += 2 * tokens * kv * entry + s->hidden * q * lh_dtype_bytes(s->weight_type);
    size.layer += after * (query_row + 2 * kv * entry);
    size.total = s->layers * size.layer + s->vocab * f32 + (tokens + 3 * after) * (int64_t)sizeof(int32_t);
    return size;
}
