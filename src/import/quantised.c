/* quantised.c - one table of schemes: the tensors of a quantised matrix, their types, how codes are packed into words,
 * and the number that a code means. A value is (number of the code - number of the zero point) * scale, rounded to f32
 * once; where the scale is a quotient (NVFP4), the quotient is rounded as well. Layouts: compressed-tensors'
 * compressors, AutoGPTQ's and AutoAWQ's packing of QuantLinear, transformers' integrations/finegrained_fp8.py. */
#include "import/quantised.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

/* Tensors of a matrix. shape: rows and columns, because words can hold more columns; order: the group of every column,
 * if columns of a group are not adjacent; divisor: of all scales. */
enum { CODES, SCALES, ZEROS, ORDER, DIVISOR, SHAPE, PARTS };
enum { NAME_BYTES = 256, CHUNK = 32, CODE_VALUES = 256 };

/* ---- numbers of codes ---- */

static float unsigned_value(int code, int bits)
{
    (void)bits;
    return (float)code;
}

/* Codes from the smallest integer on. */
static float offset_value(int code, int bits)
{
    return (float)(code - (1 << (bits - 1)));
}

static float signed_value(int code, int bits)
{
    (void)bits;
    return (float)(int8_t)code;
}

static float e4m3_value(int code, int bits)
{
    (void)bits;
    return lh_e4m3_is_nan((uint8_t)code) ? NAN : lh_e4m3_to_f32((uint8_t)code);
}

static float e2m1_value(int code, int bits)
{
    static const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    (void)bits;
    return code & 8 ? -values[code & 7] : values[code & 7];
}

/* ---- schemes ---- */

/* How a matrix of codes is stored: rows and columns exchanged or not, several codes of successive columns or rows in a
 * word, the first in the lowest bits unless `lanes` says in which. */
typedef struct packing {
    const char *dtype;
    int word_bytes, transposed, along_rows;
    const uint8_t *lanes;
} packing;

