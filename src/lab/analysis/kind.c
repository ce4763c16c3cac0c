#include <jansson.h>

#include "lab/analysis/figures.h"
#include "lab/analysis/summary.h"
#include "lab/analysis/tables.h"

static lh_status count_object(void *self, lh_h5 *h5, const char *object)
{
    (void)h5, (void)object;
    ++*(int64_t *)self;
    return LH_OK;
}

/* An evaluation that was interrupted before its first result leaves a group with attributes. */
static lh_status check_analysis(lh_h5 *h5)
{
    lh_status st = LH_OK;
    lh_figures figures = {0};
    lh_tables tables = {0};
    int64_t found = 0;
    json_t *object = json_object(), *arrays = NULL, *summary = NULL, *member;
    const char *key;
    LH_TRY_DONE(lh_h5_each_array(h5, count_object, &found));
    LH_TRY_DONE(lh_h5_each_text(h5, count_object, &found));
    LH_TRY_DONE(lh_h5_describe(h5, object, &arrays));
    json_object_foreach(object, key, member) found += key[0] == '/';
    if (!found) LH_FAIL_DONE(LH_EFILE, "'%s' holds no results", lh_h5_path(h5));
    LH_TRY_DONE(lh_figures_read(&figures, h5));
    LH_TRY_DONE(lh_tables_read(&tables, h5));
    LH_TRY_DONE(lh_summary_read(&summary, h5));
done:
    json_decref(summary);
    lh_figures_clear(&figures);
    lh_tables_clear(&tables);
    json_decref(object);
    json_decref(arrays);
    return st;
}

const lh_file_kind lh_analysis_kind = {.name = "analysis", .schema = 1, .holds_nan = 1, .check = check_analysis};
