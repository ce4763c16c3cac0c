/* prefill.c - the prefill. It is layer-major: a layer sees the whole prompt chunk by chunk, then its cache is evicted,
 * before the next layer starts. Between two chunks only the hidden states of the prompt, pending all-reduces and the
 * cache are in use, so other caches can use the rest of the workspace then. Where ranks round sums (lh_model_options)
 * all-reduces overlap computation: the all-reduce of a chunk's attention overlaps the MLP of the chunk before it, and
 * the all-reduce of the MLP overlaps the attention of the next chunk. */
#include "base/mem.h"
#include "base/minmax.h"
#include "model/forward_impl.h"

/* A chunk with a pending all-reduce of its attention, and its MLP not yet done. */
typedef struct pending_chunk {
    int64_t at, tokens; /* at: row of x; tokens 0: no chunk is pending */
    lh_pending_sum *attended;
} pending_chunk;

struct lh_prefill {
    lh_forward *forward;
    lh_kv *kv;
    float *x;           /* [n + probes, hidden], in place */
    int64_t n, probes;  /* tokens of the prompt, and the cache's probe tokens, which follow them in every layer */
    int64_t layer, at;  /* at: finished rows of the layer; after the last layer, rows that the watch has seen */
    int64_t segment;    /* of probe tokens, that is next or has begun */
    int64_t rows;       /* last rows of the prompt that need logits */
    lh_row_watch watch; /* rows NULL: none */
    lh_ragged *view;    /* cache of the layer */
    int64_t chunk;      /* maximum tokens that pass through a layer together */
    pending_chunk pending;
    lh_pending_sum attended[2], outputs; /* attention of alternating chunks; MLP of the chunk before the pending one */
};

/* All-reduces overlap the work of another chunk: a single-chunk prompt is split in two if halves are still
 * efficient. */
static int64_t chunk_of(const lh_forward *f, int64_t n)
{
    enum { HALF_MIN = 512 };
    return f->model->options.rounds_sums && n <= f->chunk && n >= 2 * HALF_MIN ? (n + 1) / 2 : f->chunk;
}

lh_status lh_prefill_open(lh_prefill **out, lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n)
{
    lh_status st = LH_OK;
    lh_prefill *p = NULL;
    st = lh_calloc(&p, 1, sizeof *p);
    const int64_t probes = lh_kv_probe_tokens(kv), all = n + probes;
    if (st == LH_OK) {
        *p = (lh_prefill){.forward = f,
                          .kv = kv,
                          .n = n,
                          .probes = probes,
                          .rows = lh_min_i64(f->last_rows.next, n),
                          .chunk = chunk_of(f, n),
                          .attended = {{.parts = f->work.sums[0]}, {.parts = f->work.sums[1]}},
                          .outputs = {.parts = f->work.sums[2]}};
        st = lh_device_alloc(f->device, &p->x, lh_forward_prompt_bytes(f->config, all), LH_MEM_WORK);
    }
    LH_TRY_DONE(lh_comm_agree(f->exec.comm, st));
    for (int64_t at = 0; at < all; at += f->chunk) {
        int64_t t = lh_min_i64(f->chunk, all - at);
        lh_exec_put(&f->exec, f->work.ids, ids + at, t * (int64_t)sizeof *ids);
        lh_forward_embed(f, t, p->x + at * f->config->hidden);
    }
    *out = p;
    p = NULL;
done:
    lh_prefill_close(p);
    return st;
}

void lh_prefill_close(lh_prefill *p)
{
    if (!p) return;
    lh_device_free(p->forward->device, p->x);
    lh_free(p);
}

/* Runs the MLP of the pending chunk, after its all-reduces have been waited for. */
static void finish_pending(lh_prefill *p)
{
    lh_forward *f = p->forward;
    lh_pending_sum *attended = p->pending.attended;
    if (!p->pending.tokens) return;
    const lh_rows_at rows = {.layer = p->layer,
                             .x = p->x + p->pending.at * f->config->hidden,
                             .addend = attended->x ? attended->parts : NULL};
    attended->x = NULL;
    lh_layer_add_pending(f, &p->outputs);
    lh_forward_single_sequence(f, p->kv, p->pending.at, p->pending.tokens);
    lh_layer_mlp(f, &rows, &p->outputs);
    p->pending.tokens = 0;
}

