#include "base/sized_struct.h"

#include <string.h>

/* The size that a program's struct begins with. */
static lh_status given_size(size_t *out, const void *given, const char *name)
{
    LH_TRY(lh_check_given(given, name));
    memcpy(out, given, sizeof *out);
    if (*out < sizeof *out) LH_FAIL(LH_EUSAGE, "size of %s is %zu, it must be sizeof(%s)", name, *out, name);
    return LH_OK;
}

lh_status lh_struct_read(void *own, size_t bytes, const void *given, const char *name)
{
    size_t size = 0;
    LH_TRY(given_size(&size, given, name));
    for (size_t i = bytes; i < size; i++)
        if (((const char *)given)[i])
            LH_FAIL(LH_EUSAGE, "%s sets members that liblonghaul %s does not know: the program is for a newer library",
                    name, lh_version());
    memset(own, 0, bytes);
    memcpy(own, given, size < bytes ? size : bytes);
    return LH_OK;
}

lh_status lh_struct_write(void *out, const void *own, size_t bytes, const char *name)
{
    size_t size = 0;
    LH_TRY(given_size(&size, out, name));
    memcpy((char *)out + sizeof size, (const char *)own + sizeof size, (size < bytes ? size : bytes) - sizeof size);
    return LH_OK;
}
