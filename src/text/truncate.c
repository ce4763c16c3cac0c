#include "text/truncate.h"

#include <stddef.h>

#include "base/minmax.h"

const char *const lh_truncation_names[] = {
    [LH_TRUNCATE_MIDDLE] = "middle", [LH_TRUNCATE_START] = "start", [LH_TRUNCATE_END] = "end", NULL};

lh_kept_ends lh_truncate(lh_truncation part, int64_t n, int64_t max_tokens)
{
    const int64_t kept = lh_max_i64(max_tokens, 0);
    if (n <= kept) return (lh_kept_ends){n, 0};
    if (part == LH_TRUNCATE_MIDDLE) return (lh_kept_ends){kept / 2, kept / 2};
    return part == LH_TRUNCATE_START ? (lh_kept_ends){0, kept} : (lh_kept_ends){kept, 0};
}
