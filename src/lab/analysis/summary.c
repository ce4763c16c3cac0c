#include "lab/analysis/summary.h"

#include <stdlib.h>
#include <string.h>

#define NAME "/summary"

lh_status lh_summary_write(const json_t *summary, lh_h5 *h5)
{
    char *text = json_dumps(summary, JSON_COMPACT);
    if (!text) LH_FAIL(LH_ENOMEM, "cannot allocate memory for the summary of '%s'", lh_h5_path(h5));
    lh_status st = lh_h5_put_text(h5, NAME, text, (int64_t)strlen(text));
    free(text);
    return st;
}

lh_status lh_summary_read(json_t **out, lh_h5 *h5)
{
    lh_status st = LH_OK;
    char *text = NULL;
    int64_t bytes = 0;
    json_t *summary = NULL;
    if (lh_h5_has(h5, NAME)) {
        LH_TRY_DONE(lh_h5_get_text(h5, NAME, &text, &bytes));
        summary = json_loadb(text, (size_t)bytes, JSON_ALLOW_NUL, NULL);
    } else {
        summary = json_object();
    }
    if (!json_is_object(summary)) LH_FAIL_DONE(LH_EFILE, "'" NAME "' of '%s' is no JSON object", lh_h5_path(h5));
    *out = json_incref(summary);
done:
    json_decref(summary);
    lh_free(text);
    return st;
}
