/* Scores of presses of kvpress (presses.h5, made by tools/make_press_goldens.py), and those of the operations here. */
#include <math.h>
#include <stdio.h>

#include "base/h5.h"
#include "base/mem.h"
#include "kv/kv_oracle.h"

/* Keys, values and scores of one press, f32 and [heads, entries, dim] or [heads, entries]; y: room for scores. */
typedef struct press {
    float *k, *v, *scores, *y;
    int64_t heads, entries, dim, *offset, *len;
    lh_ragged kv;
} press;

static void get(lh_h5 *h5, const char *name, const char *part, int rank, lh_h5_shape *shape, float **out)
{
    char path[64];
    snprintf(path, sizeof path, "/%s/%s", name, part);
    mt_try(lh_h5_get(h5, path, &(lh_h5_shape){LH_F32, rank, {-1, -1, -1}}, shape, out));
}

static void open_press(press *p, const char *name)
{
    lh_h5 *h5 = NULL;
    lh_h5_shape k = {0}, other = {0};
    *p = (press){0};
    mt_try(lh_h5_open(&h5, LH_PRESSES, &(lh_h5_header){0}));
    get(h5, name, "k", 3, &k, &p->k);
    get(h5, name, "v", 3, &other, &p->v);
    get(h5, name, "scores", 2, &other, &p->scores);
    lh_h5_close(h5);
    p->heads = k.dims[0];
    p->entries = k.dims[1];
    p->dim = k.dims[2];
    mt_try(lh_calloc(&p->y, p->heads * p->entries, sizeof *p->y));
    mt_try(lh_calloc(&p->offset, p->heads, sizeof *p->offset));
    mt_try(lh_calloc(&p->len, p->heads, sizeof *p->len));
    for (int64_t h = 0; h < p->heads; h++) {
        p->offset[h] = h * p->entries;
        p->len[h] = p->entries;
    }
    p->kv =
        (lh_ragged){.k = p->k, .v = p->v, .offset = p->offset, .len = p->len, .heads = p->heads, .head_dim = p->dim};
}

static void close_press(press *p)
{
    lh_free(p->k), lh_free(p->v), lh_free(p->scores), lh_free(p->y), lh_free(p->offset), lh_free(p->len);
}

static void open_stream(lh_device **device, lh_stream **stream)
{
    mt_try(lh_device_open(device, &(lh_device_choice){.kind = LH_DEVICE_CPU}));
    mt_try(lh_stream_open(stream, *device));
}

/* Before the sinks and after the last part that has a next one, the press gives all entries 1. */
START_TEST(test_lag_scores_are_those_of_the_press)
{
    enum { SINKS = 4, LAG = 16 };
    press p;
    lh_device *device = NULL;
    lh_stream *stream = NULL;
    int64_t ranked = 0;
    open_press(&p, "lag");
    open_stream(&device, &stream);
    mt_try(kv_rig_backend(_i)->lag_scores(
        stream, &(lh_lag_scores_args){.y = p.y, .kv = &p.kv, .ld = p.entries, .first = SINKS, .lag = LAG}));
    for (int64_t i = 0; i < p.heads * p.entries; i++) {
        mt_check(p.scores[i] == 1 ? p.y[i] > 1 : p.y[i] == p.scores[i], "score %lld is %g, the press has %g",
                 (long long)i, (double)p.y[i], (double)p.scores[i]);
        ranked += p.scores[i] < 1;
    }
    mt_check(ranked == p.heads * (5 * LAG), "the press ranks %lld entries", (long long)ranked);
    close_press(&p);
    lh_stream_close(stream);
    lh_device_close(device);
    mt_end();
}
END_TEST

/* The press computes in f32. */
START_TEST(test_leverage_scores_are_those_of_the_press)
{
    press p;
    open_press(&p, "leverage");
    double *keys = oracle_alloc(p.entries * p.dim, sizeof *keys), *y = oracle_alloc(p.entries, sizeof *y);
    for (int64_t h = 0; h < p.heads; h++) {
        for (int64_t i = 0; i < p.entries * p.dim; i++) keys[i] = (double)p.k[h * p.entries * p.dim + i];
        oracle_leverage(keys, p.entries, p.dim, y);
        for (int64_t s = 0; s < p.entries; s++)
            mt_check(fabs(y[s] - (double)p.scores[h * p.entries + s]) < 1e-5, "score %lld is %g, the press has %g",
                     (long long)s, y[s], (double)p.scores[h * p.entries + s]);
    }
    lh_free(keys);
    lh_free(y);
    close_press(&p);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("presses");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, test_lag_scores_are_those_of_the_press, 0, kv_rig_backends());
    tcase_add_test(all, test_leverage_scores_are_those_of_the_press);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
