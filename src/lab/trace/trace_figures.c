#include "lab/trace/trace_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "lab/trace/segment.h"

enum { BINS = 48, SHOWN = 5, PART_OF_MOST = 100 };

/* Numbers of every recorded layer. */
typedef struct by_layer {
    int64_t n;        /* layers */
    double *layer;    /* [n] their numbers */
    float *norms;     /* [2, n]: of keys, of values */
    float *most;      /* [n] share of the attention that the most attended entries get */
    float *positions; /* [n, bins] attention per entry, 1: the mean */
    int64_t bins;
} by_layer;

static void by_layer_clear(by_layer *b)
{
    lh_free(b->layer);
    lh_free(b->norms);
    lh_free(b->most);
    lh_free(b->positions);
}

static lh_status by_layer_open(by_layer *b, const lh_trace_file *f)
{
    for (int64_t l = 0; l < f->shape.layers; l++) b->n += f->recorded[l];
    b->bins = lh_min_i64(BINS, f->prompt);
    LH_TRY(lh_calloc(&b->layer, b->n, sizeof *b->layer));
    LH_TRY(lh_calloc(&b->norms, 2 * b->n, sizeof *b->norms));
    LH_TRY(lh_calloc(&b->most, b->n, sizeof *b->most));
    return lh_calloc(&b->positions, b->n * b->bins, sizeof *b->positions);
}

/* [kv_heads, prompt] of a layer; NULL: not recorded. */
static lh_status read_entries(const lh_trace_file *f, int64_t layer, const char *array, float **out)
{
    char name[LH_SEGMENT_NAME];
    const lh_h5_shape want = {LH_F32, 2, {f->shape.heads.kv_heads, f->prompt}};
    lh_h5_shape shape;
    *out = NULL;
    snprintf(name, sizeof name, "/layers/%03lld/%s", (long long)layer, array);
    return lh_h5_has(f->h5, name) ? lh_h5_get(f->h5, name, &want, &shape, out) : LH_OK;
}

static lh_status mean_norm(const lh_trace_file *f, int64_t layer, const char *array, float *out)
{
    float *squares = NULL;
    double sum = 0;
    const int64_t n = f->shape.heads.kv_heads * f->prompt;
    LH_TRY(read_entries(f, layer, array, &squares));
    for (int64_t i = 0; squares && i < n; i++) sum += sqrt((double)squares[i]);
    *out = squares ? (float)(sum / (double)n) : NAN;
    lh_free(squares);
    return LH_OK;
}

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Figures of a layer's columns of attention: sums [kv_heads, prompt] of a file, sorted per head. */
static void take_columns(const lh_trace_file *f, float *sums, by_layer *b, int64_t i)
{
    const int64_t heads = f->shape.heads.kv_heads, n = f->prompt, part = (n + PART_OF_MOST - 1) / PART_OF_MOST;
    float *bins = b->positions + i * b->bins;
    double all = 0, most = 0;
    for (int64_t k = 0; k < heads * n; k++) {
        if (!(sums[k] >= 0) || isinf(sums[k])) sums[k] = 0;
        all += (double)sums[k];
    }
    for (int64_t bin = 0; bin < b->bins; bin++) {
        const int64_t first = bin * n / b->bins, end = (bin + 1) * n / b->bins;
        double sum = 0;
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = first; t < end; t++) sum += (double)sums[h * n + t];
        bins[bin] = (float)(sum / all * (double)n / (double)(end - first));
    }
    for (int64_t h = 0; h < heads; h++) {
        qsort(sums + h * n, (size_t)n, sizeof *sums, descending);
        for (int64_t t = 0; t < part; t++) most += (double)sums[h * n + t];
    }
    b->most[i] = (float)(most / all);
}

static lh_status read_layers(const lh_trace_file *f, by_layer *b)
{
    int64_t i = 0;
    for (int64_t l = 0; l < f->shape.layers; l++) {
        float *sums = NULL;
        if (!f->recorded[l]) continue;
        b->layer[i] = (double)l;
        LH_TRY(mean_norm(f, l, "norms/key_squares", &b->norms[i]));
        LH_TRY(mean_norm(f, l, "norms/value_squares", &b->norms[b->n + i]));
        LH_TRY(read_entries(f, l, "columns/sums", &sums));
        if (sums) take_columns(f, sums, b, i);
        lh_free(sums);
        i++;
    }
    return LH_OK;
}

