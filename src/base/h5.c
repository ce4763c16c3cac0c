/* h5.c - opens and creates files, with a driver of our own for writing, makes groups, and reads and writes attributes.
 * Every failure is reported with the innermost reason that HDF5 gives; the library itself stays silent. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/h5_impl.h"
#include "base/output.h"
#include "base/version.h"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#define DRIVER_VERSION .version = H5FD_CLASS_VERSION, .value = (H5FD_class_value_t)600,
#else
#define DRIVER_VERSION
#endif

enum { ALIGN_ABOVE_BYTES = 1 << 20, ALIGN_BYTES = 4096 };

/* More than HDF5 takes to open a file: 1.10 crashes where it gets no memory for its cache of metadata. */
static const int64_t OPEN_BYTES = INT64_C(4) << 20;

lh_status lh_h5_code(const lh_h5 *h5)
{
    return h5->partial ? LH_EWRITE : LH_EFILE;
}

static herr_t take_reason(unsigned n, const H5E_error2_t *error, void *out)
{
    lh_h5_reason *reason = out;
    if (n == 0) snprintf(reason->text, sizeof reason->text, "%s", error->desc ? error->desc : "");
    return 0;
}

const char *lh_h5_why(lh_h5_reason *reason)
{
    snprintf(reason->text, sizeof reason->text, "HDF5 gives no reason");
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_reason, reason);
    return reason->text;
}

/* ---- the driver for writing ----
 *
 * HDF5 does not survive a full disk: a failed write of metadata leaves a half-closed file that crashes the process at
 * exit (1.10.8). This driver remembers the first error and reports success: the library closes cleanly, and
 * lh_h5_commit fails with that error. */

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
    DRIVER_VERSION
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

/* The first error goes to *error. */
static herr_t sink_use(hid_t access, int *error)
{
    const sink_info info = {error};
    hid_t driver = H5FDregister(&sink_class);
    herr_t rc = driver < 0 ? -1 : H5Pset_driver(access, driver, &info);
    if (driver >= 0) H5FDunregister(driver); /* now owned by the list */
    return rc;
}

/* ---- files ---- */

static void silence(void)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

static hid_t access_list(void)
{
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fclose_degree(list, H5F_CLOSE_STRONG);
    H5Pset_alignment(list, ALIGN_ABOVE_BYTES, ALIGN_BYTES);
    H5Pset_file_locking(list, 0, 1); /* cluster file systems often lack locks */
    return list;
}

void lh_h5_release(lh_h5 *h5)
{
    if (h5->file >= 0) H5Fclose(h5->file);
    if (h5->access >= 0) H5Pclose(h5->access);
    lh_free(h5->path);
    lh_free(h5->partial);
    lh_free(h5->kind);
    lh_free(h5);
}

static lh_status new_handle(lh_h5 **out, const char *path)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    LH_TRY_DONE(lh_mem_check("HDF5", OPEN_BYTES));
    LH_TRY_DONE(lh_calloc(&h5, 1, sizeof *h5));
    h5->file = h5->access = -1;
    LH_TRY_DONE(lh_strdup(&h5->path, path));
    *out = h5;
    h5 = NULL;
done:
    lh_h5_close(h5);
    return st;
}

static lh_status put_author(lh_h5 *h5)
{
    char author[128];
    const char *git = lh_version_git();
    snprintf(author, sizeof author, *git ? "longhaul %s (%s)" : "longhaul %s%s", lh_version(), git);
    return lh_h5_put_string(h5, "/", "created_by", author);
}

