/* The tables of options that several commands share. */
#include "cli/policy_rows.h"

#define FIELD(member) LH_FIELD(lh_cli_common, member)
static const lh_option common_rows[] = {
    {.type = LH_OPT_FLAG, .letter = 'v', .name = "verbose", FIELD(verbose), .help = "Say more on stderr."},
    {.type = LH_OPT_FLAG, .letter = 'q', .name = "quiet", FIELD(quiet), .help = "Say warnings and errors only."},
    {.type = LH_OPT_STR,
     .name = "log-file",
     FIELD(log_file),
     .arg = "FILE",
     .help = "Write the lines of stderr to FILE, too; '%r' in it becomes the rank."},
    {.type = LH_OPT_F64,
     .name = "comm-timeout",
     FIELD(comm_timeout_s),
     .arg = "SECONDS",
     .def = "600",
     .low = 0,
     .high = 1e9,
     .help =
         "End the run when ranks have waited this long for each other; the message names rank, operation and step. 0: "
         "wait for ever."},
    {0}};
#undef FIELD
const lh_option_table lh_cli_common_options = {"common options", common_rows};

#define FIELD(member) LH_FIELD(lh_cli_format, member)
static const lh_option format_rows[] = {
    {.type = LH_OPT_FLAG, .name = "json", FIELD(json), .help = "Print one JSON object instead of text."}, {0}};
#undef FIELD
const lh_option_table lh_cli_format_options = {"output", format_rows};

static const char *const devices[] = {"auto", "cpu", "cuda", "ref", NULL};
static const char *const run_types[] = {"auto", "f32", "bf16", NULL};

#define FIELD(member) LH_FIELD(lh_engine_options, member)
static const lh_option engine_rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'm',
     .required = 1,
     .name = "model",
     FIELD(model),
     .arg = "FILE",
     .help = "The checkpoint (made by 'longhaul import'). For 'plan' also a Hugging Face folder, its config.json, or a "
             "shape of 'import --random'."},
    {.type = LH_OPT_I64,
     .name = "tp",
     FIELD(tp),
     .arg = "RANKS",
     .def = "0",
     .max = 1 << 20,
     .help = "Ranks that share one copy of the model. 0: all ranks of the run; for 'plan': one."},
    {.type = LH_OPT_STR,
     .name = "device",
     FIELD(device),
     .def = "auto",
     .choices = devices,
     .help = "What computes. auto: cuda where every rank finds a device, else cpu. ref is plain C, slow, the "
             "definition of every operation."},
    {.type = LH_OPT_FLAG,
     .name = "share-device",
     FIELD(share_device),
     .help = "Let ranks of one host compute on the same CUDA device. They then talk through the host."},
    {.type = LH_OPT_STR,
     .name = "dtype",
     FIELD(dtype),
     .def = "auto",
     .choices = run_types,
     .help = "Type of the weights in memory. auto: bf16 where the checkpoint stores bf16, else f32."},
    {.type = LH_OPT_STR,
     .name = "kv-dtype",
     FIELD(kv_dtype),
     .def = "auto",
     .choices = run_types,
     .help = "Type of the cached keys and values. auto: as --dtype."},
    {.type = LH_OPT_I64,
     .name = "threads",
     FIELD(threads),
     .arg = "N",
     .def = "0",
     .max = 1024,
     .help = "Threads of each rank. 0: the cores of the machine, shared by its ranks."},
    {.type = LH_OPT_FLAG,
     .name = "deterministic",
     FIELD(deterministic),
     .help = "The same bits on any number of ranks; may be slower."},
    {.type = LH_OPT_BYTES,
     .name = "memory",
     FIELD(memory),
     .arg = "SIZE",
     .help = "Memory of the device that a rank may take at most, as 80G. Not given: what is free, shared by the ranks "
             "that share it. 'plan' then tells whether a run fits in it, also of a device that this host has not."},
    {.type = LH_OPT_I64,
     .name = "chunk",
     FIELD(chunk),
     .arg = "TOKENS",
     .def = "0",
     .max = 1 << 16,
     .help =
         "Tokens of a prompt that go through a layer together. 0: as many as do the device good (512 on a CPU, 4096 "
         "on a GPU), fewer where memory is short."},
    {0}};
#undef FIELD
const lh_option_table lh_cli_engine_options = {"model and ranks", engine_rows};

static const lh_option policy_rows[] = {
    {LH_POLICY_ROW, .arg = "NAME", .word = lh_cli_policy_word,
     .help = "What is kept of the cache: a preset of the parts below. '--policy help' lists them, '--policy NAME "
             "--help' explains one. full keeps everything and is what holds without --budget; --budget alone means "
             "longhaul."},
    {LH_BUDGET_ROW, .arg = "N|P%",
     .help = "Entries kept per KV head, averaged over the heads of a layer, protected ones included; or a share of the "
             "prompt, as 20%."},
    LH_POLICY_PARTS(LH_POLICY_PART_ROW){0}};
const lh_option_table lh_cli_policy_options = {"eviction", policy_rows};

#define FIELD(member) LH_FIELD(lh_sampling, member)
static const lh_option sampling_rows[] = {
    {.type = LH_OPT_F64,
     .name = "temperature",
     FIELD(temperature),
     .arg = "X",
     .def = "0",
     .low = 0,
     .high = 100,
     .help = "0: the most likely token, always."},
    {.type = LH_OPT_I64,
     .name = "top-k",
     FIELD(top_k),
     .arg = "N",
     .def = "0",
     .max = 1 << 30,
     .help = "Choose among the N most likely tokens. 0: among all."},
    {.type = LH_OPT_F64,
     .name = "top-p",
     FIELD(top_p),
     .arg = "X",
     .def = "1",
     .low = 0,
     .high = 1,
     .help = "Choose among the most likely tokens that have this probability together."},
    {.type = LH_OPT_F64,
     .name = "min-p",
     FIELD(min_p),
     .arg = "X",
     .def = "0",
     .low = 0,
     .high = 1,
     .help = "Leave out tokens below this share of the most likely one."},
    {.type = LH_OPT_F64,
     .name = "repeat-penalty",
     FIELD(repeat_penalty),
     .arg = "X",
     .def = "1",
     .low = 0.01,
     .high = 100,
     .help = "Make tokens less likely that were there before."},
    {.type = LH_OPT_I64,
     .name = "seed",
     FIELD(seed),
     .arg = "N",
     .def = "0",
     .max = INT64_MAX,
     .help = "Of every random choice: the same seed gives the same text."},
    {0}};
#undef FIELD
const lh_option_table lh_cli_sampling_options = {"sampling", sampling_rows};
