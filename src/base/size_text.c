#include "base/size_text.h"

#include <stdio.h>

const char *lh_size_text(char out[LH_SIZE_TEXT], int64_t bytes)
{
    static const struct {
        int64_t bytes;
        int digits;
        const char *name;
    } units[] = {{1 << 30, 2, "GiB"}, {1 << 20, 1, "MiB"}, {1 << 10, 1, "KiB"}};
    snprintf(out, LH_SIZE_TEXT, "%lld bytes", (long long)bytes);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (bytes >= units[i].bytes) {
            snprintf(out, LH_SIZE_TEXT, "%.*f %s", units[i].digits, (double)bytes / (double)units[i].bytes,
                     units[i].name);
            break;
        }
    return out;
}
