/* exit_code.h - the exit code where a library ends the process. libgomp, which cannot start a thread, and MPI_Init,
 * which finds no network, write a message and call exit(1); with us, code 1 says that the output is complete. */
#ifndef LH_BASE_EXIT_CODE_H
#define LH_BASE_EXIT_CODE_H

#include "base/status.h"

/* From now on an exit(1) ends the process with `code` instead; LH_OK: as it is. Returns what held before. One thread.
 */
lh_status lh_exit_code_for_others(lh_status code);

#endif
