#include "lab/trace/segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/minmax.h"

/* A segment's file. */
typedef struct part {
    char *path;
    lh_segment_kind kind;
    int64_t number; /* of a layer, or of a stretch of rows after the prompt */
} part;

/* The place of a slab in its array: elements [at, end) of each dimension. */
typedef struct box {
    int64_t at[LH_H5_RANK], end[LH_H5_RANK];
} box;

/* An array of the trace: as large as its slabs reach. */
typedef struct joined {
    char name[LH_SEGMENT_NAME];
    lh_h5_shape shape;
    lh_h5_array *array;
    box *slabs;
    int64_t slab_count, filled; /* filled: elements of its slabs together */
    int hashed;                 /* true if the array is one slab; then the slab's hash is the array's */
} joined;

typedef struct join {
    char *folder;
    lh_paths paths;
    part *parts; /* [paths.n], those that are used */
    int64_t n;
    int64_t ranks;
    joined *arrays;
    int64_t array_count;
    lh_h5 *out;
    lh_h5 *segment; /* in work */
    char *run;
} join;

static part part_of(char *path)
{
    part p = {.path = path};
    p.kind = lh_segment_kind_of(path, &p.number);
    return p;
}

/* 1 if all ranks have written their segments of that kind and number. */
static int is_whole(const join *j, lh_segment_kind kind, int64_t number)
{
    int64_t ranks = 0;
    for (int64_t i = 0; i < j->paths.n; i++) {
        part p = part_of(j->paths.at[i]);
        ranks += p.kind == kind && p.number == number;
    }
    return ranks == j->ranks;
}

static lh_status read_ranks(join *j)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    char *text = NULL, *path = NULL;
    int64_t bytes = 0;
    LH_TRY_DONE(lh_path_join(&path, j->folder, "run.h5"));
    if (!lh_file_exists(path))
        LH_FAIL_DONE(LH_EINPUT, "'%s' holds no trace: it has no 'run.h5', which is written first", j->folder);
    LH_TRY_DONE(lh_h5_open(&j->segment, path, &(lh_h5_header){"trace-segment", LH_TRACE_SCHEMA, NULL}));
    LH_TRY_DONE(lh_h5_get_text(j->segment, "/segments", &text, &bytes));
    LH_TRY_DONE(lh_json_parse(&json, path, text, bytes));
    j->ranks = json_integer_value(json_object_get(json, "ranks"));
    if (j->ranks < 1)
        LH_FAIL_DONE(LH_EFILE, "'ranks' of '/segments' in '%s' is missing or not an integer from 1 on", path);
    LH_TRY_DONE(lh_h5_get_string(j->segment, "/", "run", &j->run));
done:
    lh_h5_close(j->segment);
    j->segment = NULL;
    json_decref(json);
    lh_free(text);
    lh_free(path);
    return st;
}

/* The segments that are used: rows after the prompt as far as they follow each other. */
static lh_status choose_parts(join *j, int *missing)
{
    int64_t rows = 0;
    while (is_whole(j, LH_SEGMENT_OF_ROWS, rows)) rows++;
    LH_TRY(lh_calloc(&j->parts, j->paths.n, sizeof *j->parts));
    *missing = 1;
    for (int64_t i = 0; i < j->paths.n; i++) {
        part p = part_of(j->paths.at[i]);
        int used = p.kind == LH_SEGMENT_OF_RUN ||
                   (p.kind == LH_SEGMENT_OF_LAYER ? is_whole(j, LH_SEGMENT_OF_LAYER, p.number) : p.number < rows);
        if (strcmp(lh_path_name(p.path), "run-end.h5") == 0) *missing = 0;
        if (used) j->parts[j->n++] = p;
    }
    return LH_OK;
}

static lh_status each_part(join *j, lh_h5_visit array, lh_h5_visit text)
{
    lh_status st = LH_OK;
    for (int64_t i = 0; i < j->n && st == LH_OK; i++) {
        st = lh_h5_open(&j->segment, j->parts[i].path, &(lh_h5_header){"trace-segment", LH_TRACE_SCHEMA, NULL});
        if (st == LH_OK) st = lh_h5_each_array(j->segment, array, j);
        if (st == LH_OK && text) st = lh_h5_each_text(j->segment, text, j);
        lh_h5_close(j->segment);
        j->segment = NULL;
    }
    return st;
}

