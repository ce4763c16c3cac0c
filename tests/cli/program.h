/* program.h - the program as a person runs it: command lines in, exit code, stdout and stderr out. */
#ifndef LH_TESTS_CLI_PROGRAM_H
#define LH_TESTS_CLI_PROGRAM_H

#include <stdint.h>

#include "base/mem.h"

typedef struct program_result {
    int code; /* of the program, or 128 + the signal that ended it */
    lh_buf out, err;
} program_result;

/* What follows up to program_run may be called outside a test, where Check cannot record a failure: this ends the test
 * program unless `done`. */
void program_must(int done, const char *what);

/* A folder of this test program, made once and the working folder from then on; program_leave removes it whole. Where
 * there are CUDA devices, the program does not see them (it does see emulated ones): tests are the same everywhere. */
void program_enter(void);
void program_leave(void);

/* "longhaul <arguments>" through sh, on `ranks` ranks (1: without mpirun). Frees what *r held before; begin with {0}.
 */
void program_run(program_result *r, int ranks, const char *arguments, ...) __attribute__((format(printf, 3, 4)));
void program_clear(program_result *r);

/* Fail the test, showing stderr, unless the exit code is this one. */
void program_exits(const program_result *r, int code);

/* Fail unless stderr has exactly one line of an error, and `part` is in it. */
void program_says(const program_result *r, const char *part);

/* The whole of a refusal: "longhaul <line>" ends with this code, says one error with `part` in it, and writes nothing to
 * stdout. */
void program_refuses(int ranks, int code, const char *part, const char *line);

/* Number of lines in `text` that begin with `start`. */
int program_lines(const char *text, const char *start);

/* A file of the working folder. */
void program_file(const char *name, const char *text);

#endif
