/* journal.h - a file of lines that one process appends to, and that outlives the process: after a kill a run continues
 * from the whole lines. A line that could not be written to its end is truncated again, so that a full disk leaves
 * whole lines; a line that a kill or a loss of power tore is found when the lines are read (lh_journal_read_lines). */
#ifndef LH_BASE_JOURNAL_H
#define LH_BASE_JOURNAL_H

#include <stdint.h>

#include "base/status.h"

typedef struct lh_journal {
    char *path;
    int fd;        /* -1: closed */
    int64_t bytes; /* size of the file: whole lines */
    int unsynced;  /* true if lines may not be on the disk */
    int is_new;    /* true if the file's name may not be on the disk */
} lh_journal;

/* Opens a regular file, creating it if it is not there; symbolic links are not followed. LH_EWRITE. */
lh_status lh_journal_open(lh_journal *j, const char *path);
void lh_journal_close(lh_journal *j); /* an all-zero journal is fine */

/* Locks the file for this process, against processes of all hosts that share the file system, until it is closed. A
 * file that another run removed between its opening and the lock is created again. LH_EWRITE: another process has the
 * lock, and the journal is closed; `other` is the subject of the message, such as "another run that is going on".
 * *locked: false if the file system has no locks. */
lh_status lh_journal_lock(lh_journal *j, const char *other, int *locked);

/* 1 if a process holds that lock on the file, 0 if none does, -1 if the file system has no locks. */
int lh_journal_is_locked(const char *path);

/* LH_EWRITE if the name leads to another file now, or to none: the file was removed or renamed. */
lh_status lh_journal_check_name(const lh_journal *j);

/* Removes the file, or only a file without lines, unless another file has the name. A closed journal is fine. */
void lh_journal_remove(const lh_journal *j);
void lh_journal_remove_empty(const lh_journal *j);

lh_status lh_journal_append(lh_journal *j, const void *data, int64_t bytes);
lh_status lh_journal_read(const lh_journal *j, int64_t at, void *data, int64_t bytes);

/* Truncates the file to its first `bytes` bytes. */
lh_status lh_journal_cut(lh_journal *j, int64_t bytes);

/* Waits until all lines, and the name of a new file, are on the disk. */
lh_status lh_journal_sync(lh_journal *j);

/* Calls `line` for the lines of a journal's text, without their line feeds, up to the first line that it does not
 * accept or that has no line feed. *whole_bytes: size of the accepted lines; what follows them is torn, or no journal.
 */
typedef struct lh_journal_reader {
    void *self;
    lh_status (*line)(void *self, const char *text, int64_t bytes, int *accepted);
} lh_journal_reader;
lh_status lh_journal_read_lines(const lh_journal_reader *reader, const char *text, int64_t bytes, int64_t *whole_bytes);

#endif
