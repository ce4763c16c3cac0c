/* h5_sink.c - the HDF5 file driver for writing. HDF5 does not survive a full disk: a failed write of metadata leaves a
 * half-closed file that crashes the process at exit (1.10.8). So this driver remembers the first error and reports
 * success: the library closes cleanly, and lh_h5 asks for the error afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/h5_impl.h"
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#define SINK_VERSION .version = H5FD_CLASS_VERSION, .value = (H5FD_class_value_t)600,
#else
#define SINK_VERSION
#endif

typedef struct sink {
    H5FD_t pub; /* HDF5's part, must be first */
    int fd;
    int *error; /* lh_h5.write_errno */
    haddr_t eoa, eof;
} sink;

typedef struct sink_info {
    int *error;
} sink_info;

static H5FD_t *sink_open(const char *name, unsigned flags, hid_t access, haddr_t max)
{
    (void)max;
    sink *s = NULL;
    const sink_info *info = H5Pget_driver_info(access);
    /* The file exists: lh_partial_open created it. */
    int fd = open(name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | (flags & H5F_ACC_TRUNC ? O_TRUNC : 0));
    if (fd < 0) *info->error = errno;
    if (fd < 0 || lh_calloc(&s, 1, sizeof *s) != LH_OK) return NULL;
    s->fd = fd;
    s->error = info->error;
    s->eof = (haddr_t)lseek(fd, 0, SEEK_END);
    return &s->pub;
}

static herr_t sink_close(H5FD_t *file)
{
    sink *s = (sink *)file;
    if (close(s->fd) != 0 && !*s->error) *s->error = errno;
    lh_free(s);
    return 0;
}

static herr_t sink_query(const H5FD_t *file, unsigned long *flags)
{
    (void)file;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t sink_get_eoa(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const sink *)file)->eoa;
}

static herr_t sink_set_eoa(H5FD_t *file, H5FD_mem_t type, haddr_t at)
{
    (void)type;
    ((sink *)file)->eoa = at;
    return 0;
}

static haddr_t sink_get_eof(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const sink *)file)->eof;
}

static herr_t sink_read(H5FD_t *file, H5FD_mem_t type, hid_t plist, haddr_t at, size_t bytes, void *data)
{
    (void)type, (void)plist;
    sink *s = (sink *)file;
    for (char *p = data; bytes > 0;) {
        ssize_t n = pread(s->fd, p, bytes, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) { /* past the end: zeros */
            memset(p, 0, bytes);
            break;
        }
        p += n, at += (haddr_t)n, bytes -= (size_t)n;
    }
    return 0;
}

static herr_t sink_write(H5FD_t *file, H5FD_mem_t type, hid_t plist, haddr_t at, size_t bytes, const void *data)
{
    (void)type, (void)plist;
    sink *s = (sink *)file;
    for (const char *p = data; bytes > 0 && !*s->error;) {
        ssize_t n = pwrite(s->fd, p, bytes, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) *s->error = errno;
        if (n > 0) p += n, at += (haddr_t)n, bytes -= (size_t)n;
    }
    if (at + bytes > s->eof) s->eof = at + bytes;
    return 0;
}

static herr_t sink_truncate(H5FD_t *file, hid_t plist, hbool_t closing)
{
    (void)plist, (void)closing;
    sink *s = (sink *)file;
    if (s->eoa == s->eof) return 0;
    if (!*s->error && ftruncate(s->fd, (off_t)s->eoa) != 0) *s->error = errno;
    s->eof = s->eoa;
    return 0;
}

/* clang-format off */
static const H5FD_class_t sink_class = {
    SINK_VERSION
    .name = "longhaul",
    .maxaddr = INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(sink_info),
    .open = sink_open,
    .close = sink_close,
    .query = sink_query,
    .get_eoa = sink_get_eoa,
    .set_eoa = sink_set_eoa,
    .get_eof = sink_get_eof,
    .read = sink_read,
    .write = sink_write,
    .truncate = sink_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};
/* clang-format on */

herr_t lh_h5_sink_use(hid_t access, int *error)
{
    const sink_info info = {error};
    hid_t driver = H5FDregister(&sink_class);
    herr_t rc = driver < 0 ? -1 : H5Pset_driver(access, driver, &info);
    if (driver >= 0) H5FDunregister(driver); /* now owned by the list */
    return rc;
}
