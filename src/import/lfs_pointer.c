#include "import/lfs_pointer.h"

#include "base/file.h"

lh_status lh_lfs_pointer_refuse(const char *path)
{
    static const char begins[] =
        "version https://"; /* the first 16 bytes of "version https://git-lfs.github.com/spec/v1" */
    if (lh_file_begins_with(path, begins, sizeof begins - 1))
        LH_FAIL(
            LH_EINPUT,
            "'%s' is a Git LFS pointer, not the file itself: run 'git lfs pull' in its folder, or download it again",
            path);
    return LH_OK;
}
