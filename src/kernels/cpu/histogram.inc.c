/* Histograms of score keys: threads count blocks of entries, and add their counts up. */
#include "kernels/cpu/common.h"

/* Entries of a head are shared out in blocks. */
enum { COUNT_SLOTS = 1 << 14 };

/* Add a thread's counts of one head to those of the others. */
static void hand_in(const lh_histogram_args *a, int64_t h, int32_t *mine)
{
    int64_t size = (int64_t)1 << a->bits;
    int32_t *bins = a->histograms + h * a->histograms_ld;
    for (int64_t b = 0; b < size; b++) {
        if (!mine[b]) continue;
#pragma omp atomic
        bins[b] += mine[b];
        mine[b] = 0;
    }
}

static void count_slots(const lh_histogram_args *a, int64_t h, int64_t first, int32_t *mine)
{
    int shift = 32 - a->prefix_bits - a->bits;
    int64_t end = lh_min_i64(first + COUNT_SLOTS, a->len[h]), mask = ((int64_t)1 << a->bits) - 1;
    uint32_t prefix = a->search ? a->search->prefix : 0;
    const float *scores = a->scores + h * a->ld;
    const uint8_t *state = a->state + h * a->ld;
    for (int64_t s = first; s < end; s++) {
        uint64_t key = lh_score_key(scores[s]);
        if (state[s] == LH_ENTRY_COMPETES && key >> (32 - a->prefix_bits) == prefix)
            mine[(int64_t)(key >> shift) & mask]++;
    }
}

static lh_status op_histogram(lh_stream *stream, const lh_histogram_args *a)
{
    int32_t *parts = NULL;
    int64_t size = (int64_t)1 << a->bits, blocks = (a->ld + COUNT_SLOTS - 1) / COUNT_SLOTS, all = a->heads * blocks;
    int64_t bytes = size * (int64_t)sizeof *parts;
    assert(a->bits > 0 && a->prefix_bits + a->bits <= 32);
    LH_TRY(lh_stream_scratch(stream, &parts, omp_get_max_threads() * bytes));
    for (int64_t h = 0; h < a->heads; h++) memset(a->histograms + h * a->histograms_ld, 0, (size_t)bytes);
#pragma omp parallel if (a->heads * a->ld >= PARALLEL_FROM)
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