static joined *find(const join *j, const char *name)
{
    for (int64_t i = 0; i < j->array_count; i++)
        if (strcmp(j->arrays[i].name, name) == 0) return &j->arrays[i];
    return NULL;
}

static lh_status measure(void *arg, lh_h5 *h5, const char *name)
{
    join *j = arg;
    lh_slab slab;
    LH_TRY(lh_segment_place(h5, name, &slab));
    joined *a = find(j, name);
    if (!a) {
        LH_TRY(lh_realloc(&j->arrays, j->array_count + 1, sizeof *j->arrays));
        a = &j->arrays[j->array_count++];
        *a = (joined){.shape = {slab.shape.type, slab.shape.rank, {0}}};
        snprintf(a->name, sizeof a->name, "%s", name);
    }
    if (a->shape.type != slab.shape.type || a->shape.rank != slab.shape.rank)
        LH_FAIL(LH_EFILE, "'%s' of '%s' is of another type or rank than in other segments", name, lh_h5_path(h5));
    LH_TRY(lh_realloc(&a->slabs, a->slab_count + 1, sizeof *a->slabs));
    box *b = &a->slabs[a->slab_count++];
    *b = (box){0};
    for (int d = 0; d < slab.shape.rank; d++) {
        b->at[d] = slab.at[d];
        b->end[d] = slab.at[d] + slab.shape.dims[d];
        a->shape.dims[d] = lh_max_i64(a->shape.dims[d], b->end[d]);
    }
    a->filled += lh_h5_shape_count(&slab.shape);
    return LH_OK;
}

static int compare_boxes(const void *a, const void *b)
{
    const box *x = a, *y = b;
    return (x->at[0] > y->at[0]) - (x->at[0] < y->at[0]);
}

/* 1 if two slabs of an array have elements in common; sorts them. */
static int overlap(joined *a)
{
    qsort(a->slabs, (size_t)a->slab_count, sizeof *a->slabs, compare_boxes);
    for (const box *x = a->slabs, *last = x + a->slab_count; x < last; x++)
        for (const box *y = x + 1; y < last && y->at[0] < x->end[0]; y++) {
            int common = 1;
            for (int d = 0; d < a->shape.rank; d++) common &= x->at[d] < y->end[d] && y->at[d] < x->end[d];
            if (common) return 1;
        }
    return 0;
}

/* Slabs fill their array: one at a wrong place would leave zeros, of any size if it is far away. */
static lh_status check_filled(const join *j)
{
    for (joined *a = j->arrays; a < j->arrays + j->array_count; a++) {
        int64_t count = 1;
        for (int d = 0; d < a->shape.rank; d++)
            if (__builtin_mul_overflow(count, a->shape.dims[d], &count)) count = INT64_MAX;
        if (count != a->filled)
            LH_FAIL(LH_EFILE, "the segments of '%s' in '%s' hold %lld elements, by their places it has %lld", a->name,
                    j->folder, (long long)a->filled, (long long)count);
        if (overlap(a)) LH_FAIL(LH_EFILE, "segments of '%s' in '%s' lie over each other", a->name, j->folder);
    }
    return LH_OK;
}

static lh_status copy_hash(join *j, lh_h5 *from, const char *name, int *found)
{
    uint64_t hash = 0;
    LH_TRY(lh_h5_get_hash(from, name, &hash, found));
    return *found ? lh_h5_put_hash(j->out, name, hash) : LH_OK;
}

static lh_status copy_slab(void *arg, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    join *j = arg;
    lh_slab slab;
    lh_h5_array *from = NULL;
    joined *a = find(j, name);
    LH_TRY_DONE(lh_segment_place(h5, name, &slab));
    LH_TRY_DONE(lh_h5_array_open(&from, h5, name));
    if (!a->array) {
        const lh_h5_storage storage = lh_h5_array_storage(from);
        LH_TRY_DONE(lh_h5_array_create(&a->array, j->out, name, &a->shape, &storage));
    }
    LH_TRY_DONE(lh_h5_array_place(a->array, slab.at, from));
    if (memcmp(slab.shape.dims, a->shape.dims, sizeof slab.shape.dims) == 0)
        LH_TRY_DONE(copy_hash(j, h5, name, &a->hashed));
done:
    lh_h5_array_close(from);
    return st;
}

