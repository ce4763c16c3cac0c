/* claim.c - two bytes of a partial file are locked: the first from its creation on, the second once no other claim was
 * found. A process creates and locks its file before it looks for others: of two processes that begin together at
 * least one finds the other. Of two undecided claims the one with the greater file name fails, and the other one waits
 * for that. */
#include "base/claim.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/destination.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/log.h"
#include "base/mem.h"

enum { HOST_BYTES = 40, NAMES_MAX = 100, WAIT_MS = 5, WAITS_MAX = 1000 };

/* Bytes of the file that are locked. */
typedef enum mark { MARK_LIVES, MARK_DECIDED } mark;

/* State of the partial file of another claim. */
typedef enum state { STATE_GONE, STATE_DEAD, STATE_UNDECIDED, STATE_DECIDED, STATE_UNKNOWN } state;

static const char suffix[] = ".partial";

static struct {
    pthread_mutex_t mutex;
    lh_claim *first;
} claims = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- claims of this process ---- */

lh_claim *lh_claim_find(const char *path)
{
    pthread_mutex_lock(&claims.mutex);
    lh_claim *c = claims.first;
    while (c && (c->pid != (long)getpid() || strcmp(c->path, path) != 0)) c = c->next;
    pthread_mutex_unlock(&claims.mutex);
    return c;
}

static void enlist(lh_claim *claim)
{
    pthread_mutex_lock(&claims.mutex);
    claim->next = claims.first;
    claims.first = claim;
    pthread_mutex_unlock(&claims.mutex);
}

static void release(lh_claim *claim)
{
    if (!claim) return;
    pthread_mutex_lock(&claims.mutex);
    for (lh_claim **at = &claims.first; *at; at = &(*at)->next)
        if (*at == claim) {
            *at = claim->next;
            break;
        }
    pthread_mutex_unlock(&claims.mutex);
    if (claim->fd >= 0) close(claim->fd);
    lh_free(claim->path);
    lh_free(claim->partial);
    lh_free(claim);
}

/* ---- names ---- */

/* Without dots, so that a name has one reading. */
static void find_host(char out[HOST_BYTES])
{
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) != 0 || !*name) strcpy(name, "localhost");
    snprintf(out, HOST_BYTES, "%.*s", HOST_BYTES - 1, name);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_') *c = '-';
}

lh_status lh_claim_usual_name(char **out, const char *path)
{
    char host[HOST_BYTES];
    find_host(host);
    return lh_asprintf(out, "%s.%s.%ld%s", path, host, (long)getpid(), suffix);
}

/* For a process with a number that another process of a host of this name has. */
static lh_status random_name(char **out, const char *path)
{
    char host[HOST_BYTES];
    uint32_t draw = 0;
    find_host(host);
    if (getrandom(&draw, sizeof draw, 0) != sizeof draw) LH_FAIL(LH_EWRITE, "cannot draw a name for '%s'", path);
    return lh_asprintf(out, "%s.%s.%ld-%08x%s", path, host, (long)getpid(), draw, suffix);
}

/* Reads "BASE.HOST.PID.partial" or "BASE.HOST.PID-RANDOM.partial". 0 if `name` is something else. */
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
    *pid = digits > 0 && digits <= 10 ? strtol(name + at, NULL, 10) : 0;
    at += digits;
    if (name[at] == '-') at += 1 + strspn(name + at + 1, "0123456789abcdef");
    return *pid > 0 && strcmp(name + at, suffix) == 0;
}

static lh_lock_range range_of(mark byte)
{
    return (lh_lock_range){.from = byte, .bytes = 1};
}

/* ---- partial files of others ---- */

/* A look at another partial file. One of a dead process is locked by this look as long as `fd` is open, so that no
 * process that has just created it takes it for its own. */
typedef struct other {
    char *name;
    const char *host;
    long pid;
    int here; /* 1: of this host */
    int fd;   /* -1: it cannot be read */
    int64_t bytes;
} other;

