/* Attention of long bf16 prompts by cuDNN's graphs. */
#include "kernels/cuda/attend_cudnn.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "device/cuda.h"
#include "kernels/cuda/sdpa_arrays.h"
#include "kernels/cuda/sdpa_plan.h"

/* PLANS: shapes that are remembered, the last ones; their rows are multiples of CHUNK. Blocks of less rows are our
 * kernel's: there is little to win. */
enum { PLANS = 8, LEAST_TOKENS = 64, CHUNK = 4096, MOST_DIM = 256 };

/* The last rows of a block, which are compared in every new cache. */
enum { LAST_TOKENS = 64 };

/* Operations from which on building a plan pays: those of our kernel in the time that it takes. */
static const double worth_flops = 2e14;

typedef struct known_plan {
    lh_sdpa_shape shape;
    lh_sdpa_plan *plan; /* NULL: refused */
    char why[128];      /* it is not used; "": it is */
    int trusted;        /* compared with our kernel's numbers */
    int64_t used;       /* when, in calls */
} known_plan;

/* Of a stream. */
typedef struct sdpa {
    lh_cudnn call;
    cudnnHandle_t handle; /* NULL: not asked for yet, or missing */
    char missing[256];    /* why there is no cuDNN */
    double flops;         /* of all blocks that it would have taken */
    int64_t calls;
    int count;
    known_plan plans[PLANS];
} sdpa;

static void close_sdpa(void *what)
{
    sdpa *s = what;
    for (int i = 0; i < s->count; i++) lh_sdpa_plan_close(s->plans[i].plan);
    if (s->handle) s->call.Destroy(s->handle);
    lh_free(s);
}

static lh_status find_sdpa(lh_stream *stream, sdpa **out)
{
    lh_cuda_kept *kept = lh_stream_kept(stream, LH_CUDA_DNN);
    if (!kept->what) {
        LH_TRY(lh_calloc(&kept->what, 1, sizeof(sdpa)));
        kept->close = close_sdpa;
    }
    *out = kept->what;
    return LH_OK;
}

/* A library that is missing or cannot begin is no failure: it is remembered. */
static void open_library(sdpa *s, lh_stream *stream)
{
    cudnnStatus_t rc;
    if (s->handle || s->missing[0]) return;
    if (lh_cudnn_open(&s->call) != LH_OK) {
        snprintf(s->missing, sizeof s->missing, "%s", lh_error_message());
        lh_error_clear();
        return;
    }
    rc = s->call.Create(&s->handle);
    if (rc == CUDNN_STATUS_SUCCESS) rc = s->call.SetStream(s->handle, lh_stream_cuda(stream));
    if (rc == CUDNN_STATUS_SUCCESS) return;
    snprintf(s->missing, sizeof s->missing, "cuDNN does not begin: %s", s->call.GetErrorString(rc));
    if (s->handle) s->call.Destroy(s->handle);
    s->handle = NULL;
}

static int takes(const lh_attend_block_args *a)
{
    const int64_t group = a->map.group, dim = a->kv->head_dim;
    const uintptr_t at = (uintptr_t)a->kv->k | (uintptr_t)a->kv->v;
    return a->kv->type == LH_BF16 && !a->kv->base.k && !a->kv->bias && a->logit.window <= 0 && a->logit.softcap <= 0 &&
           dim > 0 && dim % 8 == 0 && dim <= MOST_DIM && a->map.first % group == 0 && a->map.heads % group == 0 &&
           at % 16 == 0;
}

/* ---- plans ---- */

static lh_status new_plan(sdpa *s, lh_stream *stream, const lh_sdpa_shape *shape, known_plan **out)
{
    const lh_sdpa_place place = {.call = &s->call, .handle = s->handle};
    known_plan *to = &s->plans[0];
    if (s->count < PLANS) {
        to = &s->plans[s->count];
    } else {
        for (int i = 1; i < PLANS; i++)
            if (s->plans[i].used < to->used) to = &s->plans[i];
        if (to->plan) LH_TRY(lh_stream_sync(stream)); /* it may be at work */
        lh_sdpa_plan_close(to->plan);
    }
    *to = (known_plan){.shape = *shape};
    LH_TRY(lh_sdpa_plan_open(&to->plan, &place, shape, to->why));
    if (s->count < PLANS) s->count++;
    *out = to;
    return LH_OK;
}

