#include "batch/prefills.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/destination.h"
#include "base/h5.h"
#include "base/log.h"

static const char *const whole[] = {".h5", NULL}, *const unfinished[] = {".partial", NULL};

lh_status lh_batch_prefills_folder(char **out, const char *output)
{
    lh_status st = LH_OK;
    int stream = 0;
    char *path = NULL;
    LH_TRY_DONE(lh_destination_find(&path, &stream, output));
    LH_TRY_DONE(lh_asprintf(out, "%s.prefill", path));
done:
    lh_free(path);
    return st;
}

lh_status lh_batch_prefills_file(char **out, const char *folder, int64_t line)
{
    return lh_asprintf(out, "%s/%lld.h5", folder, (long long)line);
}

int lh_batch_prefills_exist(const char *folder)
{
    lh_paths files = {0};
    if (lh_file_is_folder(folder) && lh_folder_list(&files, NULL, folder, whole) != LH_OK) lh_error_clear();
    const int64_t n = files.n;
    lh_paths_clear(&files);
    return n > 0;
}

lh_status lh_batch_prefills_make(const char *folder)
{
    if (mkdir(folder, 0777) != 0 && !(errno == EEXIST && lh_file_is_folder(folder)))
        LH_FAIL(LH_EWRITE, "cannot create the folder '%s': %s", folder, strerror(errno));
    return LH_OK;
}

lh_status lh_batch_prefills_probe(lh_paths *damaged, const char *folder)
{
    lh_status st = LH_OK;
    lh_paths files = {0};
    if (!lh_file_is_folder(folder)) return LH_OK;
    LH_TRY_DONE(lh_folder_list(&files, NULL, folder, whole));
    LH_TRY_DONE(lh_calloc(&damaged->at, files.n, sizeof *damaged->at));
    for (int64_t i = 0; i < files.n; i++) {
        st = lh_h5_probe(files.at[i]);
        if (st == LH_OK) continue;
        if (st != LH_EFILE) goto done;
        lh_error_clear();
        LH_TRY_DONE(lh_strdup(&damaged->at[damaged->n++], files.at[i]));
    }
done:
    lh_paths_clear(&files);
    return st;
}

void lh_batch_prefills_drop(const lh_paths *damaged)
{
    for (int64_t i = 0; i < damaged->n; i++) {
        lh_warn("'%s' is damaged: its prompt is read from its start", damaged->at[i]);
        unlink(damaged->at[i]);
    }
}

static void remove_files(const char *folder, const char *const *endings)
{
    lh_paths files = {0};
    if (lh_folder_list(&files, NULL, folder, endings) != LH_OK) lh_error_clear();
    for (int64_t i = 0; i < files.n; i++) unlink(files.at[i]);
    lh_paths_clear(&files);
}

void lh_batch_prefills_tidy(const char *folder)
{
    if (!lh_file_is_folder(folder)) return;
    remove_files(folder, unfinished);
    rmdir(folder);
}

void lh_batch_prefills_remove(const char *folder)
{
    if (lh_file_is_folder(folder)) remove_files(folder, whole);
    lh_batch_prefills_tidy(folder);
}
