/* library.h - libraries of CUDA that are opened when they are needed: the program starts without them, and finds them
 * where toolkits, module systems and Python's packages put them. */
#ifndef LH_BASE_LIBRARY_H
#define LH_BASE_LIBRARY_H

#include "base/status.h"

/* Opens `name` ("libcublas.so.13"), which stays loaded, from the first of these places that has it: a folder of
 * LONGHAUL_CUDA_LIBS (separated by ':'; each may also be one of Python's packages, with nvidia/<package>/lib in it),
 * what the process has loaded already, CUDA_HOME and CUDA_PATH, the nvidia packages of the python on PATH, the system's
 * loader. LH_EUSAGE, with the way to say where it is: no place has it, or what LONGHAUL_CUDA_LIBS has cannot be loaded.
 */
lh_status lh_library_open(const char *name, void **out);

/* The file that an open library came from; as long as it is loaded. */
const char *lh_library_file(void *library);

#endif
