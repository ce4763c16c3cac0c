/* How heads that compete on different ranks find their threshold: score summaries are all-gathered, and every rank adds
 * them up itself. Nothing is reduced on the way, and `summary_bytes` is what this rank has sent for it. On any ranks.
 */
#include "comm/comm_impl.h"
#include "kv/forecast.h"
#include "kv/kv_rig.h"

/* The collectives of a rig's device memory, passed on and counted. */
static struct {
    const lh_comm_ops *plain;
    lh_comm_ops ops;
    int64_t reductions, gathers, gathered_bytes;
} seen;

static lh_status count_reduction(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    seen.reductions++;
    return seen.plain->allreduce(comm, buf, count, type, op);
}

static lh_status count_gather(lh_comm *comm, const void *send, void *recv, int64_t bytes)
{
    seen.gathers++;
    seen.gathered_bytes += bytes;
    return seen.plain->allgather(comm, send, recv, bytes);
}

static void watch(lh_comm *comm)
{
    seen.plain = comm->ops;
    seen.ops = *comm->ops;
    seen.ops.allreduce = count_reduction;
    seen.ops.allgather = count_gather;
    seen.reductions = seen.gathers = seen.gathered_bytes = 0;
    comm->ops = &seen.ops;
}

enum { ROUNDS = 3, CANDIDATE_BYTES = 12 };
static const int64_t ROUND_BYTES = 4 * (2048 + 1 + 2048 + 1 + 1024 + 1); /* the bins, and the entries left out */

static const struct {
    int64_t heads, kv_heads;
} shapes[] = {{9, 3}, {5, 5}, {8, 2}, {4, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const lh_policy_options policies[] = {
    {.policy = "ada-snapkv", .budget = "40"},
    {.policy = "ada-snapkv", .budget = "40", .parts = {.own = {{"safeguard", "floor"}, {"alpha", "0.2"}}}},
    {.policy = "ada-snapkv", .budget = "40", .parts = {.layer_budget = "adaptive"}},
};
enum { POLICIES = sizeof policies / sizeof *policies };

static kv_rig_case case_of(int shape, int policy)
{
    return (kv_rig_case){.heads = shapes[shape].heads,
                         .kv_heads = shapes[shape].kv_heads,
                         .dim = 8,
                         .layers = 3,
                         .tokens = 151,
                         .more = 1,
                         .type = LH_F32,
                         .seed = (uint64_t)(500 + policy),
                         .policy = policies[policy]};
}

/* What a prefill over all ranks sent, and what was forecast of it. */
typedef struct sent_bytes {
    int64_t summaries, forecast, counted_heads;
} sent_bytes;

/* With its collectives of device memory counted. */
static sent_bytes prefill(const kv_rig_case *c)
{
    kv_rig r;
    kv_rig_result got;
    kv_rig_open(&r, c, mt_comm(), &lh_ops_ref);
    watch(r.device_comm);
    kv_rig_prefill(&r, &got);
    r.device_comm->ops = seen.plain;
    lh_kv_forecast f;
    lh_kv_shape shape = kv_rig_shape(&r);
    mt_try(lh_kv_forecast_make(&f, &shape,
                               &(lh_kv_forecast_request){.policy = &r.plan, .tokens = c->tokens, .more = c->more}));
    sent_bytes sent = {got.stats.summary_bytes, f.summaries, r.heads.counted_count};
    kv_rig_result_clear(&got);
    kv_rig_close(&r);
    return sent;
}

START_TEST(test_summaries_are_gathered_and_nothing_is_reduced)
{
    for (int shape = 0; shape < SHAPES; shape++) {
        kv_rig_case c = case_of(shape, _i);
        (void)prefill(&c);
        int64_t selections = seen.gathers / ROUNDS;
        mt_check(seen.reductions == 0, "%lld reductions", (long long)seen.reductions);
        mt_check(selections > 0 && seen.gathers % ROUNDS == 0, "%lld gathers", (long long)seen.gathers);
        mt_check(seen.gathered_bytes == selections * ROUND_BYTES, "%lld bytes of %lld selections",
                 (long long)seen.gathered_bytes, (long long)selections);
    }
    mt_end();
}
END_TEST

START_TEST(test_summary_bytes_are_what_a_rank_has_sent)
{
    for (int shape = 0; shape < SHAPES; shape++) {
        kv_rig_case c = case_of(shape, 0);
        sent_bytes sent = prefill(&c);
        int64_t each = ROUND_BYTES + sent.counted_heads * CANDIDATE_BYTES;
        int64_t expected = mt_size() > 1 ? c.layers * each : 0;
        mt_check(sent.summaries == expected, "%lld bytes, not %lld", (long long)sent.summaries, (long long)expected);
        mt_check(sent.forecast == expected, "%lld bytes were forecast, not %lld", (long long)sent.forecast,
                 (long long)expected);
    }
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("summaries");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_loop_test(laws, test_summaries_are_gathered_and_nothing_is_reduced, 0, POLICIES);
    tcase_add_test(laws, test_summary_bytes_are_what_a_rank_has_sent);
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
