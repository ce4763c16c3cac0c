/* output.c - outputs: checked, claimed for one process by a partial file (claim.h), written, synced and renamed. */
#include "base/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/claim.h"
#include "base/destination.h"
#include "base/mem.h"

/* *out: the file that will be replaced, at the end of symbolic links. lh_free, also after a failure. */
static lh_status find_target(char **out, const char *path)
{
    struct stat info;
    int stream = 0;
    if (!*path) LH_FAIL(LH_EWRITE, "cannot write '': an output needs a file name");
    LH_TRY(lh_destination_find(out, &stream, path));
    if (strcmp(path, "-") == 0) LH_FAIL(LH_EWRITE, "cannot write '-': only text goes to standard output, name a file");
    int is_there = stat(*out, &info) == 0;
    if (is_there && S_ISDIR(info.st_mode)) LH_FAIL(LH_EWRITE, "cannot write '%s': it is a folder", path);
    if (stream || (is_there && !S_ISREG(info.st_mode)))
        LH_FAIL(LH_EWRITE, "cannot write '%s': it is a device, a pipe or a socket, name a file", path);
    return LH_OK;
}

/* The claim of this process; an existing claim must be empty. */
static lh_status take(lh_claim **out, const char *target, int alone)
{
    struct stat info;
    *out = lh_claim_find(target);
    if (!*out) return lh_claim_take(out, target, alone);
    if (fstat((*out)->fd, &info) != 0 || info.st_size > 0)
        LH_FAIL(LH_EWRITE, "cannot write '%s': this process is writing it, into '%s'", target, (*out)->partial);
    return LH_OK;
}

static lh_status claim(const char *path, int64_t bytes, int alone)
{
    lh_status st = LH_OK;
    char *target = NULL;
    lh_claim *c = NULL;
    struct statvfs fs;
    LH_TRY_DONE(find_target(&target, path));
    LH_TRY_DONE(take(&c, target, alone));
    if (fstatvfs(c->fd, &fs) == 0 && (double)fs.f_bavail * (double)fs.f_frsize < (double)bytes) {
        lh_claim_drop(c);
        LH_FAIL_DONE(LH_EWRITE, "no room for '%s': it needs %.1f MiB and %.1f MiB are free", path,
                     (double)bytes / (1 << 20), (double)fs.f_bavail * (double)fs.f_frsize / (1 << 20));
    }
done:
    lh_free(target);
    return st;
}

lh_status lh_partial_claim(const char *path, int64_t bytes)
{
    return claim(path, bytes, 0);
}

lh_status lh_partial_claim_alone(const char *path)
{
    return claim(path, 0, 1);
}

lh_status lh_partial_open(char **out, const char *path)
{
    LH_TRY(lh_partial_claim(path, 0));
    return lh_partial_name(out, path);
}

lh_status lh_partial_name(char **out, const char *path)
{
    lh_status st = LH_OK;
    char *target = NULL;
    LH_TRY_DONE(find_target(&target, path));
    const lh_claim *c = lh_claim_find(target);
    LH_TRY_DONE(c ? lh_strdup(out, c->partial) : lh_claim_usual_name(out, target));
done:
    lh_free(target);
    return st;
}

lh_status lh_partial_commit(const char *path)
{
    lh_status st = LH_OK;
    char *target = NULL;
    LH_TRY_DONE(find_target(&target, path));
    lh_claim *c = lh_claim_find(target);
    if (!c) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': this process has not claimed it", path);
    LH_TRY_DONE(lh_claim_rename(c));
done:
    lh_free(target);
    return st;
}

void lh_partial_drop(const char *path)
{
    char *target = NULL;
    int stream = 0;
    if (lh_destination_find(&target, &stream, path) == LH_OK) lh_claim_drop(lh_claim_find(target));
    lh_free(target);
}

/* ---- text ---- */

lh_status lh_file_claim(const char *path, int64_t bytes)
{
    int fd = -1;
    LH_TRY(lh_destination_open(&fd, path));
    if (fd < 0) return lh_partial_claim(path, bytes);
    close(fd);
    return LH_OK;
}

static lh_status write_all(int fd, const char *path, const char *data, int64_t bytes)
{
    for (int64_t at = 0; at < bytes;) {
        ssize_t n = write(fd, data + at, (size_t)(bytes - at));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EPIPE) return LH_OK; /* a stream with a reader that has seen enough, such as `head` */
        if (n < 0) LH_FAIL(LH_EWRITE, "cannot write '%s': %s", path, strerror(errno));
        at += n;
    }
    return LH_OK;
}

lh_status lh_file_write(const char *path, const void *data, int64_t bytes)
{
    lh_status st = LH_OK;
    char *target = NULL;
    lh_claim *c = NULL;
    int fd = -1;
    LH_TRY_DONE(lh_destination_open(&fd, path));
    if (fd >= 0) {
        LH_TRY_DONE(write_all(fd, path, data, bytes));
        goto done;
    }
    LH_TRY_DONE(find_target(&target, path));
    LH_TRY_DONE(take(&c, target, 0));
    st = write_all(c->fd, path, data, bytes);
    if (st == LH_OK) st = lh_claim_rename(c);
    if (st != LH_OK) lh_claim_drop(c);
done:
    if (fd >= 0) close(fd);
    lh_free(target);
    return st;
}
