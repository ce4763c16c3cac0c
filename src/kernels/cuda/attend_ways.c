/* Which way computes a block of attention, and whether its results are right. */
#include "kernels/cuda/attend_ways.h"

#include <stdio.h>

#include "base/log.h"
#include "base/minmax.h"
#include "kernels/cuda/cuda.h"

/* The first way that can compute a block computes it; our kernel for every case computes the other blocks. */
static const lh_attend_way *const ways[] = {&lh_attend_hopper, &lh_attend_cudnn};
enum { WAYS = sizeof ways / sizeof *ways };

/* The last rows of a block, which are compared in new arenas. */
enum { LAST_TOKENS = 64 };

/* The number of last tokens of a block to compare with our kernel. */
static int64_t compared_tokens(const lh_attend_way *way, const lh_attend_trust *trust, const lh_attend_block_args *a)
{
    if (!trust->compared) return a->tokens;
    return way->reads_past && a->kv->compared && !*a->kv->compared ? lh_min_i64(a->tokens, LAST_TOKENS) : 0;
}

/* The last `tokens` rows of a block, as a block. */
static lh_attend_block_args last_rows(const lh_attend_block_args *a, int64_t tokens)
{
    const int64_t skip = a->tokens - tokens;
    lh_attend_block_args last = *a;
    last.o += skip * a->o_ld;
    last.o_bf16 = NULL;
    if (a->lse) last.lse += skip * a->map.heads;
    last.q += skip * a->q_ld;
    if (a->positions) last.positions += skip;
    last.tokens = tokens;
    return last;
}

/* Compares rows with our kernel's: a kernel or plan that differs from our assumptions gets most rows wrong, and one
 * that sums past the last entry of a head gets all rows of that head wrong. Waits. */
static lh_status compare(lh_stream *stream, lh_attend_trust *trust, const lh_attend_block_args *a, int64_t tokens)
{
    const lh_attend_block_args theirs = last_rows(a, tokens);
    const int64_t rows = tokens * a->map.heads, dim = a->kv->head_dim;
    lh_attend_off off = {0}, *counted;
    lh_attend_block_args ours = theirs;
    LH_TRY(lh_stream_scratch(stream, &ours.o, rows * (dim + 1) * (int64_t)sizeof(float) + (int64_t)sizeof off));
    ours.lse = ours.o + rows * dim;
    counted = (lh_attend_off *)(ours.lse + rows);
    ours.o_ld = a->map.heads * dim;
    ours.order = LH_ORDER_FIXED; /* without splits: the workspace is in use */
    LH_TRY(lh_attend_by_tiles(stream, &ours));
    LH_TRY(lh_stream_zero(stream, counted, sizeof off));
    LH_TRY(lh_attend_compare(stream, &theirs, ours.o, ours.lse, counted));
    LH_TRY(lh_stream_copy(stream, &off, counted, sizeof off, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(stream));
    trust->compared = 1;
    if (a->kv->compared) *a->kv->compared = 1;
    if (16 * (int64_t)off.far > rows || off.nan)
        snprintf(trust->why, sizeof trust->why,
                 "of %lld rows %u were far from the results of our kernel for every case, and %u no numbers",
                 (long long)rows, off.far, off.nan);
    return LH_OK;
}

lh_status lh_attend_by(const lh_attend_way *way, lh_stream *stream, const lh_attend_block_args *a, int *done)
{
    lh_attend_trust *trust = NULL;
    lh_attend_block_args kept = *a;
    *done = 0;
    LH_TRY(way->find(stream, a, &trust));
    if (!trust || trust->why[0]) return LH_OK;
    const int64_t tokens = compared_tokens(way, trust, a);
    kept.keeps_o |= tokens > 0;
    LH_TRY(way->run(stream, &kept, trust));
    if (tokens && !trust->why[0]) LH_TRY(compare(stream, trust, a, tokens));
    *done = !trust->why[0];
    if (*done) return LH_OK;
    if (way->drop) way->drop(stream);
    lh_warn("%s is not used any more for attention: %s", way->name, trust->why);
    return LH_OK;
}

lh_status lh_cuda_attend_block(lh_stream *stream, const lh_attend_block_args *a)
{
    int done = 0;
    if (a->tokens == 0 || a->map.heads == 0 || a->kv->head_dim == 0) return LH_OK;
    for (int i = 0; i < WAYS && !done; i++) LH_TRY(lh_attend_by(ways[i], stream, a, &done));
    if (!done) LH_TRY(lh_attend_by_tiles(stream, a));
    return LH_OK;
}

void lh_cuda_prepare_attend(lh_stream *stream, const lh_attend_block_args *like)
{
    for (int i = 0; i < WAYS; i++)
        if (ways[i]->prepare(stream, like)) return;
}
