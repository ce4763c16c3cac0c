#include "rig.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cases.h"
#include "kernels/q8.h"
#include "kernels/ragged.h"
#include "op_table.h"
#include "suite.h"

#define GUARD 256 /* bytes on either side */
#define UNWRITTEN 0xff
#define SKIPPED 77 /* CTest's SKIP_RETURN_CODE */

const int64_t test_dims[10] = {1, 3, 20, 24, 48, 64, 80, 96, 128, 256};
const int64_t test_tokens[6] = {1, 2, 5, 17, 64, 129};

/* Fails with the message of the last error. */
static void must(int holds, const char *what)
{
    if (!holds) ck_abort_msg("%s: %s%s", what, lh_error_message(), case_words());
}

void *lot_new(lot *m, int64_t bytes)
{
    must(m->count < 512 && lh_calloc(&m->held[m->count], bytes, 1) == LH_OK, "an array of a lot");
    return m->held[m->count++];
}

void *lot_copy(lot *m, const void *data, int64_t bytes)
{
    void *copy = lot_new(m, bytes);
    if (bytes > 0) memcpy(copy, data, (size_t)bytes);
    return copy;
}

float *lot_normals(lot *m, int64_t n, float scale, uint64_t seed)
{
    float *x = lot_new(m, n * 4);
    lh_normals(x, seed, 0, 0, n);
    for (int64_t i = 0; i < n; i++) x[i] *= scale;
    return x;
}

uint16_t *lot_bf16(lot *m, const float *x, int64_t n)
{
    uint16_t *y = lot_new(m, n * 2);
    for (int64_t i = 0; i < n; i++) y[i] = lh_f32_to_bf16(x[i]);
    return y;
}

void lot_end(lot *m)
{
    while (m->count > 0) lh_free(m->held[--m->count]);
}

int64_t draw(uint64_t seed, uint64_t n, int64_t below)
{
    uint32_t out[4], key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    lh_philox(out, key, (const uint32_t[4]){(uint32_t)n, (uint32_t)(n >> 32), 7, 7});
    return (int64_t)(((uint64_t)out[0] << 31 | out[1] >> 1) % (uint64_t)below);
}

static int is_compared(const lh_ops *ops)
{
    lh_device_found found;
    const char *only = getenv("LONGHAUL_TEST_BACKEND");
    if (only && ops != &lh_ops_ref && strcmp(only, ops->name) != 0) return 0;
    lh_device_find(ops->device, &found);
    return found.count > 0;
}

const lh_ops *rig_backend(int i)
{
    for (int b = 0; lh_ops_at(b); b++)
        if (is_compared(lh_ops_at(b)) && i-- == 0) return lh_ops_at(b);
    return NULL;
}

static void say_left_out(void)
{
    for (int b = 0; lh_ops_at(b); b++) {
        lh_device_found found;
        lh_device_find(lh_ops_at(b)->device, &found);
        if (found.count == 0) printf("left out: backend '%s': %s\n", lh_ops_at(b)->name, found.text);
    }
    fflush(stdout);
}

/* True if `isa` is what `cpu` uses on its own; only a process that has not asked for the set yet can tell. */
static int is_default_isa(const char *isa)
{
    unsetenv("LONGHAUL_CPU_ISA");
    return strcmp(lh_cpu_isa(), isa) == 0;
}

/* In a child: who has looked for CUDA devices cannot fork tests that use them. */
int rig_run(const char *name, const TTest *const *tests)
{
    const char *isa = getenv("LONGHAUL_CPU_ISA");
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        say_left_out();
        _exit(isa && is_default_isa(isa));
    }
    if (child > 0) waitpid(child, &status, 0);
    if (isa && (status || strcmp(lh_cpu_isa(), isa) != 0)) {
        printf("skipped: instructions '%s' are not there, or are what '%s' without LONGHAUL_CPU_ISA tests\n", isa,
               name);
        return SKIPPED;
    }
    op_table_open();
    const int failed = suite_run(name, tests);
    op_table_close();
    return failed;
}

void rig_open(rig *g, const lh_ops *ops)
{
    *g = (rig){.ops = ops};
    case_forget();
    op_table_begin();
    ck_assert_int_eq(lh_device_open(&g->device, &(lh_device_choice){.kind = ops->device}), LH_OK);
    ck_assert_int_eq(lh_stream_open(&g->stream, g->device), LH_OK);
}

