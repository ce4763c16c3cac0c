/* marked_slots.cuh - the competing slots of a head, in the order of the slots or of their positions. */
#ifndef LH_KERNELS_CUDA_MARKED_SLOTS_CUH
#define LH_KERNELS_CUDA_MARKED_SLOTS_CUH

#include "kernels/cuda/launch.cuh"

typedef struct lh_marked_slots {
    int32_t *slots;   /* [heads, ld], out */
    int32_t *count;   /* [heads], out */
    int32_t *chunks;  /* [heads, lh_marked_chunks(ld)], work */
    const uint8_t *x; /* [heads, ld] lh_entry_state */
    const int64_t *len;
    int64_t heads, ld;
} lh_marked_slots;

int64_t lh_marked_chunks(int64_t ld);

/* Bytes of slots, count and chunks together, a multiple of 16, and where they are in memory of that size. */
int64_t lh_marked_bytes(int64_t heads, int64_t ld);
void lh_marked_place(lh_marked_slots *marked, void *memory);

/* Two launches, whatever the lengths are. Without heads or slots nothing is done. */
lh_status lh_marked_by_slot(lh_stream *stream, const char *name, const lh_marked_slots *marked);

/* Memory for listing slots by their positions, which are those of `kv`, differ, and are below 32 * words. */
typedef struct lh_by_position {
    lh_ragged kv;
    int64_t words;   /* of a head */
    uint32_t *bits;  /* [heads, words], work: a bit for each position that is marked */
    int32_t *before; /* [heads, words], work: how many are in the words before */
} lh_by_position;

int64_t lh_order_words(int64_t seen);

/* Bytes of bits and before together, a multiple of 16, and where they are in memory of that size. */
int64_t lh_order_bytes(int64_t heads, int64_t words);
void lh_order_place(lh_by_position *order, void *memory);

/* Three launches. marked->chunks is not used. */
lh_status lh_marked_by_position(lh_stream *stream, const char *name, const lh_marked_slots *marked,
                                const lh_by_position *order);

#endif
