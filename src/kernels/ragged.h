/* ragged.h - the keys and values of a layer of a sequence, in which every KV head has a separate length. All
 * pointers are device memory; the struct itself is host memory, also in arrays of caches, and is read when the
 * operation is called. */
#ifndef LH_KERNELS_RAGGED_H
#define LH_KERNELS_RAGGED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/both.h"
#include "base/dtype.h"

/* The parent of a forked cache: head h of the cache begins with the full blocks of LH_SHARED_BLOCK entries of head h of
 * the parent, and does not copy them. Arrays as in lh_ragged; the parent does not change meanwhile. */
enum { LH_SHARED_BLOCK = 256 }; /* entries; a multiple of the tiles of attention, see lh_segment_at */
typedef struct lh_parent {
    void *k, *v; /* NULL: no parent */
    float *k_scale, *v_scale;
    int32_t *positions;
    float *bias;
    const int64_t *offset, *len; /* [heads] */
} lh_parent;

typedef struct lh_ragged {
    void *k, *v;   /* [slots, head_dim] of `type`, rotated keys; head h holds slots offset[h] .. + len[h] */
    lh_dtype type; /* f32, bf16 or q8. q8: appending, moving and copying entries, and attention; everything else reads
                      entries that were converted before */
    float *k_scale, *v_scale; /* [slots] of type q8: of the rows of k and v (q8.h) */
    int32_t *positions; /* [slots] position of the entry in a slot; NULL: slot - offset[h]. A head whose last entry is
                           at position len[h] - 1 has lost no entry: its slots are in order */
    float *bias;        /* [slots] added to every logit of the entry, see lh_logit; NULL: 0 */
    float *stats;       /* [slots, stat_count] numbers stored with an entry; NULL: none */
    int64_t stat_count;
    const int64_t *offset; /* [heads] first slot of a head; negative if its first entries are in the parent */
    int64_t *len;          /* [heads] entries held */
    int64_t heads, head_dim;
    lh_parent
        parent; /* holds the first lh_parent_len(kv, h) entries of head h; only for attention and lh_append_args */
} lh_ragged;

/* Bytes of the key and the value of an entry, with their scales. */
static inline int64_t lh_entry_bytes(lh_dtype type, int64_t head_dim)
{
    return 2 * (head_dim * lh_dtype_bytes(type) + (type == LH_Q8 ? (int64_t)sizeof(float) : 0));
}

/* Local query heads share local KV heads: query head i uses KV head (first + i) / group. `first` is not 0 if a rank
 * begins in the middle of a group. */
typedef struct lh_grouping {
    int64_t heads, group, first;
} lh_grouping;

/* The logit of a query and a key: s = scale * q.k; with a soft cap s = cap * tanh(s / cap). A row at position p sees
 * the entries at positions <= p, and with a window > 0 only those > p - window.
 *
 * The weight of an entry is exp(g * s + b): b is the entry's bias (lh_ragged), g the gain of an observed row (1 in
 * attention). The bias stands for the mass of evicted entries near this one (attention matching, arXiv 2602.16284): b =
 * ln 2 counts the entry twice, independent of scale, soft cap and gain. b = 0 leaves all bits unchanged. */
typedef struct lh_logit {
    float scale, softcap;
    int64_t window;
} lh_logit;

/* Logits of one row of a sequence, without biases: the logit of query head i and slot s at at[i * ld + s]; any number
 * for entries that the row does not see. */
typedef struct lh_row_logits {
    float *at; /* NULL: unknown, or not wanted */
    int64_t ld;
} lh_row_logits;

/* Numbers of slots with general strides: number c of slot s of KV head h is at at[((starts ? starts[h] : h * ld) + s) *
 * step + c * next]. As statistics of a cache: starts = offset, step = stat_count, next = 1; as rows [heads * parts, n]:
 * ld = parts * n, step = 1, next = n. */
typedef struct lh_slot_floats {
    float *at; /* NULL: not present, or not wanted */
    const int64_t *starts;
    int64_t ld, step, next;
} lh_slot_floats;

/* The first of the last `last` slots of a head of `len` entries. */
#define LH_ALL_ENTRIES INT64_MAX
static LH_BOTH inline int64_t lh_slot_of_last(int64_t len, int64_t last)
{
    return len > last ? len - last : 0;
}

/* State of an entry at an eviction. */
typedef enum lh_entry_state { LH_ENTRY_DROP, LH_ENTRY_KEEP, LH_ENTRY_COMPETES } lh_entry_state;

/* Number c of slot s of KV head h; the next slot's number is x->step further on. */
static LH_BOTH inline float *lh_slot_at(const lh_slot_floats *x, int64_t h, int64_t s, int64_t c)
{
    return x->at + ((x->starts ? x->starts[h] : h * x->ld) + s) * x->step + c * x->next;
}

/* Entries in the full shared blocks of a head of `len` entries. */
static LH_BOTH inline int64_t lh_whole_blocks(int64_t len)
{
    return len / LH_SHARED_BLOCK * LH_SHARED_BLOCK;
}

/* Entries of head h that are in the parent. */
static LH_BOTH inline int64_t lh_parent_len(const lh_ragged *kv, int64_t h)
{
    return kv->parent.k ? lh_whole_blocks(kv->parent.len[h]) : 0;
}

/* The cache, with the arrays that hold slot `slot` of head h: the parent's or its own. Slots of an aligned range are in
 * the same arrays if its length divides LH_SHARED_BLOCK. */
static LH_BOTH inline lh_ragged lh_segment_at(const lh_ragged *kv, int64_t h, int64_t slot)
{
    lh_ragged at = *kv;
    if (slot >= lh_parent_len(kv, h)) return at;
    at.k = kv->parent.k;
    at.v = kv->parent.v;
    at.k_scale = kv->parent.k_scale;
    at.v_scale = kv->parent.v_scale;
    at.positions = kv->parent.positions;
    at.bias = kv->parent.bias;
    at.offset = kv->parent.offset;
    return at;
}

/* Number i of the keys or values of a cache of f32 or bf16. */
static LH_BOTH inline float lh_number_at(const void *x, lh_dtype type, int64_t i)
{
    uint32_t bits;
    float number;
    if (type == LH_F32) return ((const float *)x)[i];
    bits = (uint32_t)((const uint16_t *)x)[i] << 16;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Positions of the entries of head h, by slot; NULL: the positions are the slots. */
static LH_BOTH inline const int32_t *lh_positions_of(const lh_ragged *kv, int64_t h)
{
    return kv->positions ? kv->positions + kv->offset[h] : NULL;
}

/* Biases of the entries of head h, by slot; NULL: no biases. */
static LH_BOTH inline const float *lh_bias_of(const lh_ragged *kv, int64_t h)
{
    return kv->bias ? kv->bias + kv->offset[h] : NULL;
}

/* Rows of several caches with the same number of heads, one after the other: returns the cache of a row, and its
 * head. */
static LH_BOTH inline const lh_ragged *lh_cache_of_row(const lh_ragged *kv, int64_t row, int64_t *head)
{
    *head = row % kv->heads;
    return kv + row / kv->heads;
}

/* Position of the entry in slot s of head h. */
static LH_BOTH inline int64_t lh_position(const lh_ragged *kv, int64_t h, int64_t s)
{
    return kv->positions ? kv->positions[kv->offset[h] + s] : s;
}

#endif
