/* rows_check.h - whether the log-sum-exps of a prompt's rows are finite. One NaN among the weights makes every score of
 * a row NaN, and maxima would hide it. Noted on the device as the rows pass, so that the host waits once a layer. */
#ifndef LH_EVICT_ROWS_CHECK_H
#define LH_EVICT_ROWS_CHECK_H

#include "exec/exec.h"

typedef struct lh_rows_check {
    int32_t *wrong; /* device: 1 once one was not finite */
    int32_t *known; /* host: a copy */
} lh_rows_check;

lh_status lh_rows_check_open(lh_rows_check *check, const lh_exec *exec);
void lh_rows_check_close(lh_rows_check *check, const lh_exec *exec);

/* lse: [count], device. */
void lh_rows_check_add(const lh_rows_check *check, const lh_exec *exec, const float *lse, int64_t count);

/* Copies what was found to the host, where it is after the next wait for the stream: LH_EFILE, naming the layer. */
void lh_rows_check_copy(const lh_rows_check *check, const lh_exec *exec);
lh_status lh_rows_check_result(const lh_rows_check *check, int64_t layer);

#endif
