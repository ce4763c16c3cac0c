#include "base/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static struct flock lock_of(lh_lock_range range, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = range.from, .l_len = range.bytes};
}

lh_lock_result lh_lock_take(int fd, lh_lock_range range, short type)
{
    struct flock lock = lock_of(range, type);
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return LH_LOCK_TAKEN;
    return errno == EAGAIN || errno == EACCES ? LH_LOCK_REFUSED : LH_LOCK_NONE;
}

int lh_lock_is_taken(int fd, lh_lock_range range)
{
    struct flock lock = lock_of(range, F_WRLCK);
    if (fcntl(fd, F_OFD_GETLK, &lock) != 0) return -1;
    return lock.l_type != F_UNLCK;
}

int lh_lock_names(const char *path, int fd)
{
    struct stat opened, named;
    if (fstat(fd, &opened) != 0) return -1;
    if (lstat(path, &named) != 0) return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    return opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}
