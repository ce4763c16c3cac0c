/* claim.h - the claim of a process to an output: a partial file beside it, "NAME.HOST.PID.partial", which is created
 * exclusively, never through a symbolic link, and is locked as long as the claim lasts. A lock ends with its process
 * and is visible to all processes of the host, also where process numbers repeat (containers) and clocks change; file
 * systems of a cluster that share locks show it to other hosts, too. Failures are LH_EWRITE. */
#ifndef LH_BASE_CLAIM_H
#define LH_BASE_CLAIM_H

#include "base/status.h"

/* One of this process, which holds a list of its claims. */
typedef struct lh_claim {
    char *path;    /* of the output: where symbolic links lead */
    char *partial; /* name of the partial file; another one where the usual name is taken */
    int fd;        /* of the partial file, for writing */
    long pid;      /* claims of the parent are not those of a forked child */
    struct lh_claim *next;
} lh_claim;

/* *out: "NAME.HOST.PID.partial" of this process; lh_free. */
lh_status lh_claim_usual_name(char **out, const char *path);

/* The claim of this process to `path`; NULL if it has none. */
lh_claim *lh_claim_find(const char *path);

/* Claim `path`, to which this process has no claim. Fails if another process has claimed it. Of several processes that
 * begin together one succeeds. What a killed process of this host left is removed. Where a lock says nothing (an
 * unlocked file of another host, a file system without locks) a partial file with contents is taken to be written; an
 * empty one is a warning, but refused with `alone`, too. */
lh_status lh_claim_take(lh_claim **out, const char *path, int alone);

/* Rename the partial file to the output; remove it. The claim ends with both, and `claim` is freed, but for a failure
 * of the former. A file that took its name is not touched. */
lh_status lh_claim_rename(lh_claim *claim);
void lh_claim_drop(lh_claim *claim);

#endif
