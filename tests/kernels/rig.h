/* rig.h - one backend at work in a test. Host arrays go to the backend's device and come back from there. Every device
 * array lies between guards, which are looked at when it is given up, and starts as all ones (NaN), so that what an
 * operation did not write is seen. A failure ends the test. */
#ifndef LH_TESTS_KERNELS_RIG_H
#define LH_TESTS_KERNELS_RIG_H

#include <check.h>

#include "kernels/ops.h"

/* Check writes the place of each assertion that holds to a file, to name the last one if a test ends by a signal. Tests
 * of operations have millions of assertions. */
#define _mark_point(file, line) ((void)0)

/* Host arrays that go together. All zero is empty. */
typedef struct lot {
    void *held[512];
    int count;
} lot;

void *lot_new(lot *m, int64_t bytes); /* zeroed */
void *lot_copy(lot *m, const void *data, int64_t bytes);
float *lot_normals(lot *m, int64_t n, float scale, uint64_t seed);
uint16_t *lot_bf16(lot *m, const float *x, int64_t n); /* x rounded to bf16 */
void lot_end(lot *m);

/* A number in [0, below) from two others, without a pattern. */
int64_t draw(uint64_t seed, uint64_t n, int64_t below);

typedef struct rig {
    const lh_ops *ops;
    lh_device *device;
    lh_stream *stream;
    struct rig_block {
        char *at;
        int64_t bytes;
    } blocks[256];
    int count;
} rig;

/* The backends that a test compares, `ref` first, then those whose device is there; NULL after the last. With
 * LONGHAUL_TEST_BACKEND only `ref` and the one of that name. */
const lh_ops *rig_backend(int i);

/* suite_run, after a line for every backend of this build whose device is not there. 77 (skipped) if LONGHAUL_CPU_ISA
 * names an instruction set that this processor lacks, or the one that it uses anyway. */
int rig_run(const char *name, const TTest *const *tests);

void rig_open(rig *g, const lh_ops *ops);
void rig_close(rig *g);

/* What a test may divide its repetitions by: 1, and more where the device is emulated, or with LONGHAUL_TEST_SMALL. */
int rig_scale(const rig *g);

/* From a case of a large test to the next that is run: 1, and 7 where rig_scale is above 1. */
int rig_step(const rig *g);

/* Give up all arrays. */
void rig_reset(rig *g);

/* A device array with the bytes of `host`; rig_new: all ones. Never NULL. */
void *rig_put(rig *g, const void *host, int64_t bytes);
void *rig_new(rig *g, int64_t bytes);

/* Rows of `bytes` bytes, which lie side by side in `host`, each `step` bytes after the one before. */
void *rig_put_rows(rig *g, const void *host, int64_t rows, int64_t bytes, int64_t step);
void rig_get(rig *g, void *host, const void *device, int64_t bytes);

/* RUN(g, add, .y = y, …), or RUN_ARGS(g, add, &args): the operation, done on return. */
#define RUN(g, op, ...) RUN_ARGS(g, op, (&(const lh_##op##_args){__VA_ARGS__}))
#define RUN_ARGS(g, op, args) (rig_runs((g), #op), rig_done((g), (g)->ops->op((g)->stream, (args)), #op))
void rig_runs(const rig *g, const char *op);
void rig_done(rig *g, lh_status st, const char *op);

/* Where the entries of a head have their positions. */
typedef enum cache_order {
    CACHE_SLOTS,    /* no positions: the slot is the position */
    CACHE_GAPS,     /* ascending, with gaps, from 0 to last - 1 */
    CACHE_SHUFFLED, /* the same in no order, but for the last `in_order` ones */
    CACHE_ORDERS
} cache_order;

typedef struct cache_spec {
    int64_t heads, head_dim, slack, in_order;
    int64_t last; /* positions are below it; at least the longest head's length */
    const int64_t *len;
    lh_dtype type;
    cache_order order;
    float bias; /* biases are normals times it; 0: there are none */
    uint64_t seed;
} cache_spec;

/* A cache in host memory: normal keys and values, heads one after the other with `slack` slots after each, whose keys,
 * values and biases are NaN. */
typedef struct cache {
    lh_ragged host;
    int64_t slots, base_slots;
} cache;

void cache_make(lot *m, cache *out, const cache_spec *spec);
void cache_split(lot *m, cache *c, uint64_t seed); /* some of its entries go to a base */
void cache_quantise(lot *m, cache *c);             /* its keys and values become q8 */
void cache_widen(lot *m, cache *c);                /* those of q8 become f32 */
lh_ragged rig_cache(rig *g, const cache *c);       /* a copy of all of it on the device */

/* Value i of k or v, whatever the type. */
double cache_number(const lh_ragged *host, const void *k_or_v, int64_t i);
int64_t cache_position(const lh_ragged *host, int64_t h, int64_t s);

/* |got - want| <= abs + rel * |want|, or the same bits (so infinities and what nobody wrote compare too). */
typedef struct tolerance {
    double rel, abs;
} tolerance;

void check_near(const float *got, const float *want, int64_t n, tolerance tol, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void check_near_bf16(const uint16_t *got, const uint16_t *want, int64_t n, tolerance tol, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void check_same(const void *got, const void *want, int64_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The sizes that tests loop over: odd ones, ones around vector lengths, real ones. */
extern const int64_t test_dims[10];  /* head dimensions 1 … 256 */
extern const int64_t test_tokens[6]; /* rows 1 … 129 */

#endif
