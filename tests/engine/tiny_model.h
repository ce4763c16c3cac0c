/* tiny_model.h - a checkpoint with seeded weights, made in the test: large enough for uneven shards, small enough to
 * run in a blink. */
#ifndef LH_TESTS_TINY_MODEL_H
#define LH_TESTS_TINY_MODEL_H

#include <stdint.h>

/* Matrices of f32; of few bits, in several formats (then hidden is a multiple of 256); of the values of these as f32.
 */
typedef enum tiny_numbers { TINY_F32, TINY_FEW_BITS, TINY_FEW_BITS_AS_F32 } tiny_numbers;

typedef struct tiny_shape {
    const char *name;
    int64_t heads, kv_heads, head_dim, layers, ff, vocab;
    int64_t window;     /* 0: none slides; else all layers do (mistral), or those that the family lets */
    int64_t hidden;     /* 0: heads * head_dim */
    const char *family; /* model_type; NULL: llama, mistral with a window */
    const char *more;   /* members of the configuration, separated by commas; NULL: none */
    tiny_numbers numbers;
} tiny_shape;

/* Writes the checkpoint to `path`, and weights of learnt scores beside it; asserts that it works. One process. */
void tiny_model_make(const char *path, const tiny_shape *shape);

/* n token ids below vocab that are the same everywhere. */
void tiny_model_tokens(int32_t *ids, int64_t n, int64_t vocab);

#endif
