/* output.c - outputs: claimed for one process by a partial file that holds its host and number, written, synced and
 * renamed. Two processes that claim one output at the same moment see each other's partial file, because each creates
 * its own before it looks for others; both then step back for a time that depends on their numbers. */
#include "base/output.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/destination.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"

enum { HOST_BYTES = 40, TRIES = 4 };

static const char suffix[] = ".partial";

/* An output in the making. */
typedef struct target {
    char *path;    /* the file to replace: where symbolic links lead */
    char *partial; /* the file of this process */
    char host[HOST_BYTES];
    int alone; /* 1: a process of another host that has claimed it is taken to live */
} target;

/* Without dots, so that a name has one reading. */
static void find_host(char out[HOST_BYTES])
{
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) != 0 || !*name) strcpy(name, "localhost");
    snprintf(out, HOST_BYTES, "%.*s", HOST_BYTES - 1, name);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_') *c = '-';
}

static void target_clear(target *t)
{
    lh_free(t->path);
    lh_free(t->partial);
    *t = (target){0};
}

/* Release with target_clear, also after a failure. */
static lh_status target_find(target *t, int *stream, const char *path)
{
    LH_TRY(lh_destination_find(&t->path, stream, path));
    find_host(t->host);
    LH_TRY(lh_asprintf(&t->partial, "%s.%s.%lld%s", t->path, t->host, (long long)getpid(), suffix));
    return LH_OK;
}

/* As target_find, of a file that can be replaced. */
static lh_status target_check(target *t, const char *path)
{
    struct stat info;
    int stream = 0;
    if (!*path) LH_FAIL(LH_EWRITE, "cannot write '': an output needs a file name");
    LH_TRY(target_find(t, &stream, path));
    if (strcmp(path, "-") == 0) LH_FAIL(LH_EWRITE, "cannot write '-': only text goes to standard output, name a file");
    int is_there = stat(t->path, &info) == 0;
    if (is_there && S_ISDIR(info.st_mode)) LH_FAIL(LH_EWRITE, "cannot write '%s': it is a folder", path);
    if (stream || (is_there && !S_ISREG(info.st_mode)))
        LH_FAIL(LH_EWRITE, "cannot write '%s': it is a device, a pipe or a socket, name a file", path);
    return LH_OK;
}

/* ---- partial files of other processes ---- */

/* Reads "BASE.HOST.PID.partial". 0 if `name` is something else. */
static int read_name(const char *name, const char *base, char host[HOST_BYTES], long *pid)
{
    size_t at = strlen(base), host_bytes, digits;
    if (strncmp(name, base, at) != 0 || name[at] != '.') return 0;
    host_bytes = strcspn(name + ++at, ".");
    if (host_bytes == 0 || host_bytes >= HOST_BYTES || name[at + host_bytes] != '.') return 0;
    memcpy(host, name + at, host_bytes);
    host[host_bytes] = '\0';
    at += host_bytes + 1;
    digits = strspn(name + at, "0123456789");
    if (digits == 0 || digits > 10 || strcmp(name + at + digits, suffix) != 0) return 0;
    *pid = strtol(name + at, NULL, 10);
    return *pid > 0;
}

/* Decides about one partial file of another process. What a dead process left is removed if it is empty, else named. */
static lh_status meet(const target *t, const char *name, const char *host, long pid, int warn)
{
    lh_status st = LH_OK;
    struct stat info;
    char *other = NULL;
    const char *slash = strrchr(t->path, '/');
    int here = strcmp(host, t->host) == 0;
    LH_TRY_DONE(lh_asprintf(&other, "%.*s%s", slash ? (int)(slash + 1 - t->path) : 0, t->path, name));
    if (lstat(other, &info) != 0 || !S_ISREG(info.st_mode)) goto done;
    if (here && lh_process_may_own(pid, info.st_mtime))
        LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': process %ld of this host writes it, into '%s': name another file",
                     t->path, pid, other);
    if (!here && (info.st_size || t->alone))
        LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': process %ld of host %s writes it; if it has ended, delete '%s'",
                     t->path, pid, host, other);
    if (here && info.st_size == 0)
        unlink(other);
    else if (warn && here)
        lh_warn("'%s' was left by a run that was killed: delete it", other);
    else if (warn)
        lh_warn("process %ld of host %s may be going to write '%s', too: if it has ended, delete '%s'", pid, host,
                t->path, other);
done:
    lh_free(other);
    return st;
}

/* Fails if another process writes the same output. */
static lh_status look_for_others(const target *t, int warn)
{
    lh_status st = LH_OK;
    const char *slash = strrchr(t->path, '/'), *base = slash ? slash + 1 : t->path;
    const char *own = strrchr(t->partial, '/');
    char *folder = NULL, host[HOST_BYTES];
    DIR *entries = NULL;
    long pid;
    own = own ? own + 1 : t->partial;
    LH_TRY_DONE(lh_asprintf(&folder, "%.*s.", slash ? (int)(slash + 1 - t->path) : 0, t->path));
    entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (read_name(entry->d_name, base, host, &pid) && strcmp(entry->d_name, own) != 0)
            LH_TRY_DONE(meet(t, entry->d_name, host, pid, warn));
done:
    if (entries) closedir(entries);
    lh_free(folder);
    return st;
}

