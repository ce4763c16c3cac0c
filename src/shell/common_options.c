/* The tables of options that several commands share. */
#include "engine/engine.h"
#include "import/import.h"
#include "shell/policy_options.h"

#define FIELD(member) LH_FIELD(lh_shell_common, member)
static const lh_option common_rows[] = {
    {.type = LH_OPT_FLAG, .letter = 'v', .name = "verbose", FIELD(verbose), .help = "Verbose messages on stderr."},
    {.type = LH_OPT_FLAG, .letter = 'q', .name = "quiet", FIELD(quiet), .help = "Print warnings and errors only."},
    {.type = LH_OPT_STR,
     .name = "log-file",
     FIELD(log_file),
     .arg = "FILE",
     .writes = 1,
     .help = "Also append messages to FILE; '%r' in its name becomes the rank, '-' is standard output."},
    {.type = LH_OPT_F64,
     .name = "comm-timeout",
     .detail = 1,
     FIELD(comm_timeout_s),
     .arg = "SECONDS",
     .def = "600",
     .low = 0,
     .high = 1e9,
     .help = "Timeout of collectives: end the run when ranks have waited this long for each other; the message names "
             "rank, operation and step. 0: no timeout."},
    {0}};
#undef FIELD
const lh_option_table lh_shell_common_options = {"common options", common_rows};

const char *const lh_shell_chat_choices[] = {"auto", "on", "off", NULL};

#define FIELD(member) LH_FIELD(lh_shell_format, member)
static const lh_option format_rows[] = {
    {.type = LH_OPT_FLAG, .name = "json", FIELD(json), .help = "Print one JSON object instead of text."}, {0}};
#undef FIELD
const lh_option_table lh_shell_format_options = {"output", format_rows};

static const char *const devices[] = {"auto", "cpu", "cuda", "ref", NULL};
static const char *const run_types[] = {"auto", "f32", "bf16", NULL};
static const char *const kv_types[] = {"auto", "f32", "bf16", "q8", NULL};

#define FIELD(member) LH_FIELD(lh_engine_options, member)
static const lh_option engine_rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'm',
     .required = 1,
     .name = "model",
     FIELD(model),
     .arg = "FILE",
     .help =
         "The checkpoint ('longhaul import'), or random:SHAPE: random weights, of a shape that 'longhaul info' lists "
         "or of a Hugging Face folder's config.json. For 'plan' also such a folder, its config.json, a GGUF file, or a "
         "SHAPE."},
    {.type = LH_OPT_I64,
     .name = "tp",
     FIELD(tp),
     .arg = "RANKS",
     .def = "0",
     .max = LH_RANKS_MAX,
     .help = "Tensor parallelism: ranks that share the model. 0: all ranks of the run; for 'plan': one."},
    {.type = LH_OPT_STR,
     .name = "device",
     FIELD(device),
     .def = "auto",
     .choices = devices,
     .help = "Backend. auto: cuda if every rank finds a device, else cpu. ref is plain C: slow, the definition of "
             "every operation."},
    {.type = LH_OPT_FLAG,
     .name = "share-device",
     .detail = 1,
     FIELD(share_device),
     .help = "Let ranks of the same host share a CUDA device. They then communicate through the host."},
    {.type = LH_OPT_STR,
     .name = "dtype",
     FIELD(dtype),
     .def = "auto",
     .choices = run_types,
     .help = "Type of the weights in memory. auto: bf16 if the checkpoint stores bf16, else f32."},
    {.type = LH_OPT_STR,
     .name = "weights",
     .detail = 1,
     FIELD(weights),
     .arg = "FORMAT",
     .choices = lh_import_quantize_names,
     .help = "Format of the weights of random:SHAPE, for 'plan' also of a configuration: blocks of few bits as 'import "
             "--quantize' makes them, with random codes and scales. Default: bf16."},
    {.type = LH_OPT_STR,
     .name = "score-weights",
     .detail = 1,
     FIELD(score_weights),
     .arg = "FILE",
     .help = "Weights for learnt scores, fits while decoding and learnt shares of layers, made by 'longhaul learn'. "
             "Default: NAME.scores.h5 beside the checkpoint NAME.h5, if it exists."},
    {.type = LH_OPT_STR,
     .name = "kv-dtype",
     FIELD(kv_dtype),
     .def = "auto",
     .choices = kv_types,
     .help = "Type of the cached keys and values. auto: q8 if the policy evicts, else as --dtype. q8: 8 bits with a "
             "scale for each, half of bf16's memory; entries become q8 when their layer has read the prompt, so that "
             "neither scores nor kept entries of the prompt depend on it. On cuda it has run on the emulated device "
             "only."},
    {.type = LH_OPT_I64,
     .name = "threads",
     FIELD(threads),
     .arg = "N",
     .def = "0",
     .max = LH_THREADS_MAX,
     .help = "Threads per rank. 0: its share of the machine's cores or CPU quota, at most OMP_NUM_THREADS."},
    {.type = LH_OPT_FLAG,
     .name = "deterministic",
     FIELD(deterministic),
     .help = "Bit-identical results on any number of ranks; may be slower."},
    {.type = LH_OPT_BYTES,
     .name = "memory",
     FIELD(memory),
     .arg = "SIZE",
     .help = "Maximum device memory per rank, such as 80G. Default: free memory, divided among the ranks that share "
             "it. With 'plan' it may be the memory of a device that this host does not have."},
    {.type = LH_OPT_TOKENS,
     .name = "chunk",
     .detail = 1,
     FIELD(chunk),
     .arg = "TOKENS",
     .def = "0",
     .max = LH_CHUNK_MAX,
     .help = "Chunked prefill: tokens that pass through a layer together. 0: an efficient number (512 on a CPU, 4096 "
             "on a GPU), less if memory is short."},
    {0}};
