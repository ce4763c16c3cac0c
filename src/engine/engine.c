/* engine.c - opens an engine: threads, device and communicator of this rank, then the checkpoint, its tokenizer and
 * this rank's shard of the weights. Every phase ends in an agreement, so all ranks fail or none. */
#include "engine/engine.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "base/sized_struct.h"
#include "engine/devices.h"
#include "engine/same_file.h"
#include "engine/threads.h"
#include "engine/world.h"
#include "model/score_weights.h"

struct lh_engine {
    lh_engine_view view;
    lh_exec exec;
    lh_comm *device_comm;
    lh_stream *stream;
    lh_threads *threads;
    lh_checkpoint *ck;
    lh_tokenizer *tokenizer;
    float *score_rows;       /* lh_score_weights_put, until the model takes them */
    int64_t *layer_shares;   /* lh_score_weights, as well */
    int64_t users;           /* sessions, calls under way, and the program until it closes the engine */
    pid_t process;           /* that opened it */
    pthread_mutex_t at_work; /* held by the thread that has entered, once for each time */
};

const lh_engine_view *lh_engine_get(const lh_engine *e)
{
    return &e->view;
}

lh_cache_size lh_engine_cache_size(const lh_engine *e)
{
    return lh_config_cache_size(e->view.config, &e->view.kv_types, e->view.score_weights);
}

lh_status lh_engine_size_policy(const lh_engine *e, lh_policy *policy)
{
    const lh_cache_size cache = lh_engine_cache_size(e);
    return lh_comm_agree(e->view.comm, lh_policy_size(policy, &cache));
}

const lh_tokenizer *lh_engine_tokenizer(const lh_engine *e)
{
    return e ? e->view.tokenizer : NULL;
}

int lh_engine_is_forked(const lh_engine *e)
{
    return e->process != getpid();
}

lh_status lh_engine_enter(lh_engine *e)
{
    LH_TRY(lh_check_given(e, "engine"));
    if (lh_engine_is_forked(e))
        LH_FAIL(LH_EUSAGE,
                "the engine belongs to process %ld, and this process is a fork of it, which lacks its threads: fork "
                "before the engine is opened",
                (long)e->process);
    if (pthread_mutex_trylock(&e->at_work) != 0)
        LH_FAIL(LH_EUSAGE, "the engine is at work in another thread: one thread at a time may call it");
    const lh_status st = lh_threads_enter(e->threads);
    if (st != LH_OK)
        pthread_mutex_unlock(&e->at_work);
    else
        lh_engine_hold(e);
    return st;
}

lh_engine_options lh_engine_defaults(const lh_engine_options *options)
{
    lh_engine_options o = *options;
    if (!o.device) o.device = "auto";
    if (!o.dtype) o.dtype = "auto";
    if (!o.kv_dtype) o.kv_dtype = "auto";
    return o;
}

lh_status lh_engine_dtypes(const lh_engine_options *options, lh_dtype stored, lh_dtype *dtype, lh_kv_types *types)
{
    lh_dtype kept;
    *dtype = stored == LH_BF16 ? LH_BF16 : LH_F32;
    if (strcmp(options->dtype, "auto") != 0 &&
        (!lh_dtype_find(options->dtype, dtype) || (*dtype != LH_F32 && *dtype != LH_BF16)))
        LH_FAIL(LH_EUSAGE, "%s '%s' is none of auto, f32, bf16", lh_setting("dtype"), options->dtype);
    *types = (lh_kv_types){.prompt = *dtype, .full = *dtype, .evicted = LH_Q8};
    if (strcmp(options->kv_dtype, "auto") == 0) return LH_OK;
    if (!lh_dtype_find(options->kv_dtype, &kept) || (kept != LH_F32 && kept != LH_BF16 && kept != LH_Q8))
        LH_FAIL(LH_EUSAGE, "%s '%s' is none of auto, f32, bf16, q8", lh_setting("kv_dtype"), options->kv_dtype);
    *types = (lh_kv_types){.prompt = kept == LH_Q8 ? *dtype : kept, .full = kept, .evicted = kept};
    return LH_OK;
}

