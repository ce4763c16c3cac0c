/* child.h - runs work that may crash, hang or exhaust memory on hostile input in a child process. Call it before MPI
 * and before any OpenMP region of the parent: neither survives a fork. */
#ifndef LH_BASE_CHILD_H
#define LH_BASE_CHILD_H

#include <stdint.h>

#include "base/status.h"

typedef struct lh_child_limits {
    int64_t cpu_s;        /* processor time, 0: no limit; a hang uses it up, a slow disk does not */
    int64_t memory_bytes; /* in addition to the parent's, 0: no limit; none under sanitizers */
} lh_child_limits;

typedef enum lh_child_voice {
    LH_CHILD_SPEAKS,
    LH_CHILD_SILENT, /* its stderr is dropped: a crash inside libc writes there */
} lh_child_voice;

/* Run work(arg) in a child and return its status, with its message. If the child dies, the status is `code` and the
 * message says that reading `what` crashed or exceeded its limit of time. If it is killed before that limit, the
 * status is LH_ENOMEM: the kernel kills processes when memory runs out. Changes of memory stay in the child. */
typedef struct lh_child_work {
    lh_status (*work)(void *arg);
    void *arg;
    const char *what;
    lh_status code;
    lh_child_voice voice;
} lh_child_work;

lh_status lh_child_run(const lh_child_work *work, const lh_child_limits *limits);

#endif
