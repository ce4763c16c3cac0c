/* Laws of collectives of device memory: what comes back, and that it comes in the order of the stream. With a CUDA
 * device (or the emulated one) all ways are tried, on the host's memory those that it has. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "mpi_check.h"

static lh_device *device;
static lh_stream *stream;
static lh_comm *comm;

static const int64_t counts[] = {0, 1, 3, 250, 70001};
enum { COUNTS = sizeof counts / sizeof *counts };

static const char *const names[LH_COMM_WAYS] = {
    [LH_COMM_DIRECT] = "direct", [LH_COMM_STAGED] = "staged", [LH_COMM_NCCL] = "nccl"};

/* Opens the way number _i; 0 when it is not there. */
static int set_up(int way)
{
    lh_device_found found;
    lh_device_choice choice = {.kind = LH_DEVICE_CPU};
    lh_device_find(LH_DEVICE_CUDA, &found);
    if (found.count > 0) choice = (lh_device_choice){.kind = LH_DEVICE_CUDA, .index = mt_rank() % found.count};
    int one_device_per_rank = found.count >= mt_size();
    if (way == LH_COMM_NCCL && (!one_device_per_rank || mt_size() == 1)) return 0;
    if (way == LH_COMM_DIRECT && found.count > 0) return 0;
    mt_try(lh_device_open(&device, &choice));
    mt_try(lh_stream_open(&stream, device));
    mt_try(lh_comm_open_on(&comm, &(lh_comm_on){mt_comm(), stream, (lh_comm_way)way, one_device_per_rank}));
    if (way != LH_COMM_AUTO && mt_size() > 1)
        mt_check(strcmp(lh_comm_name(comm), names[way]) == 0, "opened '%s'", lh_comm_name(comm));
    return 1;
}

static void tear_down(void)
{
    lh_comm_close(comm);
    lh_stream_close(stream);
    lh_device_close(device);
}

static void *put(const void *host, int64_t bytes)
{
    void *p;
    mt_try(lh_device_alloc(device, &p, bytes + 1, LH_MEM_WORK));
    mt_try(lh_stream_copy(stream, p, host, bytes, LH_COPY_TO_DEVICE));
    return p;
}

static void get(void *host, void *p, int64_t bytes)
{
    mt_try(lh_stream_copy(stream, host, p, bytes, LH_COPY_TO_HOST));
    mt_try(lh_stream_sync(stream));
    lh_device_free(device, p);
}

START_TEST(test_sums_come_between_what_is_enqueued_before_and_behind)
{
    if (!set_up(_i)) goto done;
    int n = mt_size(), rank = mt_rank();
    for (int c = 0; c < COUNTS; c++) {
        int64_t count = counts[c];
        float *x = NULL;
        int64_t *w = NULL;
        uint16_t *half = NULL;
        mt_try(lh_calloc(&x, count + 1, sizeof *x));
        mt_try(lh_calloc(&half, count + 1, sizeof *half));
        mt_try(lh_calloc(&w, count + 1, sizeof *w));
        for (int64_t i = 0; i < count; i++) {
            x[i] = (float)((rank + 1) * (i % 1000));
            w[i] = (INT64_C(1) << 40) + rank * i;
            half[i] = lh_f32_to_bf16((float)((rank + 1) * (i % 12)));
        }
        float *on = put(x, count * 4);
        int64_t *whole = put(w, count * 8);
        uint16_t *rounded = put(half, count * 2);
        mt_try(lh_comm_flush(comm));
        int64_t sent = lh_comm_sent_bytes(comm);
        mt_try(lh_comm_allreduce(comm, on, count, LH_F32, LH_SUM));
        mt_try(lh_comm_allreduce(comm, whole, count, LH_I64, LH_MAX));
        mt_try(lh_comm_allreduce(comm, rounded, count, LH_BF16, LH_SUM));
        mt_check(lh_comm_sent_bytes(comm) - sent == (n > 1 ? 14 * count : 0), "sent bytes are off by something");
        get(x, on, count * 4);
        get(w, whole, count * 8);
        get(half, rounded, count * 2);
        for (int64_t i = 0; i < count; i++) {
            mt_check(x[i] == (float)(n * (n + 1) / 2 * (i % 1000)), "sum at %lld", (long long)i);
            mt_check(w[i] == (INT64_C(1) << 40) + (n - 1) * i, "maximum at %lld", (long long)i);
            mt_check(lh_bf16_to_f32(half[i]) == (float)(n * (n + 1) / 2 * (i % 12)), "bf16 at %lld", (long long)i);
        }
        lh_free(x);
        lh_free(w);
        lh_free(half);
    }
    tear_down();
done:
    mt_end();
}
END_TEST

