#include "numbers.h"

void numbers_make(lot *m, numbers *out, const cache *c, int64_t parts, number_layout layout)
{
    int64_t most = 0;
    for (int64_t h = 0; h < c->host.heads; h++) most = c->host.len[h] > most ? c->host.len[h] : most;
    if (layout == NUMBERS_STATS) {
        /* A number before them and one after in each slot. */
        *out = (numbers){.host = {.starts = c->host.offset, .step = parts + 2, .next = 1}, .first = 1};
        out->count = c->slots * (parts + 2);
    } else {
        *out = (numbers){.host = {.ld = parts * (most + 3), .step = 1, .next = most + 3}};
        out->count = c->host.heads * out->host.ld;
    }
    out->data = lot_normals(m, out->count, 1.0f, 77);
    out->host.at = out->data + out->first;
}

lh_slot_floats numbers_put(rig *g, const numbers *n, const lh_ragged *on)
{
    lh_slot_floats device = n->host;
    device.at = (float *)rig_put(g, n->data, n->count * 4) + n->first;
    device.starts = n->host.starts ? on->offset : NULL;
    return device;
}

float *numbers_get(lot *m, rig *g, const numbers *n, const lh_slot_floats *on)
{
    float *data = lot_new(m, n->count * 4);
    rig_get(g, data, on->at - n->first, n->count * 4);
    return data;
}

int64_t numbers_index(const numbers *n, int64_t h, int64_t s, int64_t c)
{
    return lh_slot_at(&n->host, h, s, c) - n->data;
}
