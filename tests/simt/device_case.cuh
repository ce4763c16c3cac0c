/* device_case.cuh - a stream of the emulated device for tests of kernels that they hold themselves. */
#ifndef LH_TESTS_SIMT_DEVICE_CASE_CUH
#define LH_TESTS_SIMT_DEVICE_CASE_CUH

#include <check.h>

#include "kernels/cuda/launch.cuh"

#if defined(__SANITIZE_ADDRESS__)
/* A signal ends the test, as it does without the sanitizer. */
extern "C" const char *__asan_default_options(void)
{
    return "handle_segv=0:handle_abort=0";
}
#endif

static cudaStream_t stream;

static void set_up(void)
{
    ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
}

static void tear_down(void)
{
    ck_assert_int_eq(cudaStreamDestroy(stream), cudaSuccess);
}

template <typename T>
static T *device_array(int64_t n)
{
    void *p = NULL;
    ck_assert_int_eq(cudaMallocAsync(&p, (size_t)n * sizeof(T), stream), cudaSuccess);
    return (T *)p;
}

template <typename T>
static void fetch(T *host, const T *device, int64_t n)
{
    ck_assert_int_eq(cudaMemcpyAsync(host, device, (size_t)n * sizeof(T), cudaMemcpyDeviceToHost, stream), cudaSuccess);
    ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
}

template <typename... A>
static void run(dim3 blocks, int threads, int64_t shared, void (*kernel)(A...), A... args)
{
    simt_shape shape = {blocks, dim3((unsigned)threads), (size_t)shared};
    ck_assert_int_eq(simt_launch(stream, "test", shape, [=] { kernel(args...); }), cudaSuccess);
}

#endif
