#include "cases.h"

#include <stdio.h>
#include <string.h>

#include "rig.h"

static struct {
    int number;
    char words[1024]; /* "group 3, KV heads 2, " */
    char message[1100];
} now;

/* Cases come in blocks of `count`; each block is a shuffled deck of the values. */
static int pick(const dimension *d, int n)
{
    uint64_t seed = 0;
    int deck[CASE_VALUES];
    for (const char *s = d->name; *s; s++) seed = seed * 131 + (unsigned char)*s;
    for (int i = 0; i < d->count; i++) deck[i] = i;
    for (int i = d->count - 1; i > 0; i--) {
        int other = (int)draw(seed, (uint64_t)(n / d->count * CASE_VALUES + i), i + 1), held = deck[i];
        deck[i] = deck[other];
        deck[other] = held;
    }
    return deck[n % d->count];
}

static void note(const dimension *d, int at)
{
    char one[128];
    if (d->words[at])
        snprintf(one, sizeof one, "%s %s, ", d->name, d->words[at]);
    else
        snprintf(one, sizeof one, "%s %lld, ", d->name, (long long)d->values[at]);
    if (!strstr(now.words, one)) strncat(now.words, one, sizeof now.words - strlen(now.words) - 1);
}

int64_t case_value(const dimension *d, int n)
{
    int at = pick(d, n);
    if (n != now.number) case_forget();
    now.number = n;
    note(d, at);
    return d->values[at];
}

const char *case_words(void)
{
    int length = (int)strlen(now.words) - 2; /* without the last comma */
    if (length <= 0) return "";
    snprintf(now.message, sizeof now.message, " (case %d: %.*s)", now.number, length, now.words);
    return now.message;
}

void case_forget(void)
{
    now.words[0] = '\0';
}
