/* host_copy.h - a copy of the checkpoint in a folder of each host (`--stage`), such as a local disk, for the jobs that
 * come after this one: the file is read once for all hosts, and passed on over the network. */
#ifndef LH_ENGINE_HOST_COPY_H
#define LH_ENGINE_HOST_COPY_H

#include "comm/comm.h"

/* Collective over `world`. *out: the copy in `folder` of this rank's host, "NAME.HASH.h5", which is made unless it is
 * there; to be freed. LH_EFILE, LH_EINPUT: the checkpoint cannot be read; LH_EWRITE: a copy cannot be written;
 * LH_EINTERRUPTED. */
lh_status lh_host_copy(lh_comm *world, const char *checkpoint, const char *folder, char **out);

/* Collective over `hosts`, a rank of each: copies `bytes` bytes of a file to `to` where that is not NULL. */
lh_status lh_host_copy_file(lh_comm *hosts, const char *from, int64_t bytes, const char *to);

#endif
