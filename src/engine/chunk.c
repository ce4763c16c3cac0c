/* chunk.c - chooses the number of tokens that pass through a layer together: the efficient one, or fewer where memory
 * does not suffice. All ranks make the same choice. */
#include "engine/chunk.h"

#include "base/minmax.h"

/* Longest first. Below 512 products are slower on any device: shorter ones are used only if memory is short. */
static const int64_t lengths[] = {4096, 2048, 1024, 512, 256, 128, 64};
enum { LENGTHS = sizeof lengths / sizeof *lengths, FULL = 512, SPARE_SHARE = 64 };

/* What operations take: one block, as large as the one that takes the most. */
static int64_t scratch_bytes(const lh_chunk_request *r, int64_t length)
{
    const lh_chunking *c = lh_ops_chunking(r->device);
    int64_t heads = r->shard->heads.q_count, dim = r->config->head_dim;
    int64_t widest = lh_max_i64(lh_max_i64(r->config->hidden, heads * dim), r->shard->ff_count);
    int exact = r->options.dtype == LH_F32 || r->options.order == LH_ORDER_FIXED;
    int64_t packed_width = exact ? widest : r->config->experts.count ? r->config->hidden : 0; /* of the f32 router */
    int64_t packed = c->input_bytes * packed_width * lh_min_i64(length, c->input_tokens);
    int64_t blocks = lh_model_memory_of(r->config, r->shard, &r->options).few_bits ? widest / 32 : 0;
    int64_t rounded = c->rounded_bytes * blocks * lh_min_i64(length, c->rounded_tokens);
    int64_t queries = c->query_bytes * heads * (dim + 1) * length; /* and a log-sum-exp each */
    return c->fixed_bytes + lh_max_i64(lh_max_i64(packed, rounded), queries);
}

int64_t lh_chunk_bytes(const lh_chunk_request *r, int64_t length)
{
    const lh_forward_run run = {.chunk = length,
                                .sequences = lh_max_i64(r->sequences, 1),
                                .rows = lh_max_i64(lh_max_i64(r->rows, r->sequences), 1)};
    return lh_forward_bytes(r->config, r->shard, &r->options, &run) +
           scratch_bytes(r, lh_max_i64(length, r->sequences));
}

static int fits(const lh_chunk_request *r, int64_t length, int64_t room_bytes)
{
    return r->else_bytes + lh_chunk_bytes(r, length) <= room_bytes;
}

/* The only length there is, or 0: there is a choice. */
static int64_t only(const lh_chunk_request *r)
{
    return r->options.order == LH_ORDER_FIXED ? LH_CHUNK_FIXED : r->wanted;
}

int64_t lh_chunk_shortest(const lh_chunk_request *r)
{
    return only(r) ? only(r) : lengths[LENGTHS - 1];
}

/* Not longer than the prompt, rounded up, nor than the device likes. */
static int is_of_use(const lh_chunk_request *r, int64_t length)
{
    return length <= FULL || (length <= lh_ops_chunking(r->device)->most && length < 2 * r->tokens);
}

int64_t lh_chunk_spare(int64_t room_bytes)
{
    return lh_max_i64(room_bytes / SPARE_SHARE, LH_CHUNK_SPARE_LEAST);
}

int64_t lh_chunk_longest(const lh_chunk_request *r)
{
    int64_t shortest = lh_chunk_shortest(r), room = r->room_bytes - lh_chunk_spare(r->room_bytes);
    for (int i = 0; !only(r) && i < LENGTHS; i++)
        if (is_of_use(r, lengths[i]) && fits(r, lengths[i], room)) return lengths[i];
    return fits(r, shortest, r->room_bytes - LH_CHUNK_SPARE_LEAST) ? shortest : 0;
}

static lh_status check(const lh_chunk_request *r, int64_t length)
{
    const double gib = 1 << 30;
    int64_t shortest = lh_chunk_shortest(r), need = r->else_bytes + lh_chunk_bytes(r, shortest) + LH_CHUNK_SPARE_LEAST;
    if (!length)
        LH_FAIL(
            LH_ENOMEM,
            "the run takes %.3f GiB on this rank beside the weights, with %lld tokens of the prompt at a time, and "
            "%.3f GiB are left: %.3f GiB are missing; use more ranks, a smaller '--budget'%s%s%s or a shorter prompt "
            "('longhaul plan' shows what that needs)",
            (double)need / gib, (long long)shortest, (double)lh_max_i64(r->room_bytes, 0) / gib,
            (double)(need - lh_max_i64(r->room_bytes, 0)) / gib, r->wanted ? ", a smaller '" : "",
            r->wanted ? lh_setting("chunk") : "", r->wanted ? "'" : "");
    return LH_OK;
}

lh_status lh_chunk_choose(const lh_chunk_request *r, lh_comm *comm, int64_t *length)
{
    *length = lh_chunk_longest(r);
    LH_TRY(lh_comm_agree(comm, check(r, *length)));
    LH_TRY(lh_comm_allreduce(comm, length, 1, LH_I64, LH_MIN));
    return LH_OK;
}