static state look_at(other *o)
{
    struct stat info;
    if (lstat(o->name, &info) != 0 || !S_ISREG(info.st_mode)) return STATE_GONE;
    o->fd = open(o->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (o->fd < 0) return errno == ENOENT ? STATE_GONE : STATE_UNKNOWN;
    const lh_lock_result lock = lh_lock_take(o->fd, range_of(MARK_LIVES), F_RDLCK);
    if (lock == LH_LOCK_REFUSED)
        return lh_lock_is_taken(o->fd, range_of(MARK_DECIDED)) == 1 ? STATE_DECIDED : STATE_UNDECIDED;
    if (lh_lock_names(o->name, o->fd) != 1) return STATE_GONE;
    o->bytes = fstat(o->fd, &info) == 0 ? (int64_t)info.st_size : 0;
    return lock == LH_LOCK_TAKEN && o->here ? STATE_DEAD : STATE_UNKNOWN;
}

/* A search of the folder for other claims. */
typedef struct meeting {
    const lh_claim *claim;
    const char *own_host;
    int alone, warns;
    int waits; /* 1: for another claim that steps back */
} meeting;

static lh_status refuse(const meeting *m, const other *o)
{
    LH_FAIL(LH_EWRITE, "cannot write '%s': process %ld of %s%s writes it, into '%s': name another file", m->claim->path,
            o->pid, o->here ? "this host" : "host ", o->here ? "" : o->host, o->name);
}

/* Where a lock does not say whether that process lives. */
static lh_status refuse_or_warn(const meeting *m, const other *o)
{
    if (o->fd < 0 || o->bytes || m->alone)
        LH_FAIL(LH_EWRITE, "cannot write '%s': process %ld of host %s writes it; if it has ended, delete '%s'",
                m->claim->path, o->pid, o->host, o->name);
    if (m->warns)
        lh_warn("process %ld of host %s may be going to write '%s', too: if it has ended, delete '%s'", o->pid, o->host,
                m->claim->path, o->name);
    return LH_OK;
}

/* Decides about one partial file of another claim. */
static lh_status meet(meeting *m, other *o)
{
    switch (look_at(o)) {
    case STATE_GONE: break;
    case STATE_DEAD:
        if (unlink(o->name) == 0 && o->bytes) lh_info("removed '%s', which a killed run left", o->name);
        break;
    case STATE_UNDECIDED:
        if (strcmp(m->claim->partial, o->name) > 0) return refuse(m, o);
        m->waits = 1;
        break;
    case STATE_DECIDED: return refuse(m, o);
    case STATE_UNKNOWN: return refuse_or_warn(m, o);
    }
    return LH_OK;
}

static lh_status meet_others(meeting *m)
{
    lh_status st = LH_OK;
    const lh_claim *claim = m->claim;
    const char *base = lh_path_name(claim->path);
    const int folder_bytes = (int)(base - claim->path);
    char *folder = NULL, host[HOST_BYTES];
    other o = {.fd = -1};
    DIR *entries = NULL;
    m->waits = 0;
    LH_TRY_DONE(lh_path_folder(&folder, claim->path));
    entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (!read_name(entry->d_name, base, host, &o.pid)) continue;
        if (strcmp(entry->d_name, claim->partial + folder_bytes) == 0) continue;
        LH_TRY_DONE(lh_asprintf(&o.name, "%.*s%s", folder_bytes, claim->path, entry->d_name));
        o.host = host;
        o.here = strcmp(host, m->own_host) == 0;
        LH_TRY_DONE(meet(m, &o));
        if (o.fd >= 0) close(o.fd);
        lh_free(o.name);
        o = (other){.fd = -1};
    }
done:
    if (o.fd >= 0) close(o.fd);
    lh_free(o.name);
    if (entries) closedir(entries);
    lh_free(folder);
    return st;
}

/* ---- taking one ---- */

/* 1 if the partial file still has its name. */
static int is_own(const lh_claim *claim)
{
    return lh_lock_names(claim->partial, claim->fd) == 1;
}

/* Why the partial file could not be created, in terms of the output. */
static lh_status fail_create(const lh_claim *claim, int error)
{
    lh_status st = LH_OK;
    char *folder = NULL;
    LH_TRY_DONE(lh_path_folder(&folder, claim->path));
    if (error == ENOENT && !lh_file_exists(folder))
        LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': there is no folder '%s'", claim->path, folder);
    LH_FAIL_DONE(LH_EWRITE, "cannot create '%s': %s", claim->partial, strerror(error));
done:
    lh_free(folder);
    return st;
}

/* Creates the partial file, and locks it. Another name where a file has the usual one, or where another process took
 * the new file for one that a killed run left. */
static lh_status create(lh_claim *claim)
{
    LH_TRY(lh_claim_usual_name(&claim->partial, claim->path));
    for (int i = 0; i < NAMES_MAX; i++) {
        claim->fd = open(claim->partial, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (claim->fd < 0 && errno != EEXIST) return fail_create(claim, errno);
        if (claim->fd >= 0 && lh_lock_take(claim->fd, range_of(MARK_LIVES), F_WRLCK) != LH_LOCK_REFUSED &&
            is_own(claim))
            return LH_OK;
        if (claim->fd >= 0) close(claim->fd);
        claim->fd = -1;
        lh_free(claim->partial);
        claim->partial = NULL;
        LH_TRY(random_name(&claim->partial, claim->path));
    }
    LH_FAIL(LH_EWRITE, "cannot create '%s': files of %d such names exist", claim->partial, NAMES_MAX);
}

lh_status lh_claim_take(lh_claim **out, const char *path, int alone)
{
    lh_status st = LH_OK;
    lh_claim *claim = NULL;
    char own_host[HOST_BYTES];
    find_host(own_host);
    LH_TRY_DONE(lh_calloc(&claim, 1, sizeof *claim));
    claim->fd = -1;
    claim->pid = (long)getpid();
    LH_TRY_DONE(lh_strdup(&claim->path, path));
    LH_TRY_DONE(create(claim));
    meeting m = {.claim = claim, .own_host = own_host, .alone = alone, .warns = 1};
    for (int waits = 0;; waits++) {
        LH_TRY_DONE(meet_others(&m));
        if (!m.waits) break;
        if (waits == WAITS_MAX)
            LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': another process claims it and does not go on", path);
        m.warns = 0;
        nanosleep(&(struct timespec){.tv_nsec = WAIT_MS * 1000000}, NULL);
    }
    (void)lh_lock_take(claim->fd, range_of(MARK_DECIDED), F_WRLCK);
    enlist(claim);
    *out = claim;
    claim = NULL;
done:
    lh_claim_drop(claim);
    return st;
}

/* ---- its end ---- */

lh_status lh_claim_rename(lh_claim *claim)
{
    if (!is_own(claim))
        LH_FAIL(LH_EWRITE, "cannot rename '%s' to '%s': it was removed or replaced", claim->partial, claim->path);
    if (fsync(claim->fd) != 0) LH_FAIL(LH_EWRITE, "cannot flush '%s': %s", claim->partial, strerror(errno));
    if (rename(claim->partial, claim->path) != 0)
        LH_FAIL(LH_EWRITE, "cannot rename '%s' to '%s': %s", claim->partial, claim->path, strerror(errno));
    release(claim);
    return LH_OK;
}

void lh_claim_drop(lh_claim *claim)
{
    if (claim && claim->fd >= 0 && is_own(claim)) unlink(claim->partial);
    release(claim);
}
