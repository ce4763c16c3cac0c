/* layer.c - one decoder layer over a chunk of tokens, for this rank's heads and channels: norm, projections, rotation
 * and append; attention over the cache; output projection and MLP, whose products are summed over the ranks, or
 * gathered per logical shard and added in order if the sums must be reproducible. */
#include "model/forward_impl.h"

static int sliding(const lh_forward *f, int64_t layer)
{
    return f->config->window > 0 && f->config->sliding[layer];
}

/* Widths of a row of f->work.qkv. */
static int64_t q_dim(const lh_forward *f)
{
    return f->shard->heads.q_count * f->config->head_dim;
}

static int64_t kv_dim(const lh_forward *f)
{
    return f->shard->heads.kv_count * f->config->head_dim;
}

static int64_t qkv_ld(const lh_forward *f)
{
    return q_dim(f) + 2 * kv_dim(f);
}

static int64_t rows_of(const lh_forward *f)
{
    return f->sequences.n * f->sequences.tokens;
}

/* The norm of whole rows of x with weights w into y, which may be x (then f32). */
static lh_rmsnorm_args row_norm(const lh_forward *f, const float *x, const float *w, void *y, lh_dtype y_type)
{
    const int64_t hidden = f->config->hidden;
    return (lh_rmsnorm_args){.y = y,
                             .y_type = y_type,
                             .x = x,
                             .w = w,
                             .tokens = rows_of(f),
                             .heads = 1,
                             .dim = hidden,
                             .x_ld = hidden,
                             .y_ld = hidden,
                             .eps = (float)f->config->norm_eps,
                             .offset = (float)f->config->norm_offset};
}

/* The norm before the MLP, into y; adds the addend of the rows first. */
static lh_rmsnorm_args mlp_norm(const lh_forward *f, const lh_rows_at *rows, void *y, lh_dtype y_type)
{
    lh_rmsnorm_args args = row_norm(f, rows->x, f->model->layers[rows->layer].mlp_norm, y, y_type);
    args.addend = rows->addend;
    args.addend_type = LH_BF16;
    args.sum = rows->addend ? rows->x : NULL;
    return args;
}

static int64_t squares_ld(const lh_forward *f)
{
    return f->config->heads + f->config->kv_heads;
}

/* The norm of this rank's queries or keys in f->work.qkv, in place; `first` is their first head. Each head is normed by
 * itself, or all heads of a token on all ranks together, with the squares in f->work.squares. */
typedef struct heads_to_norm {
    float *x;
    const float *w;
    int64_t first, heads;
    int64_t parts; /* heads of all ranks; `squares` has one number for each */
    const float *squares;
} heads_to_norm;

static lh_rmsnorm_args head_norm(const lh_forward *f, const heads_to_norm *n)
{
    const int64_t dim = f->config->head_dim;
    const int is_row = f->config->qk_norm == LH_QK_NORM_ROWS;
    if (f->config->qk_norm == LH_QK_NORM_NONE) return (lh_rmsnorm_args){0};
    return (lh_rmsnorm_args){.y = n->x,
                             .y_type = LH_F32,
                             .x = n->x,
                             .w = is_row ? n->w + n->first * dim : n->w,
                             .tokens = rows_of(f),
                             .heads = n->heads,
                             .dim = dim,
                             .x_ld = qkv_ld(f),
                             .y_ld = qkv_ld(f),
                             .w_ld = is_row ? dim : 0,
                             .eps = (float)f->config->norm_eps,
                             .offset = (float)f->config->norm_offset,
                             .squares = is_row ? n->squares : NULL,
                             .parts = is_row ? n->parts : 0,
                             .squares_ld = is_row ? squares_ld(f) : 0};
}

static void square_heads(lh_forward *f, const float *x, float *squares, int64_t heads)
{
    LH_RUN(&f->exec, squares, .y = squares, .x = x, .tokens = rows_of(f), .heads = heads, .dim = f->config->head_dim,
           .x_ld = qkv_ld(f), .y_ld = squares_ld(f));
}

/* Squares of all heads of all ranks: each rank fills in the heads that it counts among zeros, so that the sum is
 * exact. */
