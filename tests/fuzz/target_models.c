/* What reads models that others wrote: safetensors, GGUF, and the import of both. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/minmax.h"
#include "engine/plan.h"
#include "fuzz.h"
#include "import/checkpoint.h"
#include "import/gguf.h"
#include "import/import.h"
#include "import/import_source.h"
#include "import/model_header.h"
#include "import/safetensors.h"
#include "import/tokenizer_source.h"
#include "import/vocab_gguf.h"
#include "targets.h"

static lh_status run_safetensors(fz_case *c)
{
    lh_status st = LH_OK;
    lh_safetensors *file = NULL;
    LH_TRY_DONE(lh_safetensors_open(&file, c->path));
    for (int64_t i = 0; i < lh_safetensors_count(file); i++) {
        const lh_safetensor *t = lh_safetensors_at(file, i);
        int64_t values = 1;
        for (int d = 0; d < t->rank; d++) values *= t->shape[d];
        fz_touch(t->name, (int64_t)strlen(t->name));
        fz_touch(t->dtype, (int64_t)strlen(t->dtype));
        fz_touch(t->data, t->format ? values * t->format->bytes : t->bytes);
    }
done:
    lh_safetensors_close(file);
    return st;
}

/* ---- GGUF ---- */

static lh_status read_tensor(const lh_gguf_tensor *t)
{
    enum { VALUES = 4096 };
    lh_status st = LH_OK;
    const lh_format *format = lh_format_numbered(t->type);
    float *values = NULL;
    fz_touch(t->name.data, t->name.bytes);
    fz_touch(t->data, t->bytes);
    if (!format || !lh_format_is_readable(format)) return LH_OK;
    int64_t blocks = t->bytes / format->bytes;
    if (blocks > VALUES / format->values) blocks = VALUES / format->values;
    LH_TRY_DONE(lh_calloc(&values, blocks * format->values, sizeof *values));
    lh_format_to_f32(format, values, t->data, blocks);
    fz_touch(values, blocks * format->values * (int64_t)sizeof *values);
done:
    lh_free(values);
    return st;
}

static lh_status run_gguf(fz_case *c)
{
    lh_status st = LH_OK;
    lh_gguf *gguf = NULL;
    lh_gguf_text *texts = NULL, text = {0};
    double *reals = NULL;
    int64_t n = 0;
    LH_TRY_DONE(lh_gguf_open(&gguf, c->path));
    for (int64_t i = 0; i < lh_gguf_tensors(gguf); i++) LH_TRY_DONE(read_tensor(lh_gguf_tensor_at(gguf, i)));
    LH_TRY_DONE(lh_gguf_string(gguf, "general.architecture", &text));
    fz_touch(text.data, text.bytes);
    LH_TRY_DONE(lh_gguf_strings(gguf, "tokenizer.ggml.tokens", &texts, &n));
    for (int64_t i = 0; i < n; i++) fz_touch(texts[i].data, texts[i].bytes);
    LH_TRY_DONE(lh_gguf_f64s(gguf, "tokenizer.ggml.scores", &reals, &n));
done:
    lh_free(texts);
    lh_free(reals);
    lh_gguf_close(gguf);
    return st;
}

static lh_status run_gguf_config(fz_case *c)
{
    lh_status st = LH_OK;
    lh_gguf *gguf = NULL;
    json_t *json = NULL;
    lh_config config = {0};
    LH_TRY_DONE(lh_gguf_open(&gguf, c->path));
    LH_TRY_DONE(lh_gguf_config(&json, gguf));
    LH_TRY_DONE(lh_config_parse(&config, json, c->path));
    fz_use_config(&config);
done:
    lh_config_clear(&config);
    json_decref(json);
    lh_gguf_close(gguf);
    return st;
}

static lh_status run_vocab(fz_case *c)
{
    lh_status st = LH_OK;
    lh_tokenizer *tok = NULL;
    LH_TRY_DONE(lh_tokenizer_open(&tok, c->path));
    LH_TRY_DONE(fz_use_tokenizer(tok, &c->rng));
done:
    lh_tokenizer_close(tok);
    return st;
}

/* ---- import ---- */

static lh_status import(fz_case *c, const char *src)
{
    lh_status st = LH_OK;
    char *out = NULL;
    LH_TRY_DONE(lh_path_join(&out, c->folder, "imported.h5"));
    LH_TRY_DONE(
        lh_import(&(lh_import_options){.src = src, .out = out, .dtype = fz_below(&c->rng, 2) ? "auto" : "bf16"}));
    LH_TRY_DONE(fz_read_checkpoint(out));
done:
    if (out) unlink(out);
    lh_free(out);
    return st;
}

