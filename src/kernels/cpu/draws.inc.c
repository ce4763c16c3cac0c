/* Random scores. Philox and the logarithms go over whole runs of DRAWS entries, so that loops become vector code and an
 * entry's bits do not depend on where it stands in its run. */
#include "kernels/cpu/common.h"

enum { DRAWS = 64 };

/* words[i] = word 0 of Philox 4x32-10 (base/rng.h) for the entries of DRAWS slots. */
static void draw_words(uint32_t words[DRAWS], const lh_draw *draw, int64_t h, const uint32_t positions[DRAWS])
{
    uint32_t c[4][DRAWS], k0 = draw->key[0], k1 = draw->key[1];
    for (int i = 0; i < DRAWS; i++) {
        c[0][i] = draw->counter[0];
        c[1][i] = draw->counter[1];
        c[2][i] = (uint32_t)(draw->first_head + h);
        c[3][i] = positions[i];
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        for (int i = 0; i < DRAWS; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c[0][i], p1 = (uint64_t)0xCD9E8D57u * c[2][i];
            c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
            c[1][i] = (uint32_t)p1;
            c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
            c[3][i] = (uint32_t)p0;
        }
    }
    memcpy(words, c[0], sizeof c[0]);
}

/* The words of slots [first, first + DRAWS) of head h; after its end they are of position 0. */
static void draw_slots(uint32_t words[DRAWS], const lh_draw *draw, const lh_ragged *kv, const int64_t at[2])
{
    uint32_t positions[DRAWS] = {0};
    int64_t h = at[0], first = at[1], n = lh_min_i64(kv->len[h] - first, DRAWS);
    for (int64_t i = 0; i < n; i++) positions[i] = (uint32_t)entry_position(kv, h, first + i);
    draw_words(words, draw, h, positions);
}

static lh_status op_random_scores(lh_stream *stream, const lh_random_scores_args *a)
{
    (void)stream;
#pragma omp parallel for collapse(2) if (a->kv->heads * a->ld >= PARALLEL_FROM / 4)
    for (int64_t h = 0; h < a->kv->heads; h++) {
        for (int64_t first = 0; first < a->ld; first += DRAWS) {
            uint32_t words[DRAWS];
            int64_t end = lh_min_i64(first + DRAWS, a->kv->len[h]);
            if (first < end) draw_slots(words, &a->draw, a->kv, (const int64_t[]){h, first});
            for (int64_t s = first; s < end; s++) a->y[h * a->ld + s] = (float)(words[s - first] >> 8) * 0x1p-24f;
        }
    }
    return LH_OK;
}

static lh_status op_gumbel_scores(lh_stream *stream, const lh_gumbel_scores_args *a)
{
    (void)stream;
#pragma omp parallel for collapse(2) if (a->kv->heads * a->ld >= PARALLEL_FROM / 16)
    for (int64_t h = 0; h < a->kv->heads; h++) {
        for (int64_t first = 0; first < a->ld; first += DRAWS) {
            uint32_t words[DRAWS];
            const float *x = a->x + h * a->ld;
            int64_t end = lh_min_i64(first + DRAWS, a->kv->len[h]);
            if (first < end) draw_slots(words, &a->draw, a->kv, (const int64_t[]){h, first});
            for (int64_t s = first; s < end; s++) {
                float u = ((float)(words[s - first] >> 8) + 1.0f) * 0x1p-24f;
                a->y[h * a->ld + s] = x[s] / a->temperature - logf(-logf(u));
            }
        }
    }
    return LH_OK;
}