START_TEST(test_sums_beside_the_stream_are_there_after_a_join)
{
    if (!set_up(_i)) goto done;
    int n = mt_size(), rank = mt_rank();
    for (int c = 0; c < COUNTS; c++) {
        int64_t count = counts[c];
        float *x = NULL, *on[3], *copies[3];
        mt_try(lh_calloc(&x, 3 * count + 1, sizeof *x));
        for (int k = 0; k < 3; k++) {
            for (int64_t i = 0; i < count; i++) x[k * count + i] = (float)((rank + 1 + k) * (i % 1000));
            copies[k] = put(x, count * 4);
            on[k] = put(x + k * count, count * 4);
            mt_try(lh_comm_flush(comm));
            if (k < 2) mt_try(lh_comm_allreduce_async(comm, on[k], count, LH_F32, LH_SUM));
        }
        mt_try(lh_comm_allreduce(comm, on[2], count, LH_F32, LH_SUM)); /* in the stream, behind those beside it */
        mt_try(lh_comm_wait(comm));
        for (int k = 0; k < 3; k++) mt_try(lh_stream_copy(stream, copies[k], on[k], count * 4, LH_COPY_ON_DEVICE));
        for (int k = 0; k < 3; k++) {
            get(x, copies[k], count * 4);
            for (int64_t i = 0; i < count; i++)
                mt_check(x[i] == (float)((n * (n + 1) / 2 + n * k) * (i % 1000)), "sum %d at %lld", k, (long long)i);
            lh_device_free(device, on[k]);
        }
        lh_free(x);
    }
    tear_down();
done:
    mt_end();
}
END_TEST

/* Block r of a ragged layout with gaps, in an order that is not that of the ranks. */
static int64_t block(int r, int64_t count, int64_t *at)
{
    int64_t width = count + mt_size() + 2;
    *at = (mt_size() - 1 - r) * width + 1;
    return count ? (count + r) / (r % 2 + 1) : r;
}

static char byte_of(int r, int64_t i)
{
    return (char)(r * 31 + i * 7 + 1);
}

START_TEST(test_ragged_blocks_go_where_they_belong)
{
    if (!set_up(_i)) goto done;
    int n = mt_size(), rank = mt_rank(), root = n - 1;
    for (int c = 0; c < COUNTS; c++) {
        int64_t bytes[16], at[16], width = (counts[c] + n + 2) * n + 2, own;
        char *host = NULL, *got = NULL;
        mt_try(lh_calloc(&host, width, 1));
        mt_try(lh_calloc(&got, width, 1));
        for (int r = 0; r < n; r++) bytes[r] = block(r, counts[c], &at[r]);
        own = at[rank];
        for (int64_t i = 0; i < bytes[rank]; i++) host[own + i] = byte_of(rank, i);
        char *all = put(host, width), *gathered = put(got, width), *mine = put(host + own, bytes[rank]);
        mt_try(lh_comm_flush(comm));
        mt_try(lh_comm_allgatherv(comm, all + own, all, bytes, at));
        mt_try(lh_comm_gatherv(comm, root, mine, gathered, bytes, at));
        get(host, all, width);
        get(got, gathered, width);
        lh_device_free(device, mine);
        for (int r = 0; r < n; r++)
            for (int64_t i = 0; i < bytes[r]; i++) {
                mt_check(host[at[r] + i] == byte_of(r, i), "block %d at %lld", r, (long long)i);
                mt_check(got[at[r] + i] == (rank == root ? byte_of(r, i) : 0), "gathered %d at %lld", r, (long long)i);
            }
        mt_check(host[0] == 0 && host[width - 1] == 0, "wrote beside the blocks");
        lh_free(host);
        lh_free(got);
    }
    tear_down();
done:
    mt_end();
}
END_TEST

