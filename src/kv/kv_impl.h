/* kv_impl.h - the cache, and internal functions of this room. Other rooms include kv.h. */
#ifndef LH_KV_KV_IMPL_H
#define LH_KV_KV_IMPL_H

#include "base/clock.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "cache/prefill_file.h"
#include "cache/slot_positions.h"
#include "evict/counted_rows.h"
#include "evict/score_source.h"
#include "exec/heads.h"
#include "kv/figures.h"
#include "kv/layer_plan.h"

typedef struct lh_kv_layer {
    lh_layer_plan plan;
    lh_arena arena;
    lh_query_ring ring;
    lh_counted_rows latest;
    int64_t entries_without_norm; /* at the end of every head */
} lh_kv_layer;

typedef enum lh_kv_phase { LH_KV_EMPTY, LH_KV_PREFILL, LH_KV_DECODE } lh_kv_phase;

/* The state of a cache without its entries; a fork begins with its origin's. */
typedef struct lh_timeline {
    lh_kv_phase phase;
    int64_t seen, steps, evictions;
    int budgets_made; /* budgets of layers are made once something has to go */
} lh_timeline;

enum { LH_EXPECTED_LENS = 2 }; /* of the layer before, as it was left, and of the one that ends */

/* Offsets and lengths of all arenas: [layers + 2][2][heads]. */
typedef struct lh_lens {
    int64_t *device;
    int64_t *host; /* on its way from the device while `copying` is set */
    int64_t bytes; /* of each */
    int copying;   /* the lengths of the arenas are those before an eviction */
    int64_t
        *expected; /* host, [LH_EXPECTED_LENS][2][heads]: lengths expected by a prefill, and a copy of the device's */
    int64_t layers[LH_EXPECTED_LENS]; /* layers of these lengths */
    int expected_count;
} lh_lens;

/* Single tokens that all ranks have room for; and after every eviction of a step, 0: not known. */
typedef struct lh_reserved {
    int64_t tokens, after_eviction;
} lh_reserved;

/* Several caches that share a prefill (shared_prefill.c). */
typedef struct lh_shared_prefill {
    lh_kv *leader;         /* its prefill fills this cache; NULL: the cache has its own prefill */
    lh_kv *same_stats;     /* an earlier follower that counts the same statistics; NULL: counts for itself */
    int counts_for_others; /* 1: it is such a follower, and counts in every layer */
    lh_kv **followers;     /* of this cache */
    int64_t follower_count;
} lh_shared_prefill;

/* The segment of probe tokens that passes a layer (probes.c). */
typedef struct lh_kv_probes {
    lh_arena arena; /* the sinks that the segment sees, its stretch of the prompt, then its own entries */
    lh_probe_segment now;
} lh_kv_probes;

/* The entries of a quantised layer as sources of scores read them (quantise.c): the layer's view with keys and values
 * of the prompt's type. */
typedef struct lh_widened {
    lh_ragged view;
    int64_t slots; /* of the memory of its keys and values */
} lh_widened;

/* Small host arrays of collectives, made once: an allocation in the middle of one could fail on one rank alone. */
typedef struct lh_kv_arrays {
    int64_t *budgets; /* [layers] */
    int64_t *room;    /* [LH_EVICT_AT_ONCE, kv_heads of the model] */
    int64_t *lens;    /* [kv_heads of the model] */
    int64_t *kept;    /* [kv_count], of lh_device_alloc_host */
    lh_gather gather;
} lh_kv_arrays;

typedef struct lh_layer_competition lh_layer_competition;

struct lh_kv {
    lh_exec exec;
    lh_kv_shape shape;
    lh_policy policy;
    lh_policy_numbers numbers; /* of the policy, for the prompt */
    lh_dtype kept_type;        /* of the entries after the prompt */
    lh_entry_stats stats;
    lh_evictor *evictor;
    lh_kv_listener listener;
    lh_prompt prompt;
    lh_kv_layer *layers;
    lh_arena scratch; /* the layer that is being prefilled and will evict */
    lh_lens lens;
    lh_reserved reserved;
    lh_timeline timeline;
    lh_shared_prefill shared;
    uint64_t seed;
    lh_kv *origin; /* of a fork that may share entries, else NULL */
    int64_t forks; /* open forks with this origin */
    lh_slot_positions slots;
    lh_widened widened;
    lh_kv_probes probes;
    lh_layer_competition *competition; /* NULL: every layer has its own budget */
    lh_kv_arrays arrays;
    int64_t epoch; /* the same on all ranks; grows when memory used by steps has moved on any rank, which lh_kv_reserve
                      and lh_kv_settle exchange. The first step after them allocates its workspace */
    double evict_s;
};

lh_device *lh_kv_device(const lh_kv *kv);

/* ---- layers.c ---- */

/* Budgets of all layers for `seen` tokens. */
void lh_kv_make_budgets(lh_kv *kv, int64_t seen);

/* Returns 1 if lh_kv_settle, called with these tokens, evicts by the policy. */
int lh_kv_is_due(const lh_kv *kv, lh_kv_taken what, int64_t tokens);

/* Begin without a prompt, for a cache file or a fork. Slack as after a prompt of `tokens` tokens. */
lh_status lh_kv_begin_layers(lh_kv *kv, const lh_prompt *prompt);

/* An eviction of a layer, or rows that pass it: what follows from the layer and the time. */
lh_evict_job lh_kv_job(lh_kv *kv, int64_t layer, const lh_arena *arena, int64_t seen);

/* ---- quantise.c ---- */

