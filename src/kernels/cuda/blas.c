/* cuBLAS on a stream: one handle per stream with a separate workspace, so that products can be captured and give the
 * same bits again. */
#include "kernels/cuda/blas.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "device/cuda.h"
#include "kernels/cuda/blas_library.h"

typedef struct blas {
    lh_cublas call;
    cublasHandle_t handle; /* NULL if the library is missing */
    lh_device *device;
    void *room;
} blas;

static lh_status check(const blas *b, cublasStatus_t rc, const char *what)
{
    if (rc != CUBLAS_STATUS_SUCCESS)
        LH_FAIL(rc == CUBLAS_STATUS_ALLOC_FAILED ? LH_ENOMEM : LH_EINTERNAL, "%s failed in cuBLAS: %s", what,
                b->call.GetStatusString(rc));
    return LH_OK;
}

static void close_blas(void *what)
{
    blas *b = what;
    if (b->handle) b->call.Destroy(b->handle);
    lh_device_free(b->device, b->room);
    lh_free(b);
}

/* cuBLAS matrices are column-major: they are the transposes of ours, so y' [out, tokens] = w [out, in] x' [in, tokens],
 * with w' and x' in memory. */
static lh_status multiply(const blas *b, const lh_gemm_args *a, float keep, lh_dtype y_type)
{
    const float one = 1;
    const cudaDataType type = a->type == LH_F32 ? CUDA_R_32F : CUDA_R_16BF;
    const cudaDataType to = y_type == LH_F32 ? CUDA_R_32F : CUDA_R_16BF;
    return check(b,
                 b->call.GemmEx(b->handle, CUBLAS_OP_T, CUBLAS_OP_N, a->out, a->tokens, a->in, &one, a->w.data, type,
                                a->w.ld, a->x, type, a->x_ld, &keep, a->y, to, a->y_ld, CUBLAS_COMPUTE_32F,
                                CUBLAS_GEMM_DEFAULT),
                 "a matrix product");
}

/* The library loads its machine code when a product first needs it, for each type of results: 56 and 114 ms on an H100.
 * So it multiplies when it is opened, not in the first prompt: a tile for each multiprocessor, of any numbers. */
static lh_status load_code(const blas *b, lh_stream *stream)
{
    enum { TILE = 64, ROOM = 4 << 20 };
    lh_status st = LH_OK;
    const int64_t out = (int64_t)TILE * lh_cuda_processors(stream), numbers = out * TILE;
    char *room = NULL, *y; /* then y, w and x */
    LH_TRY(lh_device_alloc(b->device, &room, ROOM + 4 * numbers + 2 * numbers + 2 * TILE * TILE, LH_MEM_WORK));
    y = room + ROOM;
    const lh_gemm_args a = {.y = (float *)y,
                            .w = lh_plain_matrix(y + 4 * numbers, LH_BF16, TILE),
                            .x = y + 6 * numbers,
                            .tokens = TILE,
                            .in = TILE,
                            .out = out,
                            .x_ld = TILE,
                            .y_ld = out,
                            .type = LH_BF16};
    LH_TRY_DONE(check(b, b->call.SetWorkspace(b->handle, room, ROOM), "giving room"));
    LH_TRY_DONE(multiply(b, &a, 0, LH_F32));
    LH_TRY_DONE(multiply(b, &a, 0, LH_BF16));
done:
    lh_device_free(b->device, room);
    return st;
}

/* Sums stay in f32 also in split products (by default the library chooses). */
static lh_status new_blas(blas **out, lh_stream *stream)
{
    lh_status st = LH_OK;
    blas *b = NULL;
    LH_TRY_DONE(lh_calloc(&b, 1, sizeof *b));
    b->device = lh_stream_device(stream);
    if (lh_cublas_open(&b->call) != LH_OK) {
        lh_warn("%s; products are computed without it, slowly", lh_error_message());
        lh_error_clear();
        goto done;
    }
    LH_TRY_DONE(check(b, b->call.Create(&b->handle), "opening"));
    LH_TRY_DONE(check(b, b->call.SetStream(b->handle, lh_stream_cuda(stream)), "choosing the stream"));
    LH_TRY_DONE(check(b,
                      b->call.SetMathMode(b->handle, (cublasMath_t)(CUBLAS_DEFAULT_MATH |
                                                                    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
                      "choosing the arithmetic"));
    LH_TRY_DONE(load_code(b, stream));
done:
    if (st != LH_OK && b) close_blas(b);
    if (st == LH_OK) *out = b;
    return st;
}

lh_status lh_blas_open(lh_stream *stream)
{
    lh_cuda_kept *kept = lh_stream_kept(stream, LH_CUDA_BLAS);
    blas *b = NULL;
    if (kept->what) return LH_OK;
    LH_TRY(new_blas(&b, stream));
    *kept = (lh_cuda_kept){.what = b, .close = close_blas};
    return LH_OK;
}

lh_status lh_blas_find(lh_stream *stream, int *there)
{
    LH_TRY(lh_blas_open(stream));
    blas *b = lh_stream_kept(stream, LH_CUDA_BLAS)->what;
    *there = b->handle != NULL;
    if (!b->handle || b->room) return LH_OK;
    void *room = NULL;
    LH_TRY(lh_device_alloc(b->device, &room, LH_BLAS_ROOM_BYTES, LH_MEM_WORK));
    lh_status st = check(b, b->call.SetWorkspace(b->handle, room, LH_BLAS_ROOM_BYTES), "giving room");
    if (st == LH_OK)
        b->room = room;
    else
        lh_device_free(b->device, room);
    return st;
}

int lh_cublas_found(char text[256])
{
    lh_cublas call;
    lh_status st = lh_cublas_open(&call);
    snprintf(text, 256, "%s", st == LH_OK ? call.file : lh_error_message());
    lh_error_clear();
    return st == LH_OK;
}

lh_status lh_blas_gemm(lh_stream *stream, const lh_gemm_args *a, float keep, lh_dtype y_type)
{
    return multiply(lh_stream_kept(stream, LH_CUDA_BLAS)->what, a, keep, y_type);
}
