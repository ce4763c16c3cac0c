/* What the sanitizers ask a program. An input of some kilobytes has no reason to ask for a gigabyte: such an allocation
 * fails, and running out of memory breaks the law. What HDF5 loses of damaged files is not ours. */
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <string.h>

const char *__asan_default_options(void);
const char *__lsan_default_options(void);
const char *__lsan_default_suppressions(void);
void __asan_on_error(void);

const char *__asan_default_options(void)
{
    return "max_allocation_size_mb=1024:allocator_may_return_null=1:exitcode=99";
}

const char *__lsan_default_options(void)
{
    return "print_suppressions=0";
}

const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5\nleak:libmpi\nleak:libopen-pal\nleak:libhwloc\n";
}

/* HDF5 itself reads where it must not when a file is damaged, and the sanitizer sees it in memcpy and the like. That is
 * the library's crash, and ends the process as one would without the sanitizer (gcc's, which is a library itself). */
void __asan_on_error(void)
{
    void *frames[64];
    int n = backtrace(frames, 64);
    for (int i = 0; i < n; i++) { /* who called the sanitizer */
        Dl_info info;
        if (!dladdr(frames[i], &info) || !info.dli_fname) return;
        if (strstr(info.dli_fname, "libasan") || info.dli_saddr == (void *)__asan_on_error) continue;
        if (!strstr(info.dli_fname, "libhdf5")) return;
        signal(SIGABRT, SIG_DFL);
        raise(SIGABRT);
    }
}