lh_status lh_engine_check(const lh_engine_options *options)
{
    const struct {
        const char *name;
        int64_t value, max;
    } numbers[] = {{"tp", options->tp, LH_RANKS_MAX},
                   {"threads", options->threads, LH_THREADS_MAX},
                   {"memory", options->memory, INT64_MAX},
                   {"chunk", options->chunk, LH_CHUNK_MAX}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value < 0 || numbers[i].value > numbers[i].max)
            LH_FAIL(LH_EUSAGE, "%s is %lld, it must be between 0 and %lld", lh_setting(numbers[i].name),
                    (long long)numbers[i].value, (long long)numbers[i].max);
    if (options->deterministic && options->chunk)
        LH_FAIL(LH_EUSAGE, "%s has no effect with %s, whose chunks have a fixed length: leave it out",
                lh_setting("chunk"), lh_setting("deterministic"));
    return LH_OK;
}

/* Collective over `world`. Opens threads, device, backend and communicators of this rank. */
static lh_status open_exec(lh_engine *e, lh_comm *world, const lh_engine_options *o)
{
    lh_comm *comm = e->view.comm;
    lh_status st = LH_OK;
    lh_devices devices;
    LH_TRY(lh_threads_open(&e->threads, world, o->threads));
    e->view.threads = lh_threads_count(e->threads);
    LH_TRY(lh_devices_open(&devices, world, &(lh_device_request){o->device, o->share_device, o->memory}));
    e->view.device = devices.device;
    if (lh_device_kind_of(devices.device) == LH_DEVICE_CPU) lh_threads_check_binding(e->threads);
    st = lh_stream_open(&e->stream, e->view.device);
    LH_TRY(lh_comm_agree(world, st));
    st = lh_comm_open_on(
        &e->device_comm,
        &(lh_comm_on){.host = comm, .stream = e->stream, .one_device_per_rank = devices.one_device_per_rank});
    if (st == LH_OK && !o->deterministic && devices.ops->open_libraries) st = devices.ops->open_libraries(e->stream);
    LH_TRY(lh_comm_agree(world, st));
    LH_TRY(lh_devices_limit(&devices, world));
    e->exec = (lh_exec){.ops = devices.ops, .stream = e->stream, .comm = comm, .device_comm = e->device_comm};
    e->view.exec = &e->exec;
    return st;
}

static lh_status check_model(const lh_engine_options *o)
{
    if (!o->model) LH_FAIL(LH_EUSAGE, "%s is not given, it must name a checkpoint", lh_setting("model"));
    return LH_OK;
}

static lh_status open_model(lh_engine *e, const lh_engine_options *o)
{
    if (!e->ck) LH_TRY(lh_checkpoint_open_model(&e->ck, o->model, o->weights));
    LH_TRY(lh_engine_dtypes(o, lh_checkpoint_dtype(e->ck), &e->view.dtype, &e->view.kv_types));
    LH_TRY(lh_checkpoint_open_tokenizer(e->ck, &e->tokenizer));
    e->view.tokenizer = e->tokenizer;
    e->view.config = lh_checkpoint_config(e->ck);
    e->view.identity = lh_checkpoint_identity(e->ck);
    return LH_OK;
}

static lh_status show_loading(void *self, int64_t bytes, int64_t total_bytes)
{
    lh_progress *p = self;
    p->total = total_bytes;
    lh_progress_update(p, bytes);
    if (lh_interrupt_asked()) LH_FAIL(LH_EINTERRUPTED, "interrupted while loading weights");
    return LH_OK;
}

/* Local. */
static lh_status check_memory(const lh_engine *e, const lh_shard *shard, const lh_model_options *options, int64_t *need)
{
    const lh_engine_view *v = &e->view;
    *need = lh_model_memory_of(v->config, shard, options).weights;
    const int64_t have = lh_min_i64(lh_device_free_bytes(v->device), lh_device_room(v->device));
    if (*need > have)
        LH_FAIL(LH_ENOMEM, "the weights take %.3f GiB on this rank and %.3f GiB are free: use more ranks%s%s%s",
                (double)*need / (1 << 30), (double)have / (1 << 30), v->dtype == LH_F32 ? " or " : "",
                v->dtype == LH_F32 ? lh_setting("dtype") : "", v->dtype == LH_F32 ? " bf16" : "");
    return LH_OK;
}

/* Collective. What all ranks of the world read, and how fast; the rate of a small model or of one that is drawn says
 * nothing. */
static lh_status tell_reading(lh_comm *world, int64_t read, double seconds)
{
    LH_TRY(lh_comm_allreduce(world, &read, 1, LH_I64, LH_SUM));
    if (seconds >= 1 && read)
        lh_info("weights: %.2f GB read in %.1f s, %.2f GB/s", 1e-9 * (double)read, seconds,
                1e-9 * (double)read / seconds);
    else
        lh_debug("weights: %lld bytes read in %.2f s", (long long)read, seconds);
    return LH_OK;
}

