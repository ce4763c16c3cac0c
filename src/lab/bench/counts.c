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
