/* size_text.h - a number of bytes for people: "300 bytes", "45.0 KiB", "258.5 MiB", "19.14 GiB". */
#ifndef LH_BASE_SIZE_TEXT_H
#define LH_BASE_SIZE_TEXT_H

#include <stdint.h>

enum { LH_SIZE_TEXT = 32 };

/* Returns `out`. */
const char *lh_size_text(char out[LH_SIZE_TEXT], int64_t bytes);

#endif
