/* status.h - what `status` makes of the output of a batch and the state beside it, while it runs or afterwards. */
#ifndef LH_BATCH_STATUS_H
#define LH_BATCH_STATUS_H

#include "batch/state.h"

/* A running or finished batch as another process sees it. */
typedef struct lh_batch_status {
    lh_batch_state state; /* done and failed are counted in the output */
    int64_t torn_bytes;
    lh_buf failures; /* "line 3 ('a'): invalid_request: …" of the first failures, each with a line feed */
} lh_batch_status;

/* LH_EINPUT: there is no output; LH_EFILE: it is none. */
lh_status lh_batch_status_read(lh_batch_status *status, const char *output);
void lh_batch_status_clear(lh_batch_status *status);

lh_status lh_batch_status_json(const lh_batch_status *status, const char *output, json_t **out);

#endif
