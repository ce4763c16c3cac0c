/* file_map.c - maps files. Who reads a part of a mapping that its file has lost meanwhile would be ended by SIGBUS:
 * here such a read gives zeros, and lh_map_unchanged tells of it afterwards. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* What a signal handler must find, and what the file was when it was mapped. */
struct lh_map_guard {
    const uint8_t *data;
    int64_t bytes;
    struct stat was;
    volatile sig_atomic_t torn; /* 1: something could not be read */
    struct lh_map_guard *next;
};

/* Of all open mappings: a handler gets no argument. Changed on one thread, while none reads a mapping. */
static struct lh_map_guard *guards;
static struct sigaction before;

/* Puts zeros behind the address that cannot be read, to the end of its mapping. A fault elsewhere happens again, under
 * the handler that was there before. */
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
