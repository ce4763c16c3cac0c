/* A plug-in that does what its options ask for; compiled with other macros it is one that no program loads. */
#include <longhaul/longhaul.h>
#include <math.h>
#include <stdio.h>

#ifndef ABI
#define ABI LH_PLUGIN_ABI
#define NAME "odd"
#define PARTS NULL
#endif

enum { SAY, SIZE };
enum { NOTHING, NAN_SCORE, FAIL, FAIL_ALONE };

static lh_status score(void *self, const lh_head_entries *e, float *scores)
{
    const double what = e->options[SAY];
    (void)self;
    for (int64_t i = 0; i < e->count; i++) scores[i] = what == NAN_SCORE ? NAN : (float)(e->positions[i] % 7);
    if (what == FAIL) return (lh_status)-1;
    if (what == FAIL_ALONE && e->kv_head == 1) {
        snprintf(e->error, LH_SCORE_ERROR, "no scale of size %g", e->options[SIZE]);
        return LH_EINPUT;
    }
    return LH_OK;
}

static const char *check(const double *options)
{
    return options[SAY] == NOTHING && options[SIZE] > 10 ? "'--size' above 10 needs '--does' something" : NULL;
}

static const char *const words[] = {"nothing", "nan", "fail", "fail-alone", NULL};
static const lh_plugin_option options[] = {
    {.name = "does", .def = "nothing", .help = "What it does.", .words = words},
    {.name = "size", .def = "3", .help = "A size.", .min = 1, .max = 100, .integer = 1},
    {.name = "real", .def = "0.5", .help = "A number."},
    {.name = NULL}};

const lh_plugin longhaul_plugin = {.size = sizeof longhaul_plugin,
                                   .abi = ABI,
                                   .name = NAME,
                                   .parts = PARTS,
                                   .options = options,
                                   .check = check,
                                   .score = score};