lh_status lh_h5_create(lh_h5 **out, const char *path, const lh_h5_header *header)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    lh_h5_reason why;
    hid_t creation = -1;
    silence();
    LH_TRY_DONE(new_handle(&h5, path));
    LH_TRY_DONE(lh_partial_open(&h5->partial, path));
    LH_TRY_DONE(lh_strdup(&h5->kind, header->kind));
    h5->schema = header->schema;
    h5->access = access_list();
    H5Pset_libver_bounds(h5->access, H5F_LIBVER_V18, H5F_LIBVER_V18); /* its object headers carry checksums */
    creation = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_obj_track_times(creation, 0); /* same input, same bytes */
    if (sink_use(h5->access, &h5->write_errno) >= 0)
        h5->file = H5Fcreate(h5->partial, H5F_ACC_TRUNC, creation, h5->access);
    if (h5->file < 0)
        LH_FAIL_DONE(LH_EWRITE, "cannot create '%s': %s", h5->partial,
                     h5->write_errno ? strerror(h5->write_errno) : lh_h5_why(&why));
    LH_TRY_DONE(lh_h5_put_string(h5, "/", "longhaul", header->kind));
    LH_TRY_DONE(lh_h5_put_i64(h5, "/", "schema", header->schema));
    LH_TRY_DONE(put_author(h5));
    if (header->run) LH_TRY_DONE(lh_h5_put_string(h5, "/", "run", header->run));
    *out = h5;
    h5 = NULL;
done:
    if (creation >= 0) H5Pclose(creation);
    lh_h5_close(h5);
    return st;
}

/* Size and times of the file that HDF5 has open; another file may have its name by now. */
static lh_status stat_open(const lh_h5 *h5, struct stat *info)
{
    lh_h5_reason why;
    void *fd = NULL;
    if (H5Fget_vfd_handle(h5->file, h5->access, &fd) < 0)
        LH_FAIL(LH_EFILE, "cannot read the size of '%s': %s", h5->path, lh_h5_why(&why));
    if (fstat(*(const int *)fd, info) != 0)
        LH_FAIL(LH_EFILE, "cannot read the size of '%s': %s", h5->path, strerror(errno));
    return LH_OK;
}

lh_status lh_h5_unchanged(const lh_h5 *h5)
{
    struct stat now;
    LH_TRY(stat_open(h5, &now));
    if (now.st_size != h5->file_bytes)
        LH_FAIL(LH_EFILE, "'%s' changed while it was read, from %lld bytes to %lld: run again with the complete file",
                h5->path, (long long)h5->file_bytes, (long long)now.st_size);
    if (now.st_mtim.tv_sec != h5->modified.tv_sec || now.st_mtim.tv_nsec != h5->modified.tv_nsec)
        LH_FAIL(LH_EFILE, "'%s' changed while it was read, something wrote to it: run again with the complete file",
                h5->path);
    return LH_OK;
}

lh_status lh_h5_read_status(const lh_h5 *h5, lh_status st)
{
    if (!h5->partial) LH_TRY(lh_h5_unchanged(h5));
    return st;
}

int lh_h5_is_file(const char *path)
{
    static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    return lh_file_begins_with(path, signature, sizeof signature);
}

lh_status lh_h5_open(lh_h5 **out, const char *path, const lh_h5_header *want)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    lh_h5_reason why;
    struct stat info;
    silence();
    LH_TRY_DONE(new_handle(&h5, path));
    if (stat(path, &info) != 0) LH_FAIL_DONE(LH_EFILE, "cannot open '%s': %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        LH_FAIL_DONE(LH_EFILE, "'%s' is a folder, not an HDF5 file: 'longhaul import %s -o m.h5' makes one of a model",
                     path, path);
    if (!S_ISREG(info.st_mode)) LH_FAIL_DONE(LH_EFILE, "'%s' is not a regular file", path);
    if (info.st_size == 0) LH_FAIL_DONE(LH_EFILE, "'%s' is empty", path);
    h5->access = access_list();
    h5->file = H5Fopen(path, H5F_ACC_RDONLY, h5->access);
    if (h5->file < 0) lh_h5_why(&why); /* before the next call clears the reason */
    if (h5->file < 0 && H5Fis_hdf5(path) == 0)
        LH_FAIL_DONE(LH_EFILE, "'%s' is not an HDF5 file: 'longhaul import %s -o m.h5' makes one of a model", path,
                     path);
    if (h5->file < 0) LH_FAIL_DONE(LH_EFILE, "cannot open '%s', it is cut off or damaged: %s", path, why.text);
    LH_TRY_DONE(stat_open(h5, &info));
    h5->file_bytes = info.st_size;
    h5->modified = info.st_mtim;
    h5->inode = info.st_ino;
    LH_TRY_DONE(lh_h5_get_string(h5, "/", "longhaul", &h5->kind));
    LH_TRY_DONE(lh_h5_get_i64(h5, "/", "schema", &h5->schema));
    if (!h5->kind || h5->schema < 1)
        LH_FAIL_DONE(LH_EFILE, "'%s' was not written by longhaul: it lacks the root attributes 'longhaul' and 'schema'",
                     path);
    if (want->kind && strcmp(want->kind, h5->kind) != 0)
        LH_FAIL_DONE(LH_EFILE, "'%s' is a %s, not a %s", path, h5->kind, want->kind);
    if (want->schema > 0 && h5->schema > want->schema)
        LH_FAIL_DONE(LH_EFILE, "'%s' has schema %lld: this version reads up to %lld, a newer one wrote it", path,
                     (long long)h5->schema, (long long)want->schema);
    *out = h5;
    h5 = NULL;
