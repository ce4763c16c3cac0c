/* fuzz.h - inputs that were damaged on purpose, for everything that reads foreign files. A target is one row
 * (targets.h): where its undamaged inputs come from, how they are damaged, and what reads them. The law: an input is
 * accepted, or refused with LH_EINPUT or LH_EFILE and a message that names its file; nothing else happens. */
#ifndef LH_TESTS_FUZZ_H
#define LH_TESTS_FUZZ_H

#include <stdint.h>

#include "base/mem.h"

/* ---- chance: the same draws for the same seed, target and number of the mutation ---- */
typedef struct fz_rng {
    uint32_t key[2], counter[4], word[4];
    int left;
} fz_rng;

fz_rng fz_rng_of(uint64_t seed, uint64_t stream, int64_t n);
uint32_t fz_draw(fz_rng *rng);
int64_t fz_below(fz_rng *rng, int64_t n); /* in [0, n), n >= 1 */

/* ---- damage ---- */
typedef enum fz_form {
    FZ_BINARY, /* mostly in place: lengths and offsets stay what they were */
    FZ_TEXT,
    FZ_JSON,       /* a text, or a value of the tree */
    FZ_SAFETENSORS /* JSON between its length and the data; the length is mostly put right again */
} fz_form;

lh_status fz_mutate(lh_buf *data, fz_form form, fz_rng *rng);

/* Another JSON text in place of `text`, made by changing values of its tree; the same where it is no JSON. */
lh_status fz_mutate_json(lh_buf *text, fz_rng *rng);

/* ---- targets ---- */
typedef struct fz_seeds {
    lh_buf *at;
    int64_t n;
} fz_seeds;

lh_status fz_seeds_add(fz_seeds *seeds, const void *data, int64_t bytes);
lh_status fz_seeds_add_file(fz_seeds *seeds, const char *path);
void fz_seeds_clear(fz_seeds *seeds);

typedef struct fz_case {
    const char *folder; /* where the target may write */
    const char *path;   /* the input as a file ... */
    const char *data;   /* ... and in memory of exactly its size */
    int64_t bytes;
    void *state; /* what prepare made */
    fz_rng rng;  /* of the input's bytes */
} fz_case;

typedef struct fz_target {
    const char *name, *summary;
    const char *file; /* what the input is called in its folder */
    fz_form form;
    int64_t quick, share; /* mutations in a short run, and of the long run's million */
    const char *corpus;   /* folder with seeds beside this file, NULL: none */
    lh_status (*seeds)(fz_seeds *seeds, const char *folder); /* seeds made by the program, NULL: none */
    /* Once, before the mutations: files beside the input, *state. NULL: nothing is needed. */
    lh_status (*prepare)(void **state, const char *folder);
    void (*forget)(void *state);
    lh_status (*run)(fz_case *c);
} fz_target;

/* ---- seeds that the program makes (seeds.c, seeds_h5.c) ---- */
lh_status fz_put(const char *folder, const char *name, const void *data, int64_t bytes);
lh_status fz_put_model(const char *folder); /* a Hugging Face folder: config.json, model.safetensors, tokenizer.json */
lh_status fz_safetensors_seeds(fz_seeds *seeds, const char *folder);
lh_status fz_quantised_seeds(fz_seeds *seeds, const char *folder); /* model.safetensors of quantised folders */
lh_status fz_gguf_seeds(fz_seeds *seeds, const char *folder);      /* tensors of every type; a whole model */
lh_status fz_sentencepiece_seeds(fz_seeds *seeds, const char *folder);
lh_status fz_config_seeds(fz_seeds *seeds, const char *folder); /* of that folder */
lh_status fz_index_seeds(fz_seeds *seeds, const char *folder);
lh_status fz_checkpoint_seeds(fz_seeds *seeds, const char *folder);
lh_status fz_cache_seeds(fz_seeds *seeds, const char *folder);
lh_status fz_prefill_seeds(fz_seeds *seeds, const char *folder);
lh_status fz_keep_sets_seeds(fz_seeds *seeds, const char *folder);
lh_status fz_analysis_seeds(fz_seeds *seeds, const char *folder);

/* ---- a cache of one rank, as its seeds were made from and as they are restored into ---- */
typedef struct fz_cache fz_cache;
enum { FZ_CACHES = 2, FZ_PREFILLS = 2 };

lh_status fz_cache_open(fz_cache **out);
void fz_cache_close(fz_cache *cache);
/* The file's entries in a new cache of kind 0 .. FZ_CACHES - 1, which is then closed. */
lh_status fz_cache_restore(fz_cache *cache, int kind, const char *path);
/* The prefill of kind 0 .. FZ_PREFILLS - 1 goes on with the file, to its end. */
lh_status fz_prefill_go_on(fz_cache *cache, int kind, const char *path);

#endif
