/* library.h - CUDA's libraries, which are opened when they are needed: the program starts without them, and finds them
 * where toolkits, module systems and Python's packages install them. */
#ifndef LH_BASE_LIBRARY_H
#define LH_BASE_LIBRARY_H

#include "base/status.h"

/* Open `name` ("libcublas.so.13"), which stays loaded, from the first place that has it: a folder of
 * LONGHAUL_CUDA_LIBS (separated by ':'; a folder of Python's packages, with nvidia/<package>/lib in it, will do), the
 * libraries that the process has loaded, CUDA_HOME and CUDA_PATH, the nvidia packages of the python on PATH, the
 * system's loader. LH_EUSAGE, naming LONGHAUL_CUDA_LIBS: no place has it, or the file in LONGHAUL_CUDA_LIBS cannot be
 * loaded. */
lh_status lh_library_open(const char *name, void **out);

/* The file of an open library; valid while it is loaded. */
const char *lh_library_file(void *library);

#endif