done:
    lh_h5_close(h5);
    return st;
}

void lh_h5_close(lh_h5 *h5)
{
    if (!h5) return;
    if (h5->partial) { /* not committed */
        if (h5->file >= 0) H5Fclose(h5->file);
        h5->file = -1;
        lh_partial_drop(h5->path);
    }
    lh_h5_release(h5);
}

const char *lh_h5_path(const lh_h5 *h5)
{
    return h5->path;
}

const char *lh_h5_kind(const lh_h5 *h5)
{
    return h5->kind;
}

void lh_h5_share(lh_h5 *h5, int index, int count)
{
    h5->share_index = index;
    h5->share_count = count;
}

uint64_t lh_h5_file_id(const lh_h5 *h5)
{
    const int64_t id[] = {(int64_t)h5->inode, h5->file_bytes, (int64_t)h5->modified.tv_sec,
                          (int64_t)h5->modified.tv_nsec};
    return lh_hash64(id, sizeof id);
}

/* ---- structure ---- */

int lh_h5_has(lh_h5 *h5, const char *name)
{
    char prefix[1024];
    size_t n = strlen(name);
    if (strcmp(name, "/") == 0) return 1;
    if (n >= sizeof prefix) return 0;
    /* H5Lexists fails if a parent group is missing: check from the top. */
    for (size_t i = 1; i <= n; i++) {
        if (name[i] != '/' && name[i] != '\0') continue;
        memcpy(prefix, name, i);
        prefix[i] = '\0';
        if (H5Lexists(h5->file, prefix, H5P_DEFAULT) <= 0) return 0;
    }
    return 1;
}

/* Makes a group in a group that exists. */
static lh_status make_group(lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    lh_h5_reason why;
    hid_t creation = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_obj_track_times(creation, 0);
    hid_t group = H5Gcreate2(h5->file, name, H5P_DEFAULT, creation, H5P_DEFAULT);
    if (group < 0) {
        h5->failed = 1;
        LH_FAIL_DONE(LH_EWRITE, "cannot make '%s' in '%s': %s", name, h5->path, lh_h5_why(&why));
    }
done:
    if (group >= 0) H5Gclose(group);
    H5Pclose(creation);
    return st;
}

lh_status lh_h5_group(lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    char *prefix = NULL;
    LH_TRY_DONE(lh_strdup(&prefix, name));
    for (size_t i = 1; *name && i <= strlen(name); i++) {
        if (name[i] != '/' && name[i] != '\0') continue;
        prefix[i] = '\0';
        if (!lh_h5_has(h5, prefix)) LH_TRY_DONE(make_group(h5, prefix));
        prefix[i] = name[i];
    }
done:
    lh_free(prefix);
    return st;
}

