#include "model/rotations.h"

#include "base/hash.h"
#include "base/mem.h"

/* Layers without a window, layers with one, and layers without rotation, with frequencies of 0. */
typedef enum kind { GLOBAL, LOCAL, NONE, KINDS } kind;

struct lh_rotations {
    lh_device *device;
    float *frequencies[KINDS]; /* device, [rotary / 2] */
    lh_rotation *layers;       /* [layers] */
};

/* `rope` NULL: no rotation. */
static lh_status open_kind(float **frequencies, const lh_config *c, const lh_exec *x, const lh_rope *rope,
                           int64_t length, lh_rotation *out)
{
    lh_status st = LH_OK;
    const int64_t half = c->rotary_dim / 2;
    float *host = NULL;
    *out = (lh_rotation){.rotary = c->rotary_dim, .scale = 1};
    LH_TRY_DONE(lh_calloc(&host, half + 3, sizeof *host));
    if (rope) {
        lh_rope_frequencies(rope, c->rotary_dim, length, host, &out->scale);
        out->queries = (lh_query_scaling){.beta = (float)rope->query_beta, .positions = (int32_t)rope->query_positions};
    }
    host[half] = out->scale;
    host[half + 1] = out->queries.beta;
    host[half + 2] = (float)out->queries.positions;
    out->hash = lh_hash64(host, (half + 3) * 4);
    LH_TRY_DONE(lh_device_alloc(lh_exec_device(x), frequencies, half * 4, LH_MEM_WORK));
    out->inv_freq = *frequencies;
    LH_TRY_DONE(lh_stream_put(x->stream, *frequencies, host, half * 4));
done:
    lh_free(host);
    return st;
}

lh_status lh_rotations_open(lh_rotations **out, const lh_config *c, const lh_exec *x, int64_t length)
{
    lh_status st = LH_OK;
    const lh_rope *ropes[KINDS] = {[GLOBAL] = &c->rope_global, [LOCAL] = &c->rope_local, [NONE] = NULL};
    lh_rotation kinds[KINDS];
    lh_rotations *r = NULL;
    LH_TRY_DONE(lh_calloc(&r, 1, sizeof *r));
    r->device = lh_exec_device(x);
    LH_TRY_DONE(lh_calloc(&r->layers, c->layers, sizeof *r->layers));
    for (int k = 0; k < KINDS; k++) LH_TRY_DONE(open_kind(&r->frequencies[k], c, x, ropes[k], length, &kinds[k]));
    for (int64_t l = 0; l < c->layers; l++) {
        int slides = c->window > 0 && c->sliding[l];
        r->layers[l] = kinds[c->unrotated[l] ? NONE : slides ? LOCAL : GLOBAL];
    }
    *out = r;
    r = NULL;
done:
    lh_rotations_close(r);
    return st;
}

void lh_rotations_close(lh_rotations *r)
{
    if (!r) return;
    for (int k = 0; k < KINDS; k++) lh_device_free(r->device, r->frequencies[k]);
    lh_free(r->layers);
    lh_free(r);
}

int64_t lh_rotations_bytes(const lh_config *c)
{
    return KINDS * (c->rotary_dim / 2) * 4;
}

const lh_rotation *lh_rotations_layers(const lh_rotations *r)
{
    return r->layers;
}
