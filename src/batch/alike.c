/* alike.c - prompts as the JSON that stands in the input, sorted by their first bytes: tokens are compared where it
 * matters (group.c). */
#include "batch/alike.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "batch/skim.h"

/* Bytes that prompts have in common at least, bytes by which they are sorted at most, and lines together at most: all
 * of them are read before the first is answered. */
enum { LEAST_BYTES = 1 << 10, SORTED_BYTES = 1 << 14, MOST_LINES = 1 << 10 };

typedef struct prompt {
    int64_t i;
    lh_skimmed json;
} prompt;

/* The prompt or the messages of a request that declares neither a context nor a policy. */
static int find_prompt(const lh_batch_line *line, lh_skimmed *out)
{
    enum { BODY, POLICY, PROMPT = 0, MESSAGES };
    static const char *const names[] = {"body", "policy", NULL}, *const members[] = {"prompt", "messages", NULL};
    lh_skimmed found[2];
    if (!line->custom_id || line->context || line->bytes > LH_BATCH_LINE_BYTES) return 0;
    if (!lh_skim(line->text, line->bytes, names, found) || found[POLICY].text || !found[BODY].text) return 0;
    if (!lh_skim(found[BODY].text, found[BODY].bytes, members, found)) return 0;
    *out = found[PROMPT].text ? found[PROMPT] : found[MESSAGES];
    return out->bytes > LEAST_BYTES;
}

static int by_beginning(const void *a, const void *b)
{
    const prompt *x = a, *y = b;
    const int64_t n = lh_min_i64(lh_min_i64(x->json.bytes, y->json.bytes), SORTED_BYTES);
    const int order = memcmp(x->json.text, y->json.text, (size_t)n);
    if (order || x->i == y->i) return order;
    return x->i < y->i ? -1 : 1;
}

static int64_t common_bytes(const lh_skimmed *a, const lh_skimmed *b, int64_t most)
{
    const int64_t n = lh_min_i64(lh_min_i64(a->bytes, b->bytes), most);
    int64_t at = 0;
    while (at + 64 <= n && memcmp(a->text + at, b->text + at, 64) == 0) at += 64;
    while (at < n && a->text[at] == b->text[at]) at++;
    return at;
}

/* How many prompts from the first of n on are alike. */
static int64_t count_alike(const prompt *at, int64_t n, int following)
{
    int64_t common = at->json.bytes, longest = at->json.bytes, k = 1;
    for (; k < lh_min_i64(n, MOST_LINES); k++) {
        if (following && at[k].i != at[k - 1].i + 1) break;
        common = common_bytes(&at->json, &at[k].json, common);
        longest = lh_max_i64(longest, at[k].json.bytes);
        if (common < LEAST_BYTES || 2 * common < longest) break;
    }
    return k;
}

lh_status lh_batch_alike_find(const lh_batch_input *input, int following, uint64_t *contexts)
{
    prompt *at = NULL;
    int64_t n = 0;
    const int64_t all = lh_batch_input_count(input);
    LH_TRY(lh_calloc(&at, all, sizeof *at));
    for (int64_t i = 0; i < all; i++)
        if (find_prompt(lh_batch_input_line(input, i), &at[n].json)) at[n++].i = i;
    if (!following) qsort(at, (size_t)n, sizeof *at, by_beginning);
    for (int64_t k = 0, count; k < n; k += count) {
        count = count_alike(at + k, n - k, following);
        /* those of contexts that are named are odd (input.c) */
        for (int64_t m = 0; m < count && count > 1; m++) contexts[at[k + m].i] = 2 * (uint64_t)(at[k].i + 1);
    }
    lh_free(at);
    return LH_OK;
}
