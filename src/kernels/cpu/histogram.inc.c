/* Histograms of score keys: threads count blocks of entries, and add their counts up. */
#include "kernels/cpu/common.h"
#include "kernels/score_rows.h"

/* Entries of a head are shared out in blocks. */
enum { COUNT_SLOTS = 1 << 14 };

/* Add a thread's counts of one row to those of the others. */
static void hand_in(const lh_histogram_args *a, int64_t r, int32_t *mine)
{
    int32_t *bins = lh_histogram_row_at(a, r).bins;
    for (int64_t b = 0; b < (int64_t)1 << a->bits; b++) {
        if (!mine[b]) continue;
#pragma omp atomic
        bins[b] += mine[b];
        mine[b] = 0;
    }
}

static void count_slots(const lh_histogram_args *a, int64_t r, int64_t first, int32_t *mine)
{
    const lh_histogram_row row = lh_histogram_row_at(a, r);
    const int64_t end = lh_min_i64(first + COUNT_SLOTS, row.len);
    for (int64_t s = first; s < end; s++) {
        int64_t bin = lh_histogram_bin(a, &row, s);
        if (bin >= 0) mine[bin]++;
    }
}

static lh_status op_histogram(lh_stream *stream, const lh_histogram_args *a)
{
    int32_t *parts = NULL;
    int64_t rows = a->batch * a->kv->heads, blocks = (a->ld + COUNT_SLOTS - 1) / COUNT_SLOTS, all = rows * blocks;
    int64_t size = (int64_t)1 << a->bits, bytes = size * (int64_t)sizeof *parts;
    assert(a->bits > 0 && a->prefix_bits + a->bits <= 32);
    LH_TRY(lh_stream_scratch(stream, &parts, omp_get_max_threads() * bytes));
    for (int64_t r = 0; r < rows; r++) memset(lh_histogram_row_at(a, r).bins, 0, (size_t)bytes);
#pragma omp parallel if (rows * a->ld >= PARALLEL_FROM)
    {
        int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
        int64_t end = all * (thread + 1) / threads;
        int32_t *mine = parts + thread * size;
        memset(mine, 0, (size_t)bytes);
        for (int64_t i = all * thread / threads; i < end; i++) {
            count_slots(a, i / blocks, i % blocks * COUNT_SLOTS, mine);
            if (i + 1 == end || (i + 1) % blocks == 0) hand_in(a, i / blocks, mine);
        }
    }
    return LH_OK;
}