/* Collective over `world`. Ranks of several hosts read each byte once; ranks of a single host share the system's page
 * cache. */
static lh_status load_model(lh_engine *e, lh_comm *world, lh_order order)
{
    lh_status st = LH_OK;
    lh_engine_view *v = &e->view;
    lh_progress progress;
    lh_shard shard;
    lh_comm *same = NULL;
    int64_t need = 0, read = 0;
    const double start = lh_clock_s();
    st = lh_shard_of(&shard, v->config, lh_comm_rank(v->comm), lh_comm_size(v->comm));
    LH_TRY(lh_comm_agree(world, st));
    const lh_model_options options = lh_model_options_for(v->config, &shard, lh_device_kind_of(v->device), v->dtype,
                                                          order, lh_checkpoint_formats(e->ck));
    LH_TRY(lh_comm_agree(world, check_memory(e, &shard, &options, &need)));
    const int apart = lh_comm_local_size(world) < lh_comm_size(world);
    if (apart && world != v->comm) LH_TRY(lh_comm_split(world, lh_comm_rank(v->comm), &same));
    lh_progress_init(&progress, "loading weights", "bytes", need);
    st = lh_model_load(
        &v->model, e->ck, v->exec, &options,
        &(lh_load_options){
            .self = &progress, .done = show_loading, .all = apart ? world : NULL, .same = same, .read_bytes = &read});
    lh_progress_clear(&progress);
    lh_comm_close(same);
    lh_h5 *file = lh_checkpoint_file(e->ck);
    if (file && st == LH_OK) st = lh_h5_unchanged(file);
    LH_TRY(lh_comm_agree(world, st));
    return tell_reading(world, read, lh_clock_s() - start);
}

/* Local, before the model is loaded. */
static lh_status load_score_weights(lh_engine *e, const lh_engine_options *o)
{
    lh_engine_view *v = &e->view;
    const lh_config *c = v->config;
    lh_score_weights weights = {0};
    lh_shard shard;
    lh_status st = LH_OK;
    LH_TRY_DONE(lh_score_weights_find(&weights, &(lh_score_weights_request){o->score_weights, o->model, c->layers,
                                                                            c->kv_heads, c->head_dim, v->identity}));
    v->score_weights = weights.hash;
    if (!weights.hash) goto done;
    LH_TRY_DONE(lh_shard_of(&shard, c, lh_comm_rank(v->comm), lh_comm_size(v->comm)));
    LH_TRY_DONE(lh_score_weights_put(&e->score_rows, &weights, v->exec, &shard.heads));
    e->layer_shares = weights.layer_shares;
    weights.layer_shares = NULL;
done:
    lh_score_weights_clear(&weights);
    return st;
}

static lh_status check_ranks(lh_comm *world, int64_t tp)
{
    const int size = lh_comm_size(world);
    if (tp && tp != size)
        LH_FAIL(LH_EUSAGE,
                "'%s %lld' asks for %lld ranks and this run has %d: start it with 'mpirun -n %lld', or leave '%s' out",
                lh_setting("tp"), (long long)tp, (long long)tp, size, (long long)tp, lh_setting("tp"));
    return LH_OK;
}

/* The last bits of sums differ between instruction sets. Where ranks have to compute the same bits, in a mixture of
 * experts to choose the same experts, they must use one set. */
static lh_status check_instruction_sets(const lh_engine *e, lh_comm *world, int deterministic)
{
    const char *isa = lh_device_kind_of(e->view.device) == LH_DEVICE_CPU ? lh_cpu_isa() : "";
    lh_status st;
    if (!deterministic && !e->view.config->experts.count) return LH_OK;
    st = lh_comm_same(world, isa, (int64_t)strlen(isa), "instruction set");
    if (st != LH_EUSAGE) return st;
    return lh_fail_within(LH_EUSAGE, "%s needs one instruction set on all ranks: set LONGHAUL_CPU_ISA to the lowest",
                          deterministic ? lh_setting("deterministic") : "a mixture of experts");
}

static lh_status allocate(lh_engine **out)
{
    pthread_mutexattr_t attr;
    LH_TRY(lh_calloc(out, 1, sizeof **out));
    (*out)->users = 1;
    (*out)->process = getpid();
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&(*out)->at_work, &attr);
    pthread_mutexattr_destroy(&attr);
    return LH_OK;
}

