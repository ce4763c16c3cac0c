/* check_files.h - no output, log or table of a run may be one of its inputs, or another output, or replace a file that
 * is not of its kind. */
#ifndef LH_SHELL_CHECK_FILES_H
#define LH_SHELL_CHECK_FILES_H

#include "base/options.h"

/* LH_EUSAGE if a file that the command line writes is also read, lies among the files that are read of a folder, or is
 * written twice; as lh_shell_check_replaced, for files that commands replace. Call it before the log is opened, and
 * before MPI is started. */
lh_status lh_shell_check_files(const lh_options *options);

/* The same for one more file that is read, which `option` names within its text. Closes the log if it is that file. */
lh_status lh_shell_check_read(const lh_options *options, const char *option, const char *path);

/* LH_EWRITE if an output of this kind, "text" or the kind of an HDF5 file, would replace another file: only a file of
 * the same kind, and an empty one, is replaced. `what`: the option or command that writes it. Reads an HDF5 file in
 * this process. */
lh_status lh_shell_check_replaced(const char *what, const char *path, const char *kind);

#endif
