/* palette.h - how a series looks, the same in every figure of a page: a colour of Okabe and Ito, a dash and a marker,
 * which page.css and page.js know by number. The policies that others are measured against have inks of their own. */
#ifndef LH_LAB_REPORT_PALETTE_H
#define LH_LAB_REPORT_PALETTE_H

#include "lab/analysis/figures.h"

enum { LH_COLOURS = 6, LH_RAMP = 1000, LH_RAMP_STEPS = 16, LH_INK_CLASS = 32 };

/* All policies of a page, in the order in which they appear; texts are borrowed. */
typedef struct lh_palette {
    const char **policies;
    int64_t count;
} lh_palette;

/* Adds the labels of every dimension that holds policies. */
lh_status lh_palette_add(lh_palette *palette, const lh_figure *figure);
void lh_palette_clear(lh_palette *palette);

/* 1 if the points of this dimension are policies. */
int lh_dim_is_policies(const lh_figure_dim *dim);

/* Number of a series: its place in the palette; of other dimensions, its place there, or from LH_RAMP on a step of a
 * ramp of 16 colours where many are in an order. -1 to -4: oracle, random, full, oracle-adaptive. */
int64_t lh_ink(const lh_palette *palette, const lh_figure_dim *dim, int64_t i);

/* Its classes: "c0 d1", "r15". */
void lh_ink_class(int64_t ink, char out[LH_INK_CLASS]);

#endif
