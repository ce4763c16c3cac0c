/* lfs_pointer.h - pointers of Git LFS, which a clone without LFS leaves in place of large files. */
#ifndef LH_IMPORT_LFS_POINTER_H
#define LH_IMPORT_LFS_POINTER_H

#include "base/status.h"

/* LH_EINPUT, with what to do, if the file is one. */
lh_status lh_lfs_pointer_refuse(const char *path);

#endif
