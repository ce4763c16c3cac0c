#include "batch/appender.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/destination.h"
#include "base/mem.h"

/* The name of a new file is on the disk when its folder is. */
static lh_status sync_folder(const char *path)
{
    lh_status st = LH_OK;
    char *folder = NULL;
    int fd = -1;
    LH_TRY_DONE(lh_destination_folder(&folder, path));
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) (void)!fsync(fd); /* some file systems cannot */
done:
    if (fd >= 0) close(fd);
    lh_free(folder);
    return st;
}

lh_status lh_appender_open(lh_appender *a, const char *path)
{
    lh_status st = LH_OK;
    struct stat info;
    *a = (lh_appender){.fd = -1};
    LH_TRY_DONE(lh_strdup(&a->path, path));
    a->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (a->fd < 0 || fstat(a->fd, &info) != 0) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': it is not a regular file", path);
    a->bytes = info.st_size;
    a->is_new = a->bytes == 0;
done:
    if (st != LH_OK) lh_appender_close(a);
    return st;
}

void lh_appender_close(lh_appender *a)
{
    if (a->path && a->fd >= 0) close(a->fd);
    lh_free(a->path);
    *a = (lh_appender){.fd = -1};
}

/* Of the open file, not of the process: two descriptors of one process exclude each other as two processes do, and
 * another process can ask for it without taking it. */
static struct flock whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

/* 1 if the name leads to no file any more, or to another one. */
static int is_gone(const lh_appender *a)
{
    struct stat open_file, named;
    if (fstat(a->fd, &open_file) != 0) return 0;
    if (lstat(a->path, &named) != 0) return errno == ENOENT || errno == ENOTDIR;
    return open_file.st_ino != named.st_ino || open_file.st_dev != named.st_dev;
}

lh_status lh_appender_check_name(const lh_appender *a)
{
    if (a->fd >= 0 && is_gone(a))
        LH_FAIL(LH_EWRITE,
                "'%s' was removed, renamed or replaced while this run wrote it: what it wrote has no file "
                "of this name",
                a->path);
    return LH_OK;
}

void lh_appender_remove_empty(const lh_appender *a)
{
    struct stat info;
    if (a->fd >= 0 && fstat(a->fd, &info) == 0 && info.st_size == 0 && !is_gone(a)) unlink(a->path);
}

lh_status lh_appender_lock(lh_appender *a, int *locked)
{
    for (;;) {
        struct flock lock = whole_file();
        lh_appender again;
        *locked = fcntl(a->fd, F_OFD_SETLK, &lock) == 0;
        if (!*locked && (errno == EAGAIN || errno == EACCES))
            LH_FAIL(LH_EWRITE, "cannot write '%s': another run that is going on writes it, name another output",
                    a->path);
        if (!is_gone(a)) return LH_OK; /* else a run that ended removed it between its opening and the lock */
        LH_TRY(lh_appender_open(&again, a->path));
        lh_appender_close(a);
        *a = again;
    }
}

int lh_appender_is_locked(const char *path)
{
    struct flock lock = whole_file();
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const int asked = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0;
    if (fd >= 0) close(fd);
    return asked ? lock.l_type != F_UNLCK : -1;
}

lh_status lh_appender_add(lh_appender *a, const void *data, int64_t bytes)
{
    a->unsynced = 1;
    for (int64_t at = 0; at < bytes;) {
        const ssize_t n = pwrite(a->fd, (const char *)data + at, (size_t)(bytes - at), (off_t)(a->bytes + at));
        if (n < 0 && errno == EINTR) continue;
        if (n > 0) {
            at += n;
            continue;
        }
        const int error = n < 0 ? errno : ENOSPC;
        (void)!ftruncate(a->fd, (off_t)a->bytes); /* else the line is torn, as a kill leaves it */
        LH_FAIL(LH_EWRITE, "cannot write '%s': %s", a->path, strerror(error));
    }
    a->bytes += bytes;
    return LH_OK;
}

lh_status lh_appender_read(const lh_appender *a, int64_t at, void *data, int64_t bytes)
{
    for (int64_t done = 0; done < bytes;) {
        const ssize_t n = pread(a->fd, (char *)data + done, (size_t)(bytes - done), (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) LH_FAIL(LH_EWRITE, "cannot read '%s': %s", a->path, n < 0 ? strerror(errno) : "it is shorter now");
        done += n;
    }
    return LH_OK;
}

lh_status lh_appender_cut(lh_appender *a, int64_t bytes)
{
    if (ftruncate(a->fd, (off_t)bytes) != 0) LH_FAIL(LH_EWRITE, "cannot write '%s': %s", a->path, strerror(errno));
    a->bytes = bytes;
    a->unsynced = 1;
    return LH_OK;
}

lh_status lh_appender_sync(lh_appender *a)
{
    if (a->fd < 0 || !a->unsynced) return LH_OK;
    if (fsync(a->fd) != 0) LH_FAIL(LH_EWRITE, "cannot flush '%s': %s", a->path, strerror(errno));
    if (a->is_new) LH_TRY(sync_folder(a->path));
    a->unsynced = a->is_new = 0;
    return LH_OK;
}