void rig_close(rig *g)
{
    rig_reset(g);
    lh_stream_close(g->stream);
    lh_device_close(g->device);
    op_table_end();
}

int rig_scale(const rig *g)
{
    return getenv("LONGHAUL_TEST_SMALL") || strstr(lh_device_name(g->device), "emulated") ? 3 : 1;
}

int rig_step(const rig *g)
{
    return rig_scale(g) > 1 ? 7 : 1;
}

void rig_reset(rig *g)
{
    unsigned char guard[GUARD];
    while (g->count > 0) {
        struct rig_block *block = &g->blocks[--g->count];
        for (int side = 0; side < 2; side++) {
            rig_get(g, guard, block->at + (side ? GUARD + block->bytes : 0), GUARD);
            for (int i = 0; i < GUARD; i++) {
                if (guard[i] != UNWRITTEN)
                    ck_abort_msg("%s wrote %d bytes %s an array of %lld bytes", g->ops->name, side ? i : GUARD - i,
                                 side ? "behind" : "before", (long long)block->bytes);
            }
        }
        lh_device_free(g->device, block->at);
    }
}

static void copy(rig *g, void *to, const void *from, int64_t bytes, lh_copy_way way)
{
    must(lh_stream_copy(g->stream, to, from, bytes, way) == LH_OK, "a copy");
}

void *rig_new(rig *g, int64_t bytes)
{
    must(g->count < 256, "too many arrays");
    struct rig_block *block = &g->blocks[g->count++];
    char *ones = NULL;
    block->bytes = bytes;
    must(lh_device_alloc(g->device, &block->at, bytes + 2 * GUARD, LH_MEM_WORK) == LH_OK, "an array");
    must(lh_calloc(&ones, bytes + 2 * GUARD, 1) == LH_OK, "its bytes");
    memset(ones, UNWRITTEN, (size_t)(bytes + 2 * GUARD));
    copy(g, block->at, ones, bytes + 2 * GUARD, LH_COPY_TO_DEVICE);
    must(lh_stream_sync(g->stream) == LH_OK, "a copy");
    lh_free(ones);
    return block->at + GUARD;
}

void *rig_put(rig *g, const void *host, int64_t bytes)
{
    void *at = rig_new(g, bytes);
    copy(g, at, host, bytes, LH_COPY_TO_DEVICE);
    must(lh_stream_sync(g->stream) == LH_OK, "a copy");
    return at;
}

void *rig_put_rows(rig *g, const void *host, int64_t rows, int64_t bytes, int64_t step)
{
    char *at = rig_new(g, rows * step);
    for (int64_t r = 0; r < rows; r++) copy(g, at + r * step, (const char *)host + r * bytes, bytes, LH_COPY_TO_DEVICE);
    must(lh_stream_sync(g->stream) == LH_OK, "a copy");
    return at;
}

void rig_get(rig *g, void *host, const void *device, int64_t bytes)
{
    copy(g, host, device, bytes, LH_COPY_TO_HOST);
}

void rig_runs(const rig *g, const char *op)
{
    op_table_runs(g->ops, op);
}

void rig_done(rig *g, lh_status st, const char *op)
{
    if (st == LH_OK) st = lh_stream_sync(g->stream);
    if (st != LH_OK) ck_abort_msg("%s of %s: %s%s", op, g->ops->name, lh_error_message(), case_words());
}

/* Ascending positions below `last`, in a ragged pattern: the last in_order ones end at last - 1 without a gap. */
static void place(int32_t *positions, const cache_spec *spec, int64_t h)
{
    int64_t n = spec->len[h], tail = spec->in_order < n ? spec->in_order : n, old = n - tail;
    int64_t room = spec->last - tail, at = 0;
    for (int64_t s = 0; s < old; s++) {
        int64_t spare = room - at - (old - s); /* how many may be left out */
        at += spare > 0 ? draw(spec->seed + 11, (uint64_t)(h * 100003 + s), 1 + (spare < 4 ? spare : 4)) : 0;
        positions[s] = (int32_t)at++;
    }
    for (int64_t s = 0; s < tail; s++) positions[old + s] = (int32_t)(spec->last - tail + s);
    for (int64_t s = old - 1; s > 0 && spec->order == CACHE_SHUFFLED; s--) {
        int64_t other = draw(spec->seed + 12, (uint64_t)(h * 100003 + s), s + 1);
        int32_t held = positions[s];
        positions[s] = positions[other];
        positions[other] = held;
    }
}