static void gather_squares(lh_forward *f, const float *q, const float *k)
{
    const lh_heads *h = &f->shard->heads;
    int64_t count = rows_of(f) * squares_ld(f);
    lh_exec_zero(&f->exec, f->work.squares, count * 4);
    square_heads(f, q, f->work.squares + h->q_first, h->q_count);
    square_heads(f, k + (h->counted_first - h->kv_first) * f->config->head_dim,
                 f->work.squares + h->heads + h->counted_first, h->counted_count);
    if (f->shard->ranks > 1) lh_exec_allreduce(&f->exec, f->work.squares, count, LH_F32, LH_SUM);
}

/* Returns the end of the run of sequences, from b on, that share a rotation. */
static int64_t end_of_rope_batch(const lh_sequences *s, int64_t b)
{
    int64_t end = b + 1;
    for (; end < s->n; end++)
        if (s->ropes[end].rotation->hash != s->ropes[b].rotation->hash ||
            s->ropes[end].keys_unrotated != s->ropes[b].keys_unrotated)
            break;
    return end;
}

/* The arguments of rope_append for sequences b .. end: rotates queries in place, appends keys and values to the
 * caches. */
static lh_rope_append_args rope_append_of(const lh_forward *f, const lh_rows_at *rows, int64_t b, int64_t end)
{
    const lh_sequences *s = &f->sequences;
    const lh_heads *h = &f->shard->heads;
    const lh_layer *w = &f->model->layers[rows->layer];
    const lh_rotation *r = s->ropes[b].rotation;
    const int64_t first = b * s->tokens, ld = qkv_ld(f);
    float *q = f->work.qkv + first * ld, *k = q + q_dim(f);
    const float *squares = f->work.squares + first * squares_ld(f);
    lh_rope_append_args args = {
        .q_norm = head_norm(f, &(heads_to_norm){q, w->q_norm, h->q_first, h->q_count, h->heads, squares}),
        .k_norm =
            head_norm(f, &(heads_to_norm){k, w->k_norm, h->kv_first, h->kv_count, h->kv_heads, squares + h->heads}),
        .q = {.x = q,
              .positions = (rows->rope_positions ? rows->rope_positions : f->work.positions) + first,
              .inv_freq = r->inv_freq,
              .tokens = (end - b) * s->tokens,
              .heads = h->q_count,
              .dim = f->config->head_dim,
              .rotary = f->config->rotary_dim,
              .ld = ld,
              .scale = r->scale},
        .append = {.seqs = s->views + b,
                   .batch = end - b,
                   .tokens = s->tokens,
                   .ld = ld,
                   .k = k,
                   .v = k + kv_dim(f),
                   .positions = f->work.positions + first,
                   .leaves_len = rows->leaves_len}};
    args.q_norm.tokens = args.k_norm.tokens = args.q.tokens;
    args.k = args.q;
    args.q.scaling = r->queries;
    args.k.x = k;
    args.k.heads = s->ropes[b].keys_unrotated ? 0 : h->kv_count;
    return args;
}

void lh_layer_append(lh_forward *f, const lh_rows_at *rows)
{
    const lh_layer *w = lh_forward_layer(f, rows->layer);
    const lh_sequences *s = &f->sequences;
    const int64_t hidden = f->config->hidden;
    LH_RUN(&f->exec, norm_gemm, .norm = row_norm(f, rows->x, w->attn_norm, f->work.normed, f->model->options.dtype),
           .gemm = {.y = f->work.qkv,
                    .x = f->work.normed,
                    .w = w->qkv[0],
                    .type = f->model->options.dtype,
                    .bias = w->qkv_bias,
                    .tokens = rows_of(f),
                    .out = qkv_ld(f),
                    .in = hidden,
                    .y_ld = qkv_ld(f),
                    .x_ld = hidden,
                    .order = f->model->options.order});
    if (f->config->qk_norm == LH_QK_NORM_ROWS) gather_squares(f, f->work.qkv, f->work.qkv + q_dim(f));
    for (int64_t b = 0, end; b < s->n; b = end) {
        end = end_of_rope_batch(s, b);
        const lh_rope_append_args args = rope_append_of(f, rows, b, end);
        LH_LATCH(&f->exec, f->exec.ops->rope_append(f->exec.stream, &args));
    }
}

static lh_logit logit_of(const lh_forward *f, int64_t layer)
{
    return (lh_logit){(float)f->config->attn_scale, (float)f->config->attn_softcap,
                      sliding(f, layer) ? f->config->window : 0};
}

