/* exit_code.h - the exit code where a library ends the process. libgomp, which cannot start a thread, writes a message
 * and calls exit(1); with us, code 1 says that the output is complete. */
#ifndef LH_BASE_EXIT_CODE_H
#define LH_BASE_EXIT_CODE_H

#include "base/status.h"

/* From now on an exit(1) ends the process with `code` instead; LH_OK: as it is. One thread. */
void lh_exit_code_for_others(lh_status code);

#endif