/* The slots after the entries of each head become NaN; `bytes` of a slot. NULL: nothing to do. */
static void spoil_slack(void *slots, const cache_spec *spec, const int64_t *offset, int64_t bytes)
{
    for (int64_t h = 0; h < spec->heads && slots; h++)
        memset((char *)slots + (offset[h] + spec->len[h]) * bytes, UNWRITTEN, (size_t)(spec->slack * bytes));
}

void cache_make(lot *m, cache *out, const cache_spec *spec)
{
    int64_t *offset = lot_new(m, spec->heads * 8), *len = lot_copy(m, spec->len, spec->heads * 8), slots = 0;
    for (int64_t h = 0; h < spec->heads; h++) {
        offset[h] = slots;
        slots += len[h] + spec->slack;
    }
    int32_t *positions = lot_new(m, slots * 4);
    for (int64_t h = 0; h < spec->heads; h++) {
        ck_assert_int_le(len[h], spec->last);
        place(positions + offset[h], spec, h);
    }
    void *k = lot_normals(m, slots * spec->head_dim, 1.0f, spec->seed + 1);
    void *v = lot_normals(m, slots * spec->head_dim, 1.0f, spec->seed + 2);
    if (spec->type == LH_BF16) {
        k = lot_bf16(m, k, slots * spec->head_dim);
        v = lot_bf16(m, v, slots * spec->head_dim);
    }
    float *bias = spec->bias != 0 ? lot_normals(m, slots, spec->bias, spec->seed + 3) : NULL;
    spoil_slack(k, spec, offset, spec->head_dim * lh_dtype_bytes(spec->type));
    spoil_slack(v, spec, offset, spec->head_dim * lh_dtype_bytes(spec->type));
    spoil_slack(bias, spec, offset, (int64_t)sizeof *bias);
    out->slots = slots;
    out->host = (lh_ragged){.k = k,
                            .v = v,
                            .type = spec->type,
                            .positions = spec->order == CACHE_SLOTS ? NULL : positions,
                            .bias = bias,
                            .offset = offset,
                            .len = len,
                            .heads = spec->heads,
                            .head_dim = spec->head_dim};
}

/* `n` slots of one array, or none where there is no such array. */
static void copy_slots(void *to, const void *from, const int64_t at[2], int64_t n, int64_t bytes)
{
    if (from) memcpy((char *)to + at[0] * bytes, (const char *)from + at[1] * bytes, (size_t)(n * bytes));
}

static void *new_slots(lot *m, const void *like, int64_t slots, int64_t bytes)
{
    void *at = like ? lot_new(m, slots * bytes) : NULL;
    if (at) memset(at, UNWRITTEN, (size_t)(slots * bytes));
    return at;
}

/* The base has a length of its own for every head, of which the whole units are used; what is left of it, and all
 * slack, is NaN. */
