#include "lab/report/palette.h"

#include <stdio.h>
#include <string.h>

static const char *const references[] = {"oracle", "random", "full", "oracle-adaptive"};
enum { REFERENCES = sizeof references / sizeof *references };

int lh_dim_is_policies(const lh_figure_dim *dim)
{
    return dim->labels && (strcmp(dim->name, "policy") == 0 || strcmp(dim->name, "other policy") == 0);
}

static int64_t place(const lh_palette *palette, const char *label)
{
    for (int64_t i = 0; i < palette->count; i++)
        if (strcmp(palette->policies[i], label) == 0) return i;
    return -1;
}

static int reference(const char *label)
{
    for (int r = 0; r < REFERENCES; r++)
        if (strcmp(references[r], label) == 0) return r;
    return -1;
}

lh_status lh_palette_add(lh_palette *palette, const lh_figure *figure)
{
    for (int d = 0; d < figure->dim_count; d++) {
        const lh_figure_dim *dim = &figure->dims[d];
        for (int64_t i = 0; lh_dim_is_policies(dim) && i < dim->count; i++) {
            if (place(palette, dim->labels[i]) >= 0) continue;
            LH_TRY(lh_realloc(&palette->policies, palette->count + 1, sizeof *palette->policies));
            palette->policies[palette->count++] = dim->labels[i];
        }
    }
    return LH_OK;
}

void lh_palette_clear(lh_palette *palette)
{
    lh_free((void *)(uintptr_t)palette->policies);
    *palette = (lh_palette){0};
}

int64_t lh_ink(const lh_palette *palette, const lh_figure_dim *dim, int64_t i)
{
    int64_t ink = 0;
    if (!lh_dim_is_policies(dim))
        return dim->labels || dim->count <= LH_COLOURS ? i : LH_RAMP + i * (LH_RAMP_STEPS - 1) / (dim->count - 1);
    const int own = reference(dim->labels[i]);
    if (own >= 0) return -1 - own;
    for (int64_t p = 0; p < palette->count && strcmp(palette->policies[p], dim->labels[i]) != 0; p++)
        ink += reference(palette->policies[p]) < 0;
    return ink;
}

void lh_ink_class(int64_t ink, char out[LH_INK_CLASS])
{
    if (ink < 0)
        snprintf(out, LH_INK_CLASS, "c-%s", references[-1 - ink]);
    else if (ink >= LH_RAMP)
        snprintf(out, LH_INK_CLASS, "r%d", (int)(ink - LH_RAMP));
    else
        snprintf(out, LH_INK_CLASS, "c%d d%d", (int)(ink % LH_COLOURS), (int)(ink / LH_COLOURS % 4));
}
