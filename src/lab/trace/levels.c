#include "lab/trace/levels.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "base/size_text.h"
#include "kernels/ragged.h"
#include "policies/budgets.h"

enum { WINDOW_COLUMNS = 32 }; /* what SnapKV and its kin observe */

static const lh_trace_level levels[] = {
    {"stats", "query rows, the window's columns of attention, norms", WINDOW_COLUMNS, 0, 0},
    {"keys", "also keys, values, output projections, and columns of all rows", INT64_MAX, 1, 0},
    {"full", "also all query rows", INT64_MAX, 1, 1},
};

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

int64_t lh_trace_rows(const lh_trace_options *o, int64_t tokens, int32_t *positions)
{
    const int64_t window = lh_trace_level_find(o->level)->all_rows ? tokens : lh_min_i64(o->window, tokens),
                  before = tokens - window, spread = lh_min_i64(o->rows, tokens);
    int64_t n = 0;
    for (int64_t r = 0; r < spread; r++) {
        const int64_t p = lh_policy_spread_row(tokens, spread, r);
        if (p >= before) break;
        if (positions) positions[n] = (int32_t)p;
        n++;
    }
    for (int64_t p = before; p < tokens && positions; p++) positions[n + p - before] = (int32_t)p;
    return n + window;
}

int64_t lh_trace_top_logits(int64_t vocab)
{
    return lh_min_i64(vocab, LH_TRACE_TOP);
}

static lh_status count_layers(const lh_trace_options *o, int64_t layers, int64_t *out)
{
    uint8_t *recorded = NULL;
    LH_TRY(lh_calloc(&recorded, layers, 1));
    lh_status st = lh_trace_layers(o, layers, recorded);
    *out = 0;
    for (int64_t l = 0; l < layers && st == LH_OK; l++) *out += recorded[l];
    lh_free(recorded);
    return st;
}

lh_status lh_trace_bytes(lh_trace_size *out, const lh_trace_options *o, const lh_trace_run *r)
{
    const lh_trace_level *level = lh_trace_level_find(o->level);
    const lh_config *c = r->config;
    const int64_t q = c->heads * c->head_dim, f32 = sizeof(float),
                  row = lh_dtype_bytes(strcmp(o->dtype, "f32") == 0 ? LH_F32 : LH_BF16),
                  entry = level->entries ? c->kv_heads * lh_entry_bytes(r->entry_type, c->head_dim) : 0;
    const int64_t query_row = 2 * q * row + c->heads * f32;
    int64_t layers = 0;
    lh_trace_size size = {0};
    LH_TRY(count_layers(o, c->layers, &layers));
    size.layer = lh_trace_rows(o, r->tokens, NULL) * query_row;
    size.layer += c->kv_heads * r->tokens * (6 * f32 + (int64_t)sizeof(int32_t)); /* columns, norms, kept positions */
    size.layer += r->tokens * entry + r->after * (query_row + entry);
    if (level->entries) size.layer += c->hidden * q * lh_dtype_bytes(r->weight_type);
    size.token = size.layer / r->tokens;
    size.total = layers * size.layer + c->vocab * f32 + r->tokens * (int64_t)sizeof(int32_t);
    size.total += r->after * (6 + 2 * lh_trace_top_logits(c->vocab)) * f32; /* index, and single-token steps */
    *out = size;
    return LH_OK;
}

/* ---- options ---- */

#define FIELD(member) LH_FIELD(lh_trace_options, member)
static const char *const level_names[] = {"stats", "keys", "full", NULL};
static const char *const types[] = {"f32", "bf16", NULL};
static const lh_option trace_rows[] = {
    {.type = LH_OPT_STR,
     .name = "trace-level",
     FIELD(level),
     .choices = level_names,
     .def = "keys",
     .help = "How much is recorded. stats: query rows, norms and the attention that the last 32 rows give; "
             "keys: also keys, values, output projections and the attention that all rows give, for replay of most "
             "policies; "
             "full: also all query rows, for replay of every policy."},
    {.type = LH_OPT_STR,
     .name = "trace-layers",
     FIELD(layers),
     .arg = "LIST",
     .def = "all",
     .help = "Layers that are recorded: all, or a list such as 0,4-7."},
    {.type = LH_OPT_I64,
     .name = "trace-rows",
     FIELD(rows),
     .arg = "N",
     .def = "512",
     .max = 1 << 30,
     .help = "Query rows spread over the whole prompt, in addition to the window: the rows of '--rows sample:N'."},
    {.type = LH_OPT_I64,
     .name = "trace-window",
     FIELD(window),
     .arg = "N",
     .def = "512",
     .min = 1,
     .max = 1 << 30,
     .help = "Last query rows of the prompt that are recorded: as many as policies that are replayed observe."},
    {.type = LH_OPT_STR,
     .name = "trace-dtype",
     FIELD(dtype),
     .choices = types,
     .def = "f32",
     .help =
         "Type of recorded queries and outputs. With bf16 a replay may keep other entries than the run did. Keys and "
         "values are recorded as the cache stores them."},
    {.type = LH_OPT_ENUM,
     .name = "trace-compress",
     FIELD(compress),
     .choices = lh_h5_filter_names,
     .def = "none",
     .help = "Compression of the trace during the run. deflate: every HDF5 reads it; zstd: much faster, by a "
             "plugin of HDF5 (32015) that readers need, too, in the folder that HDF5_PLUGIN_PATH names."},
    {0}};
#undef FIELD
const lh_option_table lh_trace_option_table = {"recording", trace_rows};

int lh_trace_options_given(const lh_options *options)
{
    for (const lh_option *row = trace_rows; row->name; row++)
        if (lh_options_given(options, row->name)) return 1;
    return 0;
}

lh_status lh_trace_size_text(lh_buf *out, const lh_trace_options *o, const lh_trace_size *size)
{
    char total[LH_SIZE_TEXT], layer[LH_SIZE_TEXT];
    LH_TRY(lh_buf_printf(out, "level %s, at most %s (%s a layer, %lld bytes a token and layer)", o->level,
                         lh_size_text(total, size->total), lh_size_text(layer, size->layer), (long long)size->token));
    if (o->compress == LH_H5_PLAIN) return LH_OK;
    return lh_buf_printf(out, " before compression by %s", lh_h5_filter_names[o->compress]);
}