void cache_split(lot *m, cache *c, uint64_t seed)
{
    const lh_ragged whole = c->host;
    lh_ragged *r = &c->host;
    const int64_t row = whole.head_dim * lh_dtype_bytes(whole.type), heads = whole.heads;
    int64_t *offset = lot_new(m, heads * 8), *first = lot_new(m, heads * 8), *len = lot_new(m, heads * 8);
    c->base_slots = 0;
    for (int64_t h = 0, at = 0; h < heads; h++) {
        const int64_t next = h + 1 < heads ? whole.offset[h + 1] : c->slots;
        len[h] = draw(seed, (uint64_t)h, whole.len[h] + 1);
        first[h] = c->base_slots;
        c->base_slots += len[h];
        offset[h] = at - lh_whole_blocks(len[h]);
        at += next - whole.offset[h] - lh_whole_blocks(len[h]);
    }
    r->k = new_slots(m, whole.k, c->slots, row);
    r->v = new_slots(m, whole.v, c->slots, row);
    r->positions = new_slots(m, whole.positions, c->slots, 4);
    r->bias = new_slots(m, whole.bias, c->slots, 4);
    r->k_scale = new_slots(m, whole.k_scale, c->slots, 4);
    r->v_scale = new_slots(m, whole.v_scale, c->slots, 4);
    r->offset = offset;
    r->parent = (lh_parent){.k = new_slots(m, whole.k, c->base_slots + 1, row),
                            .v = new_slots(m, whole.v, c->base_slots + 1, row),
                            .positions = new_slots(m, whole.positions, c->base_slots + 1, 4),
                            .bias = new_slots(m, whole.bias, c->base_slots + 1, 4),
                            .k_scale = new_slots(m, whole.k_scale, c->base_slots + 1, 4),
                            .v_scale = new_slots(m, whole.v_scale, c->base_slots + 1, 4),
                            .offset = first,
                            .len = len};
    for (int64_t h = 0; h < heads; h++) {
        const int64_t shared = lh_whole_blocks(len[h]), there[2] = {first[h], whole.offset[h]},
                      here[2] = {offset[h] + shared, whole.offset[h] + shared};
        copy_slots(r->parent.k, whole.k, there, shared, row);
        copy_slots(r->parent.v, whole.v, there, shared, row);
        copy_slots(r->parent.positions, whole.positions, there, shared, 4);
        copy_slots(r->parent.bias, whole.bias, there, shared, 4);
        copy_slots(r->parent.k_scale, whole.k_scale, there, shared, 4);
        copy_slots(r->parent.v_scale, whole.v_scale, there, shared, 4);
        copy_slots(r->k, whole.k, here, whole.len[h] - shared, row);
        copy_slots(r->v, whole.v, here, whole.len[h] - shared, row);
        copy_slots(r->positions, whole.positions, here, whole.len[h] - shared, 4);
        copy_slots(r->bias, whole.bias, here, whole.len[h] - shared, 4);
        copy_slots(r->k_scale, whole.k_scale, here, whole.len[h] - shared, 4);
        copy_slots(r->v_scale, whole.v_scale, here, whole.len[h] - shared, 4);
    }
}

static void put_parent(rig *g, lh_parent *b, const cache *c)
{
    const int64_t slots = c->base_slots + 1, bytes = slots * c->host.head_dim * lh_dtype_bytes(c->host.type);
    b->k = rig_put(g, b->k, bytes);
    b->v = rig_put(g, b->v, bytes);
    b->positions = b->positions ? rig_put(g, b->positions, slots * 4) : NULL;
    b->bias = b->bias ? rig_put(g, b->bias, slots * 4) : NULL;
    b->k_scale = b->k_scale ? rig_put(g, b->k_scale, slots * 4) : NULL;
    b->v_scale = b->v_scale ? rig_put(g, b->v_scale, slots * 4) : NULL;
    b->offset = rig_put(g, b->offset, c->host.heads * 8);
    b->len = rig_put(g, b->len, c->host.heads * 8);
}

/* The rows of one array, of keys or of values, as codes and scales. */
static void quantise_rows(lot *m, const cache *c, void **numbers, float **scales, int are_keys)
{
    const int64_t d = c->host.head_dim;
    int8_t *codes = lot_new(m, c->slots * d);
    float *row = lot_new(m, d * 4);
    *scales = lot_new(m, c->slots * 4);
    for (int64_t s = 0; s < c->slots; s++) {
        for (int64_t i = 0; i < d; i++) row[i] = (float)cache_number(&c->host, *numbers, s * d + i);
        if (are_keys) lh_q8_hadamard(row, d);
        (*scales)[s] = lh_q8_row(codes + s * d, row, d);
    }
    *numbers = codes;
}

void cache_quantise(lot *m, cache *c)
{
    quantise_rows(m, c, &c->host.k, &c->host.k_scale, 1);
    quantise_rows(m, c, &c->host.v, &c->host.v_scale, 0);
    c->host.type = LH_Q8;
}

static float *widen_rows(lot *m, const cache *c, const void *codes, const float *scales)
{
    const int64_t d = c->host.head_dim;
    float *wide = lot_new(m, c->slots * d * 4);
    for (int64_t i = 0; i < c->slots * d; i++) wide[i] = scales[i / d] * (float)((const int8_t *)codes)[i];
    return wide;
}

