/* assets.h - page.css, the scripts and D3 as they were when the program was built (embed.cmake makes the source). */
#ifndef LH_LAB_REPORT_ASSETS_H
#define LH_LAB_REPORT_ASSETS_H

#include <stdint.h>

typedef struct lh_asset {
    const unsigned char *text;
    int64_t bytes; /* 0: not in this build */
    unsigned char sha256[32];
} lh_asset;

extern const lh_asset lh_asset_css, lh_asset_d3, lh_asset_js;

#endif
