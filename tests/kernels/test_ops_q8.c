/* Caches of 8 bits: `ref` against the definition in q8.h, `cpu` against `ref` bit by bit where entries are quantised or
 * moved; and attention against the same entries in f32. */
#include <math.h>
#include <string.h>

#include "attend_case.h"
#include "cases.h"
#include "kernels/q8.h"

/* As in test_ops_attention: products of the same f32 numbers, added in another order; where queries and weights of a
 * block may be rounded to bf16, on a GPU, as over a bf16 cache. */
static const tolerance near_f32 = {1e-5, 5e-5}, near_bf16 = {0, 5e-2};

/* Rows of every length, with zeros, ties, numbers that are tiny, and numbers that are not finite. */
static float *rows_make(lot *m, int64_t rows, int64_t cols, int64_t ld, uint64_t seed)
{
    float *x = lot_normals(m, rows * ld, 3.0f, seed);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < cols && r % 7 == 1; i++) x[r * ld + i] = 0.0f;
        for (int64_t i = 0; i < cols && r % 7 == 2; i++) x[r * ld + i] *= 1e-39f;
        for (int64_t i = 0; i < cols && r % 7 == 3; i++) x[r * ld + i] = (float)(i % 3) * 0.5f - 63.5f;
        if (cols && r % 7 == 5) x[r * ld + cols / 2] = r % 2 ? NAN : -INFINITY;
    }
    return x;
}

START_TEST(test_keys_are_transformed_by_hadamard_matrices)
{
    for (int n = 0; n < 10; n++) {
        lot m = {0};
        const int64_t d = test_dims[n];
        int64_t block = 1;
        while (d % (2 * block) == 0) block *= 2;
        ck_assert_int_eq(lh_q8_hadamard_block(d), block);
        float *x = lot_normals(&m, d, 3.0f, (uint64_t)n), *y = lot_copy(&m, x, d * 4);
        lh_q8_hadamard(y, d);
        for (int64_t i = 0; i < d; i++) {
            double want = 0, size = 0;
            for (int64_t j = i / block * block; j < (i / block + 1) * block; j++) {
                want += (__builtin_popcountll((uint64_t)(i % block & j % block)) % 2 ? -1.0 : 1.0) * (double)x[j];
                size += fabs((double)x[j]);
            }
            ck_assert(fabs((double)y[i] - want) <= 8 * 0x1p-24 * size); /* at most 8 sums */
        }
        lh_q8_hadamard_inverse(y, d);
        for (int64_t i = 0; i < d; i++) ck_assert(fabsf(y[i] - x[i]) <= 1e-5f * (fabsf(x[i]) + 10));
        for (int64_t i = 0; i < d; i++) x[i] = y[i] = (float)((i * 37 + n) % 200 - 100); /* their sums are exact */
        lh_q8_hadamard(y, d);
        lh_q8_hadamard_inverse(y, d);
        check_same(y, x, d * 4, "%d dimensions", (int)d);
        lot_end(&m);
    }
}
END_TEST

