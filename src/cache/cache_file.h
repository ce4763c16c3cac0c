/* cache_file.h - a cache on disk (HDF5, kind `cache`): written by rank 0 from all ranks, restored on any number of
 * ranks. Layout in docs/files.md. The policy is opaque text here; kv/save.c supplies it and the numbers. */
#ifndef LH_CACHE_CACHE_FILE_H
#define LH_CACHE_CACHE_FILE_H

#include "base/h5.h"
#include "cache/arena.h"
#include "cache/query_ring.h"
#include "exec/heads.h"

/* State of the run outside the cache. */
typedef struct lh_cache_extra {
    uint64_t model;        /* identity of the checkpoint */
    const int32_t *tokens; /* all tokens seen */
    int64_t n;
    int64_t run_tokens;  /* run length that chose the rotary factors of the keys; 0: not recorded */
    const float *logits; /* [vocab] after the last token, on rank 0 */
    int64_t vocab;
    uint64_t seed;                 /* of the sampler */
    const char *run;               /* resolved options of the run that wrote the file, JSON */
    const char *chat;              /* the conversation, JSON; NULL or empty: none */
    const char *identity, *answer; /* of a run that another one resumes, and its answer so far, JSON; NULL: none */
} lh_cache_extra;

/* The shape of the model and the state of the timeline. */
typedef struct lh_cache_numbers {
    int64_t layers, heads, kv_heads, head_dim, window;
    int64_t budget, prompt_tokens, seen, steps, evictions, budgets_made;
    int64_t question; /* tokens of the question that the policy observes; 0: none */
} lh_cache_numbers;

/* A cache to be written, and each of its layers; the host has the lengths of the device. */
typedef struct lh_cache_layer {
    const lh_arena *arena;
    const lh_query_ring *ring;
    int64_t budget, sinks, recents;
    int slides;
} lh_cache_layer;

typedef struct lh_cache_contents {
    const lh_exec *exec;
    const lh_heads *heads;
    lh_cache_numbers numbers;
    const char *positions, *policy; /* positions: keys are rotated by "original" positions or by "slot" */
    const lh_cache_layer *layers;
    const lh_cache_extra *extra;
} lh_cache_contents;

/* Collective. LH_EWRITE on every rank when rank 0 cannot write. */
lh_status lh_cache_write(const char *path, const lh_cache_contents *contents);

/* A file opened for reading by this rank, and the layer that is being read; every rank opens the file. LH_EFILE. Not
 * collective. */
typedef struct lh_cache_file {
    lh_h5 *h5;
    char *policy;
    int64_t policy_bytes;
    lh_cache_numbers numbers;
    lh_cache_extra extra; /* borrowed arrays, valid until close */
    int32_t *tokens;
    float *logits;
    int64_t layer, budget;
    int64_t *offsets;       /* [kv_heads + 1] */
    lh_h5_array *arrays[7]; /* of the entries, in the order of lh_entry_array_of */
} lh_cache_file;
lh_status lh_cache_file_open(lh_cache_file *out, const char *path);
void lh_cache_file_close(lh_cache_file *file);

/* *out: the conversation of a cache file, NULL: none; lh_free. */
lh_status lh_cache_read_chat(const char *path, char **out);

/* lh_cache_file_seek goes to a layer and reads its budget and offsets. arena: without memory, of the wanted form; the
 * form gets biases if the layer of the file has them, and an arena of q8 becomes one of f32 or bf16 if the file has
 * those. lh_cache_file_read reads the heads of this rank, in the order of
 * the file, into the arena, which has slots for them, and the rows into the ring. */
lh_status lh_cache_file_seek(lh_cache_file *file, int64_t layer, lh_arena *arena);
lh_status lh_cache_file_read(const lh_cache_file *file, const lh_exec *exec, const lh_heads *heads, lh_arena *arena,
                             lh_query_ring *ring);

#endif
