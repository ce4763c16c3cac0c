#include "main/trace_options.h"

#include "base/size_text.h"

#define FIELD(member) LH_FIELD(lh_trace_options, member)
static const char *const levels[] = {"stats", "keys", "full", NULL};
static const char *const types[] = {"f32", "bf16", NULL};
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .name = "trace-level",
     FIELD(level),
     .choices = levels,
     .def = "keys",
     .help = "How much is recorded. stats: query rows, norms and the attention that the last 32 rows give; keys: also "
             "keys, values, output projections and the attention that all rows give, for replay of most policies; "
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
     .help = "Query rows spread over the whole prompt, beside those of the window: those of '--rows sample:N'."},
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
     .help = "Compression of the trace, while the run goes on. deflate: every HDF5 reads it; zstd: much faster, by a "
             "plugin of HDF5 (32015) that readers need, too, in the folder that HDF5_PLUGIN_PATH names."},
    {0}};
#undef FIELD
const lh_option_table lh_trace_option_table = {"recording", rows};

int lh_shell_trace_given(const lh_options *options)
{
    for (const lh_option *row = rows; row->name; row++)
        if (lh_options_given(options, row->name)) return 1;
    return 0;
}

lh_status lh_shell_trace_text(lh_buf *out, const lh_trace_options *o, const lh_trace_size *size)
{
    char total[LH_SIZE_TEXT], layer[LH_SIZE_TEXT];
    LH_TRY(lh_buf_printf(out, "level %s, at most %s (%s a layer, %lld bytes a token and layer)", o->level,
                         lh_size_text(total, size->total), lh_size_text(layer, size->layer), (long long)size->token));
    if (o->compress == LH_H5_PLAIN) return LH_OK;
    return lh_buf_printf(out, " before compression by %s", lh_h5_filter_names[o->compress]);
}
