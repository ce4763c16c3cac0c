#include "evict/rows_check.h"

lh_status lh_rows_check_open(lh_rows_check *check, const lh_exec *x)
{
    /* of the cache, as long as which it stays; work space is gone after the prompt */
    LH_TRY(lh_device_alloc(lh_exec_device(x), &check->wrong, sizeof *check->wrong, LH_MEM_KV));
    LH_TRY(lh_device_alloc_host(lh_exec_device(x), &check->known, sizeof *check->known));
    *check->known = 0;
    return lh_stream_zero(x->stream, check->wrong, sizeof *check->wrong);
}

void lh_rows_check_close(lh_rows_check *check, const lh_exec *x)
{
    (void)lh_stream_sync(x->stream); /* a copy may still be on its way */
    lh_device_free(lh_exec_device(x), check->wrong);
    lh_device_free_host(lh_exec_device(x), check->known);
}

void lh_rows_check_add(const lh_rows_check *check, const lh_exec *x, const float *lse, int64_t count)
{
    LH_RUN(x, check_finite, .wrong = check->wrong, .x = lse, .count = count);
}

void lh_rows_check_copy(const lh_rows_check *check, const lh_exec *x)
{
    lh_exec_copy(x, check->known, check->wrong, sizeof *check->wrong, LH_COPY_TO_HOST);
}

lh_status lh_rows_check_result(const lh_rows_check *check, int64_t layer)
{
    if (*check->known)
        LH_FAIL(LH_EFILE,
                "layer %lld: the attention of the query heads is not finite, so that the cache cannot be ranked; "
                "check the weights with 'longhaul verify'",
                (long long)layer);
    return LH_OK;
}
