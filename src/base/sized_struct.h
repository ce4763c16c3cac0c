/* sized_struct.h - structs of a program that begin with their size, so that programs and libraries of other versions
 * understand each other (longhaul.h). */
#ifndef LH_BASE_SIZED_STRUCT_H
#define LH_BASE_SIZED_STRUCT_H

#include "base/status.h"

/* *own = a struct of a program, which begins with its size: what the program does not know of it is 0. own: `bytes` of
 * this library's struct. LH_EUSAGE, naming the struct, if `given` is NULL, has no size, or sets what this library does
 * not know. */
lh_status lh_struct_read(void *own, size_t bytes, const void *given, const char *name);

/* The other way: as much of `own` as the program's struct at `out` has room for by its size. */
lh_status lh_struct_write(void *out, const void *own, size_t bytes, const char *name);

#endif