lh_status lh_h5_group_above(lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    char *above = NULL;
    const char *slash = strrchr(name, '/');
    if (!slash || slash == name) goto done;
    LH_TRY_DONE(lh_strndup(&above, name, slash - name));
    LH_TRY_DONE(lh_h5_group(h5, above));
done:
    lh_free(above);
    return st;
}

/* ---- attributes: written with variable length, because h5py returns those as str ---- */

static hssize_t elements(hid_t id)
{
    hid_t space = H5Iget_type(id) == H5I_ATTR ? H5Aget_space(id) : H5Dget_space(id);
    hssize_t n = space >= 0 ? H5Sget_simple_extent_npoints(space) : -1;
    if (space >= 0) H5Sclose(space);
    return n;
}

static herr_t read_value(hid_t id, hid_t type, void *out)
{
    return H5Iget_type(id) == H5I_ATTR ? H5Aread(id, type, out) : H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
}

lh_h5_string lh_h5_read_string(const lh_h5 *h5, hid_t id, char **text, int64_t *bytes)
{
    lh_h5_string result = LH_H5_STRING_ABSENT;
    char *value = NULL, *copy = NULL;
    hid_t type = H5Iget_type(id) == H5I_ATTR ? H5Aget_type(id) : H5Dget_type(id), memory = -1;
    if (type < 0 || H5Tget_class(type) != H5T_STRING || elements(id) != 1) goto done;
    result = LH_H5_STRING_UNREADABLE;
    if (H5Tis_variable_str(type) > 0) {
        memory = H5Tcopy(H5T_C_S1);
        H5Tset_size(memory, H5T_VARIABLE);
        H5Tset_cset(memory, H5Tget_cset(type));
        if (read_value(id, memory, &value) < 0 || !value || lh_strdup(&copy, value) != LH_OK) goto done;
    } else {
        const int64_t size = (int64_t)H5Tget_size(type);
        if ((!h5->partial && size > h5->file_bytes) || lh_calloc(&copy, size + 1, 1) != LH_OK) goto done;
        if (read_value(id, type, copy) < 0) goto done;
    }
    *text = copy;
    *bytes = (int64_t)strlen(copy);
    copy = NULL;
    result = LH_H5_STRING_READ;
done:
    if (value) H5free_memory(value);
    lh_free(copy);
    if (memory >= 0) H5Tclose(memory);
    if (type >= 0) H5Tclose(type);
    return result;
}

/* An open attribute of an object; both ids are -1 if there is none. */
static lh_status open_attr(lh_h5 *h5, const char *name, const char *attr, hid_t *object, hid_t *id)
{
    lh_h5_reason why;
    *object = *id = -1;
    if (!lh_h5_has(h5, name)) LH_FAIL(lh_h5_code(h5), "'%s' has no '%s'", h5->path, name);
    *object = H5Oopen(h5->file, name, H5P_DEFAULT);
    if (*object < 0) LH_FAIL(lh_h5_code(h5), "cannot open '%s' of '%s': %s", name, h5->path, lh_h5_why(&why));
    htri_t there = H5Aexists(*object, attr);
    if (there == 0) return LH_OK;
    *id = there > 0 ? H5Aopen(*object, attr, H5P_DEFAULT) : -1;
    if (*id < 0)
        LH_FAIL(lh_h5_code(h5), "cannot open attribute '%s' of '%s' in '%s': %s", attr, name, h5->path,
                lh_h5_why(&why));
    return LH_OK;
}

static void close_attr(hid_t object, hid_t id)
{
    if (id >= 0) H5Aclose(id);
    if (object >= 0) H5Oclose(object);
}

