#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/hash.h"
#include "base/identity.h"
#include "base/json.h"
#include "base/output.h"

enum { KEY_DIGITS = 16, DESCRIPTION_BYTES = 1 << 20, LEFT_BEHIND_S = 3600 };

static const int64_t SECOND_NS = 1000000000;
static const char KIND[] = "context";
static const lh_lock_range WHOLE_FILE = {0, 0};

/* ---- names ---- */

/* The rest of a name after the key of an entry; NULL: it does not begin with a key. */
static const char *after_key(const char *name)
{
    return strspn(name, "0123456789abcdef") == KEY_DIGITS ? name + KEY_DIGITS : NULL;
}

static lh_status set_names(lh_store_entry *out, const char *folder, const char *key)
{
    LH_TRY(lh_asprintf(&out->cache, "%s/%.16s.h5", folder, key));
    return lh_asprintf(&out->description, "%s/%.16s.json", folder, key);
}

lh_status lh_store_name(lh_store_entry *out, const char *folder, const json_t *identity)
{
    char key[KEY_DIGITS + 1];
    char *text = NULL;
    *out = (lh_store_entry){0};
    LH_TRY(lh_json_dump(&text, identity, JSON_COMPACT | JSON_SORT_KEYS));
    snprintf(key, sizeof key, "%016llx", (unsigned long long)lh_hash64(text, (int64_t)strlen(text)));
    lh_free(text);
    return set_names(out, folder, key);
}

void lh_store_release(lh_store_entry *entry)
{
    if (entry->locked) close(entry->lock);
    entry->locked = 0;
}

void lh_store_clear(lh_store_entry *entry)
{
    lh_store_release(entry);
    lh_free(entry->cache);
    lh_free(entry->description);
    *entry = (lh_store_entry){0};
}

lh_status lh_store_make(const char *folder)
{
    if (lh_file_is_folder(folder) || mkdir(folder, 0777) == 0) return LH_OK;
    if (errno == EEXIST && lh_file_is_folder(folder)) return LH_OK; /* another process was faster */
    if (lh_file_exists(folder)) LH_FAIL(LH_EUSAGE, "'%s' is no folder: name one for the store of contexts", folder);
    LH_FAIL(LH_EWRITE, "cannot create the folder '%s': %s", folder, strerror(errno));
}

/* ---- an entry is read ---- */

/* Size and hash of a file; bytes -1: there is none. */
static lh_status hash_file(const char *path, int64_t *bytes, char hash[KEY_DIGITS + 1])
{
    enum { PIECE = 1 << 20 };
    lh_status st = LH_OK;
    lh_hasher *hasher = NULL;
    char *piece = NULL;
    FILE *f = fopen(path, "rb");
    *bytes = -1;
    if (!f) return LH_OK;
    LH_TRY_DONE(lh_hasher_open(&hasher));
    LH_TRY_DONE(lh_calloc(&piece, PIECE, 1));
    *bytes = 0;
    for (size_t n; (n = fread(piece, 1, PIECE, f)) > 0; *bytes += (int64_t)n) lh_hasher_add(hasher, piece, (int64_t)n);
    if (ferror(f)) *bytes = -1;
    snprintf(hash, KEY_DIGITS + 1, "%016llx", (unsigned long long)lh_hasher_value(hasher));
done:
    fclose(f);
    lh_hasher_close(hasher);
    lh_free(piece);
    return st;
}

/* *out: NULL if the file is no description. */
static void read_description(json_t **out, const char *path)
{
    const char *kind = NULL;
    if (lh_json_read(out, path, DESCRIPTION_BYTES) != LH_OK) *out = NULL;
    if (*out && (lh_json_string(*out, path, "longhaul", &kind) != LH_OK || !kind || strcmp(kind, KIND) != 0)) {
        json_decref(*out);
        *out = NULL;
    }
    lh_error_clear();
}

/* True if the cache file has the size and the hash of its description. */
static lh_status compare_hash(const lh_store_entry *e, const json_t *description, int *same)
{
    char hash[KEY_DIGITS + 1] = "";
    const char *wanted = json_string_value(json_object_get(description, "xxh64"));
    int64_t bytes = 0;
    LH_TRY(hash_file(e->cache, &bytes, hash));
    *same =
        wanted && strcmp(wanted, hash) == 0 && json_integer_value(json_object_get(description, "cache_bytes")) == bytes;
    return LH_OK;
}

