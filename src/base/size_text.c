#include "base/size_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char letters[] = "KMGT";

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

int lh_size_read(int64_t *bytes, const char *text)
{
    char *end = NULL;
    double value = strtod(text, &end), base = strcmp(end, "B") == 0 ? 1 : 1024;
    const char *unit = *end ? strchr(letters, *end) : NULL;
    const char *suffix = unit ? end + 1 : end;
    if (unit && strcmp(suffix, "B") == 0) base = 1000;
    const int known = strcmp(suffix, "B") == 0 || (unit && (!*suffix || strcmp(suffix, "iB") == 0));
    for (int64_t i = unit ? unit - letters + 1 : 0; i > 0; i--) value *= base;
    if (end == text || !known || !(value >= 1) || value >= 0x1p62) return 0;
    *bytes = (int64_t)value;
    return 1;
}

const char *lh_size_write(char out[LH_SIZE_TEXT], int64_t bytes)
{
    int64_t n = bytes, i = 0;
    for (; letters[i] && n % 1024 == 0; i++) n /= 1024;
    snprintf(out, LH_SIZE_TEXT, "%lld%c", (long long)n, i ? letters[i - 1] : 'B');
    return out;
}
