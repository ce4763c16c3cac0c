/* size_text.h - numbers of bytes as texts: rounded for people, and as the value of an option. */
#ifndef LH_BASE_SIZE_TEXT_H
#define LH_BASE_SIZE_TEXT_H

#include <stdint.h>

enum { LH_SIZE_TEXT = 32 };

/* "300 bytes", "45.0 KiB", "258.5 MiB", "19.14 GiB". Returns `out`. */
const char *lh_size_text(char out[LH_SIZE_TEXT], int64_t bytes);

/* A size with a unit, of 1024 as in Slurm and with "iB", of 1000 with "B": "512M", "80GiB", "80GB". 1, or 0 if the text
 * is none. */
int lh_size_read(int64_t *bytes, const char *text);

/* The exact value of an option: "512M", "45K", "1000B". Returns `out`. */
const char *lh_size_write(char out[LH_SIZE_TEXT], int64_t bytes);

#endif
