/* A plug-in that scores by the sums of attention: SnapKV's mean over rows and query heads. */
#include <longhaul/longhaul.h>

static lh_status score(void *self, const lh_head_entries *e, float *scores)
{
    (void)self;
    for (int64_t i = 0; i < e->count; i++) scores[i] = 0;
    for (int64_t g = 0; g < e->group; g++)
        for (int64_t i = 0; i < e->count; i++)
            scores[i] += e->attention[g * e->count + i] / (float)(e->rows * e->group);
    return e->queries ? LH_EINTERNAL : LH_OK; /* they were not asked for */
}

const lh_plugin longhaul_plugin = {.size = sizeof longhaul_plugin,
                                   .abi = LH_PLUGIN_ABI,
                                   .name = "sums",
                                   .parts = "--window 32 --pool max --pool-size 7",
                                   .reads = LH_READS_ATTENTION,
                                   .score = score};
