#include "kernels/cuda/sdpa_build.h"

#include <pthread.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/process.h"
#include "kernels/cuda/sdpa_cache.h"

struct lh_sdpa_build {
    lh_sdpa_place place;
    lh_sdpa_shape shape;
    const char *name; /* of the device */
    int device;
    pthread_t thread;
    int runs; /* 1: the thread has to be waited for */
    lh_sdpa_built built;
};

static lh_sdpa_key key_of(const lh_sdpa_build *b)
{
    return (lh_sdpa_key){.version = b->place.call->GetVersion(), .device = b->name, .shape = b->shape};
}

/* What cannot be kept is built again by the next process. */
static void keep(const lh_sdpa_plan *plan, const lh_sdpa_key *key)
{
    lh_buf text = {0};
    if (lh_sdpa_plan_text(plan, &text) == LH_OK)
        lh_sdpa_cache_write(key, &text);
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
    if (lh_sdpa_cache_read(&text, &key)) LH_TRY_DONE(lh_sdpa_plan_restore(&to->plan, &b->place, &text, to->why));
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
    lh_sdpa_cache_remove(&key);
}

void lh_sdpa_build_close(lh_sdpa_build *b)
{
    if (!b) return;
    lh_sdpa_built *built = lh_sdpa_build_wait(b);
    lh_sdpa_plan_close(built->plan);
    lh_free(b);
}
