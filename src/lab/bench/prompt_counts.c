/* prompt_counts.c - what the device does in a layer of a prompt and in decode steps. */
#include <string.h>

#include "base/mem.h"
#include "lab/bench/bench_impl.h"

typedef struct counted {
    const lh_device *device;
    int64_t tokens, layers;
    lh_bench_tally last, since;
    lh_bench_tally layer;     /* in the middle of the prompt's */
    lh_bench_tally few, many; /* the steps of the fewest and of the most kernels */
} counted;

static lh_status count_layer(void *self, int64_t done, int64_t total)
{
    counted *c = self;
    (void)total;
    if (done % c->tokens) return LH_OK;
    lh_bench_tally_take(c->device, &c->last, &c->since);
    if (done / c->tokens == (c->layers + 1) / 2) c->layer = c->since;
    return LH_OK;
}

static void count_step(void *self, int64_t step)
{
    counted *c = self;
    lh_bench_tally_take(c->device, &c->last, &c->since);
    if (step < LH_BENCH_FIRST_STEPS) return;
    const int64_t kernels = lh_bench_tally_sum(&c->since, LH_COUNT_KERNEL).times;
    if (step == LH_BENCH_FIRST_STEPS || kernels < lh_bench_tally_sum(&c->few, LH_COUNT_KERNEL).times) c->few = c->since;
    if (step == LH_BENCH_FIRST_STEPS || kernels > lh_bench_tally_sum(&c->many, LH_COUNT_KERNEL).times)
        c->many = c->since;
}

/* Kernels of a step that every layer launches: sampling, once a sequence, is not of a layer. */
static int64_t kernels_of_layer(const lh_bench_tally *t, int64_t layers)
{
    int64_t kernels = 0;
    for (int64_t i = 0; i < t->n; i++)
        if (t->counts[i].kind == LH_COUNT_KERNEL && strcmp(t->counts[i].name, "top_logits") != 0)
            kernels += t->counts[i].times / layers;
    return kernels;
}

/* Bytes of all kernels but products and attention. */
static double bytes_beside_products(const lh_bench_tally *t)
{
    static const char *const products[] = {"gemm",         "norm_gemm",     "expert_gemm", "cublas",
                                           "attend_block", "attend_decode", "cudnn"};
    const lh_count all = lh_bench_tally_sum(t, LH_COUNT_KERNEL);
    int64_t bytes = all.loaded + all.stored;
    for (int64_t i = 0; i < t->n; i++)
        for (size_t k = 0; k < sizeof products / sizeof *products; k++)
            if (t->counts[i].kind == LH_COUNT_KERNEL && strcmp(t->counts[i].name, products[k]) == 0)
                bytes -= t->counts[i].loaded + t->counts[i].stored;
    return (double)bytes;
}

/* Sums of what was counted. */
typedef struct figure {
    const char *name;
    double value;
} figure;

static lh_status add_figures(lh_bench_result *result, const char *shape, const figure *figures, size_t n)
{
    for (size_t i = 0; i < n; i++)
        LH_TRY(lh_bench_figure(result, figures[i].name, shape, (const double[]){figures[i].value, 0}));
    return LH_OK;
}

static lh_status report_layer(lh_bench_result *out, const counted *c, const char *shape)
{
    const lh_bench_tally *t = &c->layer;
    const double tokens = (double)c->tokens;
    const figure figures[] = {
        {"kernels of a layer of the prompt", (double)lh_bench_tally_sum(t, LH_COUNT_KERNEL).times},
        {"copies of a layer of the prompt", (double)lh_bench_tally_sum(t, LH_COUNT_COPY).times},
        {"waits of a layer of the prompt", (double)lh_bench_tally_sum(t, LH_COUNT_WAIT).times},
        {"bytes beside products and attention, of a token in a layer of the prompt", bytes_beside_products(t) / tokens},
        {"bytes sent, of a token in a layer of the prompt",
         (double)lh_bench_tally_sum(t, LH_COUNT_COLLECTIVE).loaded / tokens}};
    LH_TRY(lh_bench_tally_report(t, "layer of the prompt", shape, out));
    return add_figures(out, shape, figures, sizeof figures / sizeof *figures);
}

static lh_status report_steps(lh_bench_result *out, const counted *c, const char *shape)
{
    const int64_t few = kernels_of_layer(&c->few, c->layers), many = kernels_of_layer(&c->many, c->layers);
    const figure figures[] = {
        {"kernels of a layer in a decode step", (double)few},
        {"waits of a decode step", (double)lh_bench_tally_sum(&c->few, LH_COUNT_WAIT).times},
        {"exchanges of a decode step", (double)lh_bench_tally_sum(&c->few, LH_COUNT_COLLECTIVE).times},
        {"kernels of a layer in a decode step that evicts", (double)many},
        {"waits of a decode step that evicts", (double)lh_bench_tally_sum(&c->many, LH_COUNT_WAIT).times},
        {"exchanges of a decode step that evicts", (double)lh_bench_tally_sum(&c->many, LH_COUNT_COLLECTIVE).times}};
    LH_TRY(lh_bench_tally_report(&c->few, "decode step", shape, out));
    if (many > few) LH_TRY(lh_bench_tally_report(&c->many, "decode step that evicts", shape, out));
    return add_figures(out, shape, figures, many > few ? 6 : 3);
}

static lh_status report(lh_bench_result *out, const counted *c, const char *shape)
{
    LH_TRY(report_layer(out, c, shape));
    return report_steps(out, c, shape);
}

lh_status lh_bench_count_prompt(const lh_bench_prompt *prompt, const char *shape, lh_bench_result *out)
{
    lh_status st = LH_OK;
    const lh_engine_view *engine = lh_engine_get(prompt->engine);
    lh_bench_prompt counted_prompt = *prompt;
    counted *c = NULL;
    st = lh_calloc(&c, 1, sizeof *c);
    LH_TRY_DONE(lh_comm_agree(engine->comm, st));
    c->device = engine->device;
    c->tokens = prompt->tokens;
    c->layers = engine->config->layers;
    counted_prompt.progress = &(const lh_forward_progress){c, count_layer};
    counted_prompt.stepped = &(const lh_bench_stepped){c, count_step};
    LH_TRY_DONE(lh_bench_time_prompt(&counted_prompt, NULL, NULL));
    LH_TRY_DONE(lh_comm_agree(engine->comm, report(out, c, shape)));
done:
    lh_free(c);
    return st;
}