static lh_status run_import_file(fz_case *c)
{
    return import(c, c->path);
}

static lh_status run_import_folder(fz_case *c)
{
    return import(c, c->folder);
}

/* A configuration of GPTQ or AWQ, or one of compressed-tensors with the layouts of all seeds, as the tensors ask for.
 */
static lh_status run_import_quantised(fz_case *c)
{
    static const char *const methods[] = {
        "'quant_method': 'gptq', 'bits': 4, 'group_size': 32", "'quant_method': 'awq', 'bits': 4, 'group_size': 32",
        "'quant_method': 'compressed-tensors', 'config_groups': {"
        "'a': {'weights': {'num_bits': 4, 'type': 'int', 'strategy': 'group', 'group_size': 32}}, "
        "'b': {'weights': {'num_bits': 4, 'type': 'float', 'strategy': 'tensor_group', 'group_size': 16}}, "
        "'c': {'weights': {'num_bits': 8, 'type': 'float', 'strategy': 'block', 'block_structure': [24, 40]}}, "
        "'d': {'weights': {'num_bits': 8, 'type': 'int', 'strategy': 'channel'}}}"};
    lh_status st = LH_OK;
    lh_buf config = {0};
    const int is_awq = fz_below(&c->rng, 2) > 0;
    LH_TRY_DONE(lh_buf_printf(&config,
                              "{'model_type': 'llama', 'vocab_size': 16, 'hidden_size': 64, 'intermediate_size': 96, "
                              "'num_hidden_layers': 1, 'num_attention_heads': 4, 'num_key_value_heads': 2, "
                              "'quantization_config': {%s}}",
                              methods[memmem(c->data, (size_t)c->bytes, "qzeros", 6) ? is_awq : 2]));
    for (int64_t i = 0; i < config.bytes; i++)
        if (config.data[i] == '\'') config.data[i] = '"';
    LH_TRY_DONE(fz_put(c->folder, "config.json", config.data, config.bytes));
    LH_TRY_DONE(import(c, c->folder));
done:
    lh_buf_clear(&config);
    return st;
}

static lh_status put_model(void **state, const char *folder)
{
    *state = NULL;
    return fz_put_model(folder);
}

const fz_target fz_safetensors = {.name = "safetensors",
                                  .summary = "header and tensors of a safetensors file",
                                  .file = "model.safetensors",
                                  .form = FZ_SAFETENSORS,
                                  .quick = 3000,
                                  .share = 160000,
                                  .seeds = fz_safetensors_seeds,
                                  .run = run_safetensors};

const fz_target fz_gguf = {.name = "gguf",
                           .summary = "keys and tensors of a GGUF file",
                           .file = "model.gguf",
                           .form = FZ_BINARY,
                           .quick = 3000,
                           .share = 160000,
                           .corpus = "gguf",
                           .seeds = fz_gguf_seeds,
                           .run = run_gguf};

const fz_target fz_gguf_config = {.name = "gguf-config",
                                  .summary = "the configuration that a GGUF file describes",
                                  .file = "model.gguf",
                                  .form = FZ_BINARY,
                                  .quick = 2000,
                                  .share = 50000,
                                  .seeds = fz_gguf_seeds,
                                  .run = run_gguf_config};

const fz_target fz_gguf_vocab = {.name = "gguf-vocab",
                                 .summary = "the vocabulary of a GGUF file, and the tokenizer made of it",
                                 .file = "model.gguf",
                                 .form = FZ_BINARY,
                                 .quick = 2000,
                                 .share = 80000,
                                 .corpus = "gguf",
                                 .run = run_vocab};

const fz_target fz_sentencepiece = {.name = "sentencepiece",
                                    .summary = "a tokenizer.model, and the tokenizer made of it",
                                    .file = "tokenizer.model",
                                    .form = FZ_BINARY,
                                    .quick = 2000,
                                    .share = 50000,
                                    .seeds = fz_sentencepiece_seeds,
                                    .run = run_vocab};

const fz_target fz_import_gguf = {.name = "import-gguf",
                                  .summary = "import of a whole GGUF file",
                                  .file = "model.gguf",
                                  .form = FZ_BINARY,
                                  .quick = 100,
                                  .share = 3000,
                                  .seeds = fz_gguf_seeds,
                                  .run = run_import_file};