/* Completes all sums of the layer. */
static void finish_sums(lh_prefill *p)
{
    lh_forward *f = p->forward;
    lh_exec_wait(&f->exec);
    finish_pending(p);
    lh_exec_wait(&f->exec);
    lh_layer_add_pending(f, &p->outputs);
}

/* Projects the attention of a chunk and runs the MLP of the pending chunk, or of this one if no all-reduce is
 * pending. */
static void project_chunk(lh_prefill *p, const lh_rows_at *rows, int64_t t)
{
    lh_forward *f = p->forward;
    lh_pending_sum *attended = p->pending.attended == &p->attended[0] ? &p->attended[1] : &p->attended[0];
    lh_exec_wait(&f->exec);
    lh_layer_project(f, rows, attended);
    finish_pending(p);
    p->pending = (pending_chunk){p->at, t, attended};
    if (!attended->x) finish_pending(p);
}

/* The next t rows, at positions from `first` on, as the rows of the call: appends their keys and values to the view. */
static lh_rows_at append_chunk(lh_prefill *p, int64_t first, int64_t t)
{
    lh_forward *f = p->forward;
    const lh_rows_at rows = {.layer = p->layer, .x = p->x + p->at * f->config->hidden};
    lh_forward_single_sequence(f, p->kv, first, t);
    f->sequences.views[0] = *p->view;
    f->sequences.ropes[0] = (lh_row_rope){.rotation = lh_kv_rotation(p->kv, p->layer)};
    lh_forward_put_positions(f);
    lh_layer_append(f, &rows);
    return rows;
}

/* Passes a chunk of t tokens through a layer; failures of operations are latched until lh_kv_prefill_end. In the last
 * layer only rows that need logits go through the MLP, and only these and the rows that the cache observes attend. */
static void chunk_through_layer(lh_prefill *p, int64_t t)
{
    lh_forward *f = p->forward;
    const int64_t end = p->at + t, wanted = lh_kv_wants_rows(p->kv, p->layer);
    const int64_t first_projected = p->layer + 1 < f->config->layers ? 0 : p->n - p->rows,
                  first_attending = lh_min_i64(first_projected, wanted);
    const lh_rows_at rows = append_chunk(p, p->at, t);
    if (end > first_attending) lh_layer_attend(f, &rows);
    if (end > first_projected) project_chunk(p, &rows, t);
    p->at += t;
}

/* Passes a chunk of probe tokens, of one segment, through a layer. In the last layer nothing reads their outputs. */
static void probes_through_layer(lh_prefill *p)
{
    lh_forward *f = p->forward;
    const lh_probe_segment s = lh_kv_probe_segment(p->kv, p->segment);
    const int64_t done = p->at - p->n - s.at, t = lh_min_i64(p->chunk, s.lead + s.tokens - done);
    if (!done) lh_kv_probe_begin(p->kv, p->layer, p->segment, &p->view);
    const lh_rows_at rows = append_chunk(p, p->n + done, t);
    lh_layer_attend(f, &rows);
    if (p->layer + 1 < f->config->layers) project_chunk(p, &rows, t);
    p->at += t;
    if (done + t < s.lead + s.tokens) return;
    lh_kv_probe_end(p->kv, p->layer);
    p->segment++;
}

static lh_status begin_layer(lh_prefill *p)
{
    lh_comm_step(p->forward->exec.comm, "prefill of layer", p->layer);
    /* allocates: may fail on one rank only */
    return lh_comm_agree(p->forward->exec.comm, lh_kv_prefill_begin(p->kv, p->layer, &p->view));
}

void lh_prefill_watch(lh_prefill *p, const lh_row_watch *watch)
{
    p->watch = *watch;
    p->rows = p->n;
}