static lh_status find_plan(sdpa *s, lh_stream *stream, const lh_attend_block_args *a, known_plan **out)
{
    const lh_sdpa_shape shape = {a->map.heads / a->map.group, a->map.group, a->kv->head_dim,
                                 (a->tokens + CHUNK - 1) / CHUNK * CHUNK};
    known_plan *found = NULL;
    for (int i = 0; i < s->count && !found; i++)
        if (memcmp(&s->plans[i].shape, &shape, sizeof shape) == 0) found = &s->plans[i];
    if (!found) LH_TRY(new_plan(s, stream, &shape, &found));
    found->used = ++s->calls;
    *out = found;
    return LH_OK;
}

/* ---- runs ---- */

/* The arrays of a run, and of its comparison, in one block. */
typedef struct room {
    lh_sdpa_arrays arrays;
    void *of_plan;
    float *o, *lse; /* our kernel's, of the last rows */
    lh_sdpa_off *off;
} room;

static void *cut(char *block, int64_t *bytes, int64_t count, int64_t each)
{
    const int64_t at = *bytes;
    *bytes += (count * each + 255) / 256 * 256;
    return block ? block + at : NULL;
}

/* The last tokens of a block, of which the sums are compared with our kernel's: of the first block of a plan all, of the
 * first one over new memory a few. */
static int64_t compared_tokens(const known_plan *p, const lh_attend_block_args *a)
{
    if (!p->trusted) return a->tokens;
    return a->kv->compared && !*a->kv->compared ? lh_min_i64(a->tokens, LAST_TOKENS) : 0;
}

/* Cuts up a block, or says how large one has to be. */
static int64_t cut_room(room *r, char *block, const known_plan *p, const lh_attend_block_args *a)
{
    const int64_t kv_heads = p->shape.kv_heads, heads = a->map.heads, dim = p->shape.dim;
    const int64_t compared = compared_tokens(p, a) * heads;
    const int64_t numbers = (a->tokens * heads + LH_SDPA_TILE * a->map.group) * dim;
    int64_t bytes = 0;
    r->arrays.lse_ld = p->shape.tokens;
    r->arrays.q = cut(block, &bytes, numbers, 2);
    r->arrays.o = cut(block, &bytes, numbers, 2);
    r->arrays.lse = cut(block, &bytes, p->shape.tokens * heads, 4);
    r->arrays.rows = cut(block, &bytes, kv_heads, 4);
    r->arrays.len = cut(block, &bytes, kv_heads, 4);
    r->arrays.starts = cut(block, &bytes, kv_heads + 1, 8);
    r->arrays.q_starts = cut(block, &bytes, kv_heads + 1, 8);
    r->of_plan = cut(block, &bytes, lh_sdpa_plan_room(p->plan), 1);
    r->o = cut(block, &bytes, compared * dim, 4);
    r->lse = cut(block, &bytes, compared, 4);
    r->off = cut(block, &bytes, 1, sizeof *r->off);
    return bytes;
}

/* Our kernel does this block and all after it. */
static void drop(known_plan *p, const char *why)
{
    snprintf(p->why, sizeof p->why, "%s", why);
    lh_warn("cuDNN is not used any more for attention: %s", p->why);
}

/* The last `tokens` rows of a block, as one. */
static lh_attend_block_args last_rows(const lh_attend_block_args *a, int64_t tokens)
{
    const int64_t skip = a->tokens - tokens;
    lh_attend_block_args last = *a;
    last.o += skip * a->o_ld;
    if (a->lse) last.lse += skip * a->map.heads;
    last.q += skip * a->q_ld;
    if (a->positions) last.positions += skip;
    last.tokens = tokens;
    return last;
}

/* Drops the plan unless rows are near those of our kernel: one that differs from what we assume gets most of them wrong,
 * and one that sums what lies after the entries of a head, all of that head. Waits. */
