/* appender.h - a file that grows by whole pieces: a piece that could not be written to its end is cut off again, so
 * that a full disk leaves what was complete. */
#ifndef LH_BATCH_APPENDER_H
#define LH_BATCH_APPENDER_H

#include <stdint.h>

#include "base/status.h"

typedef struct lh_appender {
    char *path;
    int fd;        /* -1: closed */
    int64_t bytes; /* of whole pieces: what the file holds */
    int unsynced;  /* 1: some of it may not be on the disk */
    int is_new;    /* 1: nor may its name */
} lh_appender;

/* Open a regular file, made if it is not there; not through a symbolic link. *bytes is its size. LH_EWRITE. */
lh_status lh_appender_open(lh_appender *a, const char *path);
void lh_appender_close(lh_appender *a); /* also of one that is all zero */

/* Lock the file for this process, from all hosts that share it, until it is closed; one that was removed meanwhile is
 * made again. LH_EWRITE: another process has it. Where the file system has no locks there is none, and *locked is 0. */
lh_status lh_appender_lock(lh_appender *a, int *locked);

/* LH_EWRITE if the file of this name is another one now, or none: it was removed or renamed. */
lh_status lh_appender_check_name(const lh_appender *a);

/* Removes the file if nothing is in it, and it still has its name. */
void lh_appender_remove_empty(const lh_appender *a);

/* 1 if a process holds that lock, 0 if none does; -1: not known, the file system has no locks. */
int lh_appender_is_locked(const char *path);

lh_status lh_appender_add(lh_appender *a, const void *data, int64_t bytes);
lh_status lh_appender_read(const lh_appender *a, int64_t at, void *data, int64_t bytes);
lh_status lh_appender_cut(lh_appender *a, int64_t bytes);

/* To the disk, if anything is not. */
lh_status lh_appender_sync(lh_appender *a);

#endif
