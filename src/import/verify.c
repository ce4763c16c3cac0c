/* verify.c - checks a file of ours completely: structure by h5.h, what its kind must hold by verify_kinds.h, then every
 * array in order: its hash, finite values, offsets and positions that ascend, and for checkpoints configuration and
 * tokenizer. Runs in a child process, because
 * a damaged file can crash or hang the HDF5 library. */
#include "import/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/child.h"
#include "base/h5.h"
#include "import/checkpoint.h"
#include "import/convert.h"
#include "import/verify_kinds.h"

/* Bytes read at a time. */
#define SLICE_BYTES (INT64_C(64) << 20)
#define MEMORY_BYTES (INT64_C(4) << 30)

/* Time limit: a minute, and more for large files; far slower than any disk, so that only a hang exceeds it. */
enum { CPU_S = 60, BYTES_PER_CPU_S = 20000000 };

typedef struct verifier {
    const char *path;
    const lh_import_progress *progress;
    lh_verify_report *report;
    int64_t total_bytes;
    char *slice;
    int finite; /* all floats must be finite */
} verifier;

static lh_status advance(verifier *v, int64_t bytes)
{
    v->report->bytes += bytes;
    if (!v->progress || !v->progress->done) return LH_OK;
    return v->progress->done(v->progress->self, v->report->bytes, v->total_bytes);
}

/* 1 if `name` ends in "/word". */
static int is_called(const char *name, const char *word)
{
    const char *slash = strrchr(name, '/');
    return slash && strcmp(slash + 1, word) == 0;
}

static lh_status check_finite(const verifier *v, const char *name, const lh_h5_shape *shape, const lh_h5_slab *part)
{
    int64_t n = 1, cols = 1, bad;
    for (int d = 0; d < shape->rank; d++) n *= part->count[d];
    for (int d = 1; d < shape->rank; d++) cols *= shape->dims[d];
    bad = lh_find_unusable(v->slice, shape->type, n);
    if (bad >= 0)
        LH_FAIL(LH_EFILE,
                "'%s' of '%s' holds a value that is not finite or not below 2^64, at row %" PRId64 ", column %" PRId64,
                name, v->path, part->at[0] + bad / cols, bad % cols);
    return LH_OK;
}

/* Offsets ascend from 0 to the number of entries in the arrays of the same group. */
static lh_status check_offsets(lh_h5 *h5, const char *name)
{
    static const char *const beside[] = {"positions", "k", "v", "bias"};
    lh_status st = LH_OK;
    const lh_h5_shape want = {.type = LH_I64, .rank = 1, .dims = {-1}};
    lh_h5_shape shape;
    lh_h5_array *array = NULL;
    int64_t *offsets = NULL;
    char *other = NULL;
    LH_TRY_DONE(lh_h5_get(h5, name, &want, &shape, &offsets));
    int64_t n = shape.dims[0];
    int rises = n > 0 && offsets[0] == 0;
    for (int64_t i = 1; i < n; i++) rises &= offsets[i] >= offsets[i - 1];
    if (!rises) LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' must rise from 0", name, lh_h5_path(h5));
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        LH_TRY_DONE(lh_asprintf(&other, "%.*s/%s", (int)(strrchr(name, '/') - name), name, beside[i]));
        if (lh_h5_has(h5, other)) {
            LH_TRY_DONE(lh_h5_array_open(&array, h5, other));
            const lh_h5_shape *have = lh_h5_array_shape(array);
            if (have->rank < 1 || have->dims[0] != offsets[n - 1])
                LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' has %" PRId64 " entries, '%s' says %" PRId64, other,
                             lh_h5_path(h5), have->rank ? have->dims[0] : 0, name, offsets[n - 1]);
        }
        lh_h5_array_close(array);
        lh_free(other);
        array = NULL;
        other = NULL;
    }
done:
    lh_h5_array_close(array);
    lh_free(other);
    lh_free(offsets);
    return st;
}

/* Positions ascend within a head and are never negative. */
static lh_status check_positions(lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    const lh_h5_shape want = {.type = LH_I32, .rank = 1, .dims = {-1}},
                      want_offsets = {.type = LH_I64, .rank = 1, .dims = {-1}};
    lh_h5_shape shape, offsets_shape;
    int32_t *positions = NULL;
    int64_t *offsets = NULL;
    char *beside = NULL;
    LH_TRY_DONE(lh_asprintf(&beside, "%.*s/offsets", (int)(strrchr(name, '/') - name), name));
    LH_TRY_DONE(lh_h5_get(h5, name, &want, &shape, &positions));
    LH_TRY_DONE(lh_h5_get(h5, beside, &want_offsets, &offsets_shape, &offsets));
    for (int64_t h = 0; h + 1 < offsets_shape.dims[0]; h++) {
        int64_t last = -1;
        for (int64_t i = offsets[h]; i >= 0 && i < offsets[h + 1] && i < shape.dims[0]; i++) {
            if (positions[i] <= last)
                LH_FAIL_DONE(LH_EFILE,
                             "'%s' of '%s' must ascend within a head: entry %" PRId64 " of head %" PRId64 " does not",
                             name, lh_h5_path(h5), i - offsets[h], h);
            last = positions[i];
        }
    }
done:
    lh_free(beside);
    lh_free(offsets);
    lh_free(positions);
    return st;
}