static lh_figure_dim layers_of(const by_layer *b)
{
    return (lh_figure_dim){.name = "layer", .count = b->n, .values = b->layer};
}

static lh_status put_norms(const by_layer *b, lh_figures *out)
{
    static const char *const arrays[] = {"keys", "values"};
    return lh_figures_append(out, &(lh_figure){.name = "norms",
                                               .title = "L2 norms (mean of entries)",
                                               .unit = "",
                                               .x = "layer",
                                               .y = "array",
                                               .dim_count = 2,
                                               .dims = {{.name = "array", .count = 2, .labels = arrays}, layers_of(b)},
                                               .values = b->norms});
}

/* Some layers, from the first to the last. */
static lh_status put_positions(const lh_trace_file *f, const by_layer *b, lh_figures *out)
{
    const int64_t shown = lh_min_i64(b->n, SHOWN);
    char text[SHOWN][32];
    const char *names[SHOWN];
    double at[BINS];
    float values[SHOWN * BINS];
    for (int64_t bin = 0; bin < b->bins; bin++) at[bin] = (double)(bin * f->prompt / b->bins);
    for (int64_t i = 0; i < shown; i++) {
        const int64_t l = shown > 1 ? i * (b->n - 1) / (shown - 1) : 0;
        snprintf(text[i], sizeof text[i], "layer %.0f", b->layer[l]);
        names[i] = text[i];
        memcpy(values + i * b->bins, b->positions + l * b->bins, (size_t)b->bins * sizeof *values);
    }
    return lh_figures_append(out,
                             &(lh_figure){.name = "attention-positions",
                                          .title = "Attention that entries get (mean: 1)",
                                          .unit = "",
                                          .x = "position",
                                          .y = "layer",
                                          .dim_count = 2,
                                          .dims = {{.name = "layer", .count = shown, .labels = names},
                                                   {.name = "position", .unit = "", .count = b->bins, .values = at}},
                                          .values = values});
}

static lh_status put_most(const by_layer *b, lh_figures *out)
{
    return lh_figures_append(out, &(lh_figure){.name = "attention-most",
                                               .title = "Attention on the 1% most attended entries",
                                               .unit = "share of the attention",
                                               .x = "layer",
                                               .y = "",
                                               .dim_count = 1,
                                               .dims = {layers_of(b)},
                                               .values = b->most});
}

/* Seconds of every rank, [ranks, n]. */
static lh_status put_seconds(const lh_trace_file *f, const char *array, const lh_figure *like, lh_figures *out)
{
    lh_status st = LH_OK;
    lh_h5_shape shape;
    float *seconds = NULL;
    lh_figure figure = *like;
    if (!lh_h5_has(f->h5, array)) return LH_OK;
    LH_TRY_DONE(lh_h5_get(f->h5, array, &(lh_h5_shape){LH_F32, 2, {-1, -1}}, &shape, &seconds));
    if (shape.dims[0] < 1 || shape.dims[1] < 1) goto done;
    figure.unit = "s";
    figure.y = "rank";
    figure.dim_count = 2;
    figure.dims[0] = (lh_figure_dim){.name = "rank", .count = shape.dims[0]};
    figure.dims[1] = (lh_figure_dim){.name = figure.x, .count = shape.dims[1]};
    figure.values = seconds;
    LH_TRY_DONE(lh_figures_append(out, &figure));
done:
    lh_free(seconds);
    return st;
}

lh_status lh_trace_figures(const lh_trace_file *f, lh_figures *out)
{
    lh_status st = LH_OK;
    by_layer b = {0};
    LH_TRY_DONE(by_layer_open(&b, f));
    LH_TRY_DONE(read_layers(f, &b));
    if (b.n && f->column_rows) {
        LH_TRY_DONE(put_positions(f, &b, out));
        LH_TRY_DONE(put_most(&b, out));
    }
    if (b.n) LH_TRY_DONE(put_norms(&b, out));
    LH_TRY_DONE(put_seconds(f, "/timings/prefill",
                            &(lh_figure){.name = "prefill-seconds", .title = "Prefill by rank", .x = "layer"}, out));
    LH_TRY_DONE(
        put_seconds(f, "/timings/steps",
                    &(lh_figure){.name = "step-seconds", .title = "Steps after the prompt by rank", .x = "step"}, out));
done:
    by_layer_clear(&b);
    return st;
}
