/* presets.c - the table of presets: each with its parts as on a command line; an omitted part has its
 * default. In the order of 'longhaul info'; '--policy help' lists each kind in this order. */
#include <string.h>

#include "policies/plugin.h"

static const lh_policy_preset presets[] = {
    {.name = "full", .summary = "every entry is kept", .kind = LH_POLICY_BASELINE},
    /* Measured best if the question is in the prompt (docs/results.md): an entry that matters to a single row is not
     * lost in a mean, and the budget of a layer depends on all layers. */
    {.name = "longhaul",
     .summary = "the largest attention of the last rows, in pools that keep sentences whole; all heads compete",
     .kind = LH_POLICY_OWN,
     .parts = "--statistic max --rows last:64 --window 16 --pool max --pool-size 31 --sinks 4 --head-budget adaptive "
              "--alpha 0.2 --safeguard floor --layer-budget adaptive --select topk --evict never"},
    /* For questions that come after the eviction: entries with distinctive keys, by two measures, and entries that
     * rows after the prompt attend to, with budgets measured on the prompt, and fitted (docs/results.md). */
    {.name = "ask-later",
     .summary = "for questions to come: what stands apart, shared out and fitted",
     .kind = LH_POLICY_OWN,
     .parts = "--statistic leverage --pool avg --pool-size 11 --sinks 8 --recents 10% --head-budget adaptive "
              "--compete-by losses --alpha 0.2 --safeguard interp --layer-budget adaptive --select topk+keys "
              "--row-share 0.3 --fit both --evict never"},
    /* For questions that come after the eviction, at the cost of a prompt that is read twice: facts stay that ask-later
     * loses (docs/results.md). */
    {.name = "reconstruct",
     .summary = "for questions to come: what a repetition of the prompt attends to, in segments; fitted",
     .kind = LH_POLICY_OWN,
     .parts = "--statistic max --rows-at repeat:512 --window 0 --pool none --sinks 4 --recents 10% --head-budget "
              "adaptive --alpha 0.2 --safeguard interp --layer-budget adaptive --select topk --fit both --evict never"},
    /* For questions that come after the eviction, with weights of the model: facts stay as with the full cache
     * (docs/quality.md). */
    {.name = "learnt",
     .summary = "for questions to come: a learnt function of key and value, and rows after the prompt; fitted",
     .kind = LH_POLICY_OWN,
     .parts = "--statistic rms --window 4 --rows-at after --rows sample:512 --learnt --pool none --sinks 4 --recents "
              "10% --head-budget adaptive --alpha 0.2 --safeguard interp --layer-budget adaptive --select topk --fit "
              "both --evict never"},
    /* For long answers, with weights of the model; chosen by `eval recall` (docs/quality.md, while decoding). */
    {.name = "remember",
     .summary = "for long answers: a learnt function of key and value, and the last rows; learnt shares of layers",
     .kind = LH_POLICY_OWN,
     .parts = "--statistic rms --window 8 --learnt --pool none --sinks 4 --head-budget adaptive --alpha 0 --safeguard "
              "interp --layer-budget learnt --select topk --evict every:64"},
    {.name = "random",
     .summary = "entries drawn by chance, by each head alone",
     .kind = LH_POLICY_BASELINE,
     .parts = "--statistic random --head-budget uniform --select topk --evict every:1"},
    {.name = "recency",
     .summary = "the most recent tokens",
     .kind = LH_POLICY_BASELINE,
     .parts = "--statistic position --sinks 0 --head-budget uniform --select topk --evict every:1"},
    {.name = "streaming",
     .summary = "attention sinks and the most recent tokens",
     .alias = "streamingllm",
     .paper = "arXiv 2309.17453",
     .parts = "--statistic position --sinks 4 --head-budget uniform --select topk --evict every:1"},
    {.name = "h2o",
     .summary = "what all rows have attended to, and the most recent half",
     .paper = "arXiv 2306.14048",
     .parts = "--statistic sum --window 0 --rows all --pool none --recents 50% --head-budget uniform --select topk "
              "--evict every:1"},
    {.name = "scissorhands",
     .summary = "what often got more attention than the mean, and the most recent half",
     .paper = "arXiv 2305.17118",
     .parts = "--statistic count --window 0 --rows last:400 --pool none --recents 50% --head-budget uniform --select "
              "topk --evict every:1"},
    {.name = "tova",
     .summary = "what the newest row attends to, the same entries for all heads of a layer",
     .paper = "arXiv 2401.06104",
     .parts = "--statistic last --group mean --pool none --head-budget uniform --select topk --set-per layer --evict "
              "every:1"},
    {.name = "mas",
     .summary = "the mean attention of the rows that could see an entry",
     .paper = "arXiv 2402.06262",
     .parts = "--statistic mas --window 0 --rows all --pool none --head-budget uniform --select topk --evict every:1"},
    {.name = "roco",
     .summary = "as mas, and entries whose attention varies most are kept",
     .alias = "easykv",
     .paper = "arXiv 2402.06262",
     .parts = "--statistic mas --window 0 --rows all --pool none --sinks 4 --recents 10 --head-budget uniform --select "
              "std-scope --std-share 0.3 --evict every:1"},
    {.name = "snapkv",
     .summary = "what the last rows of the prompt attend to",
     .paper = "arXiv 2404.14469",
     .parts =
         "--statistic mean --window 32 --pool max --pool-size 7 --head-budget uniform --select topk --evict never"},
    {.name = "pyramidkv",
     .summary = "as snapkv, with more entries for lower layers",
     .paper = "arXiv 2406.02069",
     .parts = "--statistic mean --window 32 --pool max --pool-size 7 --head-budget uniform --layer-budget pyramid "
              "--beta 20 --select topk --evict never"},
    {.name = "ada-snapkv",
     .summary = "AdaKV: as snapkv, with a layer's budget shared out by the heads' scores",
     .alias = "adakv",
     .paper = "arXiv 2407.11550",
     .parts = "--statistic mean --window 32 --pool max --pool-size 7 --head-budget adaptive --alpha 0.5 --safeguard "
              "interp --select topk --evict never"},
    {.name = "ada-pyramid",
     .summary = "as ada-snapkv, with more entries for lower layers",
     .paper = "arXiv 2407.11550",
     .parts = "--statistic mean --window 32 --pool max --pool-size 7 --head-budget adaptive --alpha 0.5 --safeguard "
              "interp --layer-budget pyramid --beta 20 --select topk --evict never"},
    {.name = "critical-snapkv",
     .summary = "CriticalKV: as snapkv, half of it chosen by what the values add to the output",
     .alias = "criticalkv",
     .paper = "arXiv 2502.03805",
     .parts = "--statistic mean --window 32 --pool max --pool-size 7 --head-budget uniform --select two-stage "
              "--first-stage 0.5 --evict never"},
    {.name = "critical-ada-snapkv",
     .summary = "as ada-snapkv, half of it chosen by what the values add to the output",
     .paper = "arXiv 2502.03805",
     .parts = "--statistic mean --window 32 --pool max --pool-size 7 --head-budget adaptive --alpha 0.5 --safeguard "
              "interp --select two-stage --first-stage 0.5 --evict never"},
    {.name = "caote",
     .summary = "what the outputs of the last rows would change without",
     .paper = "arXiv 2504.14051",
     .alias = "dropkv",
     .parts = "--statistic output-error --window 32 --pool max --pool-size 7 --head-budget uniform --select topk "
              "--evict never"},
    {.name = "defensive",
     .summary = "the largest attention of any row, never below the mean, and the values",
     .paper = "arXiv 2510.13334",
     .parts = "--statistic max --window 32 --mean-floor --value-norms --pool avg --pool-size 5 --head-budget adaptive "
              "--alpha 0 --safeguard floor --select topk --evict never"},
    {.name = "layer-defensive",
     .summary = "as defensive, over the heads of all layers",
     .paper = "arXiv 2510.13334",
     .parts = "--statistic max --window 32 --mean-floor --value-norms --pool avg --pool-size 5 --head-budget adaptive "
              "--alpha 0 --safeguard floor --layer-budget adaptive --select topk --evict never"},
    {.name = "nacl",
     .summary = "what the last percent of the prompt attends to, a part of it drawn by chance",
     .paper = "arXiv 2408.03675",
     .parts = "--statistic sum --proxies 1% --pool none --sinks 256 --head-budget uniform --select topk+sample "
              "--random-share 7/19 --evict every"},
    {.name = "vase",
     .summary = "the largest values, and a sample of the others by the attention of the last rows",
     .paper = "arXiv 2606.03928",
     .parts = "--statistic mean --window 64 --pool avg --pool-size 5 --sinks 4 --values 25% --head-budget uniform "
              "--select topk+sample --random-share 1 --draw score --evict every"},
    {.name = "ahakv",
     .summary = "attention sharpened with the length of the text, times the size of the values",
     .paper = "arXiv 2506.03762",
     .parts = "--statistic sum --window 0 --rows last:32 --gain --value-prior --pool none --recents 32 --head-budget "
              "uniform --select topk --evict every:1"},
    {.name = "knorm",
     .summary = "keys of small norm",
     .paper = "arXiv 2406.11430",
     .parts = "--statistic key-norm --head-budget uniform --select topk --evict every:1"},
    {.name = "keydiff",
     .summary = "keys that differ from the mean key",
     .paper = "arXiv 2504.15364",
     .parts = "--statistic key-difference --head-budget uniform --select topk --evict every:1"},
    {.name = "expected-attention",
     .summary = "what rows to come are expected to attend to",
     .paper = "arXiv 2510.00636",
     .parts = "--statistic expected --sinks 4 --head-budget uniform --select topk --evict never"},
    {.name = "kvzip",
     .summary = "what a repetition of the prompt attends to; the heads of all layers compete",
     .paper = "arXiv 2505.23416",
     .parts = "--statistic max --rows-at repeat --window 0 --pool none --sinks 4 --head-budget adaptive --alpha 0 "
              "--safeguard floor --layer-budget adaptive --select topk --evict never"},
    {.name = "r-kv",
     .summary = "what the last rows attend to, less what other keys resemble",
     .alias = "rkv",
     .paper = "arXiv 2505.24133",
     .parts = "--statistic mean --window 8 --redundancy 0.93 --pool max --pool-size 7 --head-budget uniform --select "
              "topk --evict every:128"},
    {.name = "lagkv",
     .summary = "keys and values that deviate, on the scale of the next part of the text",
     .paper = "arXiv 2504.04704",
     .parts = "--statistic lag --lag 128 --sinks 4 --head-budget uniform --select topk --evict never"},
    {.name = "leverage",
     .summary = "keys that others cannot stand for",
     .paper = "arXiv 2507.08143",
     .parts = "--statistic leverage --sinks 8 --recents 4 --head-budget uniform --select topk --evict never"},
    {.name = "snapkv@kvpress",
     .summary = "SnapKVPress of kvpress 0.5.5",
     .paper = "arXiv 2404.14469",
     .kind = LH_POLICY_COMPATIBLE,
     .parts = "--statistic mean --window 64 --group mean --pool avg --pool-size 5 --group-stage score --head-budget "
              "uniform --select topk --evict never"},
    {.name = "pyramidkv@kvpress",
     .summary = "PyramidKVPress of kvpress 0.5.5",
     .paper = "arXiv 2406.02069",
     .kind = LH_POLICY_COMPATIBLE,
     .parts = "--statistic mean --window 64 --group mean --pool avg --pool-size 5 --group-stage score --head-budget "
              "uniform --layer-budget pyramid --beta 20 --select topk --compat kvpress --evict never"},
    {.name = "adakv@kvpress",
     .summary = "AdaKVPress over SnapKVPress of kvpress 0.5.5",
     .paper = "arXiv 2407.11550",
     .kind = LH_POLICY_COMPATIBLE,
     .parts = "--statistic mean --window 64 --group mean --pool avg --pool-size 5 --group-stage score --head-budget "
              "adaptive --alpha 0.2 --safeguard floor --select topk --compat kvpress --evict never"},
    {.name = "critical@kvpress",
     .summary = "CriticalKVPress over SnapKVPress of kvpress 0.5.5",
     .paper = "arXiv 2502.03805",
     .kind = LH_POLICY_COMPATIBLE,
     .parts = "--statistic mean --window 64 --group mean --pool avg --pool-size 5 --group-stage score --head-budget "
              "uniform --select two-stage --first-stage 0.5 --compat kvpress --evict never"},
    {.name = "critical-ada@kvpress",
     .summary = "CriticalAdaKVPress over SnapKVPress of kvpress 0.5.5",
     .paper = "arXiv 2502.03805",
     .kind = LH_POLICY_COMPATIBLE,
     .parts =
         "--statistic mean --window 64 --group mean --pool avg --pool-size 5 --group-stage score --head-budget "
         "adaptive --alpha 0.2 --safeguard floor --select two-stage --first-stage 0.5 --compat kvpress --evict never"},
    {.name = "tova@kvpress",
     .summary = "TOVAPress of kvpress 0.5.5: tova that keeps the last token",
     .paper = "arXiv 2401.06104",
     .kind = LH_POLICY_COMPATIBLE,
     .parts = "--statistic last --group mean --pool none --recents 1 --head-budget uniform --select topk --set-per "
              "layer --evict never"},
    {.name = "observed@kvpress",
     .summary = "ObservedAttentionPress of kvpress 0.5.5: mas without decoding",
     .paper = "arXiv 2306.14048",
     .kind = LH_POLICY_COMPATIBLE,
     .parts = "--statistic mas --window 0 --rows all --pool none --head-budget uniform --select topk --evict never"},
    {.name = "streaming@kvpress",
     .summary = "StreamingLLMPress of kvpress 0.5.5",
     .paper = "arXiv 2309.17453",
     .kind = LH_POLICY_COMPATIBLE,
     .parts = "--statistic position --sinks 4 --head-budget uniform --select topk --evict never"},
    {.name = "knorm@kvpress",
     .summary = "KnormPress of kvpress 0.5.5",
     .paper = "arXiv 2406.11430",
     .kind = LH_POLICY_COMPATIBLE,
     .parts = "--statistic key-norm --head-budget uniform --select topk --evict never"},
    {.name = "keydiff@kvpress",
     .summary = "KeyDiffPress of kvpress 0.5.5",
     .paper = "arXiv 2504.15364",
     .kind = LH_POLICY_COMPATIBLE,
     .parts = "--statistic key-difference --head-budget uniform --select topk --evict never"},
    {.name = "expected-attention@kvpress",
     .summary = "ExpectedAttentionPress of kvpress 0.5.5",
     .paper = "arXiv 2510.00636",
     .kind = LH_POLICY_COMPATIBLE,
     .parts = "--statistic expected --sinks 4 --head-budget uniform --select topk --evict never"},
    {.name = "lagkv@kvpress",
     .summary = "LagKVPress of kvpress 0.5.5",
     .paper = "arXiv 2504.04704",
     .kind = LH_POLICY_COMPATIBLE,
     .parts = "--statistic lag --lag 128 --sinks 4 --head-budget uniform --select topk --evict never"}};

enum { PRESETS = sizeof presets / sizeof *presets };

const char lh_policy_by_default[] = "longhaul", lh_policy_to_ask_later[] = "ask-later",
           lh_policy_of_learnt[] = "learnt";

const lh_policy_preset *lh_policy_find(const char *name)
{
    for (int i = 0; i < PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0 || (presets[i].alias && strcmp(presets[i].alias, name) == 0))
            return &presets[i];
    const lh_loaded_plugin *plugin = lh_plugin_find(name);
    return plugin ? &plugin->preset : NULL;
}

const lh_policy_preset *lh_policy_at(int i)
{
    return i >= 0 && i < PRESETS ? &presets[i] : NULL;
}
