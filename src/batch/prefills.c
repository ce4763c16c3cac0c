#include "batch/prefills.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/destination.h"
#include "base/file.h"
#include "base/h5.h"
#include "base/log.h"

/* The text after the number of a line in a file name; NULL: the name does not begin with such a number. */
static const char *after_line(const char *name)
{
    const size_t digits = strspn(name, "0123456789");
    return digits && *name != '0' ? name + digits : NULL;
}

/* "7.h5" */
static int is_whole(const char *name)
{
    const char *rest = after_line(name);
    return rest && strcmp(rest, ".h5") == 0;
}

/* "7.h5.HOST.PID.partial" */
static int is_partial(const char *name)
{
    const char *rest = after_line(name), *dot = strrchr(name, '.');
    return rest && strncmp(rest, ".h5.", 4) == 0 && strcmp(dot, ".partial") == 0;
}

/* ---- finding ---- */

static int is_link(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

/* Puts a copy of the path at the end. */
static lh_status add_path(lh_paths *paths, const char *path)
{
    LH_TRY(lh_realloc(&paths->at, paths->n + 1, sizeof *paths->at));
    LH_TRY(lh_strdup(&paths->at[paths->n], path));
    paths->n++;
    return LH_OK;
}

static lh_status set_foreign(lh_batch_prefills *p, const char *path)
{
    return p->foreign ? LH_OK : lh_strdup(&p->foreign, path);
}

/* A file with the name of a checkpoint: a foreign HDF5 file is opened by a child process first. */
static lh_status check_file(lh_batch_prefills *p, const char *path)
{
    static const char magic[] = "\211HDF\r\n\032\n";
    lh_h5 *h5 = NULL;
    if (is_link(path) || !lh_file_begins_with(path, magic, (int64_t)sizeof magic - 1)) return set_foreign(p, path);
    const lh_status st = lh_h5_probe(path);
    if (st != LH_OK && st != LH_EFILE) return st;
    const int is_prefill = st == LH_OK && lh_h5_open(&h5, path, &(lh_h5_header){.kind = "prefill"}) == LH_OK;
    lh_h5_close(h5);
    lh_error_clear();
    if (st == LH_EFILE) return add_path(&p->damaged, path);
    return is_prefill ? add_path(&p->whole, path) : set_foreign(p, path);
}

lh_status lh_batch_prefills_find(lh_batch_prefills *p, const char *output)
{
    static const char *const endings[] = {".h5", NULL};
    lh_status st = LH_OK;
    int stream = 0;
    char *path = NULL;
    lh_paths files = {0};
    *p = (lh_batch_prefills){0};
    LH_TRY_DONE(lh_destination_find(&path, &stream, output));
    LH_TRY_DONE(lh_asprintf(&p->folder, "%s.prefill", path));
    if (is_link(p->folder) || (lh_file_exists(p->folder) && !lh_file_is_folder(p->folder))) {
        LH_TRY_DONE(set_foreign(p, p->folder));
        goto done;
    }
    if (!lh_file_is_folder(p->folder)) goto done;
    LH_TRY_DONE(lh_folder_list(&files, NULL, p->folder, endings));
    for (int64_t i = 0; i < files.n; i++)
        if (is_whole(lh_path_name(files.at[i]))) LH_TRY_DONE(check_file(p, files.at[i]));
done:
    lh_paths_clear(&files);
    lh_free(path);
    return st;
}

void lh_batch_prefills_clear(lh_batch_prefills *p)
{
    lh_free(p->folder);
    lh_free(p->foreign);
    lh_paths_clear(&p->whole);
    lh_paths_clear(&p->damaged);
    *p = (lh_batch_prefills){0};
}

lh_status lh_batch_prefills_file(char **out, const char *folder, int64_t line)
{
    return lh_asprintf(out, "%s/%lld.h5", folder, (long long)line);
}

int lh_batch_prefills_exist(const lh_batch_prefills *p)
{
    return p->whole.n + p->damaged.n > 0;
}

lh_status lh_batch_prefills_check(const lh_batch_prefills *p)
{
    if (p->foreign)
        LH_FAIL(LH_EWRITE, "cannot keep prefills in '%s': '%s' is none of a batch, move it away or name another output",
                p->folder, p->foreign);
    return LH_OK;
}

lh_status lh_batch_prefills_make(lh_batch_prefills *p)
{
    if (mkdir(p->folder, 0777) != 0 && !(errno == EEXIST && lh_file_is_folder(p->folder)))
        LH_FAIL(LH_EWRITE, "cannot create the folder '%s': %s", p->folder, strerror(errno));
    p->used = 1;
    return LH_OK;
}

/* ---- removing ---- */

static int is_named(const lh_paths *paths, const char *name)
{
    for (int64_t i = 0; i < paths->n; i++)
        if (strcmp(lh_path_name(paths->at[i]), name) == 0) return 1;
    return 0;
}

static int is_damaged(const void *self, const char *name)
{
    return is_named(&((const lh_batch_prefills *)self)->damaged, name);
}

static int is_unfinished(const void *self, const char *name)
{
    (void)self;
    return is_partial(name);
}

static int is_own(const void *self, const char *name)
{
    const lh_batch_prefills *p = self;
    return is_partial(name) || (is_whole(name) && (p->used || is_named(&p->whole, name)));
}

void lh_batch_prefills_drop(const lh_batch_prefills *p)
{
    for (int64_t i = 0; i < p->damaged.n; i++)
        lh_warn("'%s' is damaged: its prompt is read from its start", p->damaged.at[i]);
    if (p->damaged.n) lh_folder_clean(p->folder, is_damaged, p);
}

void lh_batch_prefills_tidy(const lh_batch_prefills *p)
{
    lh_folder_clean(p->folder, is_unfinished, p);
}

void lh_batch_prefills_remove(const lh_batch_prefills *p)
{
    lh_folder_clean(p->folder, is_own, p);
}
