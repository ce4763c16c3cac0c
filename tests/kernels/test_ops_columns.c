#include <math.h>
#include <string.h>

#include "attend_case.h"
#include "suite.h"

/* A weight is off by at most 1e-5 of itself (see test_ops_attention.c), and so is a sum of weights, which are positive.
 */
static const tolerance near_f32 = {3e-5, 1e-6};

/* ref adds in f64, but lse comes as f32: exp of a rounded lse of up to 16 is off by 1e-6 of itself. */
static const tolerance near_f64 = {2e-6, 1e-7};

/* Rows that are at the end of a cache, and their lse from ref. */
static const float *window_make(lot *m, rig *ref, attend_case *c, const attend_size *size)
{
    block_make(m, c, size);
    return block_run(m, ref, c).lse;
}

static int64_t longest(const attend_case *c)
{
    int64_t most = 0;
    for (int64_t h = 0; h < c->kv[0].host.heads; h++) most = c->kv[0].host.len[h] > most ? c->kv[0].host.len[h] : most;
    return most;
}

static attend_size size_at(int n)
{
    const int64_t rows[] = {32, 1, 2, 8, 33, 64, 0};
    int64_t group = 1 + n % 5, heads = 1 + n / 3 % 7;
    return (attend_size){test_dims[n % 10], rows[n % 7], n * 11 % 160, {heads, group, n % 3 % group}, n};
}

START_TEST(test_ref_adds_the_weights_of_the_formula)
{
    rig g;
    rig_open(&g, &lh_ops_ref);
    for (int n = 0; n < 120; n++) {
        lot m = {0};
        attend_case c;
        attend_size size = size_at(n);
        const float *lse = window_make(&m, &g, &c, &size);
        int64_t cols = longest(&c) + 2;
        const float *got = columns_run(&m, &g, &c, lse, (const int64_t[]){0, cols});
        double *w = lot_new(&m, c.kv[0].slots * 8 + 8), *sum = lot_new(&m, cols * 8);
        for (int64_t i = 0; i < c.map.heads; i++) {
            int64_t len = c.kv[0].host.len[(c.map.first + i) / c.map.group];
            memset(sum, 0, (size_t)cols * 8);
            for (int64_t r = 0; r < c.tokens; r++) {
                row_weights(&c, &c.kv[0], r, i, w);
                for (int64_t j = 0; j < len; j++) sum[j] += w[j];
            }
            for (int64_t j = 0; j < cols; j++) {
                float want = (float)sum[j];
                check_near(&got[i * (cols + 3) + j], &want, 1, near_f64, "column sums, case %d", n);
            }
        }
        lot_end(&m);
    }
    rig_close(&g);
}
END_TEST

START_TEST(test_columns_of_every_backend_are_those_of_ref)
{
    for (int b = 1; lh_ops_at(b); b++) {
        rig ref, mine;
        rig_open(&ref, lh_ops_at(0));
        rig_open(&mine, lh_ops_at(b));
        for (int n = 0; n < 420; n++) {
            lot m = {0};
            attend_case c;
            attend_size size = size_at(n);
            if (n % 21 == 0) size.past = 1500;
            const float *lse = window_make(&m, &ref, &c, &size);
            int64_t most = longest(&c), first = n % 4 ? draw(3, (uint64_t)n, most + 3) : 0;
            int64_t range[2] = {first, n % 3 ? first + draw(4, (uint64_t)n, most + 5) : most};
            if (range[1] < first) range[1] = first;
            const float *got = columns_run(&m, &mine, &c, lse, range), *want = columns_run(&m, &ref, &c, lse, range);
            check_near(got, want, c.map.heads * (range[1] - first + 3), near_f32, "columns, case %d, %s", n,
                       mine.ops->name);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

/* Every row has a mass of one, so all columns together hold as many as there are rows that see something. */
START_TEST(test_the_columns_of_a_head_hold_the_mass_of_its_rows)
{
    for (int b = 0; lh_ops_at(b); b++) {
        rig ref, g;
        rig_open(&ref, lh_ops_at(0));
        rig_open(&g, lh_ops_at(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            attend_case c;
            attend_size size = size_at(n);
            const float *lse = window_make(&m, &ref, &c, &size);
            int64_t cols = longest(&c);
            const float *sums = columns_run(&m, &g, &c, lse, (const int64_t[]){0, cols});
            for (int64_t i = 0; i < c.map.heads; i++) {
                double mass = 0, rows = 0;
                for (int64_t j = 0; j < cols; j++) mass += sums[i * (cols + 3) + j];
                for (int64_t r = 0; r < c.tokens; r++) rows += lse[r * c.map.heads + i] > -INFINITY;
                ck_assert_msg(fabs(mass - rows) <= 3e-5 * rows, "%s, case %d: %g rows have a mass of %g", g.ops->name,
                              n, rows, mass);
            }
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_ref_adds_the_weights_of_the_formula,
                                  test_columns_of_every_backend_are_those_of_ref,
                                  test_the_columns_of_a_head_hold_the_mass_of_its_rows, NULL};
    return suite_run("kernels/columns", tests);
}
