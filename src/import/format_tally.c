/* format_tally.c - counts tensors by format. */
#include "import/format_tally.h"

#include <assert.h>

#include "base/json.h"
#include "base/size_text.h"

void lh_format_tally_add(lh_format_tally *t, const lh_format *format, int64_t tensors, int64_t values)
{
    const int64_t bytes = lh_format_bytes(format, values);
    int i = 0;
    while (i < t->n && t->rows[i].format != format) i++;
    assert(i < LH_TALLY_FORMATS);
    if (i == t->n) t->rows[t->n++].format = format;
    t->rows[i].tensors += tensors;
    t->rows[i].bytes += bytes;
    t->bytes += bytes;
    for (; i > 0 && t->rows[i].bytes > t->rows[i - 1].bytes; i--) {
        const lh_format_row lower = t->rows[i - 1];
        t->rows[i - 1] = t->rows[i];
        t->rows[i] = lower;
    }
}

typedef struct counting {
    lh_format_tally *tally;
    const lh_config *config;
    const lh_format *const *formats;
} counting;

static lh_status count_tensor(void *self, lh_weight weight, int64_t layer)
{
    const counting *c = self;
    int64_t rows, cols;
    lh_weight_shape(c->config, weight, &rows, &cols);
    lh_format_tally_add(c->tally, lh_weight_format(c->formats, weight, layer), 1, rows * cols);
    return LH_OK;
}

lh_status lh_format_tally_of(lh_format_tally *out, const lh_config *config, const lh_format *const *formats)
{
    *out = (lh_format_tally){0};
    return lh_checkpoint_each(config, count_tensor, &(counting){out, config, formats});
}

lh_status lh_format_tally_text(const lh_format_tally *t, lh_buf *out)
{
    char size[LH_SIZE_TEXT];
    LH_TRY(lh_buf_puts(out, lh_size_text(size, t->bytes)));
    for (int i = 0; i < t->n && t->rows[i].bytes >= t->bytes / 100; i++)
        LH_TRY(lh_buf_printf(out, "%s%s", i ? ", " : " as ", t->rows[i].format->name));
    return LH_OK;
}

lh_status lh_format_tally_in_memory(const lh_format_tally *t, lh_dtype dtype, lh_buf *out)
{
    int few_bits = 0;
    for (int i = 0; i < t->n; i++) few_bits |= !t->rows[i].format->is_plain;
    if (!few_bits) return lh_buf_puts(out, lh_dtype_name(dtype));
    LH_TRY(lh_format_tally_text(t, out));
    return lh_buf_printf(out, " (activations %s)", lh_dtype_name(dtype));
}

lh_status lh_format_tally_json(const lh_format_tally *t, json_t **out)
{
    lh_status st = LH_OK;
    json_t *list = json_array();
    for (int i = 0; i < t->n; i++) {
        json_t *row = json_pack("{s:s, s:I, s:I}", "name", t->rows[i].format->name, "tensors",
                                (json_int_t)t->rows[i].tensors, "bytes", (json_int_t)t->rows[i].bytes);
        if (json_array_append_new(list, row) != 0) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for a list");
    }
    *out = list;
    list = NULL;
done:
    json_decref(list);
    return st;
}
