/* Building cuDNN's plans in the background, and the texts of plans in the user's cache folder, $XDG_CACHE_HOME/longhaul
 * or ~/.cache/longhaul, so that the next process need not build them. A file is for one version of cuDNN, one device
 * and one shape; its first line names them, with a hash of the rest, and a file that is damaged or of another key is
 * ignored. A missing folder is created; if nothing can be written nothing is cached, which is no failure. */
#include "kernels/cuda/sdpa_build.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/process.h"
#include "kernels/cuda/sdpa_plan.h"

typedef struct lh_sdpa_key {
    size_t version; /* version of cuDNN */
    const char *device;
    lh_sdpa_shape shape;
} lh_sdpa_key;

static const int64_t LIMIT_BYTES = 64 << 20;

/* Names of devices have spaces and commas. */
static void make_plain(char *name)
{
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '.' && *name != '_') *name = '-';
}

static lh_status find_file(char **out, const lh_sdpa_key *k)
{
    lh_status st = LH_OK;
    const lh_sdpa_shape *s = &k->shape;
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *name = NULL;
    LH_TRY_DONE(lh_asprintf(&name, "cudnn-%zu-%s-%" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64, k->version, k->device,
                            s->kv_heads, s->group, s->dim, s->tokens));
    make_plain(name);
    if (cache && *cache == '/')
        st = lh_asprintf(out, "%s/longhaul/%s", cache, name);
    else if (home && *home == '/')
        st = lh_asprintf(out, "%s/.cache/longhaul/%s", home, name);
    else
        LH_FAIL_DONE(LH_EUSAGE, "there is no folder for caches");
done:
    lh_free(name);
    return st;
}

/* Creates all folders of a path; a failure shows when the file is written. */
static void make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
}

/* The first line of a file. */
static lh_status put_header(lh_buf *out, const lh_sdpa_key *k, const char *text, int64_t bytes)
{
    const lh_sdpa_shape *s = &k->shape;
    return lh_buf_printf(out,
                         "longhaul plan %d of cuDNN %zu for %s: %" PRId64 " x %" PRId64 " heads of %" PRId64
                         ", %" PRId64 " rows, hash %016" PRIx64 "\n",
                         LH_SDPA_GRAPH, k->version, k->device, s->kv_heads, s->group, s->dim, s->tokens,
                         lh_hash64(text, bytes));
}

static lh_status read_text(lh_buf *out, const lh_sdpa_key *key)
{
    lh_status st = LH_OK;
    lh_buf file = {0}, header = {0};
    char *path = NULL;
    LH_TRY_DONE(find_file(&path, key));
    LH_TRY_DONE(lh_file_read_regular(&file, path, LIMIT_BYTES));
    const char *end = file.bytes ? memchr(file.data, '\n', (size_t)file.bytes) : NULL;
    const int64_t first = end ? end + 1 - file.data : 0, bytes = file.bytes - first;
    LH_TRY_DONE(put_header(&header, key, file.data + first, bytes));
    if (header.bytes != first || memcmp(header.data, file.data, (size_t)first) != 0)
        LH_FAIL_DONE(LH_EINPUT, "'%s' is damaged, or of something else", path);
    LH_TRY_DONE(lh_buf_append(out, file.data + first, bytes));
done:
    lh_free(path);
    lh_buf_clear(&file);
    lh_buf_clear(&header);
    return st;
}

/* Writes a temporary file and renames it: a reader finds the old one or the new one. There are no locks, and no
 * warnings about leftovers, as with outputs (base/output.h). */
static lh_status write_text(const lh_sdpa_key *key, const lh_buf *text)
{
    lh_status st = LH_OK;
    lh_buf header = {0};
    char *path = NULL, *made = NULL;
    FILE *file = NULL;
    int fd = -1;
    LH_TRY_DONE(find_file(&path, key));
    LH_TRY_DONE(put_header(&header, key, text->data, text->bytes));
    LH_TRY_DONE(lh_asprintf(&made, "%s.XXXXXX", path));
    make_folders(path);
    fd = mkostemp(made, O_CLOEXEC);
    file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", path, strerror(errno));
    int whole = fwrite(header.data, 1, (size_t)header.bytes, file) == (size_t)header.bytes &&
                fwrite(text->data, 1, (size_t)text->bytes, file) == (size_t)text->bytes;
    whole &= fclose(file) == 0;
    if (!whole || rename(made, path) != 0) unlink(made);
done:
    lh_free(path);
    lh_free(made);
    lh_buf_clear(&header);
    return st;
}

