/* keydiff.c - a score as a plug-in (docs/adding.md): KeyDiff (arXiv 2504.15364), which keeps the keys that
 * differ most from the mean direction of the keys of their head.
 *
 *     cc -shared -fPIC keydiff.c -o keydiff.so $(pkg-config --cflags longhaul) -lm
 *     longhaul generate -m model.h5 -f book.txt --policy ./keydiff.so --budget 20% */
#include <longhaul/longhaul.h>
#include <math.h>

enum { DIM = 1024 }; /* dimensions of a head, at most */

/* The direction of a vector of n numbers. */
static void direction(double *out, const float *x, int64_t n)
{
    double squares = 1e-30;
    for (int64_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    for (int64_t i = 0; i < n; i++) out[i] = (double)x[i] / sqrt(squares);
}

static lh_status score(void *self, const lh_head_entries *e, float *scores)
{
    const int64_t n = e->head_dim;
    double key[DIM], mean[DIM] = {0}, squares = 1e-30;
    (void)self;
    for (int64_t i = 0; i < e->count; i++) {
        direction(key, e->keys + i * n, n);
        for (int64_t x = 0; x < n; x++) mean[x] += key[x];
    }
    for (int64_t x = 0; x < n; x++) squares += mean[x] * mean[x];
    for (int64_t i = 0; i < e->count; i++) {
        double cosine = 0;
        direction(key, e->keys + i * n, n);
        for (int64_t x = 0; x < n; x++) cosine += key[x] * mean[x] / sqrt(squares);
        scores[i] = (float)-cosine;
    }
    return LH_OK;
}

const lh_plugin longhaul_plugin = {.size = sizeof longhaul_plugin,
                                   .abi = LH_PLUGIN_ABI,
                                   .name = "keydiff-anew",
                                   .help = "keys that differ from the mean key of their head",
                                   .score = score};
