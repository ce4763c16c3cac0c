/* A mapped file ends on no page's edge, and what lies after its end can be read: the address sanitizer is told that it
 * must not be. Linked in place of mmap and munmap (--wrap). */
#include <sanitizer/asan_interface.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);

static size_t bytes_after(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (page - bytes % page) % page;
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    char *p = __real_mmap(at, bytes, protection, flags, fd, offset);
    if (p != MAP_FAILED && fd >= 0) ASAN_POISON_MEMORY_REGION(p + bytes, bytes_after(bytes));
    return p;
}

int __wrap_munmap(void *at, size_t bytes)
{
    ASAN_UNPOISON_MEMORY_REGION((char *)at + bytes, bytes_after(bytes));
    return __real_munmap(at, bytes);
}