#undef FIELD
const lh_option_table lh_shell_engine_options = {"model and ranks", engine_rows};

#define LH_PLUGIN_ROW                                                                                                 \
    {                                                                                                                 \
        .type = LH_OPT_LIST, .name = "plugin", LH_FIELD(lh_policy_options, plugins), .arg = "FILE", .detail = 1,      \
        .help =                                                                                                       \
            "Load a plug-in that another file may then name as its policy: a loaded cache, or lines of a batch. Its " \
            "code runs with your rights."                                                                             \
    }

static const lh_option policy_rows[] = {
    {LH_POLICY_ROW, .arg = "NAME", .word = lh_shell_policy_word,
     .help = "Eviction policy: the name of a preset, which '--policy help' lists, or a score of your own, './my.so' "
             "or './my.py' (a plug-in); with --budget alone longhaul, or, where questions come after the eviction, "
             "learnt for a model with learnt scores and ask-later for others. "
             "'--policy NAME --help' explains a policy; the options below change its parts, and may stand with it in "
             "quotes, as options of a plug-in must: './my.so --temperature 2'. full keeps everything and is the "
             "default without --budget."},
    {LH_BUDGET_ROW, .arg = "N|P%|SIZE",
     .help =
         "Entries kept per KV head, averaged over the heads of a layer, protected entries included; a share of the "
         "prompt, such as 20%; or a size, such as 512M: as many entries as have keys and values of that size in all "
         "layers and KV heads of the model; a KV head that several ranks hold counts once."},
    LH_PLUGIN_ROW,
    {.more = lh_policy_part_row}};
const lh_option_table lh_shell_policy_options = {"eviction", policy_rows};

static const lh_option policy_list_rows[] = {
    {LH_POLICY_ROW, .arg = "LIST", .word = lh_shell_policy_list_word,
     .help = "Comma-separated policies, each a preset, or a score of your own such as './my.so' or './my.py', with "
             "optional parts: "
             "'snapkv,h2o,ada-snapkv --pool-size 31'; quote one that contains a comma. all: every preset but those for "
             "comparison. The full "
             "cache is always included as the reference. '--policy help' lists the presets."},
    {LH_BUDGET_ROW, .arg = "LIST",
     .help = "Comma-separated budgets, such as '128,50%,64M': entries kept per KV head, a share of the prompt, or a "
             "size of all keys and values. Every policy runs with each."},
    LH_PLUGIN_ROW,
    {.more = lh_policy_part_row}};
