#include "base/failures.h"

#include <stdio.h>
#include <string.h>

void lh_failures_add(lh_failures *failures, lh_status st)
{
    const size_t used = strlen(failures->text);
    if (st == LH_OK) return;
    if (failures->st == LH_OK) failures->st = st;
    snprintf(failures->text + used, sizeof failures->text - used, "%s%s", used ? "; " : "", lh_error_message());
    lh_error_clear();
}

lh_status lh_failures_end(const lh_failures *failures)
{
    if (failures->st == LH_OK) return LH_OK;
    LH_FAIL(failures->st, "%s", failures->text);
}
