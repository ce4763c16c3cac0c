#include "batch/context_file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/unicode.h"
#include "text/text_check.h"

/* A file in the folder of contexts, also after symbolic links. real: [PATH_MAX] where it lies. */
static lh_status find_file(const char *root, const char *name, char *real)
{
    lh_status st = LH_OK;
    char real_root[PATH_MAX];
    size_t n;
    lh_buf path = {0};
    LH_TRY_DONE(lh_buf_printf(&path, "%s/%s", root, name));
    if (!realpath(root, real_root)) LH_FAIL_DONE(LH_EINPUT, "the folder of contexts '%s' cannot be read", root);
    if (!realpath(path.data, real))
        LH_FAIL_DONE(LH_EINPUT, "'context_file': there is no '%s' in the folder '%s' ('--context-root')", name, root);
    n = strlen(real_root);
    if (strncmp(real, real_root, n) != 0 || (real[n] != '/' && n > 1))
        LH_FAIL_DONE(LH_EINPUT, "'context_file': '%s' leads out of the folder '%s'", name, root);
done:
    lh_buf_clear(&path);
    return st;
}

static lh_status check_text(const lh_buf *text, const char *name)
{
    lh_status st = LH_OK;
    lh_buf said = {0};
    LH_TRY_DONE(lh_buf_printf(&said, "'context_file': '%s'", name));
    if (text->bytes == 0) LH_FAIL_DONE(LH_EINPUT, "%s is empty", said.data);
    LH_TRY_DONE(lh_text_check(said.data, text->data, text->bytes));
    if (memchr(text->data, 0, (size_t)text->bytes))
        LH_FAIL_DONE(LH_EINPUT, "%s holds a zero byte: it is not text", said.data);
done:
    lh_buf_clear(&said);
    return st;
}

lh_status lh_batch_context_read(lh_buf *text, const char *root, const char *name)
{
    const int64_t most = INT64_C(1) << 30;
    char real[PATH_MAX];
    text->bytes = 0;
    LH_TRY(find_file(root, name, real));
    LH_TRY(lh_file_read_regular(text, real, most));
    lh_text_drop_mark(text, 0);
    return check_text(text, name);
}

uint64_t lh_batch_context_hash(const lh_buf *text)
{
    const uint64_t hash = lh_hash64(text->data, text->bytes);
    return hash ? hash : 1;
}
