/* result.c - rows of results: compares medians with peak rates, and writes them as Markdown and JSON. */
#include <math.h>
#include <stdio.h>

#include "base/markdown.h"
#include "lab/bench/bench.h"

const lh_column lh_bench_columns[] = {{"name", "", LH_COLUMN_LABEL},
                                      {"shape", "", LH_COLUMN_TEXT},
                                      {"calls", "", LH_COLUMN_I64},
                                      {"median_s", "s", LH_COLUMN_F64},
                                      {"fastest_s", "s", LH_COLUMN_F64},
                                      {"bytes", "bytes", LH_COLUMN_F64},
                                      {"flops", "FLOPs", LH_COLUMN_F64},
                                      {"gb_per_s", "GB/s", LH_COLUMN_F64},
                                      {"tflops_per_s", "TFLOP/s", LH_COLUMN_F64},
                                      {"limit", "", LH_COLUMN_LABEL},
                                      {"share", "share of 1", LH_COLUMN_F64},
                                      {0}};
enum { NAME, SHAPE, CALLS, MEDIAN, FASTEST, BYTES, FLOPS, GBPS, TFLOPS, LIMIT, SHARE, COLUMNS };

const lh_column lh_bench_figure_columns[] = {{"name", "", LH_COLUMN_LABEL},
                                             {"shape", "", LH_COLUMN_TEXT},
                                             {"value", "", LH_COLUMN_F64},
                                             {"limit", "", LH_COLUMN_F64},
                                             {0}};

void lh_bench_result_init(lh_bench_result *result, const lh_column *columns)
{
    *result = (lh_bench_result){0};
    lh_table_init(&result->rows, columns);
    lh_table_init(&result->machine, lh_bench_columns);
    lh_table_init(&result->figures, lh_bench_figure_columns);
}

void lh_bench_result_clear(lh_bench_result *result)
{
    lh_table_clear(&result->rows);
    lh_table_clear(&result->machine);
    lh_table_clear(&result->figures);
}

static double or_none(double x)
{
    return x > 0 ? x : NAN;
}

lh_status lh_bench_add(lh_table *table, const lh_bench_row *row)
{
    const double t = row->time.median_s;
    return lh_table_add(table, (const lh_cell[COLUMNS]){[NAME] = {.text = row->name},
                                                        [SHAPE] = {.text = row->shape},
                                                        [CALLS] = {.number = row->time.calls},
                                                        [MEDIAN] = {.value = t},
                                                        [FASTEST] = {.value = row->time.fastest_s},
                                                        [BYTES] = {.value = or_none(row->bytes)},
                                                        [FLOPS] = {.value = or_none(row->flops)},
                                                        [GBPS] = {.value = or_none(row->bytes / t * 1e-9)},
                                                        [TFLOPS] = {.value = or_none(row->flops / t * 1e-12)},
                                                        [LIMIT] = {.text = row->limit},
                                                        [SHARE] = {.value = or_none(row->share)}});
}

lh_status lh_bench_figure(lh_bench_result *result, const char *name, const char *shape, const double value_limit[2])
{
    return lh_table_add(&result->figures, (const lh_cell[]){{.text = name},
                                                            {.text = shape},
                                                            {.value = value_limit[0]},
                                                            {.value = or_none(value_limit[1])}});
}

double lh_bench_min_s(const lh_bench_rates *rates, const lh_bench_case *c)
{
    const double rate = c->type == LH_BF16 ? rates->flops_bf16 : rates->flops_f32;
    const double memory_s = rates->bytes_per_s > 0 ? c->bytes / rates->bytes_per_s : 0;
    const double product_s = rate > 0 ? c->flops / rate : 0;
    return memory_s > product_s ? memory_s : product_s;
}

lh_status lh_bench_add_case(lh_bench *b, const lh_bench_case *c, const lh_bench_time *time)
{
    const int host = lh_device_kind_of(b->device) == LH_DEVICE_CPU, half = c->type == LH_BF16;
    const double rate = half ? b->rates.flops_bf16 : b->rates.flops_f32;
    const double least_s = lh_bench_min_s(&b->rates, c);
    const char *products = host ? "multiply-adds" : half ? "gemm bf16" : "gemm f32";
    const char *limit = rate <= 0 || least_s > c->flops / rate ? (host ? "read" : "copy") : products;
    return lh_bench_add(&b->result->rows, &(lh_bench_row){.name = c->name,
                                                          .shape = c->shape,
                                                          .limit = least_s > 0 ? limit : "",
                                                          .time = *time,
                                                          .bytes = c->bytes,
                                                          .flops = c->flops,
                                                          .share = least_s / time->median_s});
}

/* ---- as text ---- */

/* Writes a time in a suitable unit. */
static lh_status put_time(lh_buf *cell, double s)
{
    if (s < 1e-3) return lh_buf_printf(cell, "%.2f µs", s * 1e6);
    return s < 1 ? lh_buf_printf(cell, "%.3f ms", s * 1e3) : lh_buf_printf(cell, "%.3f s", s);
}

/* Writes a number, or nothing for NAN. */
static lh_status put_number(lh_buf *cell, const char *format, double x)
{
    if (!isnan(x)) LH_TRY(lh_buf_printf(cell, format, x));
    return LH_OK;
}

