#include "engine/device_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/devices.h"
#include "model/sampler.h"

/* Head dimensions that kernels treat differently; widths and windows for the smallest runs. */
static const tiny_shape smallest[DEVICE_SHAPES] = {
    {.name = "llama", .heads = 4, .kv_heads = 2, .head_dim = 64, .hidden = 48, .layers = 2, .ff = 72},
    {.name = "qwen2",
     .family = "qwen2",
     .heads = 6,
     .kv_heads = 2,
     .head_dim = 32,
     .hidden = 40,
     .layers = 2,
     .ff = 56},
    {.name = "qwen3",
     .family = "qwen3",
     .heads = 4,
     .kv_heads = 1,
     .head_dim = 128,
     .hidden = 40,
     .layers = 2,
     .ff = 48},
    {.name = "gemma2",
     .family = "gemma2",
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 16,
     .hidden = 40,
     .layers = 2,
     .ff = 48,
     .window = 24,
     .more = "\"query_pre_attn_scalar\": 7, \"attn_logit_softcapping\": 4, \"final_logit_softcapping\": 6"},
    {.name = "gemma3",
     .family = "gemma3_text",
     .heads = 4,
     .kv_heads = 1,
     .head_dim = 24,
     .hidden = 32,
     .layers = 3,
     .ff = 40,
     .window = 20,
     .more = "\"sliding_window_pattern\": 2, \"query_pre_attn_scalar\": 6, \"rope_theta\": 1000000.0, "
             "\"rope_local_base_freq\": 100.0"},
    {.name = "mistral", .heads = 4, .kv_heads = 2, .head_dim = 80, .hidden = 40, .layers = 2, .ff = 48, .window = 28},
    {.name = "mixtral",
     .family = "mixtral",
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 32,
     .hidden = 40,
     .layers = 2,
     .ff = 24,
     .more = "\"num_local_experts\": 6, \"num_experts_per_tok\": 2"},
    {.name = "llama, few bits",
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 32,
     .hidden = 64,
     .layers = 2,
     .ff = 256,
     .numbers = TINY_FEW_BITS},
};

/* The prompt, tokens after it, a vocabulary that is prime and larger than both, times as wide as the smallest. */
typedef struct extent {
    int64_t prompt, steps, vocab, wide;
} extent;

static extent choose_extent(device_models *m)
{
    static const extent small = {48, 7, 97, 1}, host = {120, 6, 211, 1}, card = {900, 40, 1009, 8};
    const lh_ops *ops = NULL;
    lh_device_found found = {0};
    const char *asked = getenv("LONGHAUL_TEST_BACKEND");
    m->device = asked ? asked : "ref";
    mt_try(lh_devices_ops(m->device, &ops));
    if (!ops || ops->device == LH_DEVICE_CPU) return host;
    lh_device_find(ops->device, &found);
    m->small = getenv("LONGHAUL_TEST_SMALL") || strstr(found.text, "emulated");
    return m->small ? small : card;
}

void device_models_make(device_models *m)
{
    *m = (device_models){0};
    extent e = choose_extent(m);
    m->prompt = e.prompt, m->steps = e.steps, m->vocab = e.vocab;
    mt_folder_make(m->folder);
    for (int i = 0; i < DEVICE_SHAPES; i++) {
        tiny_shape *shape = &m->shapes[i];
        *shape = smallest[i];
        shape->vocab = e.vocab;
        shape->hidden *= e.wide;
        shape->ff *= e.wide;
        shape->window = shape->window * e.prompt / 48;
        snprintf(m->paths[i], sizeof m->paths[i], "%s/model%d.h5", m->folder, i);
        if (mt_rank() == 0) tiny_model_make(m->paths[i], shape);
    }
    for (int64_t i = 0; i < e.prompt + e.steps; i++) m->ids[i] = (int32_t)((i * 37 + 5) % e.vocab);
    mt_try(lh_comm_barrier(mt_comm()));
}

void device_models_remove(device_models *m)
{
    mt_folder_remove(m->folder);
}

lh_engine *device_open(lh_comm *comm, const char *path, const device_options *options)
{
    lh_engine *engine = NULL;
    mt_try(lh_engine_open_on(&engine, comm,
                             &(lh_engine_options){.model = path,
                                                  .device = options->device,
                                                  .share_device = 1,
                                                  .dtype = options->dtype,
                                                  .kv_dtype = options->kv_dtype ? options->kv_dtype : options->dtype,
                                                  .threads = 1,
                                                  .chunk = options->chunk,
                                                  .deterministic = options->deterministic}));
    return engine;
}

/* ---- one run ---- */

static void gather(lh_session *s, int64_t layers, lh_positions *to)
{
    for (int64_t l = 0; l < layers; l++) mt_try(lh_kv_gather_positions(lh_session_kv(s), l, &to[l]));
}