const lh_option_table lh_shell_policy_list_options = {"eviction: parts hold for every policy of the list",
                                                      policy_list_rows};

#define FIELD(member) LH_FIELD(lh_sampling, member)
static const lh_option sampling_rows[] = {
    {.type = LH_OPT_F64,
     .name = "temperature",
     FIELD(temperature),
     .arg = "X",
     .def = "0",
     .low = 0,
     .high = 100,
     .help = "Sampling temperature. 0: greedy, always the most likely token."},
    {.type = LH_OPT_I64,
     .name = "top-k",
     FIELD(top_k),
     .arg = "N",
     .def = "0",
     .min = -1,
     .max = 1 << 30,
     .help = "Top-k sampling: choose among the N most likely tokens. 0 or -1: off."},
    {.type = LH_OPT_F64,
     .name = "top-p",
     FIELD(top_p),
     .arg = "X",
     .def = "1",
     .low = 0,
     .high = 1,
     .help = "Nucleus sampling: smallest set of tokens of probability X. 1: off."},
    {.type = LH_OPT_F64,
     .name = "min-p",
     FIELD(min_p),
     .arg = "X",
     .def = "0",
     .low = 0,
     .high = 1,
     .help = "Min-p sampling: drop tokens less likely than X times the best. 0: off."},
    {.type = LH_OPT_F64,
     .name = "repeat-penalty",
     FIELD(repeat_penalty),
     .arg = "X",
     .def = "1",
     .low = 0.01,
     .high = 100,
     .help = "Repetition penalty on tokens seen before. 1: off."},
    {.type = LH_OPT_F64,
     .name = "frequency-penalty",
     .detail = 1,
     FIELD(frequency_penalty),
     .arg = "X",
     .def = "0",
     .low = -2,
     .high = 2,
     .help = "Frequency penalty of OpenAI's API: X is taken from a token's logit for each time that the answer has the "
             "token. 0: off."},
    {.type = LH_OPT_F64,
     .name = "presence-penalty",
     .detail = 1,
     FIELD(presence_penalty),
     .arg = "X",
     .def = "0",
     .low = -2,
     .high = 2,
     .help = "Presence penalty of OpenAI's API: X is taken from the logits of the tokens that the answer has. 0: off."},
    {.type = LH_OPT_I64,
     .name = "seed",
     FIELD(seed),
     .arg = "N",
     .def = "0",
     .max = INT64_MAX,
     .help = "Random seed. The same seed gives the same text."},
    {0}};
#undef FIELD
const lh_option_table lh_shell_sampling_options = {"sampling", sampling_rows};

#define FIELD(member) LH_FIELD(lh_context_store_options, member)
static const lh_option store_rows[] = {
    {.type = LH_OPT_STR,
     .name = "context-cache",
     FIELD(folder),
     .arg = "FOLDER",
     .writes = 1,
     .help = "Keep and reuse evicted caches of contexts in FOLDER. A context that any run has read before, with the "
             "same model, policy and options, is not read again. Many runs may share the folder; 'longhaul info "
             "FOLDER' lists it."},
    {.type = LH_OPT_BYTES,
     .name = "context-cache-limit",
     .detail = 1,
     FIELD(limit_bytes),
     .arg = "SIZE",
     .help = "Maximum size of the folder of --context-cache, such as 500G: the least recently used caches are removed. "
             "Default: no limit."},
    {0}};
#undef FIELD
const lh_option_table lh_shell_context_store_options = {"context cache", store_rows};

lh_status lh_shell_check_store(const lh_context_store_options *options)
{
    if (options->limit_bytes && !options->folder)
        LH_FAIL(LH_EUSAGE, "'--context-cache-limit' is the limit of a folder: give '--context-cache FOLDER', too");
    return LH_OK;
}

lh_status lh_shell_check_stops(const lh_strings *stops)
{
    for (int64_t i = 0; i < stops->n; i++)
        if (!*stops->at[i]) LH_FAIL(LH_EUSAGE, "'--stop' got no text to end the answer at");
    return LH_OK;
}
