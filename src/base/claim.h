/* claim.h - the claim of a process to an output: a partial file in the same folder, "NAME.HOST.PID.partial", which is
 * created exclusively, never through a symbolic link, and is locked as long as the claim lasts. A lock ends with its
 * process and is visible to all processes of the host, also where process numbers repeat (containers) and clocks
 * change; file systems of a cluster that share locks show it to other hosts, too. Failures are LH_EWRITE. */
#ifndef LH_BASE_CLAIM_H
#define LH_BASE_CLAIM_H

#include "base/status.h"

/* A claim of this process, in the list of its claims. */
typedef struct lh_claim {
    char *path;    /* of the output: where symbolic links lead */
    char *partial; /* name of the partial file; another one where the usual name is taken */
    int fd;        /* of the partial file, for writing */
    long pid;      /* a forked child does not own the claims of its parent */
    struct lh_claim *next;
} lh_claim;

/* *out: "NAME.HOST.PID.partial" of this process; lh_free. */
lh_status lh_claim_usual_name(char **out, const char *path);

/* The claim of this process to `path`; NULL if it has none. */
lh_claim *lh_claim_find(const char *path);

/* Claim `path`, to which this process has no claim. Fails if another process has claimed it. Of several processes that
 * begin together one succeeds. Files that killed processes of this host left are removed. Where a lock proves nothing
 * (an unlocked file of another host, a file system without locks) a partial file with contents counts as a living
 * claim; an empty one causes a warning, or a failure with `alone`. */
lh_status lh_claim_take(lh_claim **out, const char *path, int alone);

/* Rename the partial file to the output; remove it. Both end and free the claim, except a rename that fails. A file
 * that has replaced the partial file is not touched. */
lh_status lh_claim_rename(lh_claim *claim);
void lh_claim_drop(lh_claim *claim);

#endif