START_TEST(test_convert_rounds_each_row_to_the_nearest_codes_of_its_scale)
{
    static const int64_t widths[] = {1, 3, 16, 31, 64, 80, 96, 128, 256};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 72; n++) {
            lot m = {0};
            const int are_keys = n / 36;
            const int64_t cols = widths[n % 9], rows = 1 + n * 5 % 23, ld = cols + n % 3;
            const lh_dtype from = n / 9 % 2 ? LH_BF16 : LH_F32, to = n / 18 % 2 ? LH_BF16 : LH_F32;
            float *x = rows_make(&m, rows, cols, ld, (uint64_t)n), *scales = lot_new(&m, rows * 4);
            const void *src = from == LH_BF16 ? (const void *)lot_bf16(&m, x, rows * ld) : x;
            int8_t *codes = lot_new(&m, rows * cols);
            char *wide = lot_new(&m, rows * cols * 4);
            int8_t *on_codes = rig_new(&g, rows * cols);
            float *on_scales = rig_new(&g, rows * 4);
            void *on_wide = rig_new(&g, rows * cols * 4);
            RUN(&g, convert, .dst = on_codes, .dst_scale = on_scales,
                .src = rig_put(&g, src, rows * ld * lh_dtype_bytes(from)), .dst_type = LH_Q8, .src_type = from,
                .are_keys = are_keys, .rows = rows, .cols = cols, .dst_ld = cols, .src_ld = ld);
            RUN(&g, convert, .dst = on_wide, .src = on_codes, .src_scale = on_scales, .dst_type = to, .src_type = LH_Q8,
                .are_keys = are_keys, .rows = rows, .cols = cols, .dst_ld = cols, .src_ld = cols);
            rig_get(&g, codes, on_codes, rows * cols);
            rig_get(&g, scales, on_scales, rows * 4);
            rig_get(&g, wide, on_wide, rows * cols * lh_dtype_bytes(to));
            for (int64_t r = 0; r < rows; r++) {
                float row[256], products[256], largest = 0;
                lh_dtype_convert(row, LH_F32, (const char *)src + r * ld * lh_dtype_bytes(from), from, cols);
                if (are_keys) lh_q8_hadamard(row, cols);
                for (int64_t i = 0; i < cols; i++) {
                    largest = fmaxf(largest, fabsf(row[i]));
                    products[i] = scales[r] * codes[r * cols + i];
                    if (r % 7 != 5 && largest > 1e-30f)
                        ck_assert(fabs((double)row[i] - (double)products[i]) <=
                                  0.50001 * (double)scales[r]); /* x / scale is rounded */
                }
                if (are_keys) lh_q8_hadamard_inverse(products, cols);
                const int finite = r % 7 != 5;
                ck_assert(finite ? scales[r] == largest / 127 : !isfinite(scales[r]));
                for (int64_t i = 0; i < cols; i++) {
                    float got, want, rounded;
                    lh_dtype_convert(&rounded, to, &products[i], LH_F32, 1);
                    lh_dtype_convert(&want, LH_F32, &rounded, to, 1);
                    lh_dtype_convert(&got, LH_F32, wide + (r * cols + i) * lh_dtype_bytes(to), to, 1);
                    ck_assert(finite ? got == want : isnan(got));
                }
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_append_quantises_what_it_stores)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 20; n++) {
            lot m = {0};
            cache c;
            const int64_t heads = 1 + n % 4, d = test_dims[n % 10], tokens = 1 + n % 5, ld = heads * d + n % 3;
            int64_t *len = lot_new(&m, heads * 8);
            for (int64_t h = 0; h < heads; h++) len[h] = draw(5, (uint64_t)(n * 10 + h), 20);
            cache_spec spec = {.heads = heads, .head_dim = d, .slack = tokens + 1, .last = 40, .len = len};
            spec.order = CACHE_GAPS;
            cache_make(&m, &c, &spec);
            cache_quantise(&m, &c);
            float *k = rows_make(&m, tokens, heads * d, ld, 1), *v = rows_make(&m, tokens, heads * d, ld, 2);
            int32_t *positions = lot_new(&m, tokens * 4);
            lh_ragged on = rig_cache(&g, &c);
            RUN(&g, append, .seqs = &on, .batch = 1, .tokens = tokens, .ld = ld, .k = rig_put(&g, k, tokens * ld * 4),
                .v = rig_put(&g, v, tokens * ld * 4), .positions = rig_put(&g, positions, tokens * 4));
            for (int64_t h = 0; h < heads; h++)
                for (int64_t t = 0; t < tokens; t++) {
                    const int64_t slot = c.host.offset[h] + len[h] + t, at = t * ld + h * d;
                    float key[256];
                    memcpy(key, k + at, (size_t)d * 4);
                    lh_q8_hadamard(key, d);
                    c.host.k_scale[slot] = lh_q8_row((int8_t *)c.host.k + slot * d, key, d);
                    c.host.v_scale[slot] = lh_q8_row((int8_t *)c.host.v + slot * d, v + at, d);
                }
            const struct {
                const void *got, *want;
                int64_t bytes;
            } arrays[] = {{on.k, c.host.k, c.slots * d},
                          {on.v, c.host.v, c.slots * d},
                          {on.k_scale, c.host.k_scale, c.slots * 4},
                          {on.v_scale, c.host.v_scale, c.slots * 4}};
            for (size_t i = 0; i < 4; i++) {
                char *got = lot_new(&m, arrays[i].bytes);
                rig_get(&g, got, arrays[i].got, arrays[i].bytes);
                check_same(got, arrays[i].want, arrays[i].bytes, "array %zu, case %d, %s", i, n, g.ops->name);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Entry `to` of head h on the device is entry `from` of the host's cache. */
static void check_entry(rig *g, const lh_ragged *on, const cache *c, const int64_t at[2])
{
    const int64_t d = c->host.head_dim;
    int8_t got[256];
    float scale;
    const int8_t *codes[] = {c->host.k, c->host.v};
    const float *scales[] = {c->host.k_scale, c->host.v_scale}, *on_scales[] = {on->k_scale, on->v_scale};
    const int8_t *on_codes[] = {on->k, on->v};
    for (int i = 0; i < 2; i++) {
        rig_get(g, got, on_codes[i] + at[0] * d, d);
        check_same(got, codes[i] + at[1] * d, d, "codes %d, %s", i, g->ops->name);
        rig_get(g, &scale, on_scales[i] + at[0], 4);
        check_same(&scale, scales[i] + at[1], 4, "scale %d, %s", i, g->ops->name);
    }
}

START_TEST(test_moving_entries_moves_codes_and_scales)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 16; n++) {
            lot m = {0};
            cache c;
            const int64_t heads = 1 + n % 3, d = test_dims[n % 10], ld = 60;
            int64_t len[3], zero = 0;
            for (int64_t h = 0; h < heads; h++) len[h] = 20 + draw(5, (uint64_t)(n * 10 + h), 40);
            cache_spec spec = {.heads = heads, .head_dim = d, .slack = 1, .last = 70, .len = len, .order = CACHE_GAPS};
            cache_make(&m, &c, &spec);
            cache_quantise(&m, &c);
            uint8_t *state = lot_new(&m, heads * ld);
            for (int64_t i = 0; i < heads * ld; i++)
                state[i] = draw(9, (uint64_t)(n * 1000 + i), 3) ? LH_ENTRY_KEEP : LH_ENTRY_DROP;
            lh_ragged on = rig_cache(&g, &c), one = on;
            int32_t order[20];
            for (int i = 0; i < 20; i++) order[i] = 19 - i;
            one.heads = 1;
            one.k = rig_new(&g, 20 * d);
            one.v = rig_new(&g, 20 * d);
            one.k_scale = rig_new(&g, 80);
            one.v_scale = rig_new(&g, 80);
            one.positions = rig_new(&g, 80);
            one.offset = rig_put(&g, &zero, 8);
            one.len = rig_new(&g, 8);
            RUN(&g, gather_entries, .dst = &one, .src = &on, .head = heads - 1,
                .order = rig_put(&g, order, sizeof order), .count = 20);
            for (int i = 0; i < 20; i++)
                check_entry(&g, &one, &c, (const int64_t[]){i, c.host.offset[heads - 1] + order[i]});
            RUN(&g, compact, .dst = &on, .src = &on, .state = rig_put(&g, state, heads * ld), .batch = 1, .ld = ld,
                .kind = LH_COMPACT_IN_ORDER);
            for (int64_t h = 0; h < heads; h++)
                for (int64_t s = 0, kept = 0; s < len[h]; s++)
                    if (state[h * ld + s] == LH_ENTRY_KEEP)
                        check_entry(&g, &on, &c, (const int64_t[]){c.host.offset[h] + kept++, c.host.offset[h] + s});
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

static const lh_grouping maps[] = {{1, 1, 0}, {3, 3, 0}, {8, 4, 0}, {5, 2, 1}, {12, 6, 0}};

START_TEST(test_attention_is_that_over_the_widened_entries)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 120; n += rig_step(&g)) {
            lot m = {0};
            attend_case c, wide;
            const attend_size size = {.dim = test_dims[n % 10],
                                      .tokens = test_tokens[n % 5],
                                      .past = n % 3 == 0 ? 700 : 90,
                                      .map = maps[n % 5],
                                      .variant = n};
            (n % 2 ? block_make : decode_make)(&m, &c, &size);
            wide = c;
            c.any_order = n / 2 % 2;
            for (int64_t i = 0; i < c.batch; i++) {
                cache_quantise(&m, &c.kv[i]);
                wide.kv[i] = c.kv[i];
                cache_widen(&m, &wide.kv[i]);
                if (n / 4 % 2) cache_split(&m, &c.kv[i], (uint64_t)n);
            }
            const attended got = (n % 2 ? block_run : decode_run)(&m, &g, &c),
                           want = (n % 2 ? block_run : decode_run)(&m, &g, &wide);
            const int rounds = n % 2 && g.ops->device == LH_DEVICE_CUDA;
            check_attended(&got, &want, rounds ? near_bf16 : near_f32, "q8", n);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    return rig_run("q8", (const TTest *const[]){test_keys_are_transformed_by_hadamard_matrices,
                                                test_convert_rounds_each_row_to_the_nearest_codes_of_its_scale,
                                                test_append_quantises_what_it_stores,
                                                test_moving_entries_moves_codes_and_scales,
                                                test_attention_is_that_over_the_widened_entries, NULL});
}
