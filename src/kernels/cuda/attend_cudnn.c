/* Attention of long bf16 prompts by cuDNN's graphs. */
#include "kernels/cuda/attend_cudnn.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "device/cuda.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/sdpa_build.h"

/* Smaller blocks of rows, or over fewer entries, use our kernel: there is little to win, and short prompts do not wait
 * for a plan. The rows of a plan are a multiple of CHUNK. */
enum { MIN_TOKENS = 64, MIN_ENTRIES = 2048, CHUNK = 4096, MAX_DIM = 256 };

/* State of a stream: the library, and the plan of one shape. */
typedef struct sdpa {
    lh_cudnn call;
    cudnnHandle_t handle; /* NULL: not opened */
    lh_sdpa_shape shape;
    lh_sdpa_build *build; /* NULL: no plan was prepared */
    lh_sdpa_built *built; /* NULL: not waited for yet */
    lh_attend_trust trust;
} sdpa;

static void close_sdpa(void *what)
{
    sdpa *s = what;
    lh_sdpa_build_close(s->build);
    if (s->handle) s->call.Destroy(s->handle);
    lh_free(s);
}

static lh_status find_sdpa(lh_stream *stream, sdpa **out)
{
    lh_cuda_kept *kept = lh_stream_kept(stream, LH_CUDA_DNN);
    if (!kept->what) {
        LH_TRY(lh_calloc(&kept->what, 1, sizeof(sdpa)));
        kept->close = close_sdpa;
    }
    *out = kept->what;
    return LH_OK;
}

static lh_status open_library(sdpa *s, lh_stream *stream)
{
    cudnnHandle_t handle = NULL;
    cudnnStatus_t rc;
    if (s->handle) return LH_OK;
    LH_TRY(lh_cudnn_open(&s->call));
    rc = s->call.Create(&handle);
    if (rc == CUDNN_STATUS_SUCCESS) rc = s->call.SetStream(handle, lh_stream_cuda(stream));
    if (rc != CUDNN_STATUS_SUCCESS) {
        if (handle) s->call.Destroy(handle);
        LH_FAIL(LH_EUSAGE, "cuDNN does not begin: %s", s->call.GetErrorString(rc));
    }
    s->handle = handle;
    return LH_OK;
}

lh_status lh_sdpa_open(lh_stream *stream)
{
    sdpa *s;
    LH_TRY(find_sdpa(stream, &s));
    if (open_library(s, stream) == LH_OK) return LH_OK;
    lh_debug("cuDNN is not used for attention: %s", lh_error_message());
    lh_error_clear();
    return LH_OK;
}

static int takes(const lh_attend_block_args *a)
{
    const int64_t group = a->map.group, dim = a->kv->head_dim;
    const uintptr_t at = (uintptr_t)a->kv->k | (uintptr_t)a->kv->v;
    return a->kv->type == LH_BF16 && !a->kv->parent.k && !a->kv->bias && a->logit.window <= 0 &&
           a->logit.softcap <= 0 && dim > 0 && dim % 8 == 0 && dim <= MAX_DIM && a->map.first % group == 0 &&
           a->map.heads % group == 0 && a->map.heads > 0 && at % 16 == 0;
}

/* ---- plans ---- */

static int fits(const sdpa *s, const lh_attend_block_args *a)
{
    const lh_sdpa_shape *shape = &s->shape;
    return s->build && shape->group == a->map.group && shape->kv_heads * shape->group == a->map.heads &&
           shape->dim == a->kv->head_dim && shape->tokens >= a->tokens;
}

/* Starts building a plan for blocks of this shape, unless there is one. */
static lh_status prepare_plan(lh_stream *stream, const lh_attend_block_args *a, sdpa **out)
{
    sdpa *s;
    LH_TRY(find_sdpa(stream, &s));
    LH_TRY(open_library(s, stream));
    if (!fits(s, a)) {
        if (s->build) LH_TRY(lh_stream_sync(stream)); /* its plan may be running */
        lh_sdpa_build_close(s->build);
        s->build = NULL, s->built = NULL, s->trust = (lh_attend_trust){0};
        s->shape = (lh_sdpa_shape){.kv_heads = a->map.heads / a->map.group,
                                   .group = a->map.group,
                                   .dim = a->kv->head_dim,
                                   .tokens = (a->tokens + CHUNK - 1) / CHUNK * CHUNK};
        LH_TRY(lh_sdpa_build_open(&s->build, &(lh_sdpa_place){.call = &s->call, .handle = s->handle}, &s->shape,
                                  lh_device_name(lh_stream_device(stream))));
    }
    if (out) *out = s;
    return LH_OK;
}

static int prepare(lh_stream *stream, const lh_attend_block_args *a)
{
    if (a->order != LH_ORDER_ANY || a->tokens < MIN_TOKENS || !takes(a)) return 0;
    if (prepare_plan(stream, a, NULL) == LH_OK) return 1;
    lh_error_clear(); /* our kernel is used then */
    return 0;
}

/* Waits for the plan; building it may have failed. */
static void wait_for_plan(sdpa *s)
{
    if (s->built) return;
    s->built = lh_sdpa_build_wait(s->build);
    if (!s->built->why[0]) return;
    s->trust = (lh_attend_trust){.compared = 1};
    snprintf(s->trust.why, sizeof s->trust.why, "%s", s->built->why);
    lh_debug("cuDNN is not used for attention: %s", s->built->why);
}

