/* check_files.h - no output, log or table of a run may be one of its inputs, or another output. */
#ifndef LH_CLI_CHECK_FILES_H
#define LH_CLI_CHECK_FILES_H

#include "base/options.h"

/* LH_EUSAGE if a file that the command line writes is also read, lies among the files that are read of a folder, or is
 * written twice. Call it before the log is opened. */
lh_status lh_cli_check_files(const lh_options *options);

/* The same for one more file that is read, which `option` names within its text. Closes the log if it is that file. */
lh_status lh_cli_check_read(const lh_options *options, const char *option, const char *path);

#endif