/* Counts the hashes that reading compares. */
static lh_status count_hash(verifier *v, lh_h5 *h5, const char *name)
{
    uint64_t hash = 0;
    int found = 0;
    LH_TRY(lh_h5_get_hash(h5, name, &hash, &found));
    if (!found && strcmp(v->report->kind, "checkpoint") == 0)
        LH_FAIL(LH_EFILE, "'%s' of '%s' has no attribute 'xxh64'", name, v->path);
    v->report->hashes += found;
    return LH_OK;
}

static lh_status read_array(void *self, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    verifier *v = self;
    lh_h5_array *array = NULL;
    LH_TRY_DONE(lh_h5_array_open(&array, h5, name));
    LH_TRY_DONE(lh_h5_array_check(array));
    const lh_h5_shape *shape = lh_h5_array_shape(array);
    int64_t size = lh_dtype_bytes(shape->type), rows = shape->rank ? shape->dims[0] : 1,
            row_bytes = rows ? lh_h5_shape_count(shape) / rows * size : size;
    int64_t step = row_bytes > 0 && row_bytes < SLICE_BYTES ? SLICE_BYTES / row_bytes : 1;
    LH_TRY_DONE(lh_realloc(&v->slice, step < rows ? step : rows, row_bytes));
    for (int64_t row = 0; row < rows; row += step) {
        int64_t n = rows - row < step ? rows - row : step;
        lh_h5_slab part = {.at = {row}};
        memcpy(part.count, shape->dims, sizeof part.count);
        part.count[0] = n;
        LH_TRY_DONE(lh_h5_array_read(array, &part, v->slice));
        if (shape->type <= LH_BF16 && v->finite) LH_TRY_DONE(check_finite(v, name, shape, &part));
        LH_TRY_DONE(advance(v, n * row_bytes));
    }
    LH_TRY_DONE(lh_h5_array_checked(array));
    LH_TRY_DONE(count_hash(v, h5, name));
    if (is_called(name, "offsets")) LH_TRY_DONE(check_offsets(h5, name));
    if (is_called(name, "positions") && strcmp(v->report->kind, "keep-sets") == 0)
        LH_TRY_DONE(check_positions(h5, name));
    v->report->arrays++;
done:
    lh_h5_array_close(array);
    return st;
}

static lh_status read_text(void *self, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    verifier *v = self;
    char *text = NULL;
    int64_t bytes = 0;
    LH_TRY_DONE(lh_h5_get_text(h5, name, &text, &bytes));
    LH_TRY_DONE(count_hash(v, h5, name));
    LH_TRY_DONE(advance(v, bytes));
done:
    lh_free(text);
    return st;
}

static lh_status check_tokenizer(const lh_checkpoint *ck)
{
    lh_tokenizer *tok = NULL;
    lh_status st = lh_checkpoint_open_tokenizer(ck, &tok);
    lh_tokenizer_close(tok);
    return st;
}

static lh_status read_everything(void *self)
{
    lh_status st = LH_OK;
    verifier *v = self;
    lh_h5 *h5 = NULL;
    lh_checkpoint *ck = NULL;
    const lh_h5_header any = {0};
    int64_t schema = 0;
    LH_TRY_DONE(lh_h5_open(&h5, v->path, &any));
    const char *kind = lh_h5_kind(h5);
    snprintf(v->report->kind, sizeof v->report->kind, "%s", kind);
    LH_TRY_DONE(lh_h5_get_i64(h5, "/", "schema", &schema));
    LH_TRY_DONE(lh_verify_kind(h5, schema));
    v->finite = strcmp(kind, "analysis") != 0; /* which holds NaN where a measure is undefined */
    if (strcmp(kind, "checkpoint") == 0) {
        LH_TRY_DONE(lh_checkpoint_open(&ck, v->path));
        LH_TRY_DONE(check_tokenizer(ck));
    }
    LH_TRY_DONE(lh_h5_each_text(h5, read_text, v));
    LH_TRY_DONE(lh_h5_each_array(h5, read_array, v));
done:
    lh_checkpoint_close(ck);
    lh_h5_close(h5);
    lh_free(v->slice);
    return st;
}

lh_status lh_verify(const char *path, const lh_import_progress *progress, lh_verify_report *report)
{
    lh_status st = LH_OK;
    struct stat info;
    verifier v = {.path = path, .progress = progress, .report = MAP_FAILED};
    *report = (lh_verify_report){0};
    LH_TRY_DONE(
        lh_h5_probe(path)); /* a hang is in the structure: found in seconds, not after the minutes of a complete read */
    if (stat(path, &info) == 0) v.total_bytes = info.st_size;
    /* Shared with the child, which writes its findings here. */
    v.report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (v.report == MAP_FAILED) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate a page");
    const lh_child_work work = {read_everything, &v, path, LH_EFILE, LH_CHILD_SPEAKS};
    const lh_child_limits limits = {.cpu_s = CPU_S + v.total_bytes / BYTES_PER_CPU_S, .memory_bytes = MEMORY_BYTES};
    st = lh_child_run(&work, &limits);
    *report = *v.report;
    LH_TRY_DONE(st);
done:
    if (v.report != MAP_FAILED) munmap(v.report, sizeof *report);
    return st;
}