static lh_status compare(lh_stream *stream, known_plan *p, const lh_attend_block_args *a, const room *r)
{
    const lh_attend_block_args theirs = last_rows(a, compared_tokens(p, a));
    const int64_t rows = theirs.tokens * a->map.heads;
    char why[128];
    lh_sdpa_off off = {0};
    lh_attend_block_args ours = theirs;
    ours.o = r->o, ours.lse = r->lse, ours.o_ld = a->map.heads * a->kv->head_dim;
    ours.order = LH_ORDER_FIXED; /* in one piece: what it would take for several is in use */
    LH_TRY(lh_attend_by_tiles(stream, &ours));
    LH_TRY(lh_stream_zero(stream, r->off, sizeof off));
    LH_TRY(lh_sdpa_compare(stream, &theirs, r->o, r->lse, r->off));
    LH_TRY(lh_stream_copy(stream, &off, r->off, sizeof off, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(stream));
    p->trusted = 1;
    if (a->kv->compared) *a->kv->compared = 1;
    if (16 * (int64_t)off.far <= rows && !off.nan) return LH_OK;
    snprintf(why, sizeof why, "of %lld rows %lld were far from what our kernel gives, and %lld no numbers", (long long)rows,
             (long long)off.far, (long long)off.nan);
    drop(p, why);
    return LH_OK;
}

/* A plan that fails, or gives what our kernel does not, is dropped. */
static lh_status run(lh_stream *stream, known_plan *p, const lh_attend_block_args *a)
{
    lh_status st;
    char *block = NULL;
    room r;
    LH_TRY(lh_stream_scratch(stream, &block, cut_room(&r, NULL, p, a)));
    cut_room(&r, block, p, a);
    LH_TRY(lh_sdpa_prepare(stream, a, &r.arrays));
    st = lh_sdpa_plan_run(p->plan, &(lh_sdpa_data){.q = r.arrays.q,
                                                     .k = a->kv->k,
                                                     .v = a->kv->v,
                                                     .o = r.arrays.o,
                                                     .lse = r.arrays.lse,
                                                     .rows = r.arrays.rows,
                                                     .len = r.arrays.len,
                                                     .starts = r.arrays.starts,
                                                     .q_starts = r.arrays.q_starts,
                                                     .room = r.of_plan,
                                                     .scale = a->logit.scale});
    if (st != LH_OK) {
        drop(p, lh_error_message());
        lh_error_clear();
        return LH_OK;
    }
    LH_TRY(lh_sdpa_finish(stream, a, &r.arrays));
    if (compared_tokens(p, a)) LH_TRY(compare(stream, p, a, &r));
    return LH_OK;
}

lh_status lh_sdpa_attend(lh_stream *stream, const lh_attend_block_args *a, int *done)
{
    sdpa *s;
    known_plan *p;
    *done = 0;
    if (a->order != LH_ORDER_ANY || a->tokens < LEAST_TOKENS || a->map.heads == 0 || !takes(a)) return LH_OK;
    LH_TRY(find_sdpa(stream, &s));
    s->flops += 4.0 * (double)(a->tokens * a->most) * (double)(a->map.heads * a->kv->head_dim);
    if (s->flops < worth_flops) return LH_OK;
    open_library(s, stream);
    if (!s->handle) return LH_OK;
    LH_TRY(find_plan(s, stream, a, &p));
    if (p->why[0]) return LH_OK;
    LH_TRY(run(stream, p, a));
    *done = !p->why[0];
    return LH_OK;
}

lh_status lh_cudnn_attend_block(lh_stream *stream, const lh_attend_block_args *a)
{
    sdpa *s;
    known_plan *p;
    if (a->tokens == 0 || a->map.heads == 0) return LH_OK;
    if (!takes(a)) LH_FAIL(LH_EUSAGE, "attention of this kind is not asked of cuDNN");
    LH_TRY(find_sdpa(stream, &s));
    open_library(s, stream);
    if (!s->handle) LH_FAIL(LH_EUSAGE, "%s", s->missing);
    LH_TRY(find_plan(s, stream, a, &p));
    if (!p->why[0]) LH_TRY(run(stream, p, a));
    if (p->why[0]) LH_FAIL(LH_EUSAGE, "cuDNN does not do it: %s", p->why);
    return LH_OK;
}

int lh_cudnn_found(char text[256])
{
    lh_cudnn call;
    lh_status st = lh_cudnn_open(&call);
    if (st == LH_OK) {
        const size_t version = call.GetVersion();
        snprintf(text, 256, "%zu.%zu.%zu, %s", version / 10000, version / 100 % 100, version % 100, call.file);
        return 1;
    }
    snprintf(text, 256, "%s", lh_error_message());
    lh_error_clear();
    return 0;
}