static const uint8_t awq_lanes[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static const lh_format int4 = {.name = "int4", .values = 2, .bytes = 1},
                       int8 = {.name = "int8", .values = 1, .bytes = 1}, fp8 = {.name = "fp8", .values = 1, .bytes = 1},
                       nvfp4 = {.name = "nvfp4", .values = 16, .bytes = 9};

typedef struct scheme {
    unsigned methods;         /* set of lh_quant_method */
    const char *parts[PARTS]; /* endings of names; NULL: the scheme has no such tensor */
    const char *also;         /* another ending for the scales */
    unsigned required;        /* set of 1 << part, besides codes and scales */
    packing codes, zeros;     /* scales are transposed as zeros are */
    float (*value)(int code, int bits);
    const lh_format *stored[2]; /* with 4 and with 8 bits; NULL: the scheme has no such codes */
    int is_float;
    int centre_bit;   /* true: the zero point of symmetric codes is 2^(bits - 1), else 0 */
    int unset_orders; /* true: an order with -1 means none */
} scheme;

static const scheme schemes[] = {
    {.methods = LH_QUANT_FP8 | LH_QUANT_COMPRESSED,
     .parts = {"weight", "weight_scale"},
     .also = "weight_scale_inv",
     .codes = {"F8_E4M3", 1, 0, 0, NULL},
     .value = e4m3_value,
     .stored = {NULL, &fp8},
     .is_float = 1},
    {.methods = LH_QUANT_COMPRESSED,
     .parts = {"weight", "weight_scale", "weight_zero_point"},
     .codes = {"I8", 1, 0, 0, NULL},
     .zeros = {"I8", 1, 0, 0, NULL},
     .value = signed_value,
     .stored = {NULL, &int8}},
    {.methods = LH_QUANT_COMPRESSED,
     .parts = {"weight_packed", "weight_scale", "weight_zero_point", "weight_g_idx", NULL, "weight_shape"},
     .required = 1 << SHAPE,
     .codes = {"I32", 4, 0, 0, NULL},
     .zeros = {"I32", 4, 0, 1, NULL},
     .value = offset_value,
     .stored = {&int4, &int8},
     .unset_orders = 1},
    {.methods = LH_QUANT_COMPRESSED,
     .parts = {"weight_packed", "weight_scale", NULL, NULL, "weight_global_scale"},
     .required = 1 << DIVISOR,
     .codes = {"U8", 1, 0, 0, NULL},
     .value = e2m1_value,
     .stored = {&nvfp4, NULL},
     .is_float = 1},
    {.methods = LH_QUANT_GPTQ,
     .parts = {"qweight", "scales", "qzeros", "g_idx"},
     .required = 1 << ZEROS,
     .codes = {"I32", 4, 1, 0, NULL},
     .zeros = {"I32", 4, 1, 1, NULL},
     .value = unsigned_value,
     .stored = {&int4, &int8},
     .centre_bit = 1},
    {.methods = LH_QUANT_AWQ,
     .parts = {"qweight", "scales", "qzeros"},
     .required = 1 << ZEROS,
     .codes = {"I32", 4, 1, 1, awq_lanes},
     .zeros = {"I32", 4, 1, 1, awq_lanes},
     .value = unsigned_value,
     .stored = {&int4, NULL},
     .centre_bit = 1},
};

/* Types of scales. */
static float f32_at(const uint8_t *data, int64_t i)
{
    float f;
    memcpy(&f, data + 4 * i, sizeof f);
    return f;
}

static uint16_t half_at(const uint8_t *data, int64_t i)
{
    uint16_t h;
    memcpy(&h, data + 2 * i, sizeof h);
    return h;
}

static float f16_at(const uint8_t *data, int64_t i)
{
    return lh_f16_to_f32(half_at(data, i));
}

static float bf16_at(const uint8_t *data, int64_t i)
{
    return lh_bf16_to_f32(half_at(data, i));
}

static float e4m3_at(const uint8_t *data, int64_t i)
{
    return e4m3_value(data[i], 8);
}

static const struct number_type {
    const char *dtype;
    float (*at)(const uint8_t *data, int64_t i);
} number_types[] = {{"F32", f32_at}, {"F16", f16_at}, {"BF16", bf16_at}, {"F8_E4M3", e4m3_at}};

typedef struct part {
    const char *ending;  /* of its name */
    const uint8_t *data; /* NULL: the matrix has no such tensor */
    const lh_map *map;
    int64_t bytes, dims[2];
    uint32_t added;                                  /* to every word of codes, modulo 2^32 */
    float (*number)(const uint8_t *data, int64_t i); /* of scales and their divisor */
} part;

struct lh_quantised {
    lh_quantised_info info;
    const scheme *scheme;
    lh_quant_layout layout;
    part parts[PARTS];
    int64_t groups; /* along a row */
    float divisor;
    float values[CODE_VALUES];
};

/* ---- tensors of a matrix ---- */

/* The scheme of a matrix with these codes; NULL if the tensor holds no codes. */
static const scheme *scheme_of(const lh_quantiser *quantiser, const lh_source_tensor *t)
{
    const char *dot = strrchr(t->name, '.');
    for (size_t i = 0; dot && i < sizeof schemes / sizeof *schemes; i++) {
        const scheme *s = &schemes[i];
        if ((s->methods & (unsigned)quantiser->method) && strcmp(dot + 1, s->parts[CODES]) == 0 &&
            strcmp(t->format_name, s->codes.dtype) == 0)
            return s;
    }
    return NULL;
}

int lh_quantised_is_codes(const lh_quantiser *quantiser, const lh_source_tensor *t)
{
    return scheme_of(quantiser, t) != NULL;
}

typedef struct opening {
    const lh_source_tensors *source;
    const lh_source_tensor *codes;
    lh_quantised *q;
} opening;

/* The name of another tensor of the matrix. */
static const char *name_of(const opening *o, const char *ending, char name[NAME_BYTES])
{
    const char *codes = o->codes->name;
    snprintf(name, NAME_BYTES, "%.*s.%s", (int)(strrchr(codes, '.') - codes), codes, ending);
    return name;
}

/* Sets the reader of numbers; false for a type that has none. */
static int set_number(part *p, const char *dtype)
{
    for (size_t i = 0; i < sizeof number_types / sizeof *number_types && !p->number; i++)
        if (strcmp(dtype, number_types[i].dtype) == 0) p->number = number_types[i].at;
    return p->number != NULL;
}

/* A tensor of the matrix, which has at most two dimensions; a vector is a matrix with a single column. */
static lh_status take_part(const opening *o, int which, const char *ending, lh_source_tensor *t)
{
    const scheme *s = o->q->scheme;
    const char *path = o->source->path,
               *const types[PARTS] = {
                   [CODES] = s->codes.dtype, [ZEROS] = s->zeros.dtype, [ORDER] = "I32", [SHAPE] = "I64"};
    part *p = &o->q->parts[which];
    *p = (part){.ending = ending, .data = t->data, .map = t->map, .bytes = t->bytes, .dims = {t->dims[0], t->dims[1]}};
    if (t->rank > 2)
        LH_FAIL(LH_EINPUT, "'%s': tensor '%s' of a quantised matrix has %d dimensions, it must have 2", path, t->name,
                t->rank);
    if (types[which] ? strcmp(t->format_name, types[which]) != 0 : !set_number(p, t->format_name))
        LH_FAIL(LH_EINPUT, "'%s': tensor '%s' is of type %s, it must be %s", path, t->name, t->format_name,
                types[which] ? types[which] : "F32, F16, BF16 or F8_E4M3");
    t->used = 1;
    return LH_OK;
}

static lh_status find_parts(const opening *o)
{
    const scheme *s = o->q->scheme;
    char name[NAME_BYTES];
    for (int which = SCALES; which < PARTS; which++) {
        const char *const endings[] = {s->parts[which], which == SCALES ? s->also : NULL};
        lh_source_tensor *t = NULL;
        for (int i = 0; i < 2 && endings[i] && !t; i++) {
            t = lh_source_tensors_find(o->source, name_of(o, endings[i], name));
            if (t) LH_TRY(take_part(o, which, endings[i], t));
        }
        if (!t && (which == SCALES || (s->required & 1u << which)))
            LH_FAIL(LH_EINPUT, "'%s' has no tensor '%s', which the quantised matrix of '%s' needs", o->source->path,
                    name_of(o, endings[0], name), o->codes->name);
    }
    return LH_OK;
}

/* ---- shapes ---- */

enum { SIZE_MAX_BITS = 40 }; /* of rows and columns that `shape` says */

static int64_t ceil_div(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* Parts of n that share a scale; size 0: all of them do. */
static int64_t shares(int64_t n, int64_t size)
{
    return size ? ceil_div(n, size) : 1;
}

static int codes_of_word(const packing *p, int bits)
{
    return p->word_bytes * 8 / bits;
}

/* Rows and columns of the matrix, if its codes have so many bits. False: they are out of range. */
static int set_size(lh_quantised *q, int bits)
{
    const packing *p = &q->scheme->codes;
    const part *codes = &q->parts[CODES], *shape = &q->parts[SHAPE];
    int64_t sizes[2] = {codes->dims[p->transposed], codes->dims[!p->transposed]};
    sizes[!p->along_rows] *= codes_of_word(p, bits);
    if (shape->data && shape->bytes == sizeof sizes) memcpy(sizes, shape->data, sizeof sizes);
    q->info.rows = sizes[0];
    q->info.cols = sizes[1];
    return sizes[0] > 0 && sizes[1] > 0 && sizes[0] >> SIZE_MAX_BITS == 0 && sizes[1] >> SIZE_MAX_BITS == 0;
}

/* dims: the shape in which a matrix [rows, cols] of words is stored. */
static void put_dims(int64_t dims[2], int transposed, int64_t rows, int64_t cols)
{
    dims[transposed] = rows;
    dims[!transposed] = cols;
}

/* The same for a matrix of codes. */
static void put_packed(int64_t dims[2], const packing *p, int bits, int64_t rows, int64_t cols)
{
    const int64_t words = codes_of_word(p, bits);
    put_dims(dims, p->transposed, p->along_rows ? ceil_div(rows, words) : rows,
             p->along_rows ? cols : ceil_div(cols, words));
}

/* The first tensor with a shape that contradicts the layout, and the shape that the layout asks for; PARTS if all fit.
 */
static int misfit(lh_quantised *q, const lh_quant_layout *layout, int64_t dims[2])
{
    const scheme *s = q->scheme;
    int64_t wanted[PARTS][2] = {[DIVISOR] = {1, 1}, [SHAPE] = {2, 1}};
    const int64_t rows = q->info.rows, cols = q->info.cols, scaled = shares(rows, layout->rows);
    q->layout = *layout;
    q->groups = shares(cols, layout->cols);
    put_packed(wanted[CODES], &s->codes, layout->bits, rows, cols);
    put_dims(wanted[SCALES], s->zeros.transposed, scaled, q->groups);
    if (q->parts[ZEROS].data) put_packed(wanted[ZEROS], &s->zeros, layout->bits, scaled, q->groups);
    put_dims(wanted[ORDER], 0, cols, 1);
    for (int which = 0; which < PARTS; which++) {
        memcpy(dims, wanted[which], sizeof wanted[which]);
        if (q->parts[which].data && memcmp(q->parts[which].dims, dims, sizeof wanted[which]) != 0) return which;
    }
    return PARTS;
}

/* Chooses the first layout that fits. */
static lh_status choose_layout(const opening *o, const lh_quantiser *quantiser)
{
    lh_quantised *q = o->q;
    char name[NAME_BYTES];
    int64_t dims[2], first[2] = {0};
    int wrong = -1;
    for (int i = 0; i < quantiser->n; i++) {
        const lh_quant_layout *layout = &quantiser->layouts[i];
        q->info.stored = q->scheme->stored[layout->bits == 8];
        if (!q->info.stored) continue;
        if (!set_size(q, layout->bits))
            LH_FAIL(LH_EINPUT, "'%s': the matrix of tensor '%s' is [%" PRId64 ", %" PRId64 "], which no matrix is",
                    o->source->path, o->codes->name, q->info.rows, q->info.cols);
        const int which = misfit(q, layout, dims);
        if (which == PARTS) return LH_OK;
        if (wrong < 0) {
            wrong = which;
            memcpy(first, dims, sizeof first);
        }
    }
    if (wrong < 0)
        LH_FAIL(LH_EINPUT, "'%s': tensor '%s' is of type %s, the configuration has no weights of such codes",
                o->source->path, o->codes->name, o->codes->format_name);
    const part *p = &q->parts[wrong];
    LH_FAIL(LH_EINPUT,
            "'%s': tensor '%s' is [%" PRId64 ", %" PRId64 "], the quantisation of the configuration asks for [%" PRId64
            ", %" PRId64 "]",
            o->source->path, name_of(o, p->ending, name), p->dims[0], p->dims[1], first[0], first[1]);
}

/* ---- codes, zero points and scales ---- */

/* Code of [row, col]. */
static unsigned code_at(const part *p, const packing *how, int bits, int64_t row, int64_t col)
{
    const int shift = __builtin_ctz((unsigned)codes_of_word(how, bits)), lanes = 1 << shift;
    int lane = (int)(how->along_rows ? row : col) & (lanes - 1);
    uint32_t word = 0;
    if (how->along_rows)
        row >>= shift;
    else
        col >>= shift;
    const int64_t at = how->transposed ? col * p->dims[1] + row : row * p->dims[1] + col;
    if (how->word_bytes == 1)
        word = p->data[at];
    else
        memcpy(&word, p->data + 4 * at, sizeof word);
    if (how->lanes) lane = how->lanes[lane];
    return (word + p->added) >> (lane * bits) & ((1u << bits) - 1);
}

/* Row of the scales of a row. */
static int64_t scale_row(const lh_quantised *q, int64_t row)
{
    return q->layout.rows ? row / q->layout.rows : 0;
}

static float scale_at(const lh_quantised *q, int64_t row, int64_t group)
{
    const part *p = &q->parts[SCALES];
    const int64_t at = q->scheme->zeros.transposed ? group * p->dims[1] + row : row * p->dims[1] + group;
    return p->number(p->data, at) / q->divisor;
}

static float zero_at(const lh_quantised *q, int64_t row, int64_t group)
{
    const part *p = &q->parts[ZEROS];
    return p->data ? q->values[code_at(p, &q->scheme->zeros, q->layout.bits, row, group)] : 0;
}

static int64_t group_of(const lh_quantised *q, int64_t col)
{
    int32_t group;
    if (q->parts[ORDER].data) {
        memcpy(&group, q->parts[ORDER].data + 4 * col, sizeof group);
        return group;
    }
    return q->layout.cols ? col / q->layout.cols : 0;
}

/* The differences of n codes of a row and their zero points, and their scales. */
static void read_codes(const lh_quantised *q, int64_t row, int64_t col, int n, float *codes, float *scales)
{
    const part *p = &q->parts[CODES];
    const int64_t scaled = scale_row(q, row);
    float zero = 0, scale = 0;
    int64_t last = -1;
    for (int i = 0; i < n; i++) {
        int64_t group = group_of(q, col + i);
        if (group < 0 || group >= q->groups) group = 0; /* the file changed: lh_quantised_unchanged reports it */
        if (group != last) {
            zero = zero_at(q, scaled, group);
            scale = scale_at(q, scaled, group);
            last = group;
        }
        codes[i] = q->values[code_at(p, &q->scheme->codes, q->layout.bits, row, col + i)] - zero;
        scales[i] = scale;
    }
}

/* Codes that are floats, with the scales of their blocks. */
static void join_floats(const lh_quantised *q, int64_t row, uint8_t *dst)
{
    const uint8_t *codes = q->parts[CODES].data + row * q->info.cols;
    const int64_t scaled = scale_row(q, row);
    for (int64_t col = 0; col < q->info.cols; col += LH_F8_VALUES, dst += LH_F8_BYTES)
        lh_f8_e4m3_join(dst, scale_at(q, scaled, group_of(q, col)), codes + col);
}

void lh_quantised_row(const lh_quantised *q, int64_t row, void *dst)
{
    const lh_format *format = q->info.format;
    if (format->by_rows) {
        join_floats(q, row, dst);
        return;
    }
    float codes[CHUNK], scales[CHUNK], *numbers = dst;
    for (int64_t col = 0; col < q->info.cols; col += CHUNK) {
        const int n = (int)(q->info.cols - col < CHUNK ? q->info.cols - col : CHUNK);
        read_codes(q, row, col, n, codes, scales);
        if (format->is_plain) {
            for (int i = 0; i < n; i++) numbers[col + i] = codes[i] * scales[i];
        } else {
            unsigned shifted[CHUNK];
            for (int i = 0; i < n; i++) shifted[i] = (unsigned)((int)codes[i] + format->zero);
            format->join((uint8_t *)dst + col / CHUNK * format->bytes, lh_f32_to_f16(scales[0]), shifted);
        }
    }
}

/* ---- the format of the rows ---- */

static int scales_are_halves(const lh_quantised *q)
{
    const part *p = &q->parts[SCALES];
    if (p->number == f16_at) return 1;
    for (int64_t i = 0; i < p->dims[0] * p->dims[1]; i++) {
        const float scale = p->number(p->data, i) / q->divisor;
        if (lh_f16_to_f32(lh_f32_to_f16(scale)) != scale) return 0;
    }
    return 1;
}

static int scales_are_in_range(const lh_quantised *q)
{
    const part *p = &q->parts[SCALES];
    for (int64_t i = 0; i < p->dims[0] * p->dims[1]; i++)
        if (!lh_f8_e4m3_has_scale(p->number(p->data, i) / q->divisor)) return 0;
    return 1;
}

/* True if all zero points are in the centre of the codes. */
static int zeros_are_centred(const lh_quantised *q)
{
    const int64_t rows = shares(q->info.rows, q->layout.rows);
    const float centre = q->scheme->centre_bit ? (float)(1 << (q->layout.bits - 1)) : 0;
    if (!q->parts[ZEROS].data) return 1;
    for (int64_t g = 0; g < q->groups; g++)
        for (int64_t r = 0; r < rows; r++)
            if (zero_at(q, r, g) != centre) return 0;
    return 1;
}

/* Checks the groups of all columns, and forgets an order that changes nothing. */
static lh_status check_order(const opening *o)
{
    lh_quantised *q = o->q;
    const part order = q->parts[ORDER];
    int is_plain = 1;
    char name[NAME_BYTES];
    if (!order.data) return LH_OK;
    for (int64_t c = 0; c < q->info.cols; c++) {
        const int64_t group = group_of(q, c);
        if (group == -1 && q->scheme->unset_orders) {
            is_plain = 1;
            break;
        }
        if (group < 0 || group >= q->groups)
            LH_FAIL(LH_EINPUT,
                    "'%s': tensor '%s' has the group %" PRId64 " of column %" PRId64 ": %" PRId64 " groups have scales",
                    o->source->path, name_of(o, order.ending, name), group, c, q->groups);
        is_plain &= group == (q->layout.cols ? c / q->layout.cols : 0);
    }
    if (is_plain) q->parts[ORDER].data = NULL;
    return LH_OK;
}

/* Chooses the format of rows with codes that are floats: those of 8 bits are f8_e4m3. */
static void choose_float_format(lh_quantised *q, int64_t group)
{
    q->info.obstacle = q->layout.bits != 8                ? "their codes are floats of 4 bits"
                       : q->info.cols % LH_F8_VALUES != 0 ? "their rows are no multiple of 128 long"
                       : group % LH_F8_VALUES != 0        ? "their groups are no multiple of 128 columns"
                       : !scales_are_in_range(q)          ? "their scales are not within 2^-100 to 2^50"
                                                          : NULL;
    q->info.format = q->info.obstacle ? lh_format_of(LH_F32) : lh_format_named("f8_e4m3");
}

/* Chooses the format of the rows: 4 bits with a zero point of 8 are q4_0, w = d (code - 8); with others q5_0, because
 * code - zero point lies within -15 to 15; 8 bits with a zero point of 128 are q8_0. The scale of a group is repeated
 * in its blocks. */
static lh_status choose_format(const opening *o)
{
    lh_quantised *q = o->q;
    const int64_t group = q->layout.cols ? q->layout.cols : q->info.cols;
    if (q->scheme->is_float) {
        choose_float_format(q, group);
        return LH_OK;
    }
    LH_TRY(check_order(o));
    const int centred = zeros_are_centred(q);
    q->info.obstacle = q->parts[ORDER].data        ? "their columns are out of the order of their scales (act-order)"
                       : q->info.cols % CHUNK != 0 ? "their rows are no multiple of 32 long"
                       : group % CHUNK != 0        ? "their groups are no multiple of 32 columns"
                       : q->layout.bits == 8 && !centred ? "their 8-bit codes are asymmetric"
                       : !scales_are_halves(q)           ? "their scales are no f16 numbers"
                                                         : NULL;
    q->info.format = q->info.obstacle      ? lh_format_of(LH_F32)
                     : q->layout.bits == 8 ? lh_format_named("q8_0")
                                           : lh_format_named(centred ? "q4_0" : "q5_0");
    return LH_OK;
}

/* ---- a matrix ---- */

lh_status lh_quantised_open(lh_quantised **out, const lh_quantiser *quantiser, const lh_source_tensors *source,
                            lh_source_tensor *codes)
{
    lh_status st = LH_OK;
    lh_quantised *q = NULL;
    LH_TRY_DONE(lh_calloc(&q, 1, sizeof *q));
    const opening o = {source, codes, q};
    q->scheme = scheme_of(quantiser, codes);
    LH_TRY_DONE(take_part(&o, CODES, q->scheme->parts[CODES], codes));
    LH_TRY_DONE(find_parts(&o));
    LH_TRY_DONE(choose_layout(&o, quantiser));
    const part *divisor = &q->parts[DIVISOR];
    q->divisor = divisor->data ? divisor->number(divisor->data, 0) : 1;
    if (quantiser->zeros_less_one) q->parts[ZEROS].added = UINT32_MAX / ((1u << q->layout.bits) - 1);
    for (int i = 0; i < 1 << q->layout.bits; i++) q->values[i] = q->scheme->value(i, q->layout.bits);
    LH_TRY_DONE(choose_format(&o));
    *out = q;
    q = NULL;
done:
    lh_quantised_close(q);
    return st;
}

void lh_quantised_close(lh_quantised *q)
{
    lh_free(q);
}

const lh_quantised_info *lh_quantised_info_of(const lh_quantised *q)
{
    return &q->info;
}

void lh_quantised_release(const lh_quantised *q, int64_t row, int64_t n)
{
    const part *p = &q->parts[CODES];
    const int64_t row_bytes = p->bytes / q->info.rows;
    if (!q->scheme->codes.transposed)
        lh_map_release(p->data + row * row_bytes, n * row_bytes);
    else if (row + n == q->info.rows)
        lh_map_release(p->data, p->bytes);
}

lh_status lh_quantised_unchanged(const lh_quantised *q)
{
    for (int which = 0; which < PARTS; which++)
        if (q->parts[which].map) LH_TRY(lh_map_unchanged(q->parts[which].map));
    return LH_OK;
}
