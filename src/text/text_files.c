#include "text/text_files.h"

#include <string.h>

#include "base/log.h"

enum { NAMED = 5 };

const char *const lh_text_endings[] = {".txt", ".md", ".markdown", NULL};

static lh_status name_others(const lh_paths *others, const char *folder)
{
    lh_status st = LH_OK;
    lh_buf names = {0};
    if (others->n == 0) return LH_OK;
    for (int64_t i = 0; i < others->n && i < NAMED; i++)
        LH_TRY_DONE(lh_buf_printf(&names, "%s'%s'", i ? ", " : "", strrchr(others->at[i], '/') + 1));
    if (others->n > NAMED) LH_TRY_DONE(lh_buf_printf(&names, " and %lld more", (long long)others->n - NAMED));
    lh_warn("'%s': %lld %s left out, texts are regular files '*.txt', '*.md' and '*.markdown': %s", folder,
            (long long)others->n, others->n == 1 ? "file is" : "files are", names.data);
done:
    lh_buf_clear(&names);
    return st;
}

lh_status lh_text_files(lh_paths *out, const char *folder)
{
    lh_status st = LH_OK;
    lh_paths others = {0};
    LH_TRY_DONE(lh_folder_list(out, &others, folder, lh_text_endings));
    LH_TRY_DONE(name_others(&others, folder));
    if (out->n == 0)
        LH_FAIL_DONE(LH_EINPUT, "the folder '%s' has no text: no file '*.txt', '*.md' or '*.markdown'", folder);
done:
    lh_paths_clear(&others);
    return st;
}
