#include "base/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/mem.h"

/* The name of a new file is on the disk when its folder is. */
static lh_status sync_folder(const char *path)
{
    lh_status st = LH_OK;
    char *folder = NULL;
    int fd = -1;
    LH_TRY_DONE(lh_path_folder(&folder, path));
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) (void)!fsync(fd); /* some file systems cannot */
done:
    if (fd >= 0) close(fd);
    lh_free(folder);
    return st;
}

lh_status lh_journal_open(lh_journal *j, const char *path)
{
    lh_status st = LH_OK;
    struct stat info;
    *j = (lh_journal){.fd = -1};
    LH_TRY_DONE(lh_strdup(&j->path, path));
    j->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (j->fd < 0 || fstat(j->fd, &info) != 0) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': it is not a regular file", path);
    j->bytes = info.st_size;
    j->is_new = j->bytes == 0;
done:
    if (st != LH_OK) lh_journal_close(j);
    return st;
}

void lh_journal_close(lh_journal *j)
{
    if (j->path && j->fd >= 0) close(j->fd);
    lh_free(j->path);
    *j = (lh_journal){.fd = -1};
}

static const lh_lock_range whole_file = {0};

static int is_gone(const lh_journal *j)
{
    return lh_lock_names(j->path, j->fd) == 0;
}

lh_status lh_journal_lock(lh_journal *j, const char *other, int *locked)
{
    for (;;) {
        lh_journal again;
        const lh_lock_result lock = lh_lock_take(j->fd, whole_file, F_WRLCK);
        if (lock == LH_LOCK_REFUSED) {
            const lh_status st = lh_fail(LH_EWRITE, __FILE__, __LINE__,
                                         "cannot write '%s': %s writes it, name another output", j->path, other);
            lh_journal_close(j);
            return st;
        }
        *locked = lock == LH_LOCK_TAKEN;
        if (!is_gone(j)) return LH_OK;
        LH_TRY(lh_journal_open(&again, j->path));
        lh_journal_close(j);
        *j = again;
    }
}

int lh_journal_is_locked(const char *path)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const int is_locked = fd >= 0 ? lh_lock_is_taken(fd, whole_file) : -1;
    if (fd >= 0) close(fd);
    return is_locked;
}

lh_status lh_journal_check_name(const lh_journal *j)
{
    if (j->fd >= 0 && is_gone(j))
        LH_FAIL(LH_EWRITE,
                "'%s' was removed, renamed or replaced while this run wrote it: what it wrote has no file "
                "of this name",
                j->path);
    return LH_OK;
}

void lh_journal_remove(const lh_journal *j)
{
    if (j->fd >= 0 && !is_gone(j)) unlink(j->path);
}

void lh_journal_remove_empty(const lh_journal *j)
{
    struct stat info;
    if (j->fd >= 0 && fstat(j->fd, &info) == 0 && info.st_size == 0) lh_journal_remove(j);
}

lh_status lh_journal_append(lh_journal *j, const void *data, int64_t bytes)
{
    j->unsynced = 1;
    for (int64_t at = 0; at < bytes;) {
        const ssize_t n = pwrite(j->fd, (const char *)data + at, (size_t)(bytes - at), (off_t)(j->bytes + at));
        if (n < 0 && errno == EINTR) continue;
        if (n > 0) {
            at += n;
            continue;
        }
        const int error = n < 0 ? errno : ENOSPC;
        (void)!ftruncate(j->fd, (off_t)j->bytes); /* else the line is torn, as a kill leaves it */
        LH_FAIL(LH_EWRITE, "cannot write '%s': %s", j->path, strerror(error));
    }
    j->bytes += bytes;
    return LH_OK;
}

lh_status lh_journal_read(const lh_journal *j, int64_t at, void *data, int64_t bytes)
{
    for (int64_t done = 0; done < bytes;) {
        const ssize_t n = pread(j->fd, (char *)data + done, (size_t)(bytes - done), (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) LH_FAIL(LH_EWRITE, "cannot read '%s': %s", j->path, n < 0 ? strerror(errno) : "it is shorter now");
        done += n;
    }
    return LH_OK;
}

lh_status lh_journal_cut(lh_journal *j, int64_t bytes)
{
    if (ftruncate(j->fd, (off_t)bytes) != 0) LH_FAIL(LH_EWRITE, "cannot write '%s': %s", j->path, strerror(errno));
    j->bytes = bytes;
    j->unsynced = 1;
    return LH_OK;
}

lh_status lh_journal_sync(lh_journal *j)
{
    if (j->fd < 0 || !j->unsynced) return LH_OK;
    if (fsync(j->fd) != 0) LH_FAIL(LH_EWRITE, "cannot flush '%s': %s", j->path, strerror(errno));
    if (j->is_new) LH_TRY(sync_folder(j->path));
    j->unsynced = j->is_new = 0;
    return LH_OK;
}

lh_status lh_journal_read_lines(const lh_journal_reader *reader, const char *text, int64_t bytes, int64_t *whole_bytes)
{
    *whole_bytes = 0;
    while (*whole_bytes < bytes) {
        const char *line = text + *whole_bytes, *feed = memchr(line, '\n', (size_t)(bytes - *whole_bytes));
        int accepted = 0;
        if (feed) LH_TRY(reader->line(reader->self, line, feed - line, &accepted));
        if (!accepted) break;
        *whole_bytes = feed + 1 - text;
    }
    return LH_OK;
}