/* A block of rows of a sequence. lse NULL: the rows are not observed. */
static void attend_block(lh_forward *f, int64_t layer, float *lse)
{
    const lh_sequences *s = &f->sequences;
    LH_RUN(&f->exec, attend_block, .o = f->work.attended, .o_bf16 = f->work.attended_bf16, .keeps_o = lse != NULL,
           .lse = lse, .q = f->work.qkv, .positions = f->work.positions, .kv = s->views,
           .map = lh_heads_grouping(&f->shard->heads), .logit = logit_of(f, layer), .tokens = s->tokens,
           .q_ld = qkv_ld(f), .o_ld = q_dim(f), .most = s->first[0] + s->tokens, .order = f->model->options.order);
}

/* One row of each sequence. */
static void attend_rows(lh_forward *f, const lh_rows_at *rows, float *lse)
{
    const lh_sequences *s = &f->sequences;
    LH_RUN(&f->exec, attend_decode, .o = f->work.attended, .o_bf16 = f->work.attended_bf16, .keeps_o = lse != NULL,
           .lse = lse, .logits = s->logits, .q = f->work.qkv, .positions = f->work.positions, .seqs = s->views,
           .batch = s->n, .q_ld = qkv_ld(f), .o_ld = q_dim(f), .fresh = rows->leaves_len,
           .map = lh_heads_grouping(&f->shard->heads), .logit = logit_of(f, rows->layer),
           .order = f->model->options.order);
}

static int is_wanted(const lh_sequences *s, int64_t b, int64_t layer)
{
    return s->first[b] + s->tokens > lh_kv_wants_rows(s->kvs[b], layer);
}

/* f->work.normed = the input of the projections, again: the GPU kernel for one or two rows does not store it. */
static const void *norm_again(lh_forward *f, const lh_rows_at *rows)
{
    const lh_rmsnorm_args norm =
        row_norm(f, rows->x, f->model->layers[rows->layer].attn_norm, f->work.normed, f->model->options.dtype);
    LH_LATCH(&f->exec, lh_norm_rows(f->exec.ops, f->exec.stream, &norm));
    return f->work.normed;
}

/* Records the rows of sequence b in its cache. */
static void record(lh_forward *f, int64_t b, const lh_rows_at *rows)
{
    const lh_sequences *s = &f->sequences;
    const int64_t row = b * s->tokens, hidden_bytes = f->config->hidden * lh_dtype_bytes(f->model->options.dtype);
    const float *qkv = f->work.qkv + row * qkv_ld(f);
    const char *hidden = lh_kv_wants_hidden(s->kvs[b], rows->layer) ? norm_again(f, rows) : NULL;
    lh_kv_record(s->kvs[b], rows->layer,
                 &(lh_kv_rows){.queries = {.q = qkv,
                                           .lse = f->work.lse + row * f->shard->heads.q_count,
                                           .logits = s->logits[b],
                                           .positions = f->work.positions + row,
                                           .first = s->first[b],
                                           .tokens = s->tokens,
                                           .q_ld = qkv_ld(f),
                                           .hidden = hidden ? hidden + row * hidden_bytes : NULL,
                                           .hidden_type = f->model->options.dtype},
                               .keys = qkv + q_dim(f),
                               .values = qkv + q_dim(f) + kv_dim(f),
                               .outputs = f->work.attended + row * q_dim(f)});
}

void lh_layer_attend(lh_forward *f, const lh_rows_at *rows)
{
    const lh_sequences *s = &f->sequences;
    const int64_t layer = rows->layer;
    int wanted = 0;
    for (int64_t b = 0; b < s->n; b++) {
        wanted |= is_wanted(s, b, layer);
        /* A group split over ranks never has all logits of a row; equal bits on any number of ranks need the same
         * computation everywhere. */
        s->logits[b] = s->tokens == 1 && is_wanted(s, b, layer) && f->model->options.order == LH_ORDER_ANY
                           ? lh_kv_row_logits(s->kvs[b], layer)
                           : (lh_row_logits){0};
    }
    if (s->tokens == 1)
        attend_rows(f, rows, wanted ? f->work.lse : NULL);
    else
        attend_block(f, layer, wanted ? f->work.lse : NULL);
    for (int64_t b = 0; b < s->n; b++)
        if (is_wanted(s, b, layer)) record(f, b, rows);
}