/* Returns 1 if there is a text, which is appended to *out. */
static int cache_read(lh_buf *out, const lh_sdpa_key *key)
{
    const int there = read_text(out, key) == LH_OK;
    lh_error_clear();
    return there;
}

/* Replaces an old text. */
static void cache_write(const lh_sdpa_key *key, const lh_buf *text)
{
    if (write_text(key, text) != LH_OK) lh_error_clear();
}

static void cache_remove(const lh_sdpa_key *key)
{
    char *path = NULL;
    if (find_file(&path, key) == LH_OK) unlink(path);
    lh_error_clear();
    lh_free(path);
}

/* ---- the build ---- */

struct lh_sdpa_build {
    lh_sdpa_place place;
    lh_sdpa_shape shape;
    const char *name; /* name of the device */
    int device;
    pthread_t thread;
    int runs; /* true if the thread has to be joined */
    lh_sdpa_built built;
};

static lh_sdpa_key key_of(const lh_sdpa_build *b)
{
    return (lh_sdpa_key){.version = b->place.call->GetVersion(), .device = b->name, .shape = b->shape};
}

/* A plan that cannot be cached is built again by the next process. */
static void keep(const lh_sdpa_plan *plan, const lh_sdpa_key *key)
{
    lh_buf text = {0};
    if (lh_sdpa_plan_text(plan, &text) == LH_OK)
        cache_write(key, &text);
    else
        lh_error_clear();
    lh_buf_clear(&text);
}

static lh_status build_plan(lh_sdpa_build *b)
{
    lh_status st = LH_OK;
    lh_sdpa_built *to = &b->built;
    lh_buf text = {0};
    const lh_sdpa_key key = key_of(b);
    if (cudaSetDevice(b->device) != cudaSuccess) LH_FAIL_DONE(LH_EUSAGE, "cuDNN's thread has no device");
    if (cache_read(&text, &key)) LH_TRY_DONE(lh_sdpa_plan_restore(&to->plan, &b->place, &text, to->why));
    if (to->plan) goto done;
    to->why[0] = '\0';
    LH_TRY_DONE(lh_sdpa_plan_open(&to->plan, &b->place, &b->shape, to->why));
    if (to->plan) keep(to->plan, &key);
done:
    lh_buf_clear(&text);
    return st;
}

static void *builder(void *self)
{
    lh_sdpa_build *b = self;
    if (build_plan(b) == LH_OK) return NULL;
    snprintf(b->built.why, sizeof b->built.why, "%s", lh_error_message());
    lh_error_clear();
    return NULL;
}

lh_status lh_sdpa_build_open(lh_sdpa_build **out, const lh_sdpa_place *place, const lh_sdpa_shape *shape,
                             const char *device)
{
    lh_status st = LH_OK;
    lh_sdpa_build *b = NULL;
    LH_TRY_DONE(lh_calloc(&b, 1, sizeof *b));
    b->place = *place;
    b->shape = *shape;
    b->name = device;
    if (cudaGetDevice(&b->device) != cudaSuccess) LH_FAIL_DONE(LH_EINTERNAL, "the thread has no device");
    b->runs = lh_thread_start(&b->thread, builder, b) == 0;
    if (!b->runs) builder(b);
    *out = b;
    b = NULL;
done:
    lh_free(b);
    return st;
}

lh_sdpa_built *lh_sdpa_build_wait(lh_sdpa_build *b)
{
    if (b->runs) pthread_join(b->thread, NULL);
    b->runs = 0;
    return &b->built;
}

void lh_sdpa_build_forget(const lh_sdpa_build *b)
{
    const lh_sdpa_key key = key_of(b);
    cache_remove(&key);
}

void lh_sdpa_build_close(lh_sdpa_build *b)
{
    if (!b) return;
    lh_sdpa_built *built = lh_sdpa_build_wait(b);
    lh_sdpa_plan_close(built->plan);
    lh_free(b);
}
