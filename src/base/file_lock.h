/* file_lock.h - locks of open files, and the file that a name leads to. A lock belongs to the open file, not to the
 * process: two descriptors of the same process exclude each other as two processes do, and other processes can see the
 * lock. It ends with its descriptor. File systems of a cluster that share locks show it to other hosts, too. */
#ifndef LH_BASE_FILE_LOCK_H
#define LH_BASE_FILE_LOCK_H

#include <stdint.h>

/* Bytes of a file that are locked; they need not exist. bytes 0: all from `from` on. */
typedef struct lh_lock_range {
    int64_t from, bytes;
} lh_lock_range;

/* NONE: the file system has no locks. REFUSED: another open file has one on these bytes. */
typedef enum lh_lock_result { LH_LOCK_NONE, LH_LOCK_TAKEN, LH_LOCK_REFUSED } lh_lock_result;

/* type: F_WRLCK, or F_RDLCK, which excludes only the former. Does not wait. */
lh_lock_result lh_lock_take(int fd, lh_lock_range range, short type);

/* 1 if another open file has a lock on these bytes, 0 if none has, -1 if the file system has no locks. */
int lh_lock_is_taken(int fd, lh_lock_range range);

/* 1 if the name leads to the open file, 0 if it leads to another one or to none, -1 if that cannot be found out.
 * Symbolic links are not followed. */
int lh_lock_names(const char *path, int fd);

#endif