/* A product whose inner dimension is divided over ranks: y = sum over ranks of x · wᵀ, then + bias. With `routes` x has
 * a row for each assignment, w has the weights of each expert, and y combines the experts' products. */
typedef struct sharded_product {
    const void *x;
    lh_matrix w;
    const float *bias; /* [hidden] or NULL */
    int64_t in;        /* columns of this rank */
    const lh_logical_shards *shards;
    const lh_routes *routes; /* NULL: one product for all tokens */
} sharded_product;

/* One product for all tokens, of columns [from, to). */
static lh_gemm_args product_of(const lh_forward *f, const sharded_product *p, int64_t from, int64_t to, float *y,
                               int64_t tokens)
{
    const int64_t element = lh_dtype_bytes(f->model->options.dtype), hidden = f->config->hidden;
    return (lh_gemm_args){.y = y,
                          .x = (const char *)p->x + from * element,
                          .w = lh_matrix_from(p->w, from),
                          .type = f->model->options.dtype,
                          .tokens = tokens,
                          .out = hidden,
                          .in = to - from,
                          .y_ld = hidden,
                          .x_ld = p->in,
                          .order = f->model->options.order};
}

static void multiply(lh_forward *f, const sharded_product *p, int64_t from, int64_t to, float *y, int64_t tokens)
{
    int64_t element = lh_dtype_bytes(f->model->options.dtype), hidden = f->config->hidden;
    if (from == to) {
        lh_exec_zero(&f->exec, y, tokens * hidden * 4);
        return;
    }
    if (p->routes) {
        LH_RUN(&f->exec, expert_gemm, .y = f->experts.outputs, .x = (const char *)p->x + from * element,
               .w = lh_matrix_from(p->w, from), .type = f->model->options.dtype, .routes = *p->routes, .out = hidden,
               .in = to - from, .y_ld = hidden, .x_ld = p->in, .order = f->model->options.order);
        LH_RUN(&f->exec, combine, .y = y, .x = f->experts.outputs, .routes = *p->routes, .dim = hidden);
        return;
    }
    const lh_gemm_args product = product_of(f, p, from, to, y, tokens);
    LH_LATCH(&f->exec, f->exec.ops->gemm(f->exec.stream, &product));
}

/* One product per logical shard, gathered and added in the order of shards: the same bits on any number of ranks. */
static void sum_in_order(lh_forward *f, const sharded_product *p, int64_t tokens)
{
    int rank = f->shard->rank, ranks = f->shard->ranks;
    int64_t block = tokens * f->config->hidden, first = p->shards->first[rank],
            own = p->shards->first[rank + 1] - first;
    for (int64_t i = 0; i < own; i++)
        multiply(f, p, p->shards->bounds[i], p->shards->bounds[i + 1], f->work.products + (first + i) * block, tokens);
    if (ranks > 1) {
        for (int r = 0; r < ranks; r++) {
            f->gather_at[r] = p->shards->first[r] * block * 4;
            f->gather_bytes[r] = (p->shards->first[r + 1] - p->shards->first[r]) * block * 4;
        }
        lh_exec_allgatherv(&f->exec, f->work.products + first * block, f->work.products, f->gather_bytes, f->gather_at);
    }
    LH_RUN(&f->exec, sum_shards, f->work.y, f->work.products, p->shards->first[ranks], block);
}

/* f->work.y = the product, complete on every rank. */
static void multiply_sharded(lh_forward *f, const sharded_product *p, int64_t tokens)
{
    int64_t hidden = f->config->hidden;
    if (f->model->options.order == LH_ORDER_FIXED) {
        sum_in_order(f, p, tokens);
    } else {
        multiply(f, p, 0, p->in, f->work.y, tokens);
        if (f->shard->ranks > 1) lh_exec_allreduce(&f->exec, f->work.y, tokens * hidden, LH_F32, LH_SUM);
    }
    if (p->bias)
        LH_RUN(&f->exec, add, .y = f->work.y, .x = p->bias, .tokens = tokens, .dim = hidden, .y_ld = hidden, .x_ld = 0);
}

