/* Laws of the division of MLP channels over ranks. */
#include "model/shard.h"
#include "suite.h"

/* Channels of published models (with experts: of one of them), of the models of tests, and odd ones. */
static const int64_t widths[] = {28672, 18944, 14336, 11008, 8192, 4864, 2048, 1536, 768, 172, 64, 40, 16, 1000, 333};
enum { WIDTHS = sizeof widths / sizeof *widths };

static lh_shard shard_of(int64_t ff, int rank, int ranks)
{
    const lh_config config = {.heads = 64, .kv_heads = 64, .ff = ff, .vocab = 64};
    lh_shard s;
    ck_assert_int_eq(lh_shard_of(&s, &config, rank, ranks), LH_OK);
    return s;
}

START_TEST(test_every_channel_lies_on_one_rank)
{
    for (int w = 0; w < WIDTHS; w++)
        for (int ranks = 1; ranks <= 64; ranks++) {
            int64_t channel = 0, block = 0;
            for (int r = 0; r < ranks; r++) {
                lh_shard s = shard_of(widths[w], r, ranks);
                ck_assert_int_eq(s.ff_first, channel);
                ck_assert_int_eq(s.block_first, block);
                channel += s.ff_count;
                block += s.block_count;
            }
            ck_assert_int_eq(channel, widths[w]);
            ck_assert_int_eq(block, lh_ff_blocks(widths[w]));
        }
}
END_TEST

/* So a row of the down projection begins at a multiple of 16 bytes, and no quantisation block of 32 is cut. */
START_TEST(test_shards_begin_at_multiples_of_32_channels)
{
    for (int w = 0; w < WIDTHS; w++)
        for (int ranks = 1; ranks <= 64; ranks++)
            for (int r = 0; r < ranks; r++) {
                lh_shard s = shard_of(widths[w], r, ranks);
                if (widths[w] < 512 || s.ff_first == widths[w]) continue; /* smaller than any model in use, or empty */
                ck_assert_int_eq(s.ff_first % 32, 0);
                if (s.ff_first + s.ff_count < widths[w]) ck_assert_int_eq(s.ff_count % 32, 0);
            }
}
END_TEST

START_TEST(test_no_rank_is_left_without_channels)
{
    for (int w = 0; w < WIDTHS; w++)
        for (int ranks = 1; ranks <= 64 && ranks <= lh_ff_blocks(widths[w]); ranks++)
            for (int r = 0; r < ranks; r++) ck_assert_int_gt(shard_of(widths[w], r, ranks).ff_count, 0);
    ck_assert_int_ge(lh_ff_blocks(28672), 64);
    ck_assert_int_ge(lh_ff_blocks(16), 16);
}
END_TEST

START_TEST(test_ranks_have_as_many_channels_as_the_blocks_allow)
{
    static const int even[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48};
    for (size_t i = 0; i < sizeof even / sizeof *even; i++)
        for (int r = 0; r < even[i]; r++) {
            const double mean = 14336.0 / even[i];
            const lh_shard s = shard_of(14336, r, even[i]);
            ck_assert_int_eq(s.block_count, lh_ff_blocks(14336) / even[i]);
            ck_assert_double_le((double)s.ff_count, mean + 32);
            ck_assert_double_ge((double)s.ff_count, mean - 32);
        }
}
END_TEST

int main(void)
{
    return suite_run("shard", (const TTest *const[]){test_every_channel_lies_on_one_rank,
                                                     test_shards_begin_at_multiples_of_32_channels,
                                                     test_no_rank_is_left_without_channels,
                                                     test_ranks_have_as_many_channels_as_the_blocks_allow, NULL});
}
