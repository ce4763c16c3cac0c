/* packed.c - source blocks into the layout of packed.h. */
#include "kernels/packed.h"

int64_t lh_packed_bytes(const lh_format *format, int64_t rows, int64_t skip, int64_t cols)
{
    if (format->by_rows) return rows * lh_f8_row_bytes(skip, cols);
    const lh_packing p = lh_packing_of_format(format);
    return (rows + LH_PACKED_ROWS - 1) / LH_PACKED_ROWS *
           lh_group_bytes(&p, skip / LH_PACKED_COLS, cols / LH_PACKED_COLS);
}

enum { WORDS = LH_PACKED_COLS / 4 };

/* Constants of a call. */
typedef struct lh_packer {
    lh_packing p;
    lh_word_place place[WORDS];
    int64_t lead; /* blocks of the first source block before column 0 */
} lh_packer;

/* Words of 4 codes, of row r of a group. */
static void put_codes(const lh_packer *k, uint8_t *codes, int64_t r, const uint8_t code[LH_PACKED_COLS])
{
    const uint32_t nibbles = 0x0f0f0f0f;
    const int lines = k->p.codes / LH_LINE;
    uint32_t word[WORDS], line[WORDS] = {0};
    memcpy(word, code, sizeof word);
    for (int j = 0; j < WORDS && k->p.bits == 8; j++) line[j] = word[j];
    for (int j = 0; j < WORDS && k->p.bits < 8; j++)
        line[k->place[j].nibbles] |= (word[j] & nibbles) << k->place[j].nibble;
    for (int j = 0; j < WORDS && k->p.bits > 4 && k->p.bits < 8; j++)
        line[k->place[j].uppers] |= ((word[j] & ~nibbles) >> 4) << k->place[j].upper;
    for (int j = 0; j < lines; j++) memcpy(codes + j * LH_LINE + r * 4, &line[j], sizeof line[j]);
}

static void put_half(uint8_t *halves, int64_t i, uint16_t half)
{
    memcpy(halves + 2 * i, &half, sizeof half);
}

/* Block `n` of a source block, row r of a group. */
static void put_block(const lh_packer *k, lh_packed_block to, int64_t r, const lh_block_codes *from, int64_t n)
{
    const lh_packing *p = &k->p;
    uint8_t *head = (uint8_t *)to.head, *scales = (uint8_t *)to.scales;
    uint8_t *halves = p->is_super ? head : scales;
    put_half(halves, r, from->d);
    if (p->minima) put_half(halves, LH_PACKED_ROWS + r, from->m);
    for (int g = 0; g < p->groups && p->is_super; g++)
        scales[g * LH_PACKED_ROWS + r] = (uint8_t)from->scale[n * p->groups + g];
    if (p->is_super && p->minima) scales[p->groups * LH_PACKED_ROWS + r] = (uint8_t)from->minimum[n];
    put_codes(k, (uint8_t *)to.codes, r, from->code + n * LH_PACKED_COLS);
}

/* Row r of a group from its source blocks. */
static void put_row(const lh_pack_weights_args *a, const lh_packer *k, uint8_t *group, int64_t r, const uint8_t *src)
{
    lh_packed_block to = lh_block_at(&k->p, group, k->lead, 0);
    lh_block_codes codes;
    for (int64_t b = 0, n = k->lead; b < a->cols / LH_PACKED_COLS; b++, n++) {
        if (n == k->p.source) {
            src += a->format->bytes;
            n = 0;
        }
        if (n == 0 || b == 0) a->format->unpack(&codes, src);
        put_block(k, to, r, &codes, n);
        to = lh_block_after(&k->p, to, k->lead + b);
    }
}

/* Groups of rows. */
static void pack_groups(const lh_pack_weights_args *a)
{
    lh_packer k = {.p = lh_packing_of_format(a->format), .lead = a->skip / LH_PACKED_COLS};
    const int64_t bytes = lh_group_bytes(&k.p, k.lead, a->cols / LH_PACKED_COLS);
    const int64_t row_bytes = lh_format_bytes(a->format, a->skip + a->cols + a->format->values - 1);
    for (int j = 0; j < WORDS; j++) k.place[j] = lh_word_at(&k.p, j);
#pragma omp parallel for
    for (int64_t row = 0; row < a->rows; row += LH_PACKED_ROWS) {
        uint8_t *group = (uint8_t *)a->dst + row / LH_PACKED_ROWS * bytes;
        memset(group, 0, (size_t)bytes);
        for (int64_t r = 0; r < lh_min_i64(LH_PACKED_ROWS, a->rows - row); r++)
            put_row(a, &k, group, r, (const uint8_t *)a->src + (row + r) * row_bytes);
    }
}

void lh_pack_weights(const lh_pack_weights_args *a)
{
    if (a->format->by_rows)
        memcpy(a->dst, a->src, (size_t)lh_packed_bytes(a->format, a->rows, a->skip, a->cols));
    else
        pack_groups(a);
}
