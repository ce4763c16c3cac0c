/* log.h - messages on stderr. One call writes one line with one write(2). Only rank 0 writes, unless lh_log is called
 * for all ranks: then each rank writes, with its rank as prefix. */
#ifndef LH_BASE_LOG_H
#define LH_BASE_LOG_H

#include "base/mem.h"
#include "base/status.h"

/* Call before the first line, like lh_log_set_level. */
void lh_log_set_rank(int rank, int ranks);

/* Also append every line to `path`, or write it to a stream (base/destination.h); "%r" becomes the rank. A line of the
 * file begins with the time (UTC), the host, the rank, and the job of a batch system. Fails with LH_EWRITE. The first
 * line that cannot be written there, such as on a full disk, is reported on stderr. */
lh_status lh_log_open(const char *path);

/* Append the name of the log file of a rank. */
lh_status lh_log_name(lh_buf *out, const char *path, int rank);
void lh_log_close(void);

void lh_log(lh_log_level level, int all_ranks, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Redraw the last line of a terminal, without a newline; the next log line replaces it. NULL: erase it. For progress.h,
 * if stderr is a terminal. */
void lh_log_bar(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define lh_info(...) lh_log(LH_LOG_INFO, 0, __VA_ARGS__)
#define lh_warn(...) lh_log(LH_LOG_WARN, 0, __VA_ARGS__)
#define lh_debug(...) lh_log(LH_LOG_DEBUG, 0, __VA_ARGS__)

/* Current level, rank and number of ranks. */
lh_log_level lh_log_level_now(void);
int lh_log_rank(void);
int lh_log_ranks(void);

#endif
