/* unpacked.c - matrices of few bits as plain numbers, a layer at a time. Products of many rows are faster with plain
 * numbers. A layer is unpacked once for a whole prompt, and for each chunk of a question. */
#include "model/pieces.h"

#include "model/forward_impl.h"

void lh_forward_set_call(lh_forward *f, int64_t rows)
{
    const int64_t few = lh_ops_chunking(lh_device_kind_of(f->device))->few_rows;
    f->sequences.unpacks = f->unpacked.memory && rows > few;
}

/* The matrices of expert `expert`, their rows stacked, to `to`, [rows, cols]. */
static void unpack_expert(lh_forward *f, const lh_matrix *first, int64_t expert, char *to)
{
    const lh_dtype type = f->model->options.dtype;
    for (const lh_matrix *m = first; m; m = m->next) {
        const int64_t bytes = m->rows * m->ld * lh_dtype_bytes(type);
        lh_matrix own = *m;
        own.data = (const char *)own.data + expert * m->step;
        own.next = NULL;
        if (own.format->is_plain)
            lh_exec_copy(&f->exec, to, own.data, bytes, LH_COPY_ON_DEVICE);
        else
            LH_RUN(&f->exec, unpack, .dst = to, .dst_type = type, .w = own, .rows = m->rows, .cols = m->ld,
                   .dst_ld = m->ld);
        to += bytes;
    }
}

/* Replaces a product's matrices by one of plain numbers at `to`, if one of them has few bits; returns the end of the
 * plain numbers. */
static char *unpack(lh_forward *f, lh_matrix *first, int64_t experts, char *to)
{
    int64_t rows = 0;
    int packed = 0;
    for (const lh_matrix *m = first; m; m = m->next) {
        rows += m->rows;
        packed |= !m->format->is_plain;
    }
    if (!packed) return to;
    lh_matrix plain = lh_plain_matrix(to, f->model->options.dtype, first->ld);
    plain.rows = rows;
    plain.step = rows * first->ld * lh_dtype_bytes(f->model->options.dtype);
    for (int64_t e = 0; e < experts; e++) unpack_expert(f, first, e, to + e * plain.step);
    *first = plain;
    return to + experts * plain.step;
}

const lh_layer *lh_forward_layer(lh_forward *f, int64_t layer)
{
    const lh_layer *stored = &f->model->layers[layer];
    lh_layer *w = &f->unpacked.weights;
    if (!f->sequences.unpacks) return stored;
    if (f->unpacked.layer == layer) return w;
    const int64_t experts = lh_weight_parts(f->config, LH_W_GATE);
    char *to = f->unpacked.memory;
    *w = *stored;
    to = unpack(f, w->qkv, 1, to);
    to = unpack(f, &w->o, 1, to);
    to = unpack(f, w->gate_up, experts, to);
    unpack(f, &w->down, experts, to);
    f->unpacked.layer = lh_exec_ok(&f->exec) ? layer : -1;
    return w;
}
