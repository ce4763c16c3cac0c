/* hash.c - XXH64 of libxxhash. */
#include "base/hash.h"

#include <xxhash.h>

#include "base/mem.h"

struct lh_hasher {
    XXH64_state_t *state;
};

uint64_t lh_hash64(const void *data, int64_t bytes)
{
    return XXH64(data, (size_t)bytes, 0);
}

lh_status lh_hasher_open(lh_hasher **out)
{
    lh_status st = LH_OK;
    lh_hasher *hasher = NULL;
    LH_TRY_DONE(lh_calloc(&hasher, 1, sizeof *hasher));
    hasher->state = XXH64_createState();
    if (!hasher->state) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate the state of a hash");
    XXH64_reset(hasher->state, 0);
    *out = hasher;
    hasher = NULL;
done:
    lh_hasher_close(hasher);
    return st;
}

void lh_hasher_close(lh_hasher *hasher)
{
    if (!hasher) return;
    XXH64_freeState(hasher->state);
    lh_free(hasher);
}

void lh_hasher_add(lh_hasher *hasher, const void *data, int64_t bytes)
{
    XXH64_update(hasher->state, data, (size_t)bytes);
}

uint64_t lh_hasher_value(const lh_hasher *hasher)
{
    return XXH64_digest(hasher->state);
}
