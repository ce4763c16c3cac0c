/* summary.h - what an analysis is about: the command that made it, the model, the traces and the policies, as one JSON
 * object in the text /summary of its file. docs/files.md lists its members; report shows those that are there. */
#ifndef LH_LAB_ANALYSIS_SUMMARY_H
#define LH_LAB_ANALYSIS_SUMMARY_H

#include <jansson.h>

#include "base/h5.h"
#include "import/verify.h"

/* An analysis file, for `verify`. */
extern const lh_file_kind lh_analysis_kind;

lh_status lh_summary_write(const json_t *summary, lh_h5 *h5);

/* New reference; an empty object if the file has none. LH_EFILE if it is no JSON object. */
lh_status lh_summary_read(json_t **out, lh_h5 *h5);

#endif