static lh_status copy_text(void *arg, lh_h5 *h5, const char *name)
{
    join *j = arg;
    char *text = NULL;
    int64_t bytes = 0;
    if (strcmp(name, "/segments") == 0) return LH_OK;
    if (lh_h5_has(j->out, name)) LH_FAIL(LH_EFILE, "'%s' of '%s' is in another segment, too", name, lh_h5_path(h5));
    lh_status st = lh_h5_get_text(h5, name, &text, &bytes);
    if (st == LH_OK) st = lh_h5_put_text(j->out, name, text, bytes);
    lh_free(text);
    return st;
}

/* Reads back an array that was joined from several slabs. */
static lh_status hash_array(join *j, const joined *a)
{
    uint64_t hash = 0;
    LH_TRY(lh_h5_array_hash(a->array, &hash));
    return lh_h5_put_hash(j->out, a->name, hash);
}

static lh_status write_joined(join *j, const char *path)
{
    lh_status st = LH_OK;
    LH_TRY_DONE(each_part(j, measure, NULL));
    LH_TRY_DONE(check_filled(j));
    LH_TRY_DONE(lh_h5_create(&j->out, path, &(lh_h5_header){"trace", LH_TRACE_SCHEMA, j->run}));
    LH_TRY_DONE(each_part(j, copy_slab, copy_text));
    for (int64_t i = 0; i < j->array_count; i++) {
        if (!j->arrays[i].hashed) LH_TRY_DONE(hash_array(j, &j->arrays[i]));
        lh_h5_array_close(j->arrays[i].array);
        j->arrays[i].array = NULL;
    }
    lh_h5 *whole = j->out;
    j->out = NULL;
    LH_TRY_DONE(lh_h5_commit(whole));
done:
    for (int64_t i = 0; i < j->array_count; i++) lh_h5_array_close(j->arrays[i].array);
    lh_h5_close(j->out);
    return st;
}

static int is_segment(const void *self, const char *name)
{
    (void)self;
    return lh_segment_is_file(name);
}

/* Removes the segments, a segment that was only partly written, and their folder. */
static void remove_folder(const char *folder)
{
    lh_folder_clean(folder, is_segment, NULL);
}

lh_status lh_trace_folder(char **out, const char *path)
{
    return lh_asprintf(out, "%s.segments", path);
}

/* The segments of the trace at `path`. */
static lh_status find_segments(join *j, const char *path)
{
    static const char *const endings[] = {".h5", NULL};
    LH_TRY(lh_trace_folder(&j->folder, path));
    if (!lh_file_is_folder(j->folder))
        LH_FAIL(LH_EINPUT,
                "there is no folder '%s' with segments of a trace: name the file that 'longhaul trace' was given",
                j->folder);
    return lh_folder_list(&j->paths, NULL, j->folder, endings);
}

static void join_clear(join *j)
{
    lh_paths_clear(&j->paths);
    lh_free(j->parts);
    for (int64_t i = 0; i < j->array_count; i++) lh_free(j->arrays[i].slabs);
    lh_free(j->arrays);
    lh_free(j->run);
    lh_free(j->folder);
}

lh_status lh_trace_check_segments(const char *path)
{
    lh_status st = LH_OK;
    static const lh_file_kind *const kinds[] = {&lh_trace_segment_kind, NULL};
    lh_verify_report report;
    join j = {0};
    LH_TRY_DONE(find_segments(&j, path));
    for (int64_t i = 0; i < j.paths.n; i++) LH_TRY_DONE(lh_verify(j.paths.at[i], kinds, NULL, &report));
done:
    join_clear(&j);
    return st;
}

lh_status lh_trace_join(const char *path, int *missing)
{
    lh_status st = LH_OK;
    join j = {0};
    LH_TRY_DONE(find_segments(&j, path));
    LH_TRY_DONE(read_ranks(&j));
    LH_TRY_DONE(choose_parts(&j, missing));
    LH_TRY_DONE(write_joined(&j, path));
    remove_folder(j.folder);
done:
    join_clear(&j);
    return st;
}
