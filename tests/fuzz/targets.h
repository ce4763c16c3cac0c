/* targets.h - what several targets do with what they read. */
#ifndef LH_TESTS_FUZZ_TARGETS_H
#define LH_TESTS_FUZZ_TARGETS_H

#include "fuzz.h"
#include "import/config.h"
#include "text/tokenizer.h"

/* In the order in which they run. */
#define FZ_TARGETS(X)   \
    X(json)             \
    X(config)           \
    X(tokenizer)        \
    X(tokenizer_meta)   \
    X(batch)            \
    X(table)            \
    X(batch_output)     \
    X(text)             \
    X(chat)             \
    X(template)         \
    X(ids)              \
    X(profile)          \
    X(safetensors)      \
    X(gguf)             \
    X(gguf_config)      \
    X(gguf_vocab)       \
    X(sentencepiece)    \
    X(import_gguf)      \
    X(import_tensors)   \
    X(import_quantised) \
    X(import_config)    \
    X(import_index)     \
    X(plan)             \
    X(checkpoint)       \
    X(cache_file)       \
    X(prefill_file)     \
    X(keep_sets)        \
    X(analysis)         \
    X(trace)
#define FZ_TARGET(name) extern const fz_target fz_##name;
FZ_TARGETS(FZ_TARGET)
#undef FZ_TARGET

/* Reads every byte: the sanitizers look on. */
void fz_touch(const void *data, int64_t bytes);

void fz_use_config(const lh_config *config);

/* Texts to ids and back, at once and streaming. */
lh_status fz_use_tokenizer(const lh_tokenizer *tok, fz_rng *rng);

/* Opens a checkpoint and reads all its weights. */
lh_status fz_read_checkpoint(const char *path);

#endif
