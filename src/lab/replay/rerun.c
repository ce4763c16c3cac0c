#include "lab/replay/rerun.h"

#include "base/mem.h"

void lh_rerun_clear(lh_rerun *x)
{
    lh_free(x->kept_at);
    lh_free(x->kept);
    lh_free(x->drop_at);
    lh_free(x->drops);
    *x = (lh_rerun){0};
}

lh_rerun_kept lh_rerun_kept_of(const lh_rerun *x, int64_t layer, int64_t head)
{
    const int64_t *at = x->kept_at + layer * x->heads + head;
    return (lh_rerun_kept){x->kept + at[0], at[1] - at[0]};
}

lh_rerun_drops lh_rerun_drops_of(const lh_rerun *x, int64_t answer, int64_t layer, int64_t head)
{
    const int64_t *at = x->drop_at + (answer * x->layers + layer) * x->heads + head;
    return (lh_rerun_drops){x->drops + at[0], at[1] - at[0]};
}