/* After a layer of the prompt: it, and the layers that its end decided, keep their entries as q8. */
lh_status lh_kv_quantise(lh_kv *kv, int64_t layer);

/* The entries of an arena, and `more` beyond the host's lengths, as f32 or bf16, valid until the next call: its own
 * view if they are. */
const lh_ragged *lh_kv_widen(lh_kv *kv, const lh_arena *arena, int64_t more);

/* Writes the values of the widened entries to the arena, which holds the same entries. Does nothing to an arena that is
 * not q8. */
void lh_kv_narrow_values(lh_kv *kv, lh_arena *arena);

/* Memory for the widened entries of a layer, where evictions or passing rows read them. */
lh_status lh_kv_reserve_widened(lh_kv *kv);
void lh_kv_free_widened(lh_kv *kv);

/* True if rows that pass a layer while decoding read its widened entries. */
int lh_kv_widens_in_steps(const lh_kv *kv);

/* ---- the prompt ---- */

/* The arena in which a layer is prefilled (shared_prefill.c); and the followers' views of it. */
lh_arena *lh_kv_prefill_arena(lh_kv *kv, int64_t layer);
lh_status lh_kv_lend(lh_kv *leader, int64_t layer);
void lh_kv_take_back(lh_kv *follower);

/* 1 where the policy observes the layer's rows as they pass (record.c). */
int lh_kv_uses_rows(const lh_kv *kv, int64_t layer);

/* Probe tokens (probes.c): memory for their segments, before a prompt (LH_EUSAGE: the model has too few positions);
 * slots that a layer's arena needs for them after its prompt; true if they score a layer; and rows of theirs in
 * lh_kv_record. */
lh_status lh_kv_reserve_probes(lh_kv *kv);
int64_t lh_kv_probe_slots(const lh_kv *kv);
int lh_kv_uses_probes(const lh_kv *kv, int64_t layer);
void lh_kv_record_probes(lh_kv *kv, int64_t layer, const lh_query_rows *rows);

/* Blocks of a prompt (block.c): at the end of a layer its lengths, and which entries have no norms yet. And true if a
 * sliding layer, with its window within the budget, drops unseen entries only. */
void lh_kv_end_blocks(lh_kv *kv, int64_t layer);
int lh_kv_only_slides(const lh_kv *kv, int64_t layer);

/* The eviction of a layer at the end of its prefill (prefill.c), with kv->arrays.room. */
lh_evict_job lh_kv_end_job(lh_kv *kv, int64_t layer, const lh_arena *arena);

/* Budgets over all layers (layer_competition.c). Collective: the end of a layer's prefill where all layers compete. */
lh_status lh_kv_open_competition(lh_kv *kv);
void lh_kv_close_competition(lh_kv *kv);
void lh_kv_compete(lh_kv *kv, const lh_evict_job *job);

/* A prefill that is saved between two layers and continued: true if a layer competes; the end of a competition in which
 * all layers that compete are among the first layers_done; the competing entries of all layers after the last division;
 * rows that a layer is fitted to. A loaded layer with room[g] competing entries of KV
 * head g in its arena joins the competition again; *held: memory for its rows. */
int lh_kv_competes(const lh_kv *kv, int64_t layer);
int lh_kv_competition_ended(const lh_kv *kv);
void lh_kv_resume_competition(lh_kv *kv, int64_t layers_done);
int64_t *lh_kv_divided(lh_kv *kv); /* NULL where no layers compete */
lh_held_rows lh_kv_held_rows(const lh_kv *kv, int64_t layer);
lh_status lh_kv_rejoin(lh_kv *kv, const lh_evict_job *job, lh_held_rows *held);

/* ---- one eviction (evict_layers.c) ---- */

/* Workspace for the longest head of any layer, at least `cols` slots: for one layer in a prompt, after it for up to
 * LH_EVICT_AT_ONCE layers. lh_kv_make_work_everywhere: before evictions that exchange something, which all ranks need
 * it for; collective then. */
void lh_kv_make_work(lh_kv *kv, int64_t cols);
void lh_kv_make_work_everywhere(lh_kv *kv, int64_t cols);

/* Of n layers with workspace for n: drops the entries that the next row cannot see; and evicts by the policy,
 * collective where attention ranks split groups, or heads differ or are joined. */
void lh_kv_drop_unseen(lh_kv *kv, const lh_evict_job *jobs, int64_t n);
void lh_kv_evict_layers(lh_kv *kv, lh_evict_job *jobs, int64_t n);

/* The entries that the mask keeps, counts[h] competing ones of each head, from the arena of the prefill into one of the
 * layer's own, with its slack. */
void lh_kv_move_kept(lh_kv *kv, const lh_evict_job *job, int64_t *counts);

/* Space for rotating the keys of any layer by slots when `tokens` tokens come to them (slots.c). */
lh_status lh_kv_reserve_slots(lh_kv *kv, int64_t tokens);

/* After asynchronous evictions: starts copying the lengths to the host, and waits for them (lens.c). */
lh_status lh_kv_start_lens_copy(lh_kv *kv);
lh_status lh_kv_wait_lens(lh_kv *kv);

/* In a prefill: copies the lengths of a layer's arena to the host, where they are expected to be arena->len. And the
 * layer's one wait for the device: for how many entries every head keeps; LH_EFILE if its rows were not finite,
 * LH_EINTERNAL if any of the copied lengths are not as expected. */
void lh_kv_expect_lens(lh_kv *kv, const lh_arena *arena, int64_t layer);
lh_status lh_kv_wait_for_layer(lh_kv *kv, int64_t layer);

#endif