static lh_status put_headings(const lh_markdown *table, const char *const *names)
{
    for (int64_t c = 0; c < table->width; c++) LH_TRY(lh_buf_puts(lh_markdown_cell(table, 0, c), names[c]));
    return LH_OK;
}

static lh_status put_rows(lh_buf *out, const lh_table *rows)
{
    lh_status st = LH_OK;
    lh_markdown table = {0};
    static const char *const names[] = {"case", "shape",   "calls", "median", "fastest",
                                        "GB/s", "TFLOP/s", "limit", "share"};
    enum { WIDTH = sizeof names / sizeof *names, LEFT = 1 << 0 | 1 << 1 | 1 << 7 };
    LH_TRY_DONE(lh_markdown_init(&table, rows->n + 1, WIDTH));
    LH_TRY_DONE(put_headings(&table, names));
    for (int64_t i = 0; i < rows->n; i++) {
        const lh_cell *row = lh_table_row(rows, i);
        lh_buf *cell = lh_markdown_cell(&table, i + 1, 0);
        LH_TRY_DONE(lh_buf_puts(&cell[0], row[NAME].text));
        LH_TRY_DONE(lh_buf_puts(&cell[1], row[SHAPE].text));
        LH_TRY_DONE(lh_buf_printf(&cell[2], "%lld", (long long)row[CALLS].number));
        LH_TRY_DONE(put_time(&cell[3], row[MEDIAN].value));
        LH_TRY_DONE(put_time(&cell[4], row[FASTEST].value));
        LH_TRY_DONE(put_number(&cell[5], "%.4g", row[GBPS].value));
        LH_TRY_DONE(put_number(&cell[6], "%.4g", row[TFLOPS].value));
        LH_TRY_DONE(lh_buf_puts(&cell[7], row[LIMIT].text));
        LH_TRY_DONE(put_number(&cell[8], "%.2f", row[SHARE].value));
    }
    LH_TRY_DONE(lh_markdown_print(&table, LEFT, out));
done:
    lh_markdown_clear(&table);
    return st;
}

static lh_status put_counts(lh_buf *out, const lh_table *rows)
{
    lh_status st = LH_OK;
    lh_markdown table = {0};
    LH_TRY_DONE(lh_markdown_init(&table, rows->n + 1, rows->width));
    for (int64_t c = 0; c < rows->width; c++)
        LH_TRY_DONE(lh_buf_puts(lh_markdown_cell(&table, 0, c), rows->columns[c].name));
    for (int64_t i = 0; i < rows->n; i++)
        for (int64_t c = 0; c < rows->width; c++) {
            const lh_cell *cell = lh_table_row(rows, i) + c;
            lh_buf *to = lh_markdown_cell(&table, i + 1, c);
            LH_TRY_DONE(rows->columns[c].type == LH_COLUMN_I64 ? lh_buf_printf(to, "%lld", (long long)cell->number)
                                                               : lh_buf_puts(to, cell->text));
        }
    LH_TRY_DONE(lh_markdown_print(&table, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3, out));
done:
    lh_markdown_clear(&table);
    return st;
}

static lh_status put_figures(lh_buf *out, const lh_table *figures)
{
    lh_status st = LH_OK;
    lh_markdown table = {0};
    static const char *const names[] = {"figure", "of", "value", "at most"};
    LH_TRY_DONE(lh_markdown_init(&table, figures->n + 1, 4));
    LH_TRY_DONE(put_headings(&table, names));
    for (int64_t i = 0; i < figures->n; i++) {
        const lh_cell *row = lh_table_row(figures, i);
        lh_buf *cell = lh_markdown_cell(&table, i + 1, 0);
        for (int c = 0; c < 2; c++) LH_TRY_DONE(lh_buf_puts(&cell[c], row[c].text));
        for (int c = 2; c < 4; c++) LH_TRY_DONE(put_number(&cell[c], "%.4g", row[c].value));
    }
    LH_TRY_DONE(lh_markdown_print(&table, 1 << 0 | 1 << 1, out));
done:
    lh_markdown_clear(&table);
    return st;
}

lh_status lh_bench_text(const lh_bench_result *result, lh_buf *out)
{
    LH_TRY(lh_buf_printf(out, "%s\n\n", result->about));
    if (result->machine.n) {
        LH_TRY(put_rows(out, &result->machine));
        LH_TRY(lh_buf_puts(out, "\n"));
    }
    LH_TRY(result->rows.columns == lh_bench_count_columns ? put_counts(out, &result->rows)
                                                          : put_rows(out, &result->rows));
    if (result->figures.n) {
        LH_TRY(lh_buf_puts(out, "\n"));
        LH_TRY(put_figures(out, &result->figures));
    }
    return LH_OK;
}

lh_status lh_bench_json(const lh_bench_result *result, json_t **out)
{
    lh_status st = LH_OK;
    const lh_table *const tables[] = {&result->machine, &result->rows, &result->figures};
    static const char *const names[] = {"machine", "rows", "figures"};
    json_t *object = json_object(), *rows;
    json_object_set_new(object, "about", json_string(result->about));
    for (int i = 0; i < 3; i++) {
        LH_TRY_DONE(lh_table_json(tables[i], &rows));
        json_object_set_new(object, names[i], rows);
    }
    *out = json_incref(object);
done:
    json_decref(object);
    return st;
}
