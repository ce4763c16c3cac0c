/* counts.c - counts of launches, copies, allocations and bytes between two points in time, such as one call of an
 * operation (device/counts.h). */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "lab/bench/bench.h"

const lh_column lh_bench_count_columns[] = {{"name", "", LH_COLUMN_LABEL},      {"shape", "", LH_COLUMN_TEXT},
                                            {"kind", "", LH_COLUMN_LABEL},      {"what", "", LH_COLUMN_LABEL},
                                            {"times", "", LH_COLUMN_I64},       {"loaded", "bytes", LH_COLUMN_I64},
                                            {"stored", "bytes", LH_COLUMN_I64}, {0}};

lh_status lh_bench_check_counts(const lh_device *device)
{
    const lh_count *counts;
    if (lh_device_counts(device, &counts) < 0)
        LH_FAIL(LH_EUSAGE,
                "'--count' needs a device that counts what it does, which '%s' does not: the emulated GPU of the "
                "tests does, 'build/tests/longhaul_simt bench' (docs/gpu.md)",
                lh_device_name(device));
    return LH_OK;
}

void lh_bench_tally_take(const lh_device *device, lh_bench_tally *last, lh_bench_tally *since)
{
    const lh_count *counts;
    int64_t n = lh_device_counts(device, &counts);
    assert(n <= LH_BENCH_TALLY_MOST);
    memset(last->counts + last->n, 0, (size_t)(n - last->n) * sizeof *counts);
    since->n = n;
    for (int64_t i = 0; i < n; i++) {
        const lh_count *before = &last->counts[i];
        since->counts[i] = counts[i];
        since->counts[i].times -= before->times;
        since->counts[i].loaded -= before->loaded;
        since->counts[i].stored -= before->stored;
    }
    memcpy(last->counts, counts, (size_t)n * sizeof *counts);
    last->n = n;
}

lh_count lh_bench_tally_sum(const lh_bench_tally *t, lh_count_kind kind)
{
    lh_count sum = {.kind = kind};
    for (int64_t i = 0; i < t->n; i++) {
        if (t->counts[i].kind != kind) continue;
        sum.times += t->counts[i].times;
        sum.loaded += t->counts[i].loaded;
        sum.stored += t->counts[i].stored;
    }
    return sum;
}

lh_status lh_bench_tally_report(const lh_bench_tally *t, const char *name, const char *shape, lh_bench_result *result)
{
    for (int kind = 0; kind < LH_COUNT_KINDS; kind++)
        for (int64_t i = 0; i < t->n; i++) {
            const lh_count *c = &t->counts[i];
            if ((int)c->kind != kind || !c->times) continue;
            LH_TRY(lh_table_add(&result->rows, (const lh_cell[]){{.text = name},
                                                                 {.text = shape},
                                                                 {.text = lh_count_kind_name(c->kind)},
                                                                 {.text = c->name},
                                                                 {.number = c->times},
                                                                 {.number = c->loaded},
                                                                 {.number = c->stored}}));
        }
    return LH_OK;
}

lh_status lh_bench_count_case(lh_bench *b, const lh_bench_case *c)
{
    lh_status st = LH_OK;
    lh_bench_tally *t = NULL; /* last, since */
    LH_TRY_DONE(lh_bench_check_counts(b->device));
    LH_TRY_DONE(lh_calloc(&t, 2, sizeof *t));
    for (int64_t turn = 0; turn < 2; turn++) { /* the first call allocates */
        if (c->before) LH_TRY_DONE(c->before(b, c->args));
        lh_bench_tally_take(b->device, &t[0], &t[1]);
        LH_TRY_DONE(c->call(b, c->args, turn));
    }
    lh_bench_tally_take(b->device, &t[0], &t[1]);
    LH_TRY_DONE(lh_bench_tally_report(&t[1], c->name, c->shape, b->result));
    const lh_count kernels = lh_bench_tally_sum(&t[1], LH_COUNT_KERNEL);
    if (c->bytes > 0)
        LH_TRY_DONE(lh_bench_figure(b->result, c->name, c->shape,
                                    (const double[]){(double)(kernels.loaded + kernels.stored) / c->bytes, 1}));
done:
    lh_free(t);
    return st;
}

/* ---- a layer of a prompt, and decode steps ---- */
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

/* Sums of counts. */
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
