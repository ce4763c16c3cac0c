/* h5.c - opens, creates and commits files, and makes groups. Every failure is reported with the innermost reason that
 * HDF5 gives; the library itself stays silent. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/h5_impl.h"
#include "base/output.h"
#include "base/version.h"

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

static void release(lh_h5 *h5)
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
    if (lh_h5_sink_use(h5->access, &h5->write_errno) >= 0)
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

lh_status lh_h5_commit(lh_h5 *h5)
{
    lh_status st = LH_OK;
    lh_h5_reason why;
    if (lh_h5_seal(h5) != LH_OK) h5->failed = 1;
    /* Closed in any case: pending writes go to the driver, which remembers errors. */
    herr_t flushed = H5Fflush(h5->file, H5F_SCOPE_GLOBAL), closed = H5Fclose(h5->file);
    h5->file = -1;
    if (h5->write_errno) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", h5->path, strerror(h5->write_errno));
    if (flushed < 0 || closed < 0) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", h5->path, lh_h5_why(&why));
    if (h5->failed) LH_FAIL_DONE(LH_EWRITE, "'%s' was not written in full", h5->path);
    if (lh_h5_check(h5->partial) != LH_OK) {
        st = lh_fail_within(LH_EWRITE, "what was written cannot be read back");
        goto done;
    }
    LH_TRY_DONE(lh_partial_commit(h5->path));
done:
    if (st != LH_OK) lh_partial_drop(h5->path);
    release(h5);
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
    release(h5);
}

const char *lh_h5_path(const lh_h5 *h5)
{
    return h5->path;
}

const char *lh_h5_kind(const lh_h5 *h5)
{
    return h5->kind;
}

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

/* One group, whose parent exists. */
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
