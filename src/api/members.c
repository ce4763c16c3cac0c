/* members.c - in liblonghaul alone: messages name the members of longhaul.h, not the options of the program. Words of a
 * policy, such as '--budget', are written the same way in both. */
#include <string.h>

#include "base/status.h"

static const struct {
    const char *option, *member;
} names[] = {
    {"--chat", "chat"},
    {"--chunk", "chunk"},
    {"--comm-timeout", "comm_timeout_s"},
    {"--context", "prompt"},
    {"--deterministic", "deterministic"},
    {"--device", "device"},
    {"--dtype", "dtype"},
    {"--kv-dtype", "kv_dtype"},
    {"--max-new", "max_new"},
    {"--memory", "memory"},
    {"--min-p", "min_p"},
    {"--model", "model"},
    {"--prompt", "prompt"},
    {"--question", "questions"},
    {"--repeat-penalty", "repeat_penalty"},
    {"--seed", "seed"},
    {"--share-device", "share_device"},
    {"--stop", "stops"},
    {"--system", "system"},
    {"--temperature", "temperature"},
    {"--threads", "threads"},
    {"--top-k", "top_k"},
    {"--top-p", "top_p"},
    {"--tp", "tp"},
};

/* The member for the option of `bytes` bytes at `text`, or NULL. */
static const char *member_of(const char *text, size_t bytes)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].option) == bytes && memcmp(names[i].option, text, bytes) == 0) return names[i].member;
    return NULL;
}

void lh_name_values(char *text)
{
    for (char *at = text; (at = strstr(at, "--"));) {
        size_t bytes = strspn(at, "abcdefghijklmnopqrstuvwxyz-");
        const char *member = member_of(at, bytes);
        if (member) {
            size_t own = strlen(member);
            memcpy(at, member, own);
            memmove(at + own, at + bytes, strlen(at + bytes) + 1);
            bytes = own;
        }
        at += bytes;
    }
}
