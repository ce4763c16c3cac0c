/* check_files.c - compares every file that the command line writes with those that it reads and with each other. The
 * tables of options say which are which (base/options.h). Of a folder, the texts and the files of a model count. */
#include "shell/check_files.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/child.h"
#include "base/destination.h"
#include "base/file.h"
#include "base/h5.h"
#include "base/log.h"
#include "text/text_check.h"

enum { PROBE_CPU_S = 5, PROBE_MEMORY_BYTES = 1 << 30 };

/* 1 if a file of this name would be read as part of a folder: of texts, or of a model. */
static int is_part(const char *name)
{
    static const char *const of_models[] = {".json", ".safetensors", ".jinja", ".model", NULL};
    return lh_name_ends_with(name, lh_text_endings) || lh_name_ends_with(name, of_models);
}

/* 1 if `path` is one of the files that are read of the folder, or would be one. */
static int is_part_of(const char *path, const char *folder)
{
    char name[4096];
    int found = is_part(path) && lh_file_is_in(path, folder);
    DIR *entries = found ? NULL : opendir(folder);
    for (struct dirent *entry; !found && entries && (entry = readdir(entries));)
        found = is_part(entry->d_name) &&
                snprintf(name, sizeof name, "%s/%s", folder, entry->d_name) < (int)sizeof name &&
                lh_file_is_same(path, name);
    if (entries) closedir(entries);
    return found;
}

/* Devices such as /dev/null may be named twice, and read. */
static int is_device(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISCHR(info.st_mode);
}

/* LH_EUSAGE if writing `path`, the value of `option`, would change `other`. */
static lh_status compare(const char *option, const char *path, const lh_named_file *other)
{
    const int is_stream = strcmp(path, "-") == 0;
    if (is_stream ? !other->writes : strcmp(other->path, "-") == 0) return LH_OK; /* '-' is read from elsewhere */
    if (!is_stream && is_device(path)) return LH_OK;
    if (!other->writes && lh_file_is_folder(other->path) && is_part_of(path, other->path))
        LH_FAIL(LH_EUSAGE, "'--%s %s' would be one of the files that are read of '%s': name another file to write",
                option, path, other->path);
    if (!lh_file_is_same(path, other->path)) return LH_OK;
    if (!other->option)
        LH_FAIL(LH_EUSAGE, "'--%s' would write '%s', which is read: name another file to write", option, path);
    LH_FAIL(LH_EUSAGE, "'--%s' and '--%s' are both '%s': name another file to write", option, other->option, path);
}

/* As compare, of a file that is written; "%r" in the name of a log becomes every rank. */
static lh_status compare_written(const lh_named_file *file, const lh_named_file *other)
{
    lh_status st = LH_OK;
    lh_buf name = {0};
    if (!strstr(file->path, "%r")) return compare(file->option, file->path, other);
    for (int r = 0; r < lh_log_ranks(); r++) {
        lh_buf_clear(&name);
        LH_TRY_DONE(lh_log_name(&name, file->path, r));
        LH_TRY_DONE(compare(file->option, name.data, other));
    }
done:
    lh_buf_clear(&name);
    return st;
}

/* LH_EUSAGE if a companion file of an option's file would change `other`. */
static lh_status compare_beside(const lh_named_file *file, const lh_named_file *other)
{
    lh_status st = LH_OK;
    int stream = 0;
    char *target = NULL;
    lh_buf name = {0};
    LH_TRY_DONE(lh_destination_find(&target, &stream, file->path));
    for (int i = 0; !stream && file->beside[i]; i++) {
        name.bytes = 0;
        LH_TRY_DONE(lh_buf_printf(&name, "%s%s", target, file->beside[i]));
        if (lh_file_is_same(name.data, other->path))
            LH_FAIL_DONE(LH_EUSAGE, "'--%s %s' also writes '%s', which %s%s: name another file", file->option,
                         file->path, name.data, other->option ? "is that of --" : "is read",
                         other->option ? other->option : "");
    }
done:
    lh_buf_clear(&name);
    lh_free(target);
    return st;
}

/* An existing file is replaced if it is of the same kind as the output. */
lh_status lh_shell_check_replaced(const char *what, const char *path, const char *kind)
{
    struct stat info;
    lh_h5 *h5 = NULL;
    const int is_text = strcmp(kind, "text") == 0, is_h5 = lh_h5_is_file(path);
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0 || (is_text && !is_h5)) return LH_OK;
    const int same = !is_text && is_h5 && lh_h5_open(&h5, path, &(lh_h5_header){.kind = kind}) == LH_OK;
    lh_h5_close(h5);
    lh_error_clear();
    if (!same)
        LH_FAIL(LH_EWRITE, "'%s' would replace '%s', which is no %s%s: name another file, or delete it", what, path,
                is_text ? kind : "HDF5 file of the kind ", is_text ? "" : kind);
    return LH_OK;
}

/* An HDF5 file is looked at by a child: it may be any. */
static lh_status check_in_child(void *arg)
{
    const lh_named_file *file = arg;
    char option[64];
    snprintf(option, sizeof option, "--%s", file->option);
    return lh_shell_check_replaced(option, file->path, file->makes);
}

static lh_status check_replaced(lh_named_file *file)
{
    const lh_child_work work = {check_in_child, file, file->path, LH_EWRITE, LH_CHILD_SILENT};
    const lh_child_limits limits = {.cpu_s = PROBE_CPU_S, .memory_bytes = PROBE_MEMORY_BYTES};
    if (!file->makes || lh_log_rank() != 0) return LH_OK; /* the first rank writes */
    return lh_h5_is_file(file->path) ? lh_child_run(&work, &limits) : check_in_child(file);
}

lh_status lh_shell_check_files(const lh_options *options)
{
    lh_status st = LH_OK;
    lh_named_file *files = NULL;
    int64_t n = 0;
    LH_TRY_DONE(lh_options_files(options, &files, &n));
    for (int64_t w = 0; w < n; w++) {
        if (!files[w].writes) continue;
        for (int64_t i = 0; i < n; i++) {
            const int seen = files[i].writes && i <= w;
            const int may = files[w].replaces && files[i].option && strcmp(files[w].replaces, files[i].option) == 0;
            if (!seen && !may) LH_TRY_DONE(compare_written(&files[w], &files[i]));
            if (files[w].beside && i != w) LH_TRY_DONE(compare_beside(&files[w], &files[i]));
        }
    }
    for (int64_t w = 0; w < n; w++) LH_TRY_DONE(check_replaced(&files[w]));
done:
    lh_free(files);
    return st;
}

lh_status lh_shell_check_read(const lh_options *options, const char *option, const char *path)
{
    lh_status st = LH_OK;
    lh_named_file *files = NULL;
    const lh_named_file read = {.option = option, .path = path};
    int64_t n = 0;
    LH_TRY_DONE(lh_options_files(options, &files, &n));
    for (int64_t w = 0; w < n; w++)
        if (files[w].writes) LH_TRY_DONE(compare_written(&files[w], &read));
done:
    if (st != LH_OK) lh_log_close(); /* the message must not be appended to the file */
    lh_free(files);
    return st;
}
