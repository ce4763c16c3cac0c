/* same_files.h - files of the program, array by array: what a run writes on any number of ranks is the same. */
#ifndef LH_TESTS_CLI_SAME_FILES_H
#define LH_TESTS_CLI_SAME_FILES_H

#include "base/h5.h"

/* A file of that kind ("trace", "cache", ...), which there must be. */
lh_h5 *same_files_open(const char *kind, const char *path);

/* The arrays and texts of one file are those of another, bit for bit; but seconds in /timings. */
void same_files(const char *kind, const char *one, const char *other);

/* The arrays of one; and one of them. */
void same_arrays(const char *kind, const char *one, const char *other);
void same_array(lh_h5 *one, lh_h5 *other, const char *name);

#endif
