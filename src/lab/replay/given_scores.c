#include "lab/replay/given_scores.h"

#include <stdio.h>

#include "base/h5.h"
#include "base/mem.h"

struct lh_given_scores {
    lh_h5 *h5;
    int64_t layer; /* that `scores` are of; -1: none */
    float *scores; /* [heads, tokens] */
    int64_t heads, tokens;
};

lh_status lh_given_scores_open(lh_given_scores **out, const char *path)
{
    lh_status st = LH_OK;
    lh_given_scores *s = NULL;
    LH_TRY_DONE(lh_calloc(&s, 1, sizeof *s));
    s->layer = -1;
    LH_TRY_DONE(lh_h5_open(&s->h5, path, &(lh_h5_header){"scores", 1, NULL}));
    *out = s;
    s = NULL;
done:
    lh_given_scores_close(s);
    return st;
}

void lh_given_scores_close(lh_given_scores *s)
{
    if (!s) return;
    lh_h5_close(s->h5);
    lh_free(s->scores);
    lh_free(s);
}

static lh_status read_layer(lh_given_scores *s, int64_t layer)
{
    char name[48];
    lh_h5_shape shape;
    snprintf(name, sizeof name, "/layers/%03lld/scores", (long long)layer);
    s->layer = -1;
    lh_free(s->scores);
    s->scores = NULL;
    if (!lh_h5_has(s->h5, name))
        LH_FAIL(LH_EFILE, "'%s' has no '%s': scores are needed for every layer of the trace", lh_h5_path(s->h5), name);
    LH_TRY(lh_h5_get(s->h5, name, &(lh_h5_shape){.type = LH_F32, .rank = 2, .dims = {-1, -1}}, &shape, &s->scores));
    s->heads = shape.dims[0];
    s->tokens = shape.dims[1];
    s->layer = layer;
    return LH_OK;
}

static lh_status score(void *self, const lh_head_entries *e, float *scores)
{
    lh_given_scores *s = self;
    if (s->layer != e->layer) LH_TRY(read_layer(s, e->layer));
    for (int64_t i = 0; i < e->count; i++) {
        if (e->kv_head >= s->heads || e->positions[i] >= s->tokens)
            LH_FAIL(LH_EFILE, "'%s' has scores of %lld KV heads and %lld tokens in layer %lld, the trace has more",
                    lh_h5_path(s->h5), (long long)s->heads, (long long)s->tokens, (long long)e->layer);
        scores[i] = s->scores[e->kv_head * s->tokens + e->positions[i]];
    }
    return LH_OK;
}

lh_scorer lh_given_scores_scorer(lh_given_scores *scores)
{
    return (lh_scorer){.size = sizeof(lh_scorer), .self = scores, .score = score};
}
