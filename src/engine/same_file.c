#include "engine/same_file.h"

#include "base/mem.h"

/* The ranks that have one file open share the comparison of its hashes. */
static lh_status share(lh_comm *comm, lh_h5 *h5)
{
    lh_status st = LH_OK;
    const int size = lh_comm_size(comm), rank = lh_comm_rank(comm);
    const uint64_t own = lh_h5_file_id(h5);
    uint64_t *ids = NULL;
    int index = 0, count = 0;
    LH_TRY_DONE(lh_comm_agree(comm, lh_calloc(&ids, size, sizeof *ids)));
    LH_TRY_DONE(lh_comm_allgather(comm, &own, ids, sizeof own));
    for (int r = 0; r < size; r++) {
        index += r < rank && ids[r] == own;
        count += ids[r] == own;
    }
    lh_h5_share(h5, index, count);
done:
    lh_free(ids);
    return st;
}

lh_status lh_same_file(lh_comm *comm, lh_h5 *h5)
{
    lh_status st = LH_OK;
    uint64_t contents = 0;
    char *what = NULL;
    if (lh_comm_size(comm) == 1) return LH_OK;
    st = lh_asprintf(&what, "the contents of '%s'", lh_h5_path(h5));
    if (st == LH_OK) st = lh_h5_contents(h5, &contents);
    LH_TRY_DONE(lh_comm_agree(comm, st));
    st = lh_comm_same(comm, &contents, sizeof contents, what);
    if (st == LH_EUSAGE) LH_FAIL_DONE(LH_EFILE, "%s", lh_error_message()); /* a file is at fault, not an option */
    LH_TRY_DONE(st);
    LH_TRY_DONE(share(comm, h5));
done:
    lh_free(what);
    return st;
}