/* The next rows, as many as there is memory for. */
static lh_status compute_watched(lh_prefill *p)
{
    lh_forward *f = p->forward;
    const int64_t n = lh_min_i64(f->last_rows.cap, p->n - p->at);
    lh_forward_compute_logits(f, p->x + p->at * f->config->hidden, n);
    LH_TRY(lh_exec_agree(&f->exec));
    LH_TRY(p->watch.rows(p->watch.self, p->at, n));
    p->at += n;
    return LH_OK;
}

static lh_status end_layer(lh_prefill *p)
{
    lh_forward *f = p->forward;
    finish_sums(p);
    LH_TRY(lh_kv_prefill_end(p->kv, p->layer));
    p->at = p->segment = 0;
    if (++p->layer < f->config->layers || p->watch.rows) return LH_OK;
    lh_forward_compute_logits(f, p->x + (p->n - p->rows) * f->config->hidden, p->rows);
    return lh_exec_take(&f->exec);
}

static lh_status compute_chunk(lh_prefill *p)
{
    lh_forward_set_call(p->forward, p->n);
    if (p->at == 0) LH_TRY(begin_layer(p));
    if (p->at < p->n) {
        int64_t t = lh_min_i64(p->chunk, p->n - p->at);
        LH_TRY(lh_kv_prefill_next(p->kv, p->layer, p->at, &t, &p->view));
        chunk_through_layer(p, t);
    } else {
        probes_through_layer(p);
    }
    return p->at == p->n + p->probes ? end_layer(p) : LH_OK;
}

/* Of the layer, or of the watched rows, in tokens of the prompt: probe tokens are part of its work. */
static int64_t tokens_done(const lh_prefill *p)
{
    return p->layer < p->forward->config->layers ? p->at * p->n / (p->n + p->probes) : p->at;
}

lh_status lh_prefill_next(lh_prefill *p, int64_t *left)
{
    const int64_t layers = p->forward->config->layers;
    LH_TRY(p->layer < layers ? compute_chunk(p) : compute_watched(p));
    *left = (layers - p->layer + (p->watch.rows != NULL)) * p->n - tokens_done(p);
    return LH_OK;
}

int64_t lh_prefill_layers_left(const lh_prefill *p)
{
    return p->forward->config->layers - p->layer;
}

int64_t lh_prefill_layers_done(const lh_prefill *p)
{
    return p->at == 0 && p->layer < p->forward->config->layers ? p->layer : 0;
}

lh_status lh_prefill_save(lh_prefill *p, const char *path, const lh_prefill_extra *extra)
{
    lh_prefill_extra whole = *extra;
    lh_comm_step(p->forward->exec.comm, "checkpoint before layer", p->layer);
    whole.layers_done = p->layer;
    whole.hidden = p->x;
    whole.rows = p->n + p->probes;
    whole.width = p->forward->config->hidden;
    return lh_kv_save_prefill(p->kv, path, &whole);
}

lh_status lh_prefill_load(lh_prefill *p, lh_saved_prefill *saved, uint64_t model)
{
    LH_TRY(lh_exec_take(&p->forward->exec)); /* failures of the embedding */
    LH_TRY(lh_kv_load_prefill(p->kv, saved, model));
    LH_TRY(lh_prefill_file_read_hidden(&saved->file, &p->forward->exec, p->x, p->n + p->probes,
                                       p->forward->config->hidden));
    p->layer = saved->file.state.layers_done;
    return LH_OK;
}

lh_status lh_forward_prefill(lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n,
                             const lh_forward_progress *progress)
{
    lh_status st = LH_OK;
    lh_prefill *p = NULL;
    LH_TRY_DONE(lh_prefill_open(&p, f, kv, ids, n));
    for (int64_t total = f->config->layers * n, left = total; left > 0;) {
        LH_TRY_DONE(lh_prefill_next(p, &left));
        /* After every chunk, since a layer of a long prompt can take minutes; the callback also polls for interrupts.
         */
        if (progress && progress->done) /* a program may end the prefill on one rank alone */
            LH_TRY_DONE(lh_comm_agree(f->exec.comm, progress->done(progress->self, total - left, total)));
    }
done:
    lh_prefill_close(p);
    return st;
}
