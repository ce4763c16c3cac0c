/* host_copy.c - names the copy after what is in it, and copies in pieces of which every host reads a part. */
#include "engine/host_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/output.h"
#include "base/progress.h"
#include "import/checkpoint.h"

static const int64_t PIECE_BYTES = 64 << 20;

/* ---- copying ---- */

typedef struct copy {
    lh_comm *hosts;
    const char *from, *to;
    int in, out; /* -1: closed */
    char *piece;
    int64_t *bytes, *starts; /* [hosts] of a piece */
} copy;

static lh_status open_copy(copy *c, int64_t bytes)
{
    struct stat info;
    char *partial = NULL;
    LH_TRY(lh_calloc(&c->piece, lh_min_i64(PIECE_BYTES, bytes) + 1, 1));
    LH_TRY(lh_calloc(&c->bytes, 2 * lh_comm_size(c->hosts), sizeof *c->bytes));
    c->starts = c->bytes + lh_comm_size(c->hosts);
    LH_TRY(lh_file_open_regular(c->from, &c->in, &info));
    if (!c->to) return LH_OK;
    LH_TRY(lh_partial_claim(c->to, bytes));
    LH_TRY(lh_partial_open(&partial, c->to));
    c->out = open(partial, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    lh_free(partial);
    if (c->out < 0) LH_FAIL(LH_EWRITE, "cannot write '%s': %s", c->to, strerror(errno));
    return LH_OK;
}

static lh_status read_bytes(const copy *c, int64_t at, char *to, int64_t bytes)
{
    for (int64_t done = 0; done < bytes;) {
        const ssize_t n = pread(c->in, to + done, (size_t)(bytes - done), (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            LH_FAIL(LH_EINPUT, "cannot read '%s': %s", c->from, n ? strerror(errno) : "it ends before it should");
        done += n;
    }
    return LH_OK;
}

static lh_status write_bytes(const copy *c, int64_t at, int64_t bytes)
{
    for (int64_t done = 0; c->out >= 0 && done < bytes;) {
        const ssize_t n = pwrite(c->out, c->piece + done, (size_t)(bytes - done), (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) LH_FAIL(LH_EWRITE, "cannot write '%s': %s", c->to, strerror(errno));
        done += n;
    }
    return LH_OK;
}

static lh_status check_interrupt(void)
{
    if (lh_interrupt_asked()) LH_FAIL(LH_EINTERRUPTED, "interrupted while copying the checkpoint");
    return LH_OK;
}

/* Collective: this host's part of a piece, and those of the others. */
static lh_status move_piece(const copy *c, int64_t at, int64_t bytes)
{
    const int size = lh_comm_size(c->hosts), rank = lh_comm_rank(c->hosts);
    for (int p = 0; p < size; p++) {
        c->starts[p] = bytes * p / size;
        c->bytes[p] = bytes * (p + 1) / size - c->starts[p];
    }
    lh_status st = check_interrupt();
    if (st == LH_OK) st = read_bytes(c, at + c->starts[rank], c->piece + c->starts[rank], c->bytes[rank]);
    LH_TRY(lh_comm_agree(c->hosts, st));
    LH_TRY(lh_comm_allgatherv(c->hosts, c->piece + c->starts[rank], c->piece, c->bytes, c->starts));
    return lh_comm_agree(c->hosts, write_bytes(c, at, bytes));
}

lh_status lh_host_copy_file(lh_comm *hosts, const char *from, int64_t bytes, const char *to)
{
    copy c = {.hosts = hosts, .from = from, .to = to, .in = -1, .out = -1};
    lh_progress progress;
    lh_progress_init(&progress, "copying", "bytes", bytes);
    lh_status st = lh_comm_agree(hosts, open_copy(&c, bytes));
    for (int64_t at = 0; st == LH_OK && at < bytes; at += PIECE_BYTES) {
        st = move_piece(&c, at, lh_min_i64(PIECE_BYTES, bytes - at));
        lh_progress_update(&progress, at);
    }
    lh_progress_clear(&progress);
    if (c.in >= 0) close(c.in);
    if (c.out >= 0) close(c.out);
    if (st == LH_OK) st = lh_comm_agree(hosts, to ? lh_partial_commit(to) : LH_OK);
    if (st != LH_OK && to) lh_partial_drop(to);
    lh_free(c.piece);
    lh_free(c.bytes);
    return st;
}

/* ---- the copy of a host ---- */

/* What rank 0 finds, and all others use. */
typedef struct source {
    int64_t bytes;
    uint64_t contents;
} source;

static lh_status look_at(const char *path, source *out)
{
    lh_status st = LH_OK;
    struct stat info;
    lh_checkpoint *ck = NULL;
    LH_TRY_DONE(lh_checkpoint_open(&ck, path));
    LH_TRY_DONE(lh_h5_contents(lh_checkpoint_file(ck), &out->contents));
    if (stat(path, &info) != 0) LH_FAIL_DONE(LH_EINPUT, "cannot read '%s': %s", path, strerror(errno));
    out->bytes = info.st_size;
done:
    lh_checkpoint_close(ck);
    return st;
}

/* "folder/m.0123456789abcdef.h5" of "models/m.h5" */
static lh_status name_copy(const char *path, const char *folder, const source *s, char **out)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    const int bytes = (int)(dot ? dot - name : (int64_t)strlen(name));
    if (!lh_file_is_folder(folder)) LH_FAIL(LH_EWRITE, "'--stage': there is no folder '%s' on this host", folder);
    return lh_asprintf(out, "%s/%.*s.%016llx.h5", folder, bytes, name, (unsigned long long)s->contents);
}

static int has_copy(const char *path, const source *s)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == s->bytes;
}

/* By one rank of each host, where any of them has none. */
static lh_status make_copies(lh_comm *hosts, const char *path, const source *s, const char *to)
{
    int64_t missing = !has_copy(to, s);
    const double start = lh_clock_s();
    LH_TRY(lh_comm_allreduce(hosts, &missing, 1, LH_I64, LH_SUM));
    if (!missing) return LH_OK;
    LH_TRY(lh_host_copy_file(hosts, path, s->bytes, has_copy(to, s) ? NULL : to));
    const double seconds = lh_clock_s() - start;
    lh_info("copied %.2f GB to '%s' of %lld hosts in %.1f s, %.2f GB/s read", 1e-9 * (double)s->bytes, to,
            (long long)missing, seconds, 1e-9 * (double)s->bytes / seconds);
    return LH_OK;
}

lh_status lh_host_copy(lh_comm *world, const char *checkpoint, const char *folder, char **out)
{
    lh_status st = LH_OK;
    source s = {0};
    lh_comm *hosts = NULL;
    *out = NULL;
    lh_comm_step(world, "copying the checkpoint", -1);
    LH_TRY_DONE(lh_comm_agree(world, lh_comm_rank(world) == 0 ? look_at(checkpoint, &s) : LH_OK));
    LH_TRY_DONE(lh_comm_bcast(world, 0, &s, sizeof s));
    LH_TRY_DONE(lh_comm_agree(world, name_copy(checkpoint, folder, &s, out)));
    LH_TRY_DONE(lh_comm_split(world, lh_comm_local_rank(world) != 0, &hosts));
    if (lh_comm_local_rank(world) == 0) st = make_copies(hosts, checkpoint, &s, *out);
    LH_TRY_DONE(lh_comm_agree_patiently(world, st));
done:
    lh_comm_close(hosts);
    if (st != LH_OK) {
        lh_free(*out);
        *out = NULL;
    }
    return st;
}
