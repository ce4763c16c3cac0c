/* Laws of `--layer-budget adaptive`, where the heads of all layers compete, and of slot positions: what stays is what a
 * flat selection over whole layers keeps, though no two whole layers were ever there; and keys stand where their slots
 * are. On any number of ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kv/forecast.h"
#include "kv/kv_rig.h"
#include "policy_parts.h"

enum { MOST_LAYERS = 5 };

static const struct {
    int64_t heads, kv_heads;
} shapes[] = {{9, 3}, {5, 5}, {8, 2}, {4, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- layers that compete ---- */

typedef struct entry {
    float score;
    int64_t cell, position; /* cell: layer * kv_heads + head */
} entry;

/* Score descending, then layer, head and position ascending. */
static int better(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->cell != y->cell) return x->cell < y->cell ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

typedef struct ranking {
    entry *all; /* competing entries of all layers, the best first */
    int64_t count, cells, base;
    int64_t *room, *budgets; /* [cells] */
} ranking;

static void rank_all(ranking *k, const kv_rig *r, const kv_rig_result *one)
{
    const kv_rig_case *c = r->of;
    int64_t n = c->layers * c->kv_heads * c->tokens;
    lh_protection p = lh_policy_protect(&r->fixed, &(lh_protect_request){.budget = r->fixed.budget, .seen = c->tokens});
    *k = (ranking){.cells = c->layers * c->kv_heads, .base = p.base};
    mt_try(lh_calloc(&k->all, n, sizeof *k->all));
    mt_try(lh_calloc(&k->room, 2 * k->cells, sizeof *k->room));
    k->budgets = k->room + k->cells;
    for (int64_t cell = 0; cell < k->cells; cell++) {
        int64_t l = cell / c->kv_heads, g = cell % c->kv_heads;
        for (int64_t t = 0; t < c->tokens; t++) {
            if (one->state[l][g * c->tokens + t] != LH_ENTRY_COMPETES) continue;
            k->all[k->count++] = (entry){one->scores[l][g * c->tokens + t], cell, t};
            k->room[cell]++;
        }
    }
    qsort(k->all, (size_t)k->count, sizeof *k->all, better);
}

/* AdaKV's `interp` in integers over ten^scale: one more at a time to the cell that is furthest behind. */
static void mix(const ranking *k, const lh_policy_numbers *fixed, const int64_t *counts)
{
    int64_t ten = 1, sure = lh_decimal_of(part_decimal(&fixed->methods, "alpha"), k->base),
            missing = k->cells * k->base, held = 0;
    for (int64_t i = 0; i < part_decimal(&fixed->methods, "alpha").scale; i++) ten *= 10;
    for (int64_t i = 0; i < k->cells; i++) {
        int64_t share = counts[i] * (ten - part_decimal(&fixed->methods, "alpha").digits) / ten + sure;
        held += k->room[i];
        k->budgets[i] = share < k->room[i] ? share : k->room[i];
    }
    if (held < missing) missing = held;
    for (int64_t i = 0; i < k->cells; i++) missing -= k->budgets[i];
    for (; missing > 0; missing--) {
        int64_t best = -1, most = 0;
        for (int64_t i = 0; i < k->cells; i++) {
            int64_t lag =
                counts[i] * (ten - part_decimal(&fixed->methods, "alpha").digits) + (sure - k->budgets[i]) * ten;
            if (k->budgets[i] < k->room[i] && (best < 0 || lag > most)) best = i, most = lag;
        }
        k->budgets[best]++;
    }
}

/* The definition: floors first, or shares of the flat top mixed with even ones. */
static void share_by_hand(ranking *k, const lh_policy_numbers *fixed)
{
    int64_t want = k->cells * k->base, *counts = NULL, *passed = NULL;
    int64_t floor_ = part_word(&fixed->methods, "safeguard") == 1
                         ? lh_decimal_of(part_decimal(&fixed->methods, "alpha"), k->base)
                         : 0;
    mt_try(lh_calloc(&counts, 2 * k->cells, sizeof *counts));
    passed = counts + k->cells;
    for (int64_t i = 0; i < k->cells; i++) {
        k->budgets[i] = floor_ < k->room[i] ? floor_ : k->room[i];
        want -= k->budgets[i];
    }
    for (int64_t i = 0; i < k->count && want > 0; i++) {
        int64_t cell = k->all[i].cell;
        if (passed[cell]++ < k->budgets[cell] && floor_) continue; /* it is among the head's floor */
        counts[cell]++;
        want--;
    }
    if (part_word(&fixed->methods, "safeguard") == 0)
        mix(k, fixed, counts);
    else
        for (int64_t i = 0; i < k->cells; i++) k->budgets[i] += counts[i];
    lh_free(counts);
}

