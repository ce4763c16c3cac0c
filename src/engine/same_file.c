#include "engine/same_file.h"

#include "base/mem.h"

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
done:
    lh_free(what);
    return st;
}
