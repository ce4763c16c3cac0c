#include "lab/eval/draws.h"

#include "base/rng.h"

static uint64_t next(lh_draws *d)
{
    uint32_t word[4];
    const uint32_t key[2] = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32)};
    const uint32_t counter[4] = {d->at++, d->purpose, d->stream, 0};
    lh_philox(word, key, counter);
    return (uint64_t)word[0] << 32 | word[1];
}

int64_t lh_draw_below(lh_draws *d, int64_t n)
{
    return (int64_t)(next(d) % (uint64_t)n);
}

void lh_draw_sorted(lh_draws *d, int64_t *out, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++) {
        /* The i-th is drawn from the numbers that are left, and those below it that are taken are skipped. */
        int64_t value = lh_draw_below(d, n - i), at = 0;
        while (at < i && out[at] <= value) at++, value++;
        for (int64_t k = i; k > at; k--) out[k] = out[k - 1];
        out[at] = value;
    }
}

lh_status lh_draw_order(lh_draws *d, int64_t **out, int64_t n)
{
    int64_t *items = NULL;
    LH_TRY(lh_calloc(&items, n, sizeof *items));
    for (int64_t i = 0; i < n; i++) { /* Fisher and Yates, from the inside out */
        const int64_t k = lh_draw_below(d, i + 1);
        items[i] = items[k];
        items[k] = i;
    }
    *out = items;
    return LH_OK;
}

lh_status lh_draw_number(lh_draws *d, int digits, lh_buf *out)
{
    int64_t low = 1;
    for (int i = 1; i < digits; i++) low *= 10;
    return lh_buf_printf(out, "%lld", (long long)(low + lh_draw_below(d, 9 * low)));
}

lh_status lh_draw_uuid(lh_draws *d, lh_buf *out)
{
    const uint64_t high = (next(d) & ~UINT64_C(0xF000)) | UINT64_C(0x4000);
    const uint64_t low = (next(d) & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63;
    return lh_buf_printf(out, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(high >> 32), (unsigned)(high >> 16 & 0xFFFF),
                         (unsigned)(high & 0xFFFF), (unsigned)(low >> 48),
                         (unsigned long long)(low & UINT64_C(0xFFFFFFFFFFFF)));
}

lh_status lh_draw_letters(lh_draws *d, char first, int letters, lh_buf *out)
{
    for (int i = 0; i < letters; i++) {
        const char letter = (char)(first + lh_draw_below(d, 26));
        LH_TRY(lh_buf_append(out, &letter, 1));
    }
    return LH_OK;
}