/* One head keeps its protected entries and the best budgets[cell] of the others. */
static void check_cell(const ranking *k, const kv_rig *r, const kv_rig_result *one, int64_t cell)
{
    const kv_rig_case *c = r->of;
    int64_t l = cell / c->kv_heads, g = cell % c->kv_heads, left = k->budgets[cell], n = 0;
    uint8_t *stays = NULL;
    mt_try(lh_calloc(&stays, c->tokens, 1));
    for (int64_t t = 0; t < c->tokens; t++) stays[t] = one->state[l][g * c->tokens + t] == LH_ENTRY_KEEP;
    for (int64_t i = 0; i < k->count && left > 0; i++)
        if (k->all[i].cell == cell) stays[k->all[i].position] = 1, left--;
    const lh_positions *kept = &one->kept[l];
    for (int64_t t = 0; t < c->tokens; t++) {
        int there = n < kept->offsets[g + 1] - kept->offsets[g] && kept->positions[kept->offsets[g] + n] == t;
        mt_check(there == stays[t], "layer %lld head %lld: entry %lld is %skept", (long long)l, (long long)g,
                 (long long)t, there ? "" : "not ");
        n += there;
    }
    lh_free(stays);
}

static kv_rig_case layers_case(int shape, int round)
{
    static const char *const alphas[] = {"0", "0.2", "0.5", "1"}, *const budgets[] = {"12", "30", "25%"};
    return (kv_rig_case){.heads = shapes[shape].heads,
                         .kv_heads = shapes[shape].kv_heads,
                         .dim = 8,
                         .layers = 2 + round % (MOST_LAYERS - 1),
                         .tokens = 90 + round,
                         .more = 3,
                         .type = round % 2 ? LH_F32 : LH_BF16,
                         .seed = 40 + (uint64_t)round,
                         .equal_keys = round == 11, /* all scores tie */
                         .policy = {.policy = "ada-snapkv",
                                    .budget = budgets[round % 3],
                                    .parts = {.layer_budget = "adaptive",
                                              .window = "8",
                                              .pool = round % 4 == 1 ? "none" : "max",
                                              .own = {{"alpha", alphas[round / 3 % 4]},
                                                      {"safeguard", round % 2 ? "floor" : "interp"}}}}};
}

/* The same positions as on one rank. */
static void check_same(const kv_rig_case *c, const kv_rig_result *one, const kv_rig_result *many)
{
    for (int64_t l = 0; l < c->layers && mt_rank() == 0; l++) {
        int64_t n = one->kept[l].offsets[c->kv_heads];
        size_t offsets = (size_t)(c->kv_heads + 1) * sizeof(int64_t);
        mt_check(memcmp(one->kept[l].offsets, many->kept[l].offsets, offsets) == 0 &&
                     memcmp(one->kept[l].positions, many->kept[l].positions, (size_t)n * sizeof(int32_t)) == 0,
                 "layer %lld keeps other entries than on one rank", (long long)l);
    }
}

/* All heads lie on this rank, so that the entries of all of them are known before: in the end exactly; meanwhile by the
 * bound of the competing entries, but for the protected entries and the slack of layers that are moved together. */
static void check_memory(kv_rig *r)
{
    lh_kv_forecast f;
    lh_kv_shape shape = kv_rig_shape(r);
    mt_try(lh_kv_forecast_make(
        &f, &shape, &(lh_kv_forecast_request){.policy = &r->plan, .tokens = r->of->tokens, .more = r->of->more}));
    int64_t held = lh_device_usage(r->device).now[LH_MEM_KV];
    const kv_rig_case *c = r->of;
    lh_protection p = lh_policy_protect(&r->fixed, &(lh_protect_request){.budget = r->fixed.budget, .seen = c->tokens});
    int64_t entry_bytes = 2 * c->dim * lh_dtype_bytes(c->type) + (int64_t)(sizeof(int32_t) + sizeof(float)),
            moved = c->layers * c->kv_heads * (p.sinks + p.recents + c->more) * entry_bytes, peak = kv_rig_peak(r);
    mt_check(held == f.held, "%lld bytes are held, %lld were forecast", (long long)held, (long long)f.held);
    mt_check(peak <= f.prefill_peak + moved, "the peak is %lld bytes, %lld were forecast", (long long)peak,
             (long long)f.prefill_peak);
}

