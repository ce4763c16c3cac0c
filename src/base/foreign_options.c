/* The options of neighbouring tools. */
#include "base/foreign_options.h"

#include <stddef.h>

static const char context[] = "a cache has room for the prompt and '--max-new', whatever they are";
static const char ranks[] = "start as many ranks: mpirun -n N";

const lh_foreign_option lh_foreign_options[] = {
    /* length */
    {"--max-tokens", "max-new", NULL, 0},
    {"--max-new-tokens", "max-new", NULL, 0},
    {"--max-length", "max-new", "the prompt does not count", 0},
    {"--n-predict", "max-new", NULL, 0},
    {"--predict", "max-new", NULL, 0},
    {"--ctx-size", "context", NULL, 0},
    {"--ctx-size", "max-new", context, 1},
    {"-c", "max-new", context, 1},
    {"--max-model-len", "context", NULL, 0},
    {"--max-model-len", "max-new", context, 1},
    /* the machine */
    {"-t", "threads", NULL, 0},
    {"--tensor-parallel-size", "tp", ranks, 0},
    {"-tp", "tp", ranks, 0},
    {"--n-gpu-layers", "device", "'--device cuda' puts all layers on the GPU", 0},
    {"-ngl", "device", "'--device cuda' puts all layers on the GPU", 0},
    {"--gpu-memory-utilization", "memory", "a size, such as 70G", 0},
    {"--kv-cache-dtype", "kv-dtype", NULL, 0},
    {"--cache-type-k", "kv-dtype", "of keys and values", 0},
    {"--ubatch-size", "chunk", NULL, 0},
    {"--max-num-batched-tokens", "chunk", NULL, 0},
    /* text */
    {"--file", "prompt-file", NULL, 0},
    {"--system-prompt", "system", NULL, 0},
    {"--apply-chat-template", "chat", NULL, 0},
    /* sampling */
    {"-s", "seed", NULL, 0},
    {"--temp", "temperature", NULL, 0},
    {"--do-sample", "temperature", "above 0 samples", 0},
    {"--repetition-penalty", "repeat-penalty", NULL, 0},
    /* eviction */
    {"--compression-ratio", "budget", "the share that stays: a ratio of 0.7 is '--budget 30%'", 0},
    {"--max-capacity-prompts", "budget", NULL, 0},
    {"--press", "policy", "'--policy help' lists all", 0},
    {"--method", "policy", "'--policy help' lists all", 0},
    {"--window-size", "window", NULL, 0},
    {"--kernel-size", "pool-size", NULL, 0},
    {"--start-size", "sinks", NULL, 0},
    {"--n-sink", "sinks", NULL, 0},
    {"--recent-size", "recents", NULL, 0},
    {0},
};
