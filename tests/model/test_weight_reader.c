/* Ranks that load a model together get what each would read alone, and read each byte once. */
#include "model/weight_reader.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/temporary.h"
#include "engine/tiny_model.h"
#include "import/checkpoint.h"
#include "import/import.h"
#include "kernels/packed.h"
#include "model/shard.h"
#include "mpi_check.h"

static char path[64];

enum { LAYERS = 4 };

/* Rank 0 makes a model. */
static void make_model(int few_bits)
{
    static const tiny_shape shape = {
        .heads = 8, .kv_heads = 4, .head_dim = 32, .layers = LAYERS, .ff = 512, .vocab = 77, .numbers = TINY_FEW_BITS};
    if (mt_rank() == 0) {
        mt_check(mkstemp(temporary_name(path, "/tmp")) >= 0, "cannot make '%s'", path);
        if (few_bits)
            tiny_model_make(path, &shape);
        else
            mt_try(lh_import(&(lh_import_options){.random = "tiny", .out = path, .dtype = "f32"}));
    }
    mt_try(lh_comm_bcast(mt_comm(), 0, path, sizeof path));
}

static void drop_model(void)
{
    lh_comm_barrier(mt_comm());
    if (mt_rank() == 0) unlink(path);
}

typedef struct rig {
    lh_device *device;
    lh_stream *stream;
    lh_checkpoint *ck;
    lh_comm *same;
    lh_shard shard;
} rig;

/* `tp` ranks are a replica. */
static void open_rig(rig *r, int tp)
{
    *r = (rig){0};
    mt_try(lh_device_open(&r->device, &(lh_device_choice){.kind = LH_DEVICE_CPU}));
    mt_try(lh_stream_open(&r->stream, r->device));
    mt_try(lh_checkpoint_open(&r->ck, path));
    mt_try(lh_comm_split(mt_comm(), mt_rank() % tp, &r->same));
    mt_try(lh_shard_of(&r->shard, lh_checkpoint_config(r->ck), mt_rank() % tp, tp));
}

static void close_rig(rig *r)
{
    lh_comm_close(r->same);
    lh_checkpoint_close(r->ck);
    lh_stream_close(r->stream);
    lh_device_close(r->device);
}

/* What the shard has of a tensor. */
static lh_weight_part part_of(const rig *r, lh_weight w, int64_t layer)
{
    const lh_config *c = lh_checkpoint_config(r->ck);
    const lh_weight_info *info = lh_weight_info_of(w);
    lh_weight_part p = {.whole = {.weight = w, .layer = layer}, .sharding = info->sharding};
    int64_t first = 0, count = 0;
    lh_weight_shape(c, w, &p.whole.rows, &p.whole.cols);
    p.range = p.whole;
    if (info->sharding == LH_SHARD_ALL) return p;
    lh_shard_range(&r->shard, c, info->unit, &first, &count);
    if (info->sharding == LH_SHARD_ROWS) {
        p.range.row = first;
        p.range.rows = count;
    } else {
        p.range.col = first;
        p.range.cols = count;
    }
    return p;
}

static int64_t room_of(const lh_format *format, const lh_weight_range *range)
{
    const int64_t n = range->rows * range->cols;
    return format->is_plain ? n * 4 + 4
                            : lh_packed_bytes(format, range->rows, range->col % format->values, range->cols);
}

/* Values [rows, cols] of the packed weights of a range. */
static void unpack(const lh_format *format, const lh_weight_range *range, const void *packed, float *values)
{
    const lh_matrix w = {.data = packed, .format = format, .ld = range->cols, .phase = range->col % format->values};
    mt_try(lh_ops_ref.unpack(NULL, &(lh_unpack_args){.dst = values,
                                                     .dst_type = LH_F32,
                                                     .w = w,
                                                     .rows = range->rows,
                                                     .cols = range->cols,
                                                     .dst_ld = range->cols}));
}