START_TEST(test_layers_compete_as_if_all_of_them_were_there)
{
    lh_comm *self = NULL;
    mt_try(lh_comm_open_self(&self));
    for (int round = 0; round < 12; round++) {
        kv_rig_case c = layers_case(_i, round);
        kv_rig alone, all;
        kv_rig_result one = {0}, many = {0};
        ranking k;
        kv_rig_open(&alone, &c, self, &lh_ops_cpu);
        kv_rig_prefill(&alone, &one);
        kv_rig_gather(&alone, &one);
        check_memory(&alone);
        rank_all(&k, &alone, &one);
        share_by_hand(&k, &alone.fixed);
        for (int64_t cell = 0; cell < k.cells; cell++) check_cell(&k, &alone, &one, cell);
        kv_rig_open(&all, &c, mt_comm(), &lh_ops_cpu);
        kv_rig_prefill(&all, &many);
        kv_rig_gather(&all, &many);
        check_same(&c, &one, &many);
        mt_check(kv_rig_entries_are_whole(&all), "an entry is not the one of its position");
        lh_free(k.all);
        lh_free(k.room);
        kv_rig_result_clear(&one);
        kv_rig_result_clear(&many);
        kv_rig_close(&alone);
        kv_rig_close(&all);
    }
    lh_comm_close(self);
    mt_end();
}
END_TEST

/* ---- slot positions ---- */

/* Element i of a key at `position` of its prompt, turned on by `by` positions. */
static double turned(const kv_rig *r, int64_t layer, int64_t position, int64_t head, int64_t i, double by)
{
    const kv_rig_case *c = r->of;
    int64_t half = c->dim / 2, first = i < half ? i : i - half;
    double a = kv_rig_element(c, 'k', layer, position, head, first),
           b = kv_rig_element(c, 'k', layer, position, head, first + half), angle = by * kv_rig_frequency(c, first);
    return i < half ? a * cos(angle) - b * sin(angle) : b * cos(angle) + a * sin(angle);
}

/* Keys came in rotated by their positions; rows attend to them as rotated by their slots. */
static void check_turned(kv_rig *r, int64_t layer)
{
    const kv_rig_case *c = r->of;
    lh_ragged *view = NULL;
    mt_try(lh_kv_attended(r->kv, layer, lh_kv_seen(r->kv), &view));
    mt_try(lh_stream_sync(r->stream));
    for (int64_t h = 0; h < view->heads; h++)
        for (int64_t s = 0; s < view->len[h]; s++)
            for (int64_t i = 0; i < c->dim; i++) {
                int64_t at = (view->offset[h] + s), p = view->positions[at];
                double got = ((const float *)view->k)[at * c->dim + i];
                double want = turned(r, layer, p, r->heads.kv_first + h, i, (double)(s - p));
                mt_check(fabs(got - want) < 2e-4, "layer %lld slot %lld: %g is not %g", (long long)layer, (long long)s,
                         got, want);
            }
}

START_TEST(test_keys_are_turned_by_their_slots)
{
    static const char *const names[] = {"streaming", "recency", "h2o", "random"};
    for (int n = 0; n < 4; n++) {
        kv_rig_case c = {.heads = shapes[_i].heads,
                         .kv_heads = shapes[_i].kv_heads,
                         .dim = 8,
                         .layers = 2,
                         .tokens = 70,
                         .more = 8,
                         .type = LH_F32,
                         .seed = 9,
                         .policy = {.policy = names[n], .budget = "24", .parts = {.positions = "slot"}}};
        kv_rig r;
        kv_rig_result got = {0};
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_cpu);
        kv_rig_prefill(&r, &got);
        for (int64_t l = 0; l < c.layers; l++) {
            check_turned(&r, l);
            mt_check(lh_kv_rotary_position(r.kv, l, c.tokens + 2) == 26,
                     "the third token behind the prompt comes to slot %lld",
                     (long long)lh_kv_rotary_position(r.kv, l, c.tokens + 2));
        }
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("layers that compete, slot positions");
    TCase *laws = tcase_create("laws");
    tcase_add_loop_test(laws, test_layers_compete_as_if_all_of_them_were_there, 0, SHAPES);
    tcase_add_loop_test(laws, test_keys_are_turned_by_their_slots, 0, SHAPES);
    suite_add_tcase(s, laws);
    return mt_run(s);
}
