/* A plug-in that scores by the hidden states of the observed rows alone. While there is a file "stop", layer 2 fails.
 */
#include <longhaul/longhaul.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* The last rows of the prompt, which come from a norm. */
static int is_right(const lh_head_entries *e)
{
    for (int64_t row = 0; row < e->rows; row++) {
        double squares = 0;
        for (int64_t i = 0; i < e->hidden_size; i++) squares += pow((double)e->hidden[row * e->hidden_size + i], 2);
        if (e->row_positions[row] != e->tokens - e->rows + row || fabs(squares / (double)e->hidden_size - 1) > 0.01)
            return 0;
    }
    return e->rows > 0 && !e->queries && !e->attention;
}

static lh_status score(void *self, const lh_head_entries *e, float *scores)
{
    (void)self;
    if (access("stop", F_OK) == 0 && e->layer == 2) return LH_EINTERNAL;
    if (!is_right(e)) snprintf(e->error, LH_SCORE_ERROR, "the rows are wrong");
    for (int64_t i = 0; i < e->count; i++) {
        double sum = 0;
        for (int64_t row = 0; row < e->rows; row++)
            for (int64_t x = 0; x < e->head_dim; x++)
                sum += (double)e->hidden[row * e->hidden_size + x] * (double)e->keys[i * e->head_dim + x];
        scores[i] = (float)sum;
    }
    return *e->error ? LH_EINTERNAL : LH_OK;
}

const lh_plugin longhaul_plugin = {.size = sizeof longhaul_plugin,
                                   .abi = LH_PLUGIN_ABI,
                                   .name = "hidden",
                                   .parts = "--window 16",
                                   .reads = LH_READS_HIDDEN,
                                   .score = score};