/* model: NULL: the options name it; it becomes the engine's. */
static lh_status open_engine(lh_engine **out, lh_comm *world, lh_comm *comm, lh_checkpoint *model,
                             const lh_engine_options *given)
{
    lh_engine *e = NULL;
    double start = lh_clock_s();
    const lh_engine_options all = lh_engine_defaults(given), *options = &all;
    lh_status st = lh_engine_check(options);
    if (st == LH_OK) st = check_ranks(comm, options->tp);
    if (st == LH_OK) st = allocate(&e);
    LH_TRY_DONE(lh_comm_agree(world, st));
    lh_engine_view *v = &e->view;
    e->ck = model;
    model = NULL;
    v->comm = comm;
    v->chunk = options->chunk;
    LH_TRY_DONE(open_exec(e, world, options));
    LH_TRY_DONE(lh_comm_agree(world, check_model(options)));
    LH_TRY_DONE(lh_comm_agree(world, open_model(e, options)));
    if (lh_checkpoint_file(e->ck)) LH_TRY_DONE(lh_same_file(world, lh_checkpoint_file(e->ck)));
    LH_TRY_DONE(check_instruction_sets(e, world, options->deterministic));
    LH_TRY_DONE(lh_comm_agree(world, load_score_weights(e, options)));
    LH_TRY_DONE(lh_comm_same(world, &v->score_weights, sizeof v->score_weights, "score weights"));
    lh_comm_step(world, "loading weights", 0);
    st = load_model(e, world, options->deterministic ? LH_ORDER_FIXED : LH_ORDER_ANY);
    if (st == LH_EINTERRUPTED) lh_warn("interrupted while loading weights, nothing was computed");
    LH_TRY_DONE(st);
    lh_model_take_score_weights(v->model, e->score_rows, e->layer_shares);
    e->score_rows = NULL;
    e->layer_shares = NULL;
    v->load_s = lh_clock_s() - start;
    lh_debug("loaded %lld layers of %s as %s, %.1f MiB on this rank, %.2f s", (long long)v->config->layers,
             lh_config_family_name(v->config), lh_dtype_name(v->dtype),
             (double)lh_device_usage(v->device).now[LH_MEM_WEIGHTS] / (1 << 20), v->load_s);
    *out = e;
    e = NULL;
done:
    lh_checkpoint_close(model);
    lh_engine_close(e);
    return st;
}

lh_status lh_engine_open_replica(lh_engine **out, lh_comm *world, lh_comm *comm, const lh_engine_options *options)
{
    return open_engine(out, world, comm, NULL, options);
}

lh_status lh_engine_open_model(lh_engine **out, lh_comm *world, lh_checkpoint *model, const lh_engine_options *options)
{
    return open_engine(out, world, world, model, options);
}

lh_status lh_engine_open_on(lh_engine **out, lh_comm *world, const lh_engine_options *options)
{
    return lh_engine_open_replica(out, world, world, options);
}

lh_status lh_engine_open(lh_engine **out, lh_world *world, const lh_engine_options *options)
{
    LH_TRY(lh_check_given(out, "engine"));
    LH_TRY(lh_check_given(lh_world_comm(world), "world"));
    lh_engine_options given;
    LH_TRY(lh_struct_read(&given, sizeof given, options, "lh_engine_options"));
    return lh_engine_open_on(out, lh_world_comm(world), &given);
}

void lh_engine_hold(lh_engine *e)
{
    e->users++;
}

void lh_engine_close(lh_engine *e)
{
    if (e) lh_engine_release(e);
}

static void free_engine(lh_engine *e)
{
    lh_model_close(e->view.model);
    lh_tokenizer_close(e->tokenizer);
    lh_checkpoint_close(e->ck);
    lh_comm_close(e->device_comm);
    if (e->view.device) lh_device_free(e->view.device, e->score_rows);
    lh_free(e->layer_shares);
    if (e->stream) lh_stream_close(e->stream);
    if (e->view.device) lh_device_close(e->view.device);
    lh_threads_close(e->threads);
    pthread_mutex_destroy(&e->at_work);
    lh_free(e);
}

void lh_engine_release(lh_engine *e)
{
    if (lh_engine_is_forked(e) || --e->users > 0) return; /* the memory of a fork goes with its process */
    free_engine(e);
}

void lh_engine_leave(lh_engine *e)
{
    const int is_last = --e->users == 0; /* a callback has closed the engine */
    pthread_mutex_unlock(&e->at_work);
    if (is_last) free_engine(e);
}
