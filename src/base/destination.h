/* destination.h - where an output goes: symbolic links are followed to the file that will be replaced; standard output
 * and the files below /dev and /proc are streams, which are written to and never replaced. Failures are LH_EWRITE. */
#ifndef LH_BASE_DESTINATION_H
#define LH_BASE_DESTINATION_H

#include "base/status.h"

/* *out: the file that `path` leads to through symbolic links; it need not exist. *stream: 1 if `path` is "-" or leads
 * through /dev or /proc (except /dev/shm, which holds plain files); *out is then the first name there. */
lh_status lh_destination_find(char **out, int *stream, const char *path);

/* *fd: the stream, open for appending, or -1 if `path` is not a stream. "-" and other names of standard output give a
 * copy of descriptor 1, which keeps the bytes that were written before. The caller closes *fd. */
lh_status lh_destination_open(int *fd, const char *path);

#endif
