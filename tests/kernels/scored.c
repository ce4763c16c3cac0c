#include "scored.h"

#include <math.h>
#include <stdlib.h>

#include "cases.h"

float score_at(int kind, uint64_t n, const float *normals)
{
    const float few[] = {-1, -0.0f, 0.0f, 0.5f, 1}, odd[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, -2, 3.4e38f};
    switch (kind) {
    case SCORES_NORMAL: return *normals;
    case SCORES_FEW: return few[draw(21, n, 5)];
    case SCORES_EQUAL: return 0.25f;
    case SCORES_TINY: return *normals * 1e-43f; /* subnormal, both signs */
    case SCORES_ODD: return draw(22, n, 3) ? odd[draw(23, n, 8)] : *normals;
    case SCORES_CLOSE: return 1.0f + (float)draw(24, n, 3000) * 0x1p-23f; /* the last round of the radix decides */
    default: return (float)draw(25, n / 7, 40) / 64.0f;                   /* as after a max-pool */
    }
}

enum { HEADS, LONGEST, SLACK, IN_ORDER, ORDER, GAP, SCORES, STATES };
static const dimension kinds[] = {
    [HEADS] = {"heads", 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
    [LONGEST] = {"longest head", 4, {700, 40, 40, 40}},
    [SLACK] = {"slack", 3, {0, 1, 2}},
    [IN_ORDER] = {"entries in order", 5, {0, 1, 2, 3, 4}},
    [ORDER] = {"slots", 3, {CACHE_SLOTS, CACHE_GAPS, CACHE_SHUFFLED}, {"are positions", "with gaps", "shuffled"}},
    [GAP] = {"gap between heads", 3, {0, 1, 2}},
    [SCORES] = {"scores",
                SCORE_KINDS,
                {SCORES_NORMAL, SCORES_FEW, SCORES_EQUAL, SCORES_TINY, SCORES_ODD, SCORES_CLOSE, SCORES_PLATEAUS},
                {"normal", "few", "equal", "tiny", "odd", "close", "plateaus"}},
    [STATES] = {"entries that compete", 3, {1, 0, 0}, {"all", "most", "most"}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

void layer_make(lot *m, layer *l, int n)
{
    int64_t long_ld = n % 47 == 21 ? 33000 : n % 47 == 22 ? 2000 : 0; /* which backends may do in another way */
    int64_t heads = long_ld ? 1 + n % 2 : kind(HEADS, n), most = 0, *len = lot_new(m, heads * 8);
    int64_t longest = long_ld ? (long_ld < 9000 ? long_ld : 9000) : kind(LONGEST, n), gap = kind(GAP, n);
    for (int64_t h = 0; h < heads; h++) {
        len[h] = draw(20, (uint64_t)(n * 10 + h), 5) ? draw(26, (uint64_t)(n * 10 + h), longest) : 0;
        most = len[h] > most ? len[h] : most;
    }
    cache_spec spec = {.heads = heads, .head_dim = 1, .slack = kind(SLACK, n), .last = most + 100};
    spec.in_order = kind(IN_ORDER, n);
    spec.len = len;
    spec.order = (cache_order)kind(ORDER, n);
    spec.seed = (uint64_t)n;
    cache_make(m, &l->kv, &spec);
    l->heads = heads;
    l->ld = most + gap > long_ld ? most + gap : long_ld;
    l->scores = lot_normals(m, heads * l->ld, 1.0f, (uint64_t)n);
    l->state = lot_new(m, heads * l->ld);
    int scores = (int)kind(SCORES, n), all = (int)kind(STATES, n);
    for (int64_t i = 0; i < heads * l->ld; i++) {
        uint64_t dice = (uint64_t)n * 100000 + (uint64_t)i;
        l->scores[i] = score_at(scores, dice, &l->scores[i]);
        int64_t state = draw(27, dice, 8);
        l->state[i] = state < 2 && !all ? (uint8_t)state : LH_ENTRY_COMPETES;
    }
}

int by_rank(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    if (isnan(a->score) != isnan(b->score)) return isnan(a->score) ? 1 : -1;
    if (a->score > b->score) return -1;
    if (a->score < b->score) return 1;
    if (a->head != b->head) return a->head < b->head ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

int64_t ranked(lot *m, const layer *l, int64_t from, int64_t to, entry **out)
{
    int64_t count = 0;
    entry *all = lot_new(m, (to - from) * l->ld * (int64_t)sizeof *all);
    for (int64_t h = from; h < to; h++) {
        for (int64_t s = 0; s < l->kv.host.len[h]; s++) {
            if (l->state[h * l->ld + s] != LH_ENTRY_COMPETES) continue;
            all[count++] = (entry){l->scores[h * l->ld + s], h, s, cache_position(&l->kv.host, h, s)};
        }
    }
    qsort(all, (size_t)count, sizeof *all, by_rank);
    *out = all;
    return count;
}

placed layer_put(rig *g, const layer *l)
{
    return (placed){rig_cache(g, &l->kv), rig_put(g, l->scores, l->heads * l->ld * 4),
                    rig_put(g, l->state, l->heads * l->ld)};
}

void check_states(rig *g, const placed *on, const layer *l, const uint8_t *want, int n)
{
    lot m = {0};
    uint8_t *got = lot_new(&m, l->heads * l->ld);
    rig_get(g, got, on->state, l->heads * l->ld);
    for (int64_t h = 0; h < l->heads; h++)
        check_same(got + h * l->ld, want + h * l->ld, l->kv.host.len[h], "states of head %d, case %d, %s", (int)h, n,
                   g->ops->name);
    lot_end(&m);
}
