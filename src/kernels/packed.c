/* packed.c - source blocks into the layout of packed.h. */
#include "kernels/packed.h"

int64_t lh_packed_bytes(const lh_format *format, int64_t rows, int64_t skip, int64_t cols)
{
    const lh_packing p = lh_packing_of_format(format);
    return (rows + LH_PACKED_ROWS - 1) / LH_PACKED_ROWS *
           lh_group_bytes(&p, skip / LH_PACKED_COLS, cols / LH_PACKED_COLS);
}

/* Words of 4 codes, of row r of a group. */
static void put_codes(const lh_packing *p, uint8_t *codes, int64_t r, const uint8_t code[LH_PACKED_COLS])
{
    enum { WORDS = LH_PACKED_COLS / 4 };
    const uint32_t nibbles = 0x0f0f0f0f;
    const int upper = p->bits - 4, lines = p->bits == 8 ? WORDS : p->bits;
    uint32_t word[WORDS], line[WORDS] = {0};
    memcpy(word, code, sizeof word);
    for (int j = 0; j < WORDS && p->bits == 8; j++) line[j] = word[j];
    for (int j = 0; j < WORDS && p->bits < 8; j++) line[j % 4] |= (word[j] & nibbles) << (j / 4 * 4);
    for (int j = 0; j < WORDS && (upper == 1 || upper == 2); j++)
        line[4 + j * upper / 8] |= ((word[j] & ~nibbles) >> 4) << (j * upper % 8);
    for (int j = 0; j < lines; j++) memcpy(codes + j * LH_LINE + r * 4, &line[j], sizeof line[j]);
}

static void put_half(uint8_t *halves, int64_t i, uint16_t half)
{
    memcpy(halves + 2 * i, &half, sizeof half);
}

/* Block `n` of a source block, row r of a group. */
static void put_block(const lh_packing *p, lh_packed_block to, int64_t r, const lh_block_codes *from, int64_t n)
{
    uint8_t *head = (uint8_t *)to.head, *scales = (uint8_t *)to.scales;
    uint8_t *halves = p->is_super ? head : scales;
    put_half(halves, r, from->d);
    if (p->minima) put_half(halves, LH_PACKED_ROWS + r, from->m);
    for (int g = 0; g < p->groups && p->is_super; g++)
        scales[g * LH_PACKED_ROWS + r] = (uint8_t)from->scale[n * p->groups + g];
    if (p->is_super && p->minima) scales[p->groups * LH_PACKED_ROWS + r] = (uint8_t)from->minimum[n];
    put_codes(p, (uint8_t *)to.codes, r, from->code + n * LH_PACKED_COLS);
}

/* A unit of a group, from the source blocks of `rows` rows, at a distance of `row_bytes`. */
static void put_unit(const lh_pack_weights_args *a, const lh_packing *p, uint8_t *group, lh_unit u, int64_t row)
{
    const int64_t lead = a->skip / LH_PACKED_COLS, in_source = a->format->values / LH_PACKED_COLS;
    const int64_t row_bytes = lh_format_bytes(a->format, a->skip + a->cols + a->format->values - 1);
    const int64_t rows = lh_min_i64(LH_PACKED_ROWS, a->rows - row);
    memset(group + u.at, 0, (size_t)lh_unit_bytes(p, u.blocks));
    for (int64_t r = 0; r < rows; r++) {
        const uint8_t *src = (const uint8_t *)a->src + (row + r) * row_bytes;
        lh_block_codes codes;
        for (int64_t b = u.first; b < u.first + u.blocks; b++) {
            const int64_t n = (lead + b) % in_source;
            if (n == 0 || b == u.first) a->format->unpack(&codes, src + (lead + b) / in_source * a->format->bytes);
            put_block(p, lh_block_of_unit(p, group, u, b), r, &codes, n);
        }
    }
}

void lh_pack_weights(const lh_pack_weights_args *a)
{
    const lh_packing p = lh_packing_of_format(a->format);
    const int64_t lead = a->skip / LH_PACKED_COLS, total = a->cols / LH_PACKED_COLS;
    const int64_t bytes = lh_group_bytes(&p, lead, total);
#pragma omp parallel for
    for (int64_t row = 0; row < a->rows; row += LH_PACKED_ROWS) {
        uint8_t *group = (uint8_t *)a->dst + row / LH_PACKED_ROWS * bytes;
        lh_unit u = lh_unit_from(&p, 0, 0, lead, total);
        for (; u.first < total; u = lh_unit_after(&p, u, lead, total)) put_unit(a, &p, group, u, row);
    }
}
