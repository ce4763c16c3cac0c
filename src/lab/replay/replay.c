/* replay.c - a replay from trace to trace, layer by layer. */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "lab/replay/replay_impl.h"

/* ---- a trace ---- */

/* All traces must have the same model shape. */
static lh_status take_shape(lh_replay *r)
{
    const lh_kv_shape *t = &r->trace.shape;
    lh_study *s = &r->study;
    if (s->layers == 0) {
        s->layers = t->layers;
        s->heads = t->heads.heads;
        s->kv_heads = t->heads.kv_heads;
        s->group = t->heads.group;
        s->head_dim = t->head_dim;
        s->hidden = t->hidden;
        LH_TRY(lh_replay_open_values(r));
        return lh_replay_open_texts(r);
    }
    if (s->layers != t->layers || s->heads != t->heads.heads || s->kv_heads != t->heads.kv_heads ||
        s->head_dim != t->head_dim)
        LH_FAIL(LH_EUSAGE,
                "'%s' is of a model with %lld layers of %lld heads of %lld dimensions over %lld KV heads, the traces "
                "before it of one with %lld of %lld of %lld over %lld: replay them apart",
                lh_h5_path(r->trace.h5), (long long)t->layers, (long long)t->heads.heads, (long long)t->head_dim,
                (long long)t->heads.kv_heads, (long long)s->layers, (long long)s->heads, (long long)s->head_dim,
                (long long)s->kv_heads);
    return LH_OK;
}

/* Not collective. Ranks share out the layers. */
static lh_status replay_layers(lh_replay *r)
{
    const int ranks = lh_comm_size(r->request.comm), rank = lh_comm_rank(r->request.comm);
    for (int64_t l = rank; l < r->study.layers; l += ranks) {
        if (r->trace.recorded[l]) {
            LH_TRY(lh_replay_open_layer(r, l));
            LH_TRY(lh_replay_select(r));
            LH_TRY(lh_replay_keep_layer(r));
            LH_TRY(lh_replay_judge_layer(r));
            r->analysed[l]++;
        }
        lh_replay_step(r);
    }
    return LH_OK;
}

/* Logs a trace. */
static lh_status log_trace(lh_replay *r)
{
    lh_status st = LH_OK;
    const char *path = lh_h5_path(r->trace.h5);
    json_t *trace = json_pack("{s:o, s:I}", "file", lh_json_text(path, (int64_t)strlen(path)), "prompt_tokens",
                              (json_int_t)r->trace.prompt),
           *answers = NULL;
    if (!r->words.traces) r->words.traces = json_array();
    LH_TRY_DONE(lh_trace_answers(&r->trace, &answers));
    if (answers) json_object_set(trace, "answers", answers);
    json_array_append(r->words.traces, trace);
done:
    json_decref(answers);
    json_decref(trace);
    return st;
}

/* Not collective. */
static lh_status open_trace(lh_replay *r, int64_t trace)
{
    lh_trace_file_close(&r->trace);
    LH_TRY(lh_trace_file_open(&r->trace, r->request.traces[trace]));
    r->trace.shape.score_weights = r->request.score_weights; /* the device is the host */
    r->trace.shape.layer_shares = r->request.layer_shares;
    LH_TRY(take_shape(r));
    LH_TRY(lh_replay_choose_judges(r));
    LH_TRY(lh_replay_check(r));
    LH_TRY(lh_replay_check_engine(r));
    LH_TRY(lh_replay_open_keep_sets(r));
    return log_trace(r);
}

/* Collective. */
static lh_status replay_trace(lh_replay *r, int64_t trace)
{
    lh_comm *comm = r->request.comm;
    LH_TRY(lh_comm_agree(comm, open_trace(r, trace)));
    LH_TRY(lh_replay_rerun_all(r));
    LH_TRY(lh_comm_agree_untimed(comm, replay_layers(r)));
    LH_TRY(lh_replay_share_keep_sets(r));
    LH_TRY(lh_replay_write_keep_sets(r));
    LH_TRY(lh_replay_continue(r));
    return lh_replay_add_text(r, trace);
}

/* ---- all of them ---- */

static lh_status open_exec(lh_replay *r)
{
    LH_TRY(lh_device_open(&r->device, &(lh_device_choice){.kind = LH_DEVICE_CPU}));
    LH_TRY(lh_stream_open(&r->stream, r->device));
    LH_TRY(lh_comm_open_self(&r->self));
    LH_TRY(lh_comm_open_on(&r->self_device, &(lh_comm_on){.host = r->self, .stream = r->stream}));
    r->exec = (lh_exec){.ops = lh_ops_find("cpu"), .stream = r->stream, .comm = r->self, .device_comm = r->self_device};
    return lh_ops_check(r->exec.ops);
}

lh_status lh_replay_run(lh_replay **out, const lh_replay_request *request)
{
    lh_status st = LH_OK;
    lh_replay *r = NULL;
    const double start = lh_clock_s();
    LH_TRY_DONE(lh_calloc(&r, 1, sizeof *r));
    r->request = *request;
    st = lh_replay_set_up(r);
    if (st == LH_OK) st = open_exec(r);
    LH_TRY_DONE(lh_comm_agree(request->comm, st));
    for (int64_t i = 0; i < request->trace_count; i++) LH_TRY_DONE(replay_trace(r, i));
    LH_TRY_DONE(lh_comm_agree(request->comm, lh_replay_log_decoding(r, &r->words.decoding)));
    LH_TRY_DONE(lh_replay_join_ranks(r));
    r->pace.seconds += lh_clock_s() - start; /* without the model's */
    *out = r;
    r = NULL;
done:
    lh_replay_close(r);
    return st;
}

void lh_replay_close(lh_replay *r)
{
    if (!r) return;
    lh_replay_layer_clear(&r->layer);
    lh_replay_close_keep_sets(r);
    lh_trace_file_close(&r->trace);
    lh_comm_close(r->self_device);
    lh_comm_close(r->self);
    lh_stream_close(r->stream);
    lh_device_close(r->device);
    for (int64_t i = 0; i < r->value_arrays && r->values; i++) lh_free(r->values[i]);
    for (int64_t p = 0; p < r->study.policy_count; p++) lh_free(r->names[p]);
    for (int64_t b = 0; b < r->study.budget_count; b++) lh_free(r->budgets[b]);
    lh_replay_clear_reruns(r);
    lh_replay_close_texts(r);
    lh_free(r->analysed);
    lh_free(r->values);
    lh_free(r->names);
    lh_free(r->budgets);
    lh_free(r->cells);
    lh_replay_clear_judges(&r->judges);
    lh_free(r->words.reference);
    lh_free(r->words.decoding);
    json_decref(r->words.traces);
    lh_free(r);
}

lh_replay_pace lh_replay_pace_of(const lh_replay *r)
{
    return r->pace;
}

const lh_study *lh_replay_study(const lh_replay *r)
{
    return &r->study;
}

const char *lh_replay_decoding(const lh_replay *r)
{
    return r->words.decoding;
}