/* A description that another process has removed since it was opened is none. */
static int lock_description(lh_store_entry *e)
{
    e->lock = open(e->description, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (e->lock < 0) return 0;
    e->locked =
        lh_lock_take(e->lock, WHOLE_FILE, F_RDLCK) != LH_LOCK_REFUSED && lh_lock_names(e->description, e->lock) != 0;
    if (!e->locked) close(e->lock);
    return e->locked;
}

lh_status lh_store_look(lh_store_entry *e, const json_t *identity, lh_store_state *state)
{
    lh_status st = LH_OK;
    json_t *description = NULL;
    lh_identity_difference d;
    int same = 0;
    *state = LH_STORE_ABSENT;
    if (!lock_description(e)) return LH_OK;
    read_description(&description, e->description);
    *state = LH_STORE_DAMAGED;
    if (description) {
        const json_t *of = json_object_get(description, "identity");
        const int is_other = json_is_object(of) && lh_identity_differs(of, identity, 17, &d);
        if (is_other) *state = LH_STORE_ABSENT;
        if (!is_other) LH_TRY_DONE(compare_hash(e, description, &same));
        if (same) *state = LH_STORE_WHOLE;
    }
    if (*state == LH_STORE_WHOLE) utimensat(AT_FDCWD, e->description, NULL, 0);
done:
    json_decref(description);
    if (st != LH_OK || *state != LH_STORE_WHOLE) lh_store_release(e);
    return st;
}

/* ---- an entry is written ---- */

lh_status lh_store_claim(const lh_store_entry *e)
{
    return lh_partial_claim(e->description, 0);
}

void lh_store_drop_claim(const lh_store_entry *e)
{
    lh_partial_drop(e->description);
}

static lh_status check_limit(int64_t bytes, int64_t limit_bytes)
{
    if (limit_bytes && bytes > limit_bytes)
        LH_FAIL(LH_EWRITE, "the cache has %lld bytes, more than the limit of the store, %lld", (long long)bytes,
                (long long)limit_bytes);
    return LH_OK;
}

lh_status lh_store_commit(const lh_store_entry *e, const json_t *identity, const json_t *about, int64_t limit_bytes)
{
    lh_status st = LH_OK;
    char hash[KEY_DIGITS + 1] = "";
    char *text = NULL;
    int64_t bytes = 0;
    json_t *description = json_pack("{s:s, s:i, s:O}", "longhaul", KIND, "schema", 1, "identity", identity);
    LH_TRY_DONE(hash_file(e->cache, &bytes, hash));
    if (bytes < 0) LH_FAIL_DONE(LH_EWRITE, "cannot read '%s' again", e->cache);
    LH_TRY_DONE(check_limit(bytes, limit_bytes));
    if (!description || json_object_update(description, (json_t *)(uintptr_t)about) != 0)
        LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for '%s'", e->description);
    LH_TRY_DONE(lh_json_set(description, "cache_bytes", json_integer(bytes)));
    LH_TRY_DONE(lh_json_set(description, "xxh64", json_string(hash)));
    LH_TRY_DONE(lh_json_dump(&text, description, JSON_INDENT(1) | JSON_ENSURE_ASCII));
    st = lh_file_write(e->description, text, (int64_t)strlen(text));
done:
    if (st != LH_OK) unlink(e->cache);
    if (st != LH_OK) lh_store_drop_claim(e);
    json_decref(description);
    lh_free(text);
    return st;
}

void lh_store_remove(const lh_store_entry *e)
{
    const int fd = open(e->description, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && lh_lock_take(fd, WHOLE_FILE, F_WRLCK) != LH_LOCK_REFUSED) {
        unlink(e->description);
        unlink(e->cache);
    }
    if (fd >= 0) close(fd);
}

/* ---- the folder ---- */

/* An entry with its size and its last use, in nanoseconds of Unix time. */
typedef struct used_entry {
    lh_store_entry names;
    int64_t bytes, used_ns;
} used_entry;

typedef struct folder_list {
    used_entry *at;
    int64_t n;
    int others; /* true: the folder has other files, too */
} folder_list;

static void clear_list(folder_list *list)
{
    for (int64_t i = 0; i < list->n; i++) lh_store_clear(&list->at[i].names);
    lh_free(list->at);
}

/* The last used first. */
static int by_use(const void *a, const void *b)
{
    const used_entry *x = a, *y = b;
    if (x->used_ns != y->used_ns) return x->used_ns < y->used_ns ? 1 : -1;
    return strcmp(x->names.cache, y->names.cache);
}

static lh_status add_entry(folder_list *list, const char *folder, const char *path)
{
    struct stat description, cache;
    LH_TRY(lh_realloc(&list->at, list->n + 1, sizeof *list->at));
    used_entry *e = &list->at[list->n++];
    *e = (used_entry){.bytes = 0};
    LH_TRY(set_names(&e->names, folder, lh_path_name(path)));
    if (stat(e->names.description, &description) == 0) {
        e->bytes += description.st_size;
        e->used_ns = (int64_t)description.st_mtim.tv_sec * SECOND_NS + description.st_mtim.tv_nsec;
    }
    if (stat(e->names.cache, &cache) == 0) e->bytes += cache.st_size;
    return LH_OK;
}

static lh_status read_folder(folder_list *list, const char *folder)
{
    static const char *const endings[] = {".json", NULL};
    lh_status st = LH_OK;
    lh_paths files = {0}, others = {0};
    *list = (folder_list){0};
    LH_TRY_DONE(lh_folder_list(&files, &others, folder, endings));
    for (int64_t i = 0; i < files.n; i++) {
        const char *rest = after_key(lh_path_name(files.at[i]));
        if (rest && strcmp(rest, ".json") == 0)
            LH_TRY_DONE(add_entry(list, folder, files.at[i]));
        else
            list->others = 1;
    }
    list->others |= others.n > 0;
    qsort(list->at, (size_t)list->n, sizeof *list->at, by_use);
done:
    lh_paths_clear(&files);
    lh_paths_clear(&others);
    return st;
}

/* True for a file that a killed process left: a partial file that no living process has locked, or a cache without a
 * description; both an hour old, because locks of other hosts may not be visible. */
static int is_left_behind(const char *path)
{
    const char *rest = after_key(lh_path_name(path));
    struct stat info;
    if (!rest || lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
    if (difftime(time(NULL), info.st_mtime) < LEFT_BEHIND_S) return 0;
    if (strcmp(rest, ".h5") == 0) {
        char description[4096];
        const int n = snprintf(description, sizeof description, "%.*s.json", (int)(rest - path), path);
        return n < (int)sizeof description && !lh_file_exists(description);
    }
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    const int is_free = fd >= 0 && lh_lock_is_taken(fd, WHOLE_FILE) != 1;
    if (fd >= 0) close(fd);
    return is_free;
}

static lh_status remove_left_behind(const char *folder)
{
    static const char *const endings[] = {".h5", ".partial", NULL};
    lh_paths files = {0};
    lh_status st = lh_folder_list(&files, NULL, folder, endings);
    for (int64_t i = 0; st == LH_OK && i < files.n; i++)
        if (is_left_behind(files.at[i])) unlink(files.at[i]);
    lh_paths_clear(&files);
    return st;
}

lh_status lh_store_sweep(const char *folder, int64_t limit_bytes)
{
    lh_status st = LH_OK;
    folder_list list = {0};
    int64_t bytes = 0;
    LH_TRY_DONE(remove_left_behind(folder));
    LH_TRY_DONE(read_folder(&list, folder));
    for (int64_t i = 0; limit_bytes && i < list.n; i++) {
        bytes += list.at[i].bytes;
        if (bytes > limit_bytes) lh_store_remove(&list.at[i].names);
    }
done:
    clear_list(&list);
    return st;
}

/* The description of an entry, with its file, its size and its last use; NULL: it is damaged or gone. */
static lh_status describe_entry(const used_entry *e, json_t **out)
{
    lh_status st = LH_OK;
    read_description(out, e->names.description);
    if (!*out) return LH_OK;
    const char *name = lh_path_name(e->names.cache);
    LH_TRY_DONE(lh_json_set(*out, "file", lh_json_text(name, (int64_t)strlen(name))));
    LH_TRY_DONE(lh_json_set(*out, "bytes", json_integer(e->bytes)));
    LH_TRY_DONE(lh_json_set(*out, "last_use", json_integer(e->used_ns / SECOND_NS)));
done:
    if (st != LH_OK) json_decref(*out);
    return st;
}

lh_status lh_store_list(const char *folder, json_t **out)
{
    lh_status st = LH_OK;
    folder_list list = {0};
    json_t *all = json_array(), *one = NULL;
    LH_TRY_DONE(read_folder(&list, folder));
    if (list.n == 0 && list.others)
        LH_FAIL_DONE(LH_EFILE,
                     "'%s' is a folder, not an HDF5 file, and holds no stored contexts: 'longhaul import %s -o m.h5' "
                     "makes a checkpoint of a model",
                     folder, folder);
    for (int64_t i = 0; i < list.n; i++) {
        LH_TRY_DONE(describe_entry(&list.at[i], &one));
        if (one) json_array_append_new(all, one);
    }
    *out = json_incref(all);
done:
    json_decref(all);
    clear_list(&list);
    return st;
}
