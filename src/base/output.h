/* output.h - files that a run writes. An output goes to a partial file in the same folder, "NAME.HOST.PID.partial",
 * and is synced and renamed at the end, so that the old file stays until the new one is whole. The partial file
 * belongs to one process (base/claim.h): while that process lives, others cannot claim the same output, and no other
 * process renames or removes the file. An output that is a symbolic link is written where the link points. Failures
 * are LH_EWRITE, and messages name the file. */
#ifndef LH_BASE_OUTPUT_H
#define LH_BASE_OUTPUT_H

#include <stdint.h>

#include "base/status.h"

/* Before long work: create the partial file, which stays empty until the output is written, and so claim `path` for
 * this process. Fails unless `path` is new or a regular file, no other process claims it and, if the file system
 * reports it, `bytes` are free there. Streams (base/destination.h) are refused. A claim that is not used ends with
 * lh_partial_drop. */
lh_status lh_partial_claim(const char *path, int64_t bytes);

/* The same where a second writer would do harm: an empty partial file of another host that shows no lock counts as the
 * claim of a living run, too, until it is deleted. */
lh_status lh_partial_claim_alone(const char *path);

/* *out: the name of the partial file of this process, which is empty; claims it if it is not claimed. */
lh_status lh_partial_open(char **out, const char *path);

/* Only the name: of the claim, or the usual name of a claim. */
lh_status lh_partial_name(char **out, const char *path);

/* Sync the partial file and rename it; remove it. Neither touches the file of another process. */
lh_status lh_partial_commit(const char *path);
void lh_partial_drop(const char *path);

/* The same for text, which may also go to a stream: "-" is standard output, and files below /dev and /proc are written
 * directly. */
lh_status lh_file_claim(const char *path, int64_t bytes);
lh_status lh_file_write(const char *path, const void *data, int64_t bytes);

#endif