/* The logits of the tokens that were taken in last, and the tokens that would come next. */
static void look(lh_session *s, int64_t step, device_result *out)
{
    static const lh_sampling ways[DEVICE_WAYS] = {
        {.top_p = 1, .repeat_penalty = 1},
        {.temperature = 0.9, .top_k = 17, .top_p = 1, .repeat_penalty = 1.1, .seed = 5},
        {.temperature = 1.1, .top_p = 0.9, .min_p = 0.001, .repeat_penalty = 1, .seed = 6},
    };
    const float *rows = NULL;
    int64_t n = 0;
    for (int way = 0; way < DEVICE_WAYS; way++)
        mt_try(lh_session_draw(s, &ways[way], step, &out->tokens[out->drawn++]));
    mt_try(lh_session_logits(s, &rows, &n));
    if (rows) memcpy(out->logits + out->rows * out->vocab, rows, (size_t)(n * out->vocab) * sizeof *rows);
    out->rows += n;
}

static void describe(const device_case *c, const lh_policy *plan, char *to, size_t bytes)
{
    lh_buf text = {0};
    mt_try(lh_policy_text(plan, &text));
    snprintf(to, bytes, "%s: %s", c->name, text.data);
    lh_buf_clear(&text);
}

void device_run(lh_engine *engine, const device_case *c, device_result *out)
{
    const device_models *m = c->models;
    lh_policy plan = {0};
    lh_session *s = NULL;
    int64_t rows = c->every_row ? m->prompt : 1;
    *out = (device_result){.layers = lh_engine_get(engine)->config->layers, .vocab = m->vocab};
    lh_status st = lh_policy_resolve(&plan, c->policy);
    if (st == LH_OK) st = lh_engine_size_policy(engine, &plan);
    mt_try(st);
    if (st != LH_OK) return;
    describe(c, &plan, out->name, sizeof out->name);
    mt_try(lh_calloc(&out->logits, (rows + m->steps) * m->vocab, sizeof *out->logits));
    mt_try(lh_calloc(&out->tokens, (1 + m->steps) * DEVICE_WAYS, sizeof *out->tokens));
    mt_try(lh_session_open(
        &s, engine,
        &(lh_session_options){
            .policy = &plan, .prompt = m->prompt, .more = m->steps, .length = m->prompt + m->steps, .seed = 3}));
    if (!s) return;
    lh_session_keep_logits(s, rows);
    mt_try(lh_session_prefill(s, m->ids, m->prompt, NULL));
    lh_session_keep_logits(s, 1);
    gather(s, out->layers, out->kept);
    look(s, 0, out);
    if (c->question) {
        lh_session_keep_logits(s, c->question);
        mt_try(lh_session_block(s, m->ids + m->prompt, c->question));
        look(s, c->question, out);
        lh_session_keep_logits(s, 1);
    }
    for (int64_t i = c->question; i < m->steps; i++) {
        mt_try(lh_session_step(s, m->ids[m->prompt + i]));
        look(s, i + 1, out);
    }
    gather(s, out->layers, out->final);
    lh_session_close(s);
}

void device_result_clear(device_result *r)
{
    lh_free(r->logits);
    lh_free(r->tokens);
    for (int l = 0; l < DEVICE_LAYERS; l++) {
        lh_positions_clear(&r->kept[l]);
        lh_positions_clear(&r->final[l]);
    }
    *r = (device_result){0};
}

/* ---- comparing ---- */

device_likeness device_compare(const device_result *a, const device_result *b)
{
    device_likeness l = {0};
    mt_check(a->rows == b->rows && a->rows > 0, "%s: %lld rows and %lld", b->name, (long long)a->rows,
             (long long)b->rows);
    for (int64_t r = 0; r < a->rows && r < b->rows; r++) {
        const float *p = a->logits + r * a->vocab, *q = b->logits + r * a->vocab;
        for (int64_t i = 0; i < a->vocab; i++) {
            double off = fabs((double)p[i] - q[i]);
            if (!(off <= l.difference)) l.difference = off; /* NaN stays */
        }
        l.kl += lh_kl_of(p, q, a->vocab) / (double)a->rows;
        l.same_best += lh_best_of(p, a->vocab) == lh_best_of(q, a->vocab);
    }
    l.same_best /= (double)a->rows;
    return l;
}

void device_check_same(const device_result *a, const device_result *b, const char *what)
{
    family_likeness sets = {0};
    int64_t steps = a->rows < b->rows ? a->rows : b->rows;
    mt_check(a->rows == b->rows, "%s, %s: %lld rows and %lld", b->name, what, (long long)a->rows, (long long)b->rows);
    for (int64_t i = 0; i < steps; i++)
        mt_check(memcmp(a->logits + i * a->vocab, b->logits + i * a->vocab, (size_t)a->vocab * sizeof(float)) == 0,
                 "%s, %s: other logits in row %lld", b->name, what, (long long)i);
    mt_check(a->drawn == b->drawn && memcmp(a->tokens, b->tokens, (size_t)a->drawn * sizeof *a->tokens) == 0,
             "%s, %s: other tokens", b->name, what);
    family_compare_sets(&sets, a->kept, b->kept, a->layers, b->name);
    family_compare_sets(&sets, a->final, b->final, a->layers, b->name);
    mt_check(sets.differing == 0, "%s, %s: %lld heads keep other entries", b->name, what, (long long)sets.differing);
}