void cache_widen(lot *m, cache *c)
{
    const int64_t d = c->host.head_dim;
    float *keys = widen_rows(m, c, c->host.k, c->host.k_scale);
    for (int64_t s = 0; s < c->slots; s++) lh_q8_hadamard_inverse(keys + s * d, d);
    c->host.k = keys;
    c->host.v = widen_rows(m, c, c->host.v, c->host.v_scale);
    c->host.k_scale = c->host.v_scale = NULL;
    c->host.type = LH_F32;
}

lh_ragged rig_cache(rig *g, const cache *c)
{
    lh_ragged r = c->host;
    int64_t bytes = c->slots * r.head_dim * lh_dtype_bytes(r.type);
    r.k = rig_put(g, r.k, bytes);
    r.v = rig_put(g, r.v, bytes);
    r.k_scale = r.k_scale ? rig_put(g, r.k_scale, c->slots * 4) : NULL;
    r.v_scale = r.v_scale ? rig_put(g, r.v_scale, c->slots * 4) : NULL;
    r.positions = r.positions ? rig_put(g, r.positions, c->slots * 4) : NULL;
    r.bias = r.bias ? rig_put(g, r.bias, c->slots * 4) : NULL;
    r.offset = rig_put(g, r.offset, r.heads * 8);
    r.len = rig_put(g, r.len, r.heads * 8);
    if (r.parent.k) put_parent(g, &r.parent, c);
    return r;
}

double cache_number(const lh_ragged *host, const void *k_or_v, int64_t i)
{
    return host->type == LH_F32 ? ((const float *)k_or_v)[i] : lh_bf16_to_f32(((const uint16_t *)k_or_v)[i]);
}

int64_t cache_position(const lh_ragged *host, int64_t h, int64_t s)
{
    return host->positions ? host->positions[host->offset[h] + s] : s;
}

/* Error over tolerance; NAN if one of them is no number. */
static double how_far(double got, double want, tolerance tol)
{
    const double off = fabs(got - want), may = tol.abs + tol.rel * fabs(want);
    return off == 0 ? 0 : off / may;
}

/* The worst of what came before, and of one that may be NAN. */
static double worse(double worst, double next)
{
    return next <= worst ? worst : next;
}

enum { SAID = 1400 };

/* What the caller of a check says about it, and the case in words. */
static const char *say(char what[SAID], const char *format, va_list args)
{
    int length = vsnprintf(what, 256, format, args);
    if (length > 255) length = 255;
    snprintf(what + length, (size_t)(SAID - length), "%s", case_words());
    return what;
}

void check_near(const float *got, const float *want, int64_t n, tolerance tol, const char *format, ...)
{
    char what[SAID];
    va_list args;
    va_start(args, format);
    double worst = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < n && worst <= 1; i++) {
        at = i;
        if (memcmp(&got[i], &want[i], 4) != 0) worst = worse(worst, how_far(got[i], want[i], tol));
    }
    op_table_compared(n, worst);
    if (!(worst <= 1))
        ck_abort_msg("%s: element %lld is %.9g, not %.9g (off by %.3g)", say(what, format, args), (long long)at,
                     got[at], want[at], fabs((double)got[at] - want[at]));
    va_end(args);
}

void check_near_bf16(const uint16_t *got, const uint16_t *want, int64_t n, tolerance tol, const char *format, ...)
{
    char what[SAID];
    va_list args;
    va_start(args, format);
    double worst = 0, a = 0, b = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < n && worst <= 1; i++) {
        at = i;
        a = lh_bf16_to_f32(got[i]), b = lh_bf16_to_f32(want[i]);
        if (got[i] != want[i]) worst = worse(worst, how_far(a, b, tol));
    }
    op_table_compared(n, worst);
    if (!(worst <= 1)) ck_abort_msg("%s: element %lld is %.9g, not %.9g", say(what, format, args), (long long)at, a, b);
    va_end(args);
}

void check_same(const void *got, const void *want, int64_t bytes, const char *format, ...)
{
    char what[SAID];
    va_list args;
    va_start(args, format);
    const unsigned char *a = got, *b = want;
    op_table_compared(bytes, bytes && memcmp(a, b, (size_t)bytes) != 0 ? INFINITY : 0);
    for (int64_t i = 0; i < bytes; i++) {
        if (a[i] != b[i])
            ck_abort_msg("%s: byte %lld is 0x%02x, not 0x%02x", say(what, format, args), (long long)i, a[i], b[i]);
    }
    va_end(args);
}