static void add_rounded(lh_forward *f, const void *rounded, float *x, int64_t tokens)
{
    const int64_t hidden = f->config->hidden;
    LH_RUN(&f->exec, add, .y = x, .x = rounded, .x_type = LH_BF16, .tokens = tokens, .dim = hidden, .y_ld = hidden,
           .x_ld = hidden);
}

void lh_layer_add_pending(lh_forward *f, lh_pending_sum *pending)
{
    if (pending->x) add_rounded(f, pending->parts, pending->x, pending->rows);
    pending->x = NULL;
}

/* x += the product, with this rank's part rounded to bf16 before the all-reduce. */
static void add_rounded_product(lh_forward *f, const sharded_product *p, float *x, int64_t tokens,
                                lh_pending_sum *pending)
{
    const int64_t hidden = f->config->hidden;
    void *rounded = pending ? pending->parts : f->work.normed; /* free until the next norm */
    const lh_gemm_convert_args product = {.gemm = product_of(f, p, 0, p->in, f->work.y, tokens),
                                          .convert = {.dst = rounded,
                                                      .src = f->work.y,
                                                      .dst_type = LH_BF16,
                                                      .src_type = LH_F32,
                                                      .rows = tokens,
                                                      .cols = hidden,
                                                      .dst_ld = hidden,
                                                      .src_ld = hidden}};
    if (p->routes) {
        multiply(f, p, 0, p->in, f->work.y, tokens);
        LH_LATCH(&f->exec, f->exec.ops->convert(f->exec.stream, &product.convert));
    } else {
        LH_LATCH(&f->exec, f->exec.ops->gemm_convert(f->exec.stream, &product));
    }
    if (pending) {
        lh_exec_allreduce_async(&f->exec, rounded, tokens * hidden, LH_BF16, LH_SUM);
        pending->x = x;
        pending->rows = tokens;
        return;
    }
    lh_exec_allreduce(&f->exec, rounded, tokens * hidden, LH_BF16, LH_SUM);
    add_rounded(f, rounded, x, tokens);
}

/* x += the product, after a norm if the family has one here. */
static void add_product(lh_forward *f, const sharded_product *p, const float *post_norm, float *x,
                        lh_pending_sum *pending)
{
    const int64_t hidden = f->config->hidden, tokens = rows_of(f);
    if (f->model->options.rounds_sums && f->sequences.tokens > 1) {
        add_rounded_product(f, p, x, tokens, pending);
        return;
    }
    if (f->model->options.order == LH_ORDER_ANY && !post_norm && f->shard->ranks == 1 && !p->routes) {
        LH_RUN(&f->exec, gemm, .y = x, .x = p->x, .w = p->w, .type = f->model->options.dtype, .bias = p->bias,
               .tokens = tokens, .out = hidden, .in = p->in, .y_ld = hidden, .x_ld = p->in, .adds = 1);
        return;
    }
    multiply_sharded(f, p, tokens);
    if (post_norm) {
        lh_rmsnorm_args norm = row_norm(f, f->work.y, post_norm, x, LH_F32);
        norm.adds = 1;
        LH_LATCH(&f->exec, f->exec.ops->rmsnorm(f->exec.stream, &norm));
        return;
    }
    LH_RUN(&f->exec, add, .y = x, .x = f->work.y, .tokens = tokens, .dim = hidden, .y_ld = hidden, .x_ld = hidden);
}

/* f->work.gated = activation(gate) * up of f->work.gate_up. */
static lh_gated_args gate_of(const lh_forward *f, int64_t rows)
{
    static const lh_gate gates[] = {
        [LH_ACT_SILU] = LH_GATE_SILU, [LH_ACT_GELU_TANH] = LH_GATE_GELU_TANH, [LH_ACT_GELU] = LH_GATE_GELU};
    int64_t ff = f->shard->ff_count;
    return (lh_gated_args){.y = f->work.gated,
                           .y_type = f->model->options.dtype,
                           .gate = f->work.gate_up,
                           .up = f->work.gate_up + ff,
                           .tokens = rows,
                           .dim = ff,
                           .y_ld = ff,
                           .ld = 2 * ff,
                           .gate_kind = gates[f->config->activation]};
}

