/* same_file.h - checks that all ranks read the same file. Every rank opens the files of a run for itself, so an old
 * copy on one host, or a file renamed while the run starts, would otherwise be mixed with other ranks' files. */
#ifndef LH_ENGINE_SAME_FILE_H
#define LH_ENGINE_SAME_FILE_H

#include "base/h5.h"
#include "comm/comm.h"

/* Collective. LH_EFILE, naming file, rank and host, unless the open files of all ranks have the same contents
 * (lh_h5_contents). From then on the ranks that have opened one file, not copies of it, share the comparison of its
 * hashes (lh_h5_share). */
lh_status lh_same_file(lh_comm *comm, lh_h5 *h5);

#endif
