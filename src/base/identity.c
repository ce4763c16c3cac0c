#include "base/identity.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies a text; a long one is cut between two characters. */
static void show_value(char out[LH_IDENTITY_VALUE], const char *text)
{
    size_t n = LH_IDENTITY_VALUE - sizeof "…";
    if (strlen(text) < LH_IDENTITY_VALUE) {
        strcpy(out, text);
        return;
    }
    while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) n--;
    snprintf(out, LH_IDENTITY_VALUE, "%.*s…", (int)n, text);
}

/* Values are compared as the file holds them. */
static int value_differs(const json_t *was, const json_t *is, int digits, lh_identity_difference *out)
{
    const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(digits);
    char *old = was ? json_dumps(was, flags) : NULL, *now = is ? json_dumps(is, flags) : NULL;
    const int differs = was || is ? !old || !now || strcmp(old, now) != 0 : 0;
    show_value(out->was, old ? old : "none");
    show_value(out->is, now ? now : "none");
    free(old);
    free(now);
    return differs;
}

static int member_differs(const json_t *was, const json_t *is, int digits, lh_identity_difference *out);

static int object_differs(const json_t *was, const json_t *is, int digits, lh_identity_difference *out)
{
    const json_t *const sides[] = {is, was};
    const size_t prefix = strlen(out->name);
    const char *name;
    json_t *value;
    for (int i = 0; i < 2; i++) json_object_foreach((json_t *)(uintptr_t)sides[i], name, value)
        {
            snprintf(out->name + prefix, sizeof out->name - prefix, "%s%s", prefix ? "." : "", name);
            if (member_differs(json_object_get(was, name), json_object_get(is, name), digits, out)) return 1;
        }
    out->name[prefix] = '\0';
    return 0;
}

static int member_differs(const json_t *was, const json_t *is, int digits, lh_identity_difference *out)
{
    return json_is_object(was) && json_is_object(is) ? object_differs(was, is, digits, out)
                                                     : value_differs(was, is, digits, out);
}

int lh_identity_differs(const json_t *was, const json_t *is, int digits, lh_identity_difference *out)
{
    *out = (lh_identity_difference){.name = ""};
    return object_differs(was, is, digits, out);
}
