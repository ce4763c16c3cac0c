/* file_layout.h - names that cache files and keep sets share. */
#ifndef LH_CACHE_FILE_LAYOUT_H
#define LH_CACHE_FILE_LAYOUT_H

#include <stdint.h>
#include <stdio.h>

enum { LH_CACHE_SCHEMA = 1, LH_KEEP_SETS_SCHEMA = 1 };

typedef struct lh_layer_name {
    char text[64];
} lh_layer_name;

/* "/layers/007/k"; array NULL: the layer's group. */
static inline const char *lh_layer_array(lh_layer_name *name, int64_t layer, const char *array)
{
    snprintf(name->text, sizeof name->text, "/layers/%03lld%s%s", (long long)layer, array ? "/" : "",
             array ? array : "");
    return name->text;
}

#endif