const fz_target fz_import_tensors = {.name = "import-tensors",
                                     .summary = "import of a folder whose safetensors file is damaged",
                                     .file = "model.safetensors",
                                     .form = FZ_SAFETENSORS,
                                     .quick = 100,
                                     .share = 4000,
                                     .seeds = fz_safetensors_seeds,
                                     .prepare = put_model,
                                     .run = run_import_folder};

const fz_target fz_import_quantised = {.name = "import-quantised",
                                       .summary = "import of a quantised folder whose safetensors file is damaged",
                                       .file = "model.safetensors",
                                       .form = FZ_SAFETENSORS,
                                       .quick = 100,
                                       .share = 4000,
                                       .seeds = fz_quantised_seeds,
                                       .run = run_import_quantised};

const fz_target fz_import_config = {.name = "import-config",
                                    .summary = "import of a folder whose config.json is damaged",
                                    .file = "config.json",
                                    .form = FZ_JSON,
                                    .quick = 100,
                                    .share = 4000,
                                    .seeds = fz_config_seeds,
                                    .prepare = put_model,
                                    .run = run_import_folder};

const fz_target fz_import_index = {.name = "import-index",
                                   .summary = "import of a folder whose index of shards is damaged",
                                   .file = "model.safetensors.index.json",
                                   .form = FZ_JSON,
                                   .quick = 60,
                                   .share = 2000,
                                   .seeds = fz_index_seeds,
                                   .run = run_import_folder};

/* ---- plans ---- */

/* Nothing in a plan is less than nothing. */
static lh_status check_plan(const lh_plan *plan, const char *path)
{
    for (int64_t i = 0; i < plan->tp; i++) {
        const lh_plan_rank *p = &plan->ranks[i];
        const int64_t all[] = {p->weights, p->kv_kept, p->kv_allocated, p->kv_one_layer, p->hidden,
                               p->work,    p->peak,    p->decode_read,  p->prefill_sent, p->decode_sent};
        for (size_t n = 0; n < sizeof all / sizeof *all; n++)
            if (all[n] < 0) LH_FAIL(LH_EINTERNAL, "'%s': number %zu of rank %lld is negative", path, n, (long long)i);
        if (plan->fits && p->peak > plan->free_bytes)
            LH_FAIL(LH_EINTERNAL, "'%s': rank %lld fits, and takes too much", path, (long long)i);
    }
    return LH_OK;
}

/* Every byte of the prompts and ranks that the configuration allows. */
static lh_status run_plan(fz_case *c)
{
    static const char *const policies[] = {"full", "longhaul", "h2o", "expected-attention"};
    lh_status st = LH_OK;
    lh_model_header header = {0};
    lh_policy policy;
    lh_plan plan = {0};
    LH_TRY_DONE(lh_model_header_read(&header, c->path, NULL));
    const lh_config *config = &header.config;
    lh_policy_options how = {.policy = policies[fz_below(&c->rng, 4)]};
    if (strcmp(how.policy, "full") != 0) how.budget = "20%";
    if (strcmp(how.policy, "h2o") == 0) how.parts.evict = "every:4";
    LH_TRY_DONE(lh_policy_resolve(&policy, &how));
    int64_t longest = config->max_positions, context = fz_below(&c->rng, 2) ? longest : lh_min_i64(longest, 20000);
    lh_engine_options engine = {.model = c->path,
                                .tp = 1 + fz_below(&c->rng, lh_min_i64(config->heads, 4)),
                                .device = "cpu",
                                .dtype = "auto",
                                .kv_dtype = "f32",
                                .memory = INT64_C(1) << 40};
    if (fz_below(&c->rng, 2)) engine.chunk = 1 << 16;
    LH_TRY_DONE(lh_plan_make(&plan, &(lh_plan_request){.engine = &engine, .policy = &policy, .context = context}));
    LH_TRY_DONE(check_plan(&plan, c->path));
done:
    lh_plan_clear(&plan);
    lh_model_header_clear(&header);
    return st;
}

const fz_target fz_plan = {.name = "plan",
                           .summary = "a plan from a configuration alone",
                           .file = "config.json",
                           .form = FZ_JSON,
                           .quick = 2000,
                           .share = 40000,
                           .corpus = "config",
                           .run = run_plan};