static void dense_mlp(lh_forward *f, const lh_rows_at *rows, lh_pending_sum *pending)
{
    const lh_layer *w = lh_forward_layer(f, rows->layer);
    int64_t t = rows_of(f), hidden = f->config->hidden, ff = f->shard->ff_count;
    LH_RUN(&f->exec, norm_gemm, .norm = mlp_norm(f, rows, f->work.normed, f->model->options.dtype),
           .gemm = {.y = f->work.gate_up,
                    .x = f->work.normed,
                    .w = w->gate_up[0],
                    .type = f->model->options.dtype,
                    .bias = w->gate_up_bias,
                    .tokens = t,
                    .out = 2 * ff,
                    .in = hidden,
                    .y_ld = 2 * ff,
                    .x_ld = hidden,
                    .order = f->model->options.order},
           .gated = gate_of(f, t));
    add_product(f, &(sharded_product){f->work.gated, w->down, w->down_bias, ff, &f->block_shards, NULL},
                w->mlp_post_norm, rows->x, pending);
}

/* f->work.gate_up = gates and values of every assignment, a product for each of the matrices. */
static void gates_of_experts(lh_forward *f, const lh_matrix *gate_up)
{
    const lh_expert_work *e = &f->experts;
    const int64_t hidden = f->config->hidden, all = 2 * f->shard->ff_count;
    int64_t done = 0, rows;
    for (const lh_matrix *m = gate_up; m; m = m->next, done += rows) {
        lh_matrix one = *m;
        one.next = NULL;
        rows = lh_matrix_rows(m, all - done);
        LH_RUN(&f->exec, expert_gemm, .y = f->work.gate_up + done, .x = e->rows, .w = one,
               .type = f->model->options.dtype, .routes = e->routes, .out = rows, .in = hidden, .y_ld = all,
               .x_ld = hidden, .order = f->model->options.order);
    }
}

/* A mixture of experts. Every rank routes all tokens, in f32 and in a fixed order, so that all ranks choose the same
 * experts. */
static void experts(lh_forward *f, const lh_rows_at *rows, lh_pending_sum *pending)
{
    const lh_layer *w = lh_forward_layer(f, rows->layer);
    lh_expert_work *e = &f->experts;
    int64_t t = rows_of(f), hidden = f->config->hidden, ff = f->shard->ff_count, assignments = t * e->routes.top_k;
    float *normed = f->work.y; /* free until the experts' outputs are combined into it */
    e->routes.tokens = t;
    const lh_rmsnorm_args norm = mlp_norm(f, rows, normed, LH_F32);
    LH_LATCH(&f->exec, f->exec.ops->rmsnorm(f->exec.stream, &norm));
    LH_RUN(&f->exec, gemm, .y = e->logits, .x = normed, .w = lh_plain_matrix(w->router, LH_F32, hidden), .type = LH_F32,
           .tokens = t, .out = e->routes.experts, .in = hidden, .y_ld = e->routes.experts, .x_ld = hidden,
           .order = LH_ORDER_FIXED);
    LH_RUN(&f->exec, route, .routes = e->routes, .logits = e->logits, .normalised = f->config->experts.normalised);
    LH_RUN(&f->exec, gather_rows, .y = e->rows, .y_type = f->model->options.dtype, .x = normed, .rows = e->routes.token,
           .count = assignments, .dim = hidden, .y_ld = hidden, .x_ld = hidden);
    gates_of_experts(f, w->gate_up);
    const lh_gated_args gate = gate_of(f, assignments);
    LH_LATCH(&f->exec, f->exec.ops->gated(f->exec.stream, &gate));
    add_product(f, &(sharded_product){f->work.gated, w->down, NULL, ff, &f->block_shards, &e->routes}, w->mlp_post_norm,
                rows->x, pending);
}

void lh_layer_project(lh_forward *f, const lh_rows_at *rows, lh_pending_sum *pending)
{
    const lh_layer *w = lh_forward_layer(f, rows->layer);
    const void *attended = f->work.attended_bf16 ? f->work.attended_bf16 : f->work.attended;
    add_product(f, &(sharded_product){attended, w->o, w->o_bias, q_dim(f), &f->head_shards, NULL}, w->attn_post_norm,
                rows->x, pending);
}

void lh_layer_mlp(lh_forward *f, const lh_rows_at *rows, lh_pending_sum *pending)
{
    if (f->config->experts.count)
        experts(f, rows, pending);
    else
        dense_mlp(f, rows, pending);
}
