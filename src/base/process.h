/* process.h - other processes of this host. */
#ifndef LH_BASE_PROCESS_H
#define LH_BASE_PROCESS_H

typedef struct lh_process {
    char name[64];
    long parent;
} lh_process;

/* 0: there is none of that number, or the system does not say. */
int lh_process_read(long pid, lh_process *out);

#endif
