#include "evict/turn_room.h"

static const int64_t LINE_BYTES = 4 * sizeof(float);

static int64_t count_bytes(int64_t heads)
{
    return heads * (int64_t)sizeof(int64_t);
}

void lh_turn_space(const lh_space_request *request, int64_t *bytes)
{
    const int64_t heads = request->shape->heads.kv_count, slots = heads * request->need.ld;
    bytes[LH_SPACE_SECOND] = 2 * slots * (int64_t)sizeof(float);
    bytes[LH_SPACE_TURNS] = count_bytes(heads) + LINE_BYTES + slots * (int64_t)sizeof(int32_t);
}

lh_turn_room lh_turn_room_of(const lh_evictor *ev)
{
    char *at = ev->at[LH_SPACE_TURNS], *line = at + count_bytes(ev->shape.heads.kv_count);
    return (lh_turn_room){.counts = (int64_t *)at, .line = (float *)line, .order = (int32_t *)(line + LINE_BYTES)};
}
