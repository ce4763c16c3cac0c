/* What cuDNN itself says of our graphs, without a device: plans for an H200 and an A100, as JSON describes them.
 * Skipped where there is no cuDNN. */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/sdpa_plan.h"
#include "suite.h"

enum { SKIPPED = 77 };

static const char h200[] =
    "{\"deviceName\":\"NVIDIA H200\",\"deviceVer\":900,\"driverVer\":13000,\"multiProcessorCount\":132,\"warpSize\":32,"
    "\"regsPerBlock\":65536,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
    "\"totalGlobalMem\":150000000000,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,\"cudaDeviceId\":0,"
    "\"l2CacheSize\":62914560,\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64]}";
static const char a100[] =
    "{\"deviceName\":\"NVIDIA A100\",\"deviceVer\":800,\"driverVer\":13000,\"multiProcessorCount\":108,\"warpSize\":32,"
    "\"regsPerBlock\":65536,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":166912,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
    "\"totalGlobalMem\":80000000000,\"smClockRateKHz\":1410000,\"memClockRateKHz\":1215000,\"cudaDeviceId\":0,"
    "\"l2CacheSize\":41943040,\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64]}";

static void open_place(lh_sdpa_place *out, lh_cudnn *call, const char *device)
{
    *out = (lh_sdpa_place){.call = call};
    ck_assert_int_eq(lh_cudnn_open(call), LH_OK);
    ck_assert_int_eq(call->BackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &out->device), 0);
    ck_assert_int_eq(call->BackendSetAttribute(out->device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                               (int64_t)strlen(device) + 1, device),
                     0);
    ck_assert_int_eq(call->BackendFinalize(out->device), 0);
}

/* The plan of a shape on a device, or what cuDNN says instead. */
static int has_plan(const char *device, lh_sdpa_shape shape, char why[128])
{
    lh_cudnn call;
    lh_sdpa_place place;
    lh_sdpa_plan *plan;
    open_place(&place, &call, device);
    why[0] = 0;
    ck_assert_int_eq(lh_sdpa_plan_open(&plan, &place, &shape, why), LH_OK);
    if (plan) ck_assert_int_lt(lh_sdpa_plan_room(plan), 1 << 20);
    lh_sdpa_plan_close(plan);
    call.BackendDestroyDescriptor(place.device);
    return plan != NULL;
}

START_TEST(test_cudnn_takes_what_we_ask_it)
{
    static const lh_sdpa_shape shapes[] = {{8, 4, 128, 512}, {8, 4, 128, 64},  {3, 3, 64, 512},  {2, 7, 80, 128},
                                           {1, 1, 8, 64},    {8, 4, 256, 512}, {1, 16, 96, 4096}};
    const char *const devices[] = {h200, a100};
    char why[128];
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            ck_assert_msg(has_plan(devices[d], shapes[i], why), "device %d, shape %zu: %s", d, i, why);
}
END_TEST

/* A text of a plan makes the same plan. */
START_TEST(test_a_plan_comes_back_from_its_text)
{
    const char *const devices[] = {h200, a100};
    for (int d = 0; d < 2; d++) {
        lh_cudnn call;
        lh_sdpa_place place;
        lh_sdpa_plan *plan, *again;
        lh_buf text = {0}, text_again = {0};
        char why[128] = "";
        open_place(&place, &call, devices[d]);
        ck_assert_int_eq(lh_sdpa_plan_open(&plan, &place, &(lh_sdpa_shape){8, 4, 128, 4096}, why), LH_OK);
        ck_assert_msg(plan != NULL, "%s", why);
        ck_assert_int_eq(lh_sdpa_plan_text(plan, &text), LH_OK);
        ck_assert_int_eq(lh_sdpa_plan_restore(&again, &place, &text, why), LH_OK);
        ck_assert_msg(again != NULL, "%s", why);
        ck_assert_int_eq(lh_sdpa_plan_room(again), lh_sdpa_plan_room(plan));
        ck_assert_int_eq(lh_sdpa_plan_text(again, &text_again), LH_OK);
        ck_assert_str_eq(text.data, text_again.data);
        lh_sdpa_plan_close(again);
        text.bytes /= 2;
        ck_assert_int_eq(lh_sdpa_plan_restore(&again, &place, &text, why), LH_OK);
        ck_assert_ptr_null(again);
        lh_sdpa_plan_close(plan);
        lh_buf_clear(&text);
        lh_buf_clear(&text_again);
        call.BackendDestroyDescriptor(place.device);
    }
}
END_TEST

START_TEST(test_what_it_refuses_is_no_failure)
{
    char why[128];
    ck_assert(!has_plan(h200, (lh_sdpa_shape){2, 4, 36, 512}, why));
    ck_assert_str_eq(why, "CUDNN_STATUS_NOT_SUPPORTED at an engine");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_cudnn_takes_what_we_ask_it, test_what_it_refuses_is_no_failure,
                                  test_a_plan_comes_back_from_its_text, NULL};
    lh_cudnn call;
    if (lh_cudnn_open(&call) != LH_OK) {
        printf("skipped: %s\n", lh_error_message());
        return SKIPPED;
    }
    return suite_run("cudnn/plans", tests);
}