/* ---- runs ---- */

/* The arrays of a run in one block of memory. */
typedef struct room {
    lh_sdpa_arrays arrays;
    void *of_plan;
} room;

static void *cut(char *block, int64_t *bytes, int64_t count, int64_t each)
{
    const int64_t at = *bytes;
    *bytes += (count * each + 255) / 256 * 256;
    return block ? block + at : NULL;
}

/* Places the arrays in a block of memory (NULL: none); returns its size. */
static int64_t cut_room(room *r, char *block, const sdpa *s, const lh_attend_block_args *a)
{
    const int64_t kv_heads = s->shape.kv_heads, heads = a->map.heads, dim = s->shape.dim;
    const int64_t numbers = (a->tokens * heads + LH_SDPA_TILE * a->map.group) * dim;
    int64_t bytes = 0;
    r->arrays.lse_ld = s->shape.tokens;
    r->arrays.q = cut(block, &bytes, numbers, 2);
    r->arrays.o = cut(block, &bytes, numbers, 2);
    r->arrays.lse = cut(block, &bytes, s->shape.tokens * heads, 4);
    r->arrays.rows = cut(block, &bytes, kv_heads, 4);
    r->arrays.len = cut(block, &bytes, kv_heads, 4);
    r->arrays.starts = cut(block, &bytes, kv_heads + 1, 8);
    r->arrays.q_starts = cut(block, &bytes, kv_heads + 1, 8);
    r->of_plan = cut(block, &bytes, lh_sdpa_plan_room(s->built->plan), 1);
    return bytes;
}

static lh_status run(lh_stream *stream, const lh_attend_block_args *a, lh_attend_trust *trust)
{
    sdpa *s = lh_stream_kept(stream, LH_CUDA_DNN)->what;
    lh_status st;
    char *block = NULL;
    room r;
    LH_TRY(lh_stream_scratch(stream, &block, cut_room(&r, NULL, s, a)));
    cut_room(&r, block, s, a);
    LH_TRY(lh_sdpa_prepare(stream, a, &r.arrays));
    st = lh_sdpa_plan_run(s->built->plan, &(lh_sdpa_data){.q = r.arrays.q,
                                                          .k = a->kv->k,
                                                          .v = a->kv->v,
                                                          .o = r.arrays.o,
                                                          .lse = r.arrays.lse,
                                                          .rows = r.arrays.rows,
                                                          .len = r.arrays.len,
                                                          .starts = r.arrays.starts,
                                                          .q_starts = r.arrays.q_starts,
                                                          .room = r.of_plan,
                                                          .scale = a->logit.scale});
    if (st != LH_OK) {
        snprintf(trust->why, sizeof trust->why, "%s", lh_error_message());
        lh_error_clear();
        return LH_OK;
    }
    return lh_sdpa_finish(stream, a, &r.arrays);
}

static lh_status find(lh_stream *stream, const lh_attend_block_args *a, lh_attend_trust **trust)
{
    sdpa *s = lh_stream_kept(stream, LH_CUDA_DNN)->what;
    if (!s || a->order != LH_ORDER_ANY || a->tokens < MIN_TOKENS || a->most < MIN_ENTRIES || !takes(a) || !fits(s, a))
        return LH_OK;
    wait_for_plan(s);
    *trust = &s->trust;
    return LH_OK;
}

/* Prepares a plan if there is none for the block. */
static lh_status find_or_prepare(lh_stream *stream, const lh_attend_block_args *a, lh_attend_trust **trust)
{
    sdpa *s;
    if (!takes(a)) LH_FAIL(LH_EUSAGE, "attention of this kind is not asked of cuDNN");
    LH_TRY(prepare_plan(stream, a, &s));
    wait_for_plan(s);
    *trust = &s->trust;
    return LH_OK;
}

/* The next process builds the plan anew. */
static void drop(lh_stream *stream)
{
    lh_sdpa_build_forget(((sdpa *)lh_stream_kept(stream, LH_CUDA_DNN)->what)->build);
}

const lh_attend_way lh_attend_cudnn = {
    .name = "cuDNN", .reads_past = 1, .prepare = prepare, .find = find, .run = run, .drop = drop};

lh_status lh_cudnn_attend_block(lh_stream *stream, const lh_attend_block_args *a)
{
    lh_attend_way way = lh_attend_cudnn;
    int done;
    if (a->tokens == 0 || a->map.heads == 0) return LH_OK;
    way.find = find_or_prepare;
    LH_TRY(lh_attend_by(&way, stream, a, &done));
    if (!done) LH_FAIL(LH_EUSAGE, "%s", ((sdpa *)lh_stream_kept(stream, LH_CUDA_DNN)->what)->trust.why);
    return LH_OK;
}

int lh_cudnn_found(char text[256])
{
    lh_cudnn call;
    lh_status st = lh_cudnn_open(&call);
    if (st == LH_OK) {
        const size_t version = call.GetVersion();
        snprintf(text, 256, "%zu.%zu.%zu, %s", version / 10000, version / 100 % 100, version % 100, call.file);
        return 1;
    }
    snprintf(text, 256, "%s", lh_error_message());
    lh_error_clear();
    return 0;
}