START_TEST(test_blocks_of_one_size_and_broadcasts)
{
    if (!set_up(_i)) goto done;
    int n = mt_size(), rank = mt_rank();
    for (int c = 0; c < COUNTS; c++) {
        int64_t bytes = counts[c];
        char *own = NULL, *all = NULL;
        mt_try(lh_calloc(&own, bytes + 1, 1));
        mt_try(lh_calloc(&all, bytes * n + 1, 1));
        for (int64_t i = 0; i < bytes; i++) own[i] = byte_of(rank, i);
        char *send = put(own, bytes), *recv = put(all, bytes * n);
        mt_try(lh_comm_flush(comm));
        mt_try(lh_comm_allgather(comm, send, recv, bytes));
        mt_try(lh_comm_bcast(comm, n - 1, send, bytes));
        get(own, send, bytes);
        get(all, recv, bytes * n);
        for (int64_t i = 0; i < bytes * n; i++)
            mt_check(all[i] == byte_of((int)(i / bytes), i % bytes), "gathered at %lld", (long long)i);
        for (int64_t i = 0; i < bytes; i++) mt_check(own[i] == byte_of(n - 1, i), "broadcast at %lld", (long long)i);
        lh_free(own);
        lh_free(all);
    }
    tear_down();
done:
    mt_end();
}
END_TEST

/* Where nothing waits, sums are part of recorded work. */
START_TEST(test_sums_are_recorded_with_other_work)
{
    if (!set_up(_i)) goto done;
    int n = mt_size(), expected = 1;
    if (lh_comm_enqueues(comm) && lh_device_records(device)) {
        lh_graph *graph = NULL;
        int32_t *x = put(&(int32_t){1}, sizeof(int32_t)), got = 0;
        mt_try(lh_comm_flush(comm));
        int64_t before = lh_comm_sent_bytes(comm);
        mt_try(lh_stream_record(stream));
        mt_try(lh_comm_allreduce(comm, x, 1, LH_I32, LH_SUM));
        mt_try(lh_stream_recorded(stream, &graph));
        int64_t sent = lh_comm_sent_bytes(comm) - before;
        for (int run = 0; run < 3; run++) {
            if (run) mt_try(lh_comm_again(comm, sent));
            mt_try(lh_graph_run(graph));
            expected *= n;
        }
        get(&got, x, sizeof got);
        mt_check(got == expected, "%d after three sums over %d ranks", (int)got, n);
        mt_check(lh_comm_sent_bytes(comm) - before == (n > 1 ? 12 : 0), "what was run again is not counted");
        lh_graph_close(graph);
    }
    tear_down();
done:
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("on_stream");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, test_sums_come_between_what_is_enqueued_before_and_behind, 0, LH_COMM_WAYS);
    tcase_add_loop_test(all, test_sums_beside_the_stream_are_there_after_a_join, 0, LH_COMM_WAYS);
    tcase_add_loop_test(all, test_ragged_blocks_go_where_they_belong, 0, LH_COMM_WAYS);
    tcase_add_loop_test(all, test_blocks_of_one_size_and_broadcasts, 0, LH_COMM_WAYS);
    tcase_add_loop_test(all, test_sums_are_recorded_with_other_work, 0, LH_COMM_WAYS);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