lh_status lh_h5_get_string(lh_h5 *h5, const char *name, const char *attr, char **out)
{
    lh_status st = LH_OK;
    hid_t object, id;
    int64_t bytes;
    LH_TRY_DONE(open_attr(h5, name, attr, &object, &id));
    if (id < 0) goto done;
    const lh_h5_string result = lh_h5_read_string(h5, id, out, &bytes);
    if (result == LH_H5_STRING_ABSENT)
        LH_FAIL_DONE(lh_h5_code(h5), "attribute '%s' of '%s' in '%s' is not one string", attr, name, h5->path);
    if (result == LH_H5_STRING_UNREADABLE)
        LH_FAIL_DONE(lh_h5_code(h5), "cannot read attribute '%s' of '%s' in '%s'", attr, name, h5->path);
done:
    close_attr(object, id);
    return st;
}

/* One number of any integer or float type, as `memory` type. */
static lh_status get_number(lh_h5 *h5, const char *name, const char *attr, hid_t memory, void *out)
{
    lh_status st = LH_OK;
    hid_t object, id, type = -1;
    LH_TRY_DONE(open_attr(h5, name, attr, &object, &id));
    if (id < 0) goto done;
    type = H5Aget_type(id);
    H5T_class_t class = H5Tget_class(type);
    if (elements(id) != 1 || (class != H5T_INTEGER && class != H5T_FLOAT))
        LH_FAIL_DONE(lh_h5_code(h5), "attribute '%s' of '%s' in '%s' is not one number", attr, name, h5->path);
    if (H5Aread(id, memory, out) < 0)
        LH_FAIL_DONE(lh_h5_code(h5), "cannot read attribute '%s' of '%s' in '%s'", attr, name, h5->path);
done:
    if (type >= 0) H5Tclose(type);
    close_attr(object, id);
    return st;
}

lh_status lh_h5_get_i64(lh_h5 *h5, const char *name, const char *attr, int64_t *out)
{
    return get_number(h5, name, attr, H5T_NATIVE_INT64, out);
}

lh_status lh_h5_get_f64(lh_h5 *h5, const char *name, const char *attr, double *out)
{
    return get_number(h5, name, attr, H5T_NATIVE_DOUBLE, out);
}

static lh_status put_attr(lh_h5 *h5, const char *name, const char *attr, hid_t type, const void *value)
{
    lh_status st = LH_OK;
    lh_h5_reason why;
    hid_t object = H5Oopen(h5->file, name, H5P_DEFAULT), space = H5Screate(H5S_SCALAR), id = -1;
    if (object >= 0 && H5Aexists(object, attr) > 0) H5Adelete(object, attr);
    if (object >= 0) id = H5Acreate2(object, attr, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (id < 0 || H5Awrite(id, type, value) < 0) {
        h5->failed = 1;
        LH_FAIL_DONE(LH_EWRITE, "cannot write attribute '%s' of '%s' in '%s': %s", attr, name, h5->path,
                     lh_h5_why(&why));
    }
done:
    H5Sclose(space);
    close_attr(object, id);
    return st;
}

lh_status lh_h5_put_i64(lh_h5 *h5, const char *name, const char *attr, int64_t value)
{
    return put_attr(h5, name, attr, H5T_STD_I64LE, &value);
}

lh_status lh_h5_put_string(lh_h5 *h5, const char *name, const char *attr, const char *value)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    lh_status st = put_attr(h5, name, attr, type, &value);
    H5Tclose(type);
    return st;
}

lh_status lh_h5_put_hash(lh_h5 *h5, const char *name, uint64_t hash)
{
    char hex[17];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash);
    return lh_h5_put_string(h5, name, "xxh64", hex);
}

lh_status lh_h5_get_hash(lh_h5 *h5, const char *name, uint64_t *hash, int *found)
{
    lh_status st = LH_OK;
    char *hex = NULL, *end = NULL;
    *found = 0;
    LH_TRY_DONE(lh_h5_get_string(h5, name, "xxh64", &hex));
    if (!hex) goto done;
    *hash = strtoull(hex, &end, 16);
    if (strlen(hex) != 16 || *end)
        LH_FAIL_DONE(lh_h5_code(h5), "attribute 'xxh64' of '%s' in '%s' must be 16 hexadecimal digits", name, h5->path);
    *found = 1;
done:
    lh_free(hex);
    return st;
}
