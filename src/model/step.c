/* step.c - one decode step for one or more sequences. It is captured as a CUDA graph if the device supports it, and
 * replayed as one launch until the sequences change, or memory that it was captured with is reallocated on any rank.
 * All ranks run, capture or replay the same steps. */
#include "base/log.h"
#include "model/forward_impl.h"

static lh_status step(lh_forward *f)
{
    lh_status st = lh_forward_through_layers(f, 1);
    if (st == LH_OK) lh_forward_compute_logits(f, f->work.x, f->sequences.n);
    lh_status latched = lh_exec_take(&f->exec);
    return st == LH_OK ? latched : st;
}

/* ---- captured ---- */

static void forget_step(lh_forward *f)
{
    lh_graph_close(f->step.graph);
    f->step.graph = NULL;
    f->step.n = 0;
}

void lh_forward_forget(lh_forward *f, const lh_kv *kv)
{
    int held = 0;
    for (int64_t b = 0; b < f->step.n; b++) held |= f->step.kvs[b] == kv;
    if (held) forget_step(f); /* the next cache may get the same address */
}

static int records(const lh_forward *f)
{
    int can = !f->step.refused && lh_device_records(f->device) && lh_comm_enqueues(f->exec.device_comm);
    for (int64_t b = 0; b < f->sequences.n; b++) can &= lh_kv_can_capture(f->sequences.kvs[b]);
    return can;
}

/* Returns 1 if the last step used the same caches and memory, so that all workspace is allocated. The same on all
 * ranks. */
static int is_same_step(const lh_forward *f)
{
    const lh_captured_step *s = &f->step;
    int same = s->n == f->sequences.n;
    for (int64_t b = 0; same && b < s->n; b++)
        same = s->kvs[b] == f->sequences.kvs[b] && s->epochs[b] == lh_kv_graph_epoch(s->kvs[b]);
    return same;
}

static void remember_step(lh_forward *f)
{
    lh_captured_step *s = &f->step;
    s->n = f->sequences.n;
    for (int64_t b = 0; b < s->n; b++) {
        s->kvs[b] = f->sequences.kvs[b];
        s->epochs[b] = lh_kv_graph_epoch(s->kvs[b]);
    }
}

static lh_status record_step(lh_forward *f)
{
    lh_status st = LH_OK, end;
    int64_t sent = lh_comm_sent_bytes(f->exec.device_comm);
    LH_TRY(lh_stream_record(f->exec.stream));
    st = step(f);
    end = lh_stream_recorded(f->exec.stream, st == LH_OK ? &f->step.graph : NULL);
    if (st == LH_OK) st = end;
    f->step.sent_bytes = lh_comm_sent_bytes(f->exec.device_comm) - sent;
    return st;
}

/* Falls back to launching operations one by one if some rank cannot capture a step. */
static lh_status run_uncaptured(lh_forward *f, lh_status why)
{
    if (why != LH_EINTERNAL && why != LH_ENOMEM) return why;
    lh_warn("a decode step cannot be captured as a CUDA graph, its operations are launched one by one: %s",
            lh_error_message());
    lh_error_clear();
    forget_step(f);
    f->step.refused = 1;
    return step(f);
}

/* The first step allocates all workspace, the second is captured, later ones replay it: one launch instead of six
 * per layer. */
static lh_status run_step(lh_forward *f)
{
    lh_status st = LH_OK;
    if (!records(f)) return step(f);
    if (!is_same_step(f)) {
        forget_step(f);
        LH_TRY(step(f));
        remember_step(f);
        return st;
    }
    if (f->step.graph) {
        LH_TRY(lh_comm_again(f->exec.device_comm, f->step.sent_bytes));
    } else {
        st = lh_comm_agree(f->exec.comm, record_step(f));
        if (st != LH_OK) return run_uncaptured(f, st);
    }
    LH_TRY(lh_graph_run(f->step.graph));
    for (int64_t b = 0; b < f->sequences.n; b++) lh_kv_graph_replayed(f->sequences.kvs[b]);
    lh_forward_set_rows(f, f->sequences.n);
    return lh_exec_take(&f->exec);
}

/* ---- one step ---- */

static void put_next(lh_forward *f, const lh_next_token *next)
{
    lh_sequences *s = &f->sequences;
    for (int64_t b = 0; b < s->n; b++) {
        s->kvs[b] = next[b].kv;
        s->first[b] = lh_kv_seen(next[b].kv);
        f->numbers[b] = next[b].id;
    }
    lh_exec_put(&f->exec, f->work.ids, f->numbers, s->n * (int64_t)sizeof *f->numbers);
    lh_forward_put_positions(f);
}

lh_status lh_forward_step(lh_forward *f, const lh_next_token *next, int64_t n)
{
    lh_comm_step(f->exec.comm, "decode at position", lh_kv_seen(next[0].kv));
    for (int64_t b = 0; b < n; b++) LH_TRY(lh_kv_reserve(next[b].kv, 1));
    f->sequences.n = n;
    f->sequences.tokens = 1;
    lh_forward_set_call(f, 0);
    put_next(f, next);
    LH_TRY(run_step(f));
    for (int64_t b = 0; b < n; b++) LH_TRY(lh_kv_settle(next[b].kv, LH_KV_STEP, 1));
    return LH_OK;
}

int64_t lh_forward_step_nodes(const lh_forward *f)
{
    return f->step.graph ? lh_graph_nodes(f->step.graph) : 0;
}
