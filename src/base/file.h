/* file.h - files that are read as a whole or mapped, and names in folders (output.h: files that are written). Failures
 * are LH_EINPUT; messages name the file. */
#ifndef LH_BASE_FILE_H
#define LH_BASE_FILE_H

#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

/* Append a whole file to *out (NUL-terminated); refuses more than limit_bytes. lh_file_read is for texts of the user:
 * "-" is stdin, a pipe is waited for, and a byte order mark of UTF-8 at the beginning is dropped. lh_file_read_regular
 * reads every byte of a regular file, and fails at once for any other. */
lh_status lh_file_read(lh_buf *out, const char *path, int64_t limit_bytes);
lh_status lh_file_read_regular(lh_buf *out, const char *path, int64_t limit_bytes);

/* Open a regular file for reading, as lh_file_read_regular does. The caller closes *fd, after a failure too if it is
 * not negative. */
struct stat;
lh_status lh_file_open_regular(const char *path, int *fd, struct stat *info);

/* 1 if `path` is a regular file that can be read and begins with these bytes, at most 16. Clears the message. */
int lh_file_begins_with(const char *path, const void *magic, int64_t bytes);

/* A read-only mapping of a whole regular file. Open and close on one thread, while no other reads a mapping. */
typedef struct lh_map {
    const uint8_t *data;
    int64_t bytes;
    char *path;
    struct lh_map_guard *guard; /* for the signal handler */
} lh_map;

lh_status lh_map_open(lh_map *map, const char *path);
void lh_map_close(lh_map *map);

/* Drop the whole pages of a part of a mapping that is not read again, to keep the memory of a pass over it small. */
void lh_map_release(const uint8_t *data, int64_t bytes);

/* LH_EINPUT if the file of this name changed since it was mapped, or could not be read: lost bytes of a mapping read as
 * zeros. Call it after reading. */
lh_status lh_map_unchanged(const lh_map *map);

int lh_file_exists(const char *path);
int lh_file_is_folder(const char *path);

/* 1 if both names are one file, or lead to the same new file. */
int lh_file_is_same(const char *a, const char *b);

/* 1 if `path` is, or would be, directly in this folder. */
int lh_file_is_in(const char *path, const char *folder);

/* The name after the last slash, borrowed. */
const char *lh_path_name(const char *path);

/* The folder of a path, up to its last slash, as a new string; "." for a bare name. */
lh_status lh_path_folder(char **out, const char *path);

/* "folder/name" as a new string. */
lh_status lh_path_join(char **out, const char *folder, const char *name);

/* 1 if `name` ends with one of `endings` (ends with NULL), in capitals or not, after at least one byte more. */
int lh_name_ends_with(const char *name, const char *const *endings);

/* A list of paths, which it owns. All zero is empty. */
typedef struct lh_paths {
    char **at;
    int64_t n;
} lh_paths;

lh_status lh_paths_add(lh_paths *paths, char *path); /* frees `path` if it fails */
void lh_paths_clear(lh_paths *paths);

/* Paths of a folder's regular files with names that end with one of `endings` (lh_name_ends_with), in the order of
 * their bytes in every locale. Links are followed; hidden files are skipped, as by "*.txt" in a shell. others: NULL, or
 * the other visible entries except folders, with any ending. Clear both also after a failure. */
lh_status lh_folder_list(lh_paths *out, lh_paths *others, const char *folder, const char *const *endings);

/* Remove the regular files of a folder with names that `is_own` accepts, and the folder if it is empty then. Links and
 * other files stay; a folder that is a link is not touched. */
void lh_folder_clean(const char *folder, int (*is_own)(const void *self, const char *name), const void *self);

#endif