/* All tensors, by the reader and directly; with `tp` the bytes that all ranks read are those of the model. */
static void compare(int tp, int64_t piece_bytes, int64_t alone_bytes)
{
    rig r;
    int64_t bytes = 0, all = 0;
    open_rig(&r, tp);
    lh_weight_reader reader = {.ck = r.ck,
                               .stream = r.stream,
                               .ops = &lh_ops_ref,
                               .piece_bytes = piece_bytes,
                               .alone_bytes = alone_bytes,
                               .all = mt_comm(),
                               .same = r.same};
    for (int64_t l = 0; l < LAYERS; l++)
        for (int w = 0; w < LH_WEIGHTS; w++) {
            float *got = NULL, *want = NULL;
            const lh_weight_part p = part_of(&r, (lh_weight)w, l);
            const int64_t n = p.range.rows * p.range.cols;
            const lh_format *stored = lh_checkpoint_format(r.ck, (lh_weight)w, l);
            const int packed = stored && !stored->is_plain;
            const lh_format *format = packed ? stored : lh_format_of(LH_F32);
            if (p.whole.rows == 0 || (!lh_weight_info_of((lh_weight)w)->per_layer && l > 0)) continue;
            mt_try(lh_device_alloc(r.device, &got, room_of(format, &p.range), LH_MEM_WEIGHTS));
            mt_try(lh_calloc(&want, n + 1, sizeof *want));
            mt_try(lh_weight_reader_read(&reader, &p, got, format));
            if (packed) {
                float *values = NULL;
                mt_try(lh_device_alloc(r.device, &values, n * 4 + 4, LH_MEM_WEIGHTS));
                unpack(format, &p.range, got, values);
                lh_device_free(r.device, got);
                got = values;
            }
            if (n) mt_try(lh_checkpoint_read(r.ck, &p.range, want, LH_F32, p.range.cols));
            mt_check(memcmp(got, want, (size_t)n * 4) == 0, "weight %d of layer %lld differs", w, (long long)l);
            bytes += lh_format_bytes(format, p.whole.rows * p.whole.cols);
            lh_device_free(r.device, got);
            lh_free(want);
        }
    all = reader.read_bytes;
    mt_try(lh_comm_allreduce(mt_comm(), &all, 1, LH_I64, LH_SUM));
    /* heads that several ranks have are read by each; so are small tensors */
    if (alone_bytes == 0 && (tp == 1 || tp == 2))
        mt_check(all == bytes, "%lld bytes were read of %lld", (long long)all, (long long)bytes);
    close_rig(&r);
}

START_TEST(test_what_is_gathered_is_what_is_read)
{
    make_model(_i);
    for (int tp = 1; tp <= mt_size(); tp++)
        if (mt_size() % tp == 0) {
            compare(tp, 64 << 20, 0);
            compare(tp, 50000, 64 << 10);
        }
    drop_model();
    mt_end();
}
END_TEST

/* What one rank cannot read, or does not want to, stops all of them. */
START_TEST(test_one_rank_stops_all)
{
    rig r;
    float *memory = NULL;
    make_model(0);
    open_rig(&r, mt_size());
    lh_weight_reader reader = {.ck = r.ck,
                               .stream = r.stream,
                               .piece_bytes = 1 << 20,
                               .all = mt_size() > 1 ? mt_comm() : NULL,
                               .same = r.same};
    if (mt_rank() == mt_size() - 1) reader.stopped = lh_fail(LH_EINTERRUPTED, "here", 1, "enough");
    const lh_weight_part rows = part_of(&r, LH_W_GATE, 0), cols = part_of(&r, LH_W_DOWN, 0);
    mt_try(lh_device_alloc(r.device, &memory, rows.whole.rows * rows.whole.cols * 4, LH_MEM_WEIGHTS));
    if (mt_size() > 1)
        mt_try(lh_weight_reader_read(&reader, &rows, memory, lh_format_of(LH_F32))); /* which nobody shares */
    mt_expect(lh_weight_reader_read(&reader, &cols, memory, lh_format_of(LH_F32)), LH_EINTERRUPTED);
    lh_device_free(r.device, memory);
    close_rig(&r);
    drop_model();
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("weight reader");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, test_what_is_gathered_is_what_is_read, 0, 2);
    tcase_add_test(tc, test_one_rank_stops_all);
    suite_add_tcase(suite, tc);
    return mt_run(suite);
}
