/* Which engines have cuDNN build a plan while their weights load, with the library of the emulation (cudnn.cpp). */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "cudnn.h"
#include "engine/device_run.h"

static device_models models;

static void set_up(void)
{
    device_models_make(&models);
}

static void tear_down(void)
{
    device_models_remove(&models);
}

/* 1 if an engine that was opened and closed searched for a plan. */
static int searches(int model, const char *dtype, int deterministic)
{
    const int before = simt_cudnn_count().searches;
    lh_engine_close(
        device_open(mt_comm(), models.paths[model], &(device_options){models.device, dtype, deterministic, 0}));
    mt_check(simt_cudnn_count().descriptors == 0, "%d descriptors are left", simt_cudnn_count().descriptors);
    return simt_cudnn_count().searches > before;
}

START_TEST(test_engines_prepare_what_cudnn_takes)
{
    enum { LLAMA = 0, GEMMA2 = 3, MISTRAL = 5, MIXTRAL = 6 };
    mt_check(searches(LLAMA, "bf16", 0), "nothing was prepared");
    mt_check(searches(MIXTRAL, "bf16", 0), "nothing was prepared for a mixture of experts");
    mt_check(!searches(LLAMA, "bf16", 1), "cuDNN was prepared for bits that are promised");
    mt_check(!searches(LLAMA, "f32", 0), "cuDNN was prepared for f32");
    mt_check(!searches(GEMMA2, "bf16", 0), "cuDNN was prepared for a soft cap");
    mt_check(!searches(MISTRAL, "bf16", 0), "cuDNN was prepared for windows alone");
    mt_end();
}
END_TEST

static void *release(void *nothing)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    simt_cudnn_go(SIMT_CUDNN_WELL);
    return nothing;
}

START_TEST(test_an_engine_may_close_before_its_plan_is_built)
{
    pthread_t thread;
    simt_cudnn_go(SIMT_CUDNN_HELD);
    mt_check(pthread_create(&thread, NULL, release, NULL) == 0, "there is no thread");
    mt_check(searches(0, "bf16", 0), "nothing was prepared");
    pthread_join(thread, NULL);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("simt/prepare");
    TCase *all = tcase_create("all");
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1); /* every plan is built */
    setenv("LONGHAUL_SIMT_CAPABILITY", "80", 1);  /* where cuDNN is the first choice */
    tcase_set_timeout(all, 0);
    tcase_add_unchecked_fixture(all, set_up, tear_down);
    tcase_add_test(all, test_engines_prepare_what_cudnn_takes);
    tcase_add_test(all, test_an_engine_may_close_before_its_plan_is_built);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
