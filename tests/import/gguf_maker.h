/* gguf_maker.h - GGUF files made in memory, for tests. Every call appends to a lh_buf. */
#ifndef LH_TESTS_GGUF_MAKER_H
#define LH_TESTS_GGUF_MAKER_H

#include <check.h>
#include <string.h>

#include "base/mem.h"

static inline void gm_bytes(lh_buf *b, const void *data, int64_t n)
{
    ck_assert_int_eq(lh_buf_append(b, data, n), LH_OK);
}

static inline void gm_u32(lh_buf *b, uint32_t v)
{
    gm_bytes(b, &v, 4);
}

static inline void gm_u64(lh_buf *b, uint64_t v)
{
    gm_bytes(b, &v, 8);
}

static inline void gm_text(lh_buf *b, const char *s)
{
    gm_u64(b, strlen(s));
    gm_bytes(b, s, (int64_t)strlen(s));
}

static inline void gm_head(lh_buf *b, uint32_t version, uint64_t tensors, uint64_t keys)
{
    gm_bytes(b, "GGUF", 4);
    gm_u32(b, version);
    gm_u64(b, tensors);
    gm_u64(b, keys);
}

static inline void gm_key(lh_buf *b, const char *key, uint32_t type)
{
    gm_text(b, key);
    gm_u32(b, type);
}

static inline void gm_key_u32(lh_buf *b, const char *key, uint32_t v)
{
    gm_key(b, key, 4);
    gm_u32(b, v);
}

static inline void gm_key_f32(lh_buf *b, const char *key, float v)
{
    gm_key(b, key, 6);
    gm_bytes(b, &v, 4);
}

static inline void gm_key_text(lh_buf *b, const char *key, const char *v)
{
    gm_key(b, key, 8);
    gm_text(b, v);
}

static inline void gm_key_bool(lh_buf *b, const char *key, uint8_t v)
{
    gm_key(b, key, 7);
    gm_bytes(b, &v, 1);
}

/* A list of 1s and 0s ("110") as true and false. */
static inline void gm_key_bools(lh_buf *b, const char *key, const char *list)
{
    gm_key(b, key, 9);
    gm_u32(b, 7);
    gm_u64(b, strlen(list));
    for (; *list; list++) gm_bytes(b, *list == '1' ? "\1" : "\0", 1);
}

/* A tensor's description; cols runs fastest, rows 0: a vector. */
static inline void gm_tensor(lh_buf *b, const char *name, int64_t rows, int64_t cols, uint32_t type, uint64_t offset)
{
    gm_text(b, name);
    gm_u32(b, rows ? 2 : 1);
    gm_u64(b, (uint64_t)cols);
    if (rows) gm_u64(b, (uint64_t)rows);
    gm_u32(b, type);
    gm_u64(b, offset);
}

/* A matrix of each expert, one after the other. */
static inline void gm_tensor_of_experts(lh_buf *b, const char *name, const int64_t dims[3], uint64_t offset)
{
    gm_text(b, name);
    gm_u32(b, 3);
    for (int d = 2; d >= 0; d--) gm_u64(b, (uint64_t)dims[d]);
    gm_u32(b, 0);
    gm_u64(b, offset);
}

static inline void gm_align(lh_buf *b, int64_t alignment)
{
    while (b->bytes % alignment) gm_bytes(b, "", 1);
}

#endif
