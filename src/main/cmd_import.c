/* cmd_import.c - `import`: makes a checkpoint from a Hugging Face folder, a GGUF file or random weights. */
#include <string.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "engine/threads.h"
#include "import/import.h"
#include "shell/shell.h"

struct values {
    lh_shell_common common;
    const char *out, *dtype, *quantize, *random;
    int64_t seed;
    int force;
};

static const char *const stored_types[] = {"auto", "f32", "f16", "bf16", NULL};

#define FIELD(member) LH_FIELD(struct values, member)
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'o',
     .required = 1,
     .name = "output",
     FIELD(out),
     .arg = "FILE",
     .writes = 1,
     .help = "The checkpoint to write."},
    {.type = LH_OPT_FLAG, .name = "force", FIELD(force), .help = "Overwrite the output if it exists."},
    {.type = LH_OPT_STR,
     .name = "dtype",
     FIELD(dtype),
     .def = "auto",
     .choices = stored_types,
     .help = "Type of the stored weights. auto: as the source, the blocks of quantised weights included; q2_K, q3_K "
             "and mxfp4 become bf16, as do NVFP4, act-order and asymmetric 8-bit codes of Hugging Face folders, whose "
             "FP8 weights stay 8 bits (f8_e4m3), and whose other 4- and 8-bit weights (GPTQ, AWQ, "
             "compressed-tensors) become q4_0, q5_0 and q8_0 with the same values. A named type dequantises."},
    {.type = LH_OPT_STR,
     .name = "quantize",
     FIELD(quantize),
     .arg = "FORMAT",
     .choices = lh_import_quantize_names,
     .help = "Quantise matrices to blocks of this format, as llama.cpp does: q8_0 has half of bf16's bytes and hardly "
             "any loss, q4_K_M (q4_K, with q6_K for sensitive matrices) less than a third; also q6_K, q5_K_M, q5_K, "
             "q4_K, q5_1, q5_0, q4_1, q4_0, and f8_e4m3 (FP8 with a scale for 128 columns). Matrices that are blocks "
             "already stay as they are, except FP8."},
    {.type = LH_OPT_STR,
     .name = "random",
     FIELD(random),
     .arg = "SHAPE",
     .help =
         "Instead of SRC: random weights of a named shape, for benchmarks ('longhaul info' lists the shapes), or of "
         "the config.json in a folder."},
    {.type = LH_OPT_I64,
     .name = "seed",
     FIELD(seed),
     .arg = "N",
     .def = "0",
     .max = INT64_MAX,
     .help = "Random seed of --random."},
    {0}};
#undef FIELD
static const lh_option_table table = {"checkpoint", rows};
static const lh_option_group groups[] = {{&table, 0}, {&lh_shell_common_options, offsetof(struct values, common)}, {0}};
static const lh_example examples[] = {
    {"longhaul import ~/models/Llama-3.2-1B -o llama.h5", "a Hugging Face folder"},
    {"longhaul import model.Q4_K_M.gguf -o m.h5", "a GGUF file; its 4- and 6-bit weights stay as they are"},
    {"longhaul import model.Q4_K_M.gguf -o m.h5 --dtype bf16", "the same, dequantised"},
    {"longhaul import ~/models/Llama-3.2-1B -o llama.h5 --quantize q8_0", "half of the bytes of bf16"},
    {"longhaul import ~/models/Llama-3.2-1B -o llama.h5 --quantize q4_K_M", "less than a third"},
    {"longhaul import ~/models/Qwen3-8B-AWQ -o m.h5", "a folder quantised by AWQ, GPTQ, FP8 or compressed-tensors"},
    {"longhaul import --random llama-3.1-8b -o random.h5", "random weights, for benchmarks"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "import",
    .usage = "SRC -o FILE [options]",
    .summary = "Make a checkpoint from a Hugging Face folder or a GGUF file",
    .text = "SRC is a folder with config.json, *.safetensors and tokenizer.json or tokenizer.model, or a "
            "GGUF file. Tensors are streamed, so memory use does not depend on the size "
            "of the model. The checkpoint is HDF5; 'longhaul info' shows its contents.",
    .max_args = 1,
    .reads_args = 1,
    .groups = groups,
    .examples = examples};

static lh_status show_progress(void *self, int64_t done_bytes, int64_t total_bytes)
{
    lh_progress *p = self;
    p->total = total_bytes;
    lh_progress_update(p, done_bytes);
    if (lh_interrupt_asked()) LH_FAIL(LH_EINTERRUPTED, "interrupted");
    return LH_OK;
}

/* LH_EINPUT for the name of a model in Hugging Face's hub, "owner/name", from which nothing is fetched. */
static lh_status check_source(const char *src)
{
    const char *slash = strchr(src, '/');
    if (lh_file_exists(src) || !slash || slash == src || strchr(slash + 1, '/') || *src == '.' || !slash[1])
        return LH_OK;
    LH_FAIL(LH_EINPUT,
            "'%s' does not exist; a model of the Hugging Face hub is fetched first: 'hf download %s --local-dir %s'",
            src, src, slash + 1);
}

static lh_status run_import(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    const char *src = lh_options_arg(call->options, 0);
    lh_progress progress;
    lh_threads *threads = NULL;
    lh_progress_init(&progress, "importing", "bytes", 0);
    if (src && v->random) LH_FAIL_DONE(LH_EUSAGE, "'%s' and '--random' both set the source: give one", src);
    if (!src && !v->random)
        LH_FAIL_DONE(LH_EUSAGE, "nothing to import: give a folder or a GGUF file, or '--random SHAPE'");
    if (src && lh_options_given(call->options, "seed"))
        LH_FAIL_DONE(LH_EUSAGE, "'--seed' has no effect without '--random': leave it out");
    if (!lh_shell_first()) goto done;
    if (lh_file_exists(v->out) && !v->force)
        LH_FAIL_DONE(LH_EWRITE, "'%s' exists: '--force' replaces it when the import is complete", v->out);
    if (src) LH_TRY_DONE(check_source(src));
    lh_interrupt_begin();
    LH_TRY_DONE(lh_threads_open_alone(&threads, 0));
    LH_TRY_DONE(lh_import(&(lh_import_options){.src = src,
                                               .random = v->random,
                                               .out = v->out,
                                               .dtype = v->dtype,
                                               .quantize = v->quantize,
                                               .seed = (uint64_t)v->seed,
                                               .progress = {&progress, show_progress}}));
    lh_info("wrote '%s'", v->out);
done:
    lh_progress_clear(&progress);
    lh_threads_close(threads);
    if (st == LH_EINTERRUPTED) lh_warn("interrupted: '%s' was not written", v->out);
    return st;
}

const lh_command lh_command_import = {&syntax, sizeof(struct values), run_import, NULL};
