/* same_file.h - that all ranks read the same file. Every rank opens the files of a run for itself, so a copy on its own
 * host, an old one, or one renamed while the run starts would otherwise be mixed with those of the others. */
#ifndef LH_ENGINE_SAME_FILE_H
#define LH_ENGINE_SAME_FILE_H

#include "base/h5.h"
#include "comm/comm.h"

/* Collective. LH_EFILE, naming file, rank and host, unless what the ranks have open has the same contents
 * (lh_h5_contents). From then on the ranks that have opened one file, not copies of it, share the comparison of its
 * hashes (lh_h5_share). */
lh_status lh_same_file(lh_comm *comm, lh_h5 *h5);

#endif
