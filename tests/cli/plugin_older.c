/* A plug-in that was compiled with the header of version 0.2.0, whose lh_head_entries was shorter: what it needs of
 * that header stands here. It scores as plugin_odd.c does. */
#include <stddef.h>
#include <stdint.h>

typedef struct lh_head_entries {
    size_t size;
    int64_t layer, kv_head, count, head_dim;
    const int32_t *positions;
    const float *keys, *values;
    int64_t tokens, window, group, rows;
    const float *queries, *attention;
    const int32_t *first_seen, *last_seen;
    float softcap;
    const double *options;
    char *error;
} lh_head_entries;

typedef struct lh_plugin {
    size_t size;
    int64_t abi;
    const char *name, *help, *parts;
    int64_t reads;
    const void *options;
    const char *(*check)(const double *options);
    int (*score)(void *self, const lh_head_entries *entries, float *scores);
} lh_plugin;

static int score(void *self, const lh_head_entries *e, float *scores)
{
    (void)self;
    for (int64_t i = 0; i < e->count; i++) scores[i] = (float)(e->positions[i] % 7);
    return e->size > sizeof *e && e->softcap == 0 && !*e->error ? 0 : 8; /* the library has more members */
}

extern const lh_plugin longhaul_plugin;
const lh_plugin longhaul_plugin = {.size = sizeof longhaul_plugin, .abi = 1, .name = "older", .score = score};