/* ---- the partial file of this process ---- */

/* Opens the claim that this process made before; -1 unless it is an empty regular file. */
static int open_claim(const target *t)
{
    struct stat info;
    int fd = open(t->partial, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1 && info.st_size == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* Removes what an earlier process of the same number left: numbers come again after a start of the machine, and in
 * every container. 0: this process itself wrote it, or it is no such file. */
static int remove_earlier(const target *t)
{
    struct stat info;
    return lstat(t->partial, &info) == 0 && S_ISREG(info.st_mode) &&
           !lh_process_may_own((long)getpid(), info.st_mtime) && unlink(t->partial) == 0;
}

/* Why the partial file could not be created, in terms of the output. */
static lh_status fail_create(const target *t, int error)
{
    lh_status st = LH_OK;
    char *folder = NULL;
    LH_TRY_DONE(lh_destination_folder(&folder, t->path));
    if (error == ENOENT && !lh_file_exists(folder))
        LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': there is no folder '%s'", t->path, folder);
    LH_FAIL_DONE(LH_EWRITE, "cannot create '%s': %s", t->partial, strerror(error));
done:
    lh_free(folder);
    return st;
}

/* *fd: the partial file, open and empty. */
static lh_status take(const target *t, int *fd)
{
    lh_status st = LH_OK;
    for (int tries = 1;; tries++) {
        *fd = open(t->partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (*fd < 0 && errno == EEXIST) {
            *fd = open_claim(t);
            if (*fd < 0 && remove_earlier(t)) continue;
            if (*fd < 0)
                LH_FAIL(LH_EWRITE, "cannot create '%s': it exists, left by a run that was killed: delete it",
                        t->partial);
            return LH_OK;
        }
        if (*fd < 0) return fail_create(t, errno);
        st = look_for_others(t, tries == 1);
        if (st == LH_OK) return LH_OK;
        close(*fd);
        *fd = -1;
        unlink(t->partial);
        if (tries == TRIES) return st;
        lh_error_clear();
        nanosleep(&(struct timespec){.tv_nsec = (5 + (long)getpid() * tries % 61 * 2) * 1000000}, NULL);
    }
}

static lh_status claim(const char *path, int64_t bytes, int alone)
{
    lh_status st = LH_OK;
    target t = {.alone = alone};
    struct statvfs fs;
    int fd = -1;
    LH_TRY_DONE(target_check(&t, path));
    LH_TRY_DONE(take(&t, &fd));
    if (fstatvfs(fd, &fs) == 0 && (double)fs.f_bavail * (double)fs.f_frsize < (double)bytes) {
        unlink(t.partial);
        LH_FAIL_DONE(LH_EWRITE, "no room for '%s': it needs %.1f MiB and %.1f MiB are free", path,
                     (double)bytes / (1 << 20), (double)fs.f_bavail * (double)fs.f_frsize / (1 << 20));
    }
done:
    if (fd >= 0) close(fd);
    target_clear(&t);
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
    target t = {0};
    LH_TRY_DONE(target_check(&t, path));
    *out = t.partial;
    t.partial = NULL;
done:
    target_clear(&t);
    return st;
}

lh_status lh_partial_commit(const char *path)
{
    lh_status st = LH_OK;
    target t = {0};
    int fd = -1;
    LH_TRY_DONE(target_check(&t, path));
    fd = open(t.partial, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) LH_FAIL_DONE(LH_EWRITE, "cannot flush '%s': %s", t.partial, strerror(errno));
    if (rename(t.partial, t.path) != 0)
        LH_FAIL_DONE(LH_EWRITE, "cannot rename '%s' to '%s': %s", t.partial, t.path, strerror(errno));
done:
    if (fd >= 0) close(fd);
    target_clear(&t);
    return st;
}

void lh_partial_drop(const char *path)
{
    target t = {0};
    int stream = 0;
    if (target_find(&t, &stream, path) == LH_OK) unlink(t.partial);
    target_clear(&t);
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
        if (n < 0 && errno == EPIPE) return LH_OK; /* of a stream: as `head`, its reader has seen enough */
        if (n < 0) LH_FAIL(LH_EWRITE, "cannot write '%s': %s", path, strerror(errno));
        at += n;
    }
    return LH_OK;
}

lh_status lh_file_write(const char *path, const void *data, int64_t bytes)
{
    lh_status st = LH_OK;
    target t = {0};
    int fd = -1;
    LH_TRY_DONE(lh_destination_open(&fd, path));
    if (fd >= 0) {
        LH_TRY_DONE(write_all(fd, path, data, bytes));
        goto done;
    }
    LH_TRY_DONE(target_check(&t, path));
    LH_TRY_DONE(take(&t, &fd));
    st = write_all(fd, path, data, bytes);
    if (st == LH_OK) st = lh_partial_commit(path);
    if (st != LH_OK) unlink(t.partial);
done:
    if (fd >= 0) close(fd);
    target_clear(&t);
    return st;
}
