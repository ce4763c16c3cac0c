/* snapkv.c - a plug-in that reads query rows and has an option: SnapKV (arXiv 2404.14469), the attention that the last
 * rows of the prompt give an entry, a mean over rows and query heads. The engine observes the rows, pools the scores
 * and keeps the window, as `parts` says.
 *
 *     cc -shared -fPIC snapkv.c -o snapkv.so $(pkg-config --cflags longhaul) -lm
 *     longhaul generate -m model.h5 -f book.txt --policy './snapkv.so --temperature 0.5' --budget 20% */
#include <longhaul/longhaul.h>
#include <math.h>
#include <stdlib.h>

static double logit(const lh_head_entries *e, const float *query, int64_t i)
{
    double dot = 0;
    for (int64_t x = 0; x < e->head_dim; x++) dot += (double)query[x] * (double)e->keys[i * e->head_dim + x];
    if (e->softcap > 0) dot = (double)e->softcap * tanh(dot / (double)e->softcap);
    return dot / e->options[0];
}

/* Adds the softmax of a row, of a query head, over the entries that it sees, times `share`. */
static void add_row(const lh_head_entries *e, int64_t row, const float *query, double share, double *weights,
                    float *scores)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < e->count; i++) {
        const int is_seen = e->positions[i] >= e->first_seen[row] && e->positions[i] <= e->last_seen[row];
        weights[i] = is_seen ? logit(e, query, i) : -INFINITY;
        if (weights[i] > largest) largest = weights[i];
    }
    for (int64_t i = 0; i < e->count; i++) sum += weights[i] = exp(weights[i] - largest);
    for (int64_t i = 0; i < e->count && sum > 0; i++) scores[i] += (float)(weights[i] / sum * share);
}

static lh_status score(void *self, const lh_head_entries *e, float *scores)
{
    double *weights = malloc((size_t)e->count * sizeof *weights);
    (void)self;
    if (!weights) return LH_ENOMEM;
    for (int64_t i = 0; i < e->count; i++) scores[i] = 0;
    for (int64_t row = 0; row < e->rows; row++)
        for (int64_t g = 0; g < e->group; g++)
            add_row(e, row, e->queries + (row * e->group + g) * e->head_dim, 1.0 / (double)(e->rows * e->group),
                    weights, scores);
    free(weights);
    return LH_OK;
}

static const lh_plugin_option options[] = {
    {.name = "temperature", .def = "1", .help = "Temperature of the softmax.", .min = 0.01, .max = 100},
    {.name = NULL}};

const lh_plugin longhaul_plugin = {.size = sizeof longhaul_plugin,
                                   .abi = LH_PLUGIN_ABI,
                                   .name = "snapkv-anew",
                                   .help = "what the last rows of the prompt attend to",
                                   .parts = "--window 32 --pool max --pool-size 7",
                                   .reads = LH_READS_QUERIES,
                                   .options = options,
                                   .score = score};
