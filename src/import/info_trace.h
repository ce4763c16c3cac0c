/* info_trace.h - `longhaul info` of a trace. */
#ifndef LH_IMPORT_INFO_TRACE_H
#define LH_IMPORT_INFO_TRACE_H

#include <jansson.h>

#include "base/h5.h"

/* Members of `object`: model, recording, policy, how many layers and tokens there are, whether the run came to its end,
 * and the arrays, those of layers once for all. */
lh_status lh_info_trace(json_t *object, lh_h5 *h5, const json_t *arrays);

#endif
