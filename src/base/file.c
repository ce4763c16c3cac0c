/* file.c - files read as a whole; outputs written under a temporary name, synced and renamed. */
#include "base/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static lh_status read_all(lh_buf *out, const char *path, int64_t limit_bytes, int fd)
{
    char block[1 << 16];
    int64_t start = out->bytes;
    for (;;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) LH_FAIL(LH_EINPUT, "cannot read '%s': %s", path, strerror(errno));
        LH_TRY(lh_buf_append(out, block, n));
        if (n == 0) return LH_OK;
        if (out->bytes - start > limit_bytes)
            LH_FAIL(LH_EINPUT, "'%s' is larger than the limit of %lld bytes", path, (long long)limit_bytes);
    }
}

/* Without O_NONBLOCK a pipe that nobody writes to would be waited for; it changes nothing for a regular file. */
lh_status lh_file_open_regular(const char *path, int *fd, struct stat *info)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 || fstat(*fd, info) != 0) LH_FAIL(LH_EINPUT, "cannot open '%s': %s", path, strerror(errno));
    if (S_ISDIR(info->st_mode)) LH_FAIL(LH_EINPUT, "'%s' is a folder, not a regular file", path);
    if (!S_ISREG(info->st_mode))
        LH_FAIL(LH_EINPUT, "'%s' is a pipe, a socket or a device: it must be a regular file", path);
    return LH_OK;
}

lh_status lh_file_read(lh_buf *out, const char *path, int64_t limit_bytes)
{
    lh_status st = LH_OK;
    int fd = strcmp(path, "-") == 0 ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) LH_FAIL_DONE(LH_EINPUT, "cannot open '%s': %s", path, strerror(errno));
    LH_TRY_DONE(read_all(out, path, limit_bytes, fd));
done:
    if (fd > 0) close(fd);
    return st;
}

lh_status lh_file_read_regular(lh_buf *out, const char *path, int64_t limit_bytes)
{
    lh_status st = LH_OK;
    struct stat info;
    int fd = -1;
    LH_TRY_DONE(lh_file_open_regular(path, &fd, &info));
    LH_TRY_DONE(read_all(out, path, limit_bytes, fd));
done:
    if (fd >= 0) close(fd);
    return st;
}

int lh_file_begins_with(const char *path, const void *magic, int64_t bytes)
{
    char head[16];
    struct stat info;
    int fd = -1;
    assert(bytes <= (int64_t)sizeof head);
    int found = lh_file_open_regular(path, &fd, &info) == LH_OK && read(fd, head, (size_t)bytes) == bytes &&
                memcmp(head, magic, (size_t)bytes) == 0;
    if (fd >= 0) close(fd);
    lh_error_clear();
    return found;
}

int lh_file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

int lh_file_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

int lh_file_is_same(const char *a, const char *b)
{
    struct stat one, other;
    if (strcmp(a, b) == 0) return 1;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

lh_status lh_path_join(char **out, const char *folder, const char *name)
{
    size_t n = strlen(folder);
    return lh_asprintf(out, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
}

lh_status lh_partial_name(char **out, const char *path)
{
    return lh_asprintf(out, "%s.partial", path);
}

lh_status lh_partial_commit(const char *path)
{
    lh_status st = LH_OK;
    char *partial = NULL;
    int fd = -1;
    LH_TRY_DONE(lh_partial_name(&partial, path));
    fd = open(partial, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) LH_FAIL_DONE(LH_EWRITE, "cannot flush '%s': %s", partial, strerror(errno));
    if (rename(partial, path) != 0)
        LH_FAIL_DONE(LH_EWRITE, "cannot rename '%s' to '%s': %s", partial, path, strerror(errno));
done:
    if (fd >= 0) close(fd);
    lh_free(partial);
    return st;
}

void lh_partial_drop(const char *path)
{
    char *partial = NULL;
    if (lh_partial_name(&partial, path) == LH_OK) unlink(partial);
    lh_free(partial);
}

/* The rename at the end replaces the target by a regular file, so it must not be a device such as /dev/null. */
static lh_status check_replaceable(const char *path)
{
    struct stat info;
    if (!*path) LH_FAIL(LH_EWRITE, "cannot write '': an output needs a file name");
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) return LH_OK;
    if (S_ISDIR(info.st_mode)) LH_FAIL(LH_EWRITE, "cannot write '%s': it is a folder", path);
    LH_FAIL(LH_EWRITE, "cannot write '%s': it is a device, a pipe or a socket, name a file", path);
}

lh_status lh_file_write(const char *path, const void *data, int64_t bytes)
{
    lh_status st = LH_OK;
    char *partial = NULL;
    int fd = -1;
    LH_TRY_DONE(check_replaceable(path));
    LH_TRY_DONE(lh_partial_name(&partial, path));
    fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) LH_FAIL_DONE(LH_EWRITE, "cannot create '%s': %s", partial, strerror(errno));
    for (int64_t at = 0; at < bytes;) {
        ssize_t n = write(fd, (const char *)data + at, (size_t)(bytes - at));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", path, strerror(errno));
        at += n;
    }
    LH_TRY_DONE(lh_partial_commit(path));
done:
    if (fd >= 0) close(fd);
    if (st != LH_OK && fd >= 0) lh_partial_drop(path);
    lh_free(partial);
    return st;
}

lh_status lh_file_check_writable(const char *path, int64_t bytes)
{
    lh_status st = LH_OK;
    char *partial = NULL;
    struct statvfs fs;
    int fd = -1;
    LH_TRY_DONE(check_replaceable(path));
    LH_TRY_DONE(lh_partial_name(&partial, path));
    fd = open(partial, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) LH_FAIL_DONE(LH_EWRITE, "cannot create '%s': %s", partial, strerror(errno));
    if (fstatvfs(fd, &fs) == 0 && (double)fs.f_bavail * (double)fs.f_frsize < (double)bytes)
        LH_FAIL_DONE(LH_EWRITE, "no room for '%s': it needs %.1f MiB and %.1f MiB are free", path,
                     (double)bytes / (1 << 20), (double)fs.f_bavail * (double)fs.f_frsize / (1 << 20));
done:
    if (fd >= 0) close(fd);
    if (fd >= 0) unlink(partial);
    lh_free(partial);
    return st;
}
