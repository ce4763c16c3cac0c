/* file.c - files that are read as a whole or mapped, folders, and names. */
#include "base/file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unicode.h"

static lh_status read_all(lh_buf *out, const char *path, int64_t limit_bytes, int fd)
{
    char block[1 << 16];
    int64_t start = out->bytes;
    for (;;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EISDIR) LH_FAIL(LH_EINPUT, "'%s' is a folder, it must be a file", path);
        if (n < 0) LH_FAIL(LH_EINPUT, "cannot read '%s': %s", path, strerror(errno));
        LH_TRY(lh_buf_append(out, block, n));
        if (n == 0) return LH_OK;
        if (out->bytes - start > limit_bytes)
            LH_FAIL(LH_EINPUT, "'%s' is larger than the limit of %lld bytes", path, (long long)limit_bytes);
    }
}

/* Without O_NONBLOCK opening a pipe without a writer would block; it changes nothing for a regular file. */
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
    const int64_t start = out->bytes;
    int fd = strcmp(path, "-") == 0 ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) LH_FAIL_DONE(LH_EINPUT, "cannot open '%s': %s", path, strerror(errno));
    LH_TRY_DONE(read_all(out, path, limit_bytes, fd));
    lh_text_drop_mark(out, start);
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

static int same_inode(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

const char *lh_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

lh_status lh_path_folder(char **out, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return lh_strdup(out, ".");
    return lh_strndup(out, path, slash == path ? 1 : slash - path);
}

int lh_file_is_in(const char *path, const char *folder)
{
    char own[PATH_MAX];
    const int n = snprintf(own, sizeof own, "%.*s.", (int)(lh_path_name(path) - path), path);
    return n < (int)sizeof own && same_inode(own, folder);
}

int lh_file_is_same(const char *a, const char *b)
{
    char folder[PATH_MAX];
    const char *name = lh_path_name(b);
    if (strcmp(a, b) == 0 || same_inode(a, b)) return 1;
    if (lh_file_exists(a) || lh_file_exists(b) || strcmp(lh_path_name(a), name) != 0) return 0;
    const int n = snprintf(folder, sizeof folder, "%.*s.", (int)(name - b), b);
    return n < (int)sizeof folder && lh_file_is_in(a, folder);
}

lh_status lh_path_join(char **out, const char *folder, const char *name)
{
    size_t n = strlen(folder);
    return lh_asprintf(out, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
}

int lh_name_ends_with(const char *name, const char *const *endings)
{
    const size_t n = strlen(name);
    for (; *endings; endings++)
        if (n > strlen(*endings) && strcasecmp(name + n - strlen(*endings), *endings) == 0) return 1;
    return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Puts one entry of a folder into one of the lists, or into none. */
static lh_status sort_entry(lh_paths *out, lh_paths *others, const char *folder, const char *name,
                            const char *const *endings)
{
    struct stat info;
    char *path = NULL;
    if (*name == '.') return LH_OK;
    LH_TRY(lh_path_join(&path, folder, name));
    const int is_there = stat(path, &info) == 0, ends = lh_name_ends_with(name, endings);
    if (ends && is_there && S_ISREG(info.st_mode)) return lh_paths_add(out, path);
    if (others && (ends || !is_there || !S_ISDIR(info.st_mode))) return lh_paths_add(others, path);
    lh_free(path);
    return LH_OK;
}

lh_status lh_folder_list(lh_paths *out, lh_paths *others, const char *folder, const char *const *endings)
{
    lh_status st = LH_OK;
    struct dirent **entries = NULL;
    const int n = scandir(folder, &entries, NULL, by_name);
    if (n < 0) LH_FAIL_DONE(LH_EINPUT, "cannot read the folder '%s': %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) LH_TRY_DONE(sort_entry(out, others, folder, entries[i]->d_name, endings));
done:
    for (int i = 0; i < n; i++) free(entries[i]);
    free(entries);
    return st;
}

static void remove_own(DIR *entries, int (*is_own)(const void *self, const char *name), const void *self)
{
    struct stat info;
    const int fd = dirfd(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (is_own(self, entry->d_name) && fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode))
            unlinkat(fd, entry->d_name, 0);
}

void lh_folder_clean(const char *folder, int (*is_own)(const void *self, const char *name), const void *self)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (!entries) {
        if (fd >= 0) close(fd);
        return;
    }
    remove_own(entries, is_own, self);
    closedir(entries);
    rmdir(folder);
}

lh_status lh_paths_add(lh_paths *paths, char *path)
{
    const lh_status st = lh_realloc(&paths->at, paths->n + 1, sizeof *paths->at);
    if (st == LH_OK)
        paths->at[paths->n++] = path;
    else
        lh_free(path);
    return st;
}

void lh_paths_clear(lh_paths *paths)
{
    for (int64_t i = 0; i < paths->n; i++) lh_free(paths->at[i]);
    lh_free(paths->at);
    *paths = (lh_paths){0};
}

/* ---- mappings: a read of bytes that the file has lost since would end the process with SIGBUS. Here it gives zeros,
 * and lh_map_unchanged reports the loss afterwards. ---- */

struct lh_map_guard {
    const uint8_t *data;
    int64_t bytes;
    struct stat was;            /* the file when it was mapped */
    volatile sig_atomic_t torn; /* true: bytes could not be read */
    struct lh_map_guard *next;
};

/* Of all open mappings, since a signal handler gets no argument. Changed on one thread, while none reads a mapping. */
static struct lh_map_guard *guards;
static struct sigaction before;

/* Maps zeros from the page that cannot be read to the end of its mapping. A fault elsewhere happens again, under the
 * previous handler. */
static void give_zeros(int signal, siginfo_t *info, void *context)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)info->si_addr;
    (void)signal, (void)context;
    for (struct lh_map_guard *g = guards; g; g = g->next) {
        const uintptr_t end = (uintptr_t)g->data + (uintptr_t)g->bytes, from = at / page * page;
        if (at < (uintptr_t)g->data || at >= end) continue;
        void *zeros = mmap((void *)from, end - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (zeros == MAP_FAILED) break;
        g->torn = 1;
        return;
    }
    sigaction(SIGBUS, &before, NULL);
}

static void watch(struct lh_map_guard *g)
{
    struct sigaction action = {.sa_sigaction = give_zeros, .sa_flags = SA_SIGINFO};
    if (!guards) sigaction(SIGBUS, &action, &before);
    g->next = guards;
    guards = g;
}

static void unwatch(struct lh_map_guard *g)
{
    struct lh_map_guard **at = &guards;
    while (*at && *at != g) at = &(*at)->next;
    if (!*at) return;
    *at = g->next;
    if (!guards) sigaction(SIGBUS, &before, NULL);
}

lh_status lh_map_open(lh_map *map, const char *path)
{
    lh_status st = LH_OK;
    struct stat info;
    void *p = MAP_FAILED;
    int fd = -1;
    *map = (lh_map){0};
    LH_TRY_DONE(lh_file_open_regular(path, &fd, &info));
    if (info.st_size == 0) LH_FAIL_DONE(LH_EINPUT, "'%s' is empty", path);
    LH_TRY_DONE(lh_strdup(&map->path, path));
    LH_TRY_DONE(lh_calloc(&map->guard, 1, sizeof *map->guard));
    p = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        LH_FAIL_DONE(errno == ENOMEM ? LH_ENOMEM : LH_EINPUT, "cannot map '%s' of %lld bytes: %s", path,
                     (long long)info.st_size, strerror(errno));
    map->data = p;
    map->bytes = info.st_size;
    map->guard->data = p;
    map->guard->bytes = info.st_size;
    map->guard->was = info;
    watch(map->guard);
done:
    if (fd >= 0) close(fd);
    if (st != LH_OK) lh_map_close(map);
    return st;
}

void lh_map_close(lh_map *map)
{
    if (map->data) {
        unwatch(map->guard);
        munmap((void *)(uintptr_t)map->data, (size_t)map->bytes);
    }
    lh_free(map->guard);
    lh_free(map->path);
    *map = (lh_map){0};
}

void lh_map_release(const uint8_t *data, int64_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)data / page * page,
                    to = ((uintptr_t)data + (uintptr_t)bytes) / page * page;
    if (to > from) madvise((void *)from, to - from, MADV_DONTNEED);
}

lh_status lh_map_unchanged(const lh_map *map)
{
    struct stat now;
    const struct stat *was = &map->guard->was;
    if (stat(map->path, &now) != 0)
        LH_FAIL(LH_EINPUT, "'%s' was moved or removed while it was read: %s", map->path, strerror(errno));
    if (now.st_size != was->st_size)
        LH_FAIL(LH_EINPUT, "'%s' changed while it was read, from %lld bytes to %lld: run again with the complete file",
                map->path, (long long)was->st_size, (long long)now.st_size);
    if (now.st_dev != was->st_dev || now.st_ino != was->st_ino || now.st_mtim.tv_sec != was->st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != was->st_mtim.tv_nsec)
        LH_FAIL(LH_EINPUT, "'%s' changed while it was read, something wrote to it: run again with the complete file",
                map->path);
    if (map->guard->torn) LH_FAIL(LH_EINPUT, "'%s' could not be read as a whole: its disk reports errors", map->path);
    return LH_OK;
}
