#include <math.h>
#include <string.h>

#include "cases.h"
#include "rig.h"

enum { TOKENS, EXPERTS, TOP_K, NORMALISED, TIES, OUT, IN, TYPE, FIXED, GAP };
static const dimension kinds[] = {
    [TOKENS] = {"tokens", 9, {0, 1, 2, 3, 5, 16, 33, 70, 200}},
    [EXPERTS] = {"experts", 7, {1, 2, 4, 8, 31, 60, 128}},
    [TOP_K] = {"top_k", 4, {1, 2, 4, 8}}, /* at most all */
    [NORMALISED] = {"normalised", 2, {0, 1}},
    [TIES] = {"logits", 3, {0, 1, 2}, {"normal", "whole numbers", "with NaN"}},
    [OUT] = {"out", 6, {1, 8, 24, 40, 64, 131}},
    [IN] = {"in", 6, {0, 1, 8, 64, 96, 333}},
    [TYPE] = {"type", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [FIXED] = {"order", 2, {LH_ORDER_ANY, LH_ORDER_FIXED}, {"any", "fixed"}},
    [GAP] = {"padding of rows", 3, {0, 1, 8}},
};
enum { CASES = 120 };

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

/* Logits of case n, [tokens, experts]. */
static float *logits_of(lot *m, int n)
{
    int64_t count = kind(TOKENS, n) * kind(EXPERTS, n), ties = kind(TIES, n);
    float *x = lot_normals(m, count, 3.0f, 400 + (uint64_t)n);
    for (int64_t i = 0; i < count && ties; i++) {
        x[i] = ties == 1 ? roundf(x[i]) : x[i];
        if (ties == 2 && i % 5 == 3) x[i] = NAN;
    }
    return x;
}

/* Routes in host memory. */
typedef struct routed {
    lh_routes on, host; /* on the device; a copy */
} routed;

static int64_t top_k_of(int n)
{
    int64_t top_k = kind(TOP_K, n), experts = kind(EXPERTS, n);
    return top_k < experts ? top_k : experts;
}

static routed route(lot *m, rig *g, const float *logits, int n)
{
    int64_t tokens = kind(TOKENS, n), experts = kind(EXPERTS, n), top_k = top_k_of(n), assignments = tokens * top_k;
    routed r = {.on = {.tokens = tokens, .top_k = top_k, .experts = experts}};
    r.on.weight = rig_new(g, assignments * 4);
    r.on.assignment = rig_new(g, assignments * 4);
    r.on.token = rig_new(g, assignments * 4);
    r.on.first = rig_new(g, (experts + 1) * 4);
    RUN(g, route, .routes = r.on, .logits = rig_put(g, logits, tokens * experts * 4),
        .normalised = (int)kind(NORMALISED, n));
    r.host = r.on;
    r.host.weight = lot_new(m, assignments * 4);
    r.host.assignment = lot_new(m, assignments * 4);
    r.host.token = lot_new(m, assignments * 4);
    r.host.first = lot_new(m, (experts + 1) * 4);
    rig_get(g, r.host.weight, r.on.weight, assignments * 4);
    rig_get(g, r.host.assignment, r.on.assignment, assignments * 4);
    rig_get(g, r.host.token, r.on.token, assignments * 4);
    rig_get(g, r.host.first, r.on.first, (experts + 1) * 4);
    return r;
}

START_TEST(test_tokens_go_to_their_best_experts)
{
    const float logits[3 * 4] = {1, 3, 2, 0, /**/ 0, 0, 0, 0, /**/ -1, -2, NAN, 5};
    const int32_t first[5] = {0, 2, 4, 5, 6}, token[6] = {1, 2, 0, 1, 0, 2}, assignment[6] = {2, 4, 0, 3, 5, 1};
    const float half = 1 / (1 + expf(-1)), most = 1 / (1 + expf(-6)),
                want[6] = {half, 1 - half, 0.5f, 0.5f, most, 1 - most};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        lh_routes r = {.tokens = 3, .top_k = 2, .experts = 4};
        float weight[6];
        int32_t got[6];
        r.weight = rig_new(&g, 24), r.assignment = rig_new(&g, 24), r.token = rig_new(&g, 24),
        r.first = rig_new(&g, 20);
        RUN(&g, route, .routes = r, .logits = rig_put(&g, logits, sizeof logits), .normalised = 1);
        rig_get(&g, got, r.first, 20);
        check_same(got, first, 20, "first assignments of experts, %s", g.ops->name);
        rig_get(&g, got, r.token, 24);
        check_same(got, token, 24, "tokens of assignments, %s", g.ops->name);
        rig_get(&g, got, r.assignment, 24);
        check_same(got, assignment, 24, "assignments of tokens, %s", g.ops->name);
        rig_get(&g, weight, r.weight, 24);
        check_near(weight, want, 6, (tolerance){1e-6, 1e-6}, "weights, %s", g.ops->name);
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_routes_of_every_backend_are_those_of_ref)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < CASES; n++) {
            lot m = {0};
            const float *logits = logits_of(&m, n);
            routed want = route(&m, &ref, logits, n), got = route(&m, &mine, logits, n);
            int64_t assignments = got.on.tokens * got.on.top_k;
            check_same(got.host.assignment, want.host.assignment, assignments * 4, "assignments, %s", mine.ops->name);
            check_same(got.host.token, want.host.token, assignments * 4, "tokens, %s", mine.ops->name);
            check_same(got.host.first, want.host.first, (got.on.experts + 1) * 4, "first assignments, %s",
                       mine.ops->name);
            if (kind(TIES, n) != 2)
                check_near(got.host.weight, want.host.weight, assignments, (tolerance){3e-6, 1e-7}, "weights, %s",
                           mine.ops->name);
            rig_reset(&ref);
            rig_reset(&mine);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

START_TEST(test_rows_are_gathered_to_the_bit)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < CASES; n++) {
            lot m = {0};
            int64_t rows = kind(EXPERTS, n), count = kind(TOKENS, n), dim = kind(IN, n), gap = kind(GAP, n);
            int64_t x_ld = dim + gap, y_ld = dim + 2 * gap, size = lh_dtype_bytes((lh_dtype)kind(TYPE, n));
            const float *x = lot_normals(&m, rows * x_ld, 1.0f, 5);
            const uint16_t *narrow = lot_bf16(&m, x, rows * x_ld);
            const char *from = size == 4 ? (const char *)x : (const char *)narrow;
            int32_t *index = lot_new(&m, count * 4);
            char *got = lot_new(&m, count * y_ld * size), *want = lot_new(&m, count * y_ld * size);
            void *y = rig_new(&g, count * y_ld * size);
            memset(want, 255, (size_t)(count * y_ld * size));
            for (int64_t r = 0; r < count; r++) {
                index[r] = (int32_t)draw(81, (uint64_t)(n * 1000 + r), rows);
                memcpy(want + r * y_ld * size, from + index[r] * x_ld * size, (size_t)(dim * size));
            }
            RUN(&g, gather_rows, .y = y, .y_type = (lh_dtype)kind(TYPE, n), .x = rig_put(&g, x, rows * x_ld * 4),
                .rows = rig_put(&g, index, count * 4), .count = count, .dim = dim, .y_ld = y_ld, .x_ld = x_ld);
            rig_get(&g, got, y, count * y_ld * size);
            check_same(got, want, count * y_ld * size, "gather_rows, %s", g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Experts whose weights begin `stride` elements after each other. */
static lh_matrix weights_of(const void *w, lh_dtype type, int64_t ld, int64_t stride)
{
    lh_matrix all = lh_plain_matrix(w, type, ld);
    all.step = stride * lh_dtype_bytes(type);
    return all;
}

/* y: [assignments, out + gap], the gaps as they were. */
static float *multiply(lot *m, rig *g, const float *logits, int n)
{
    lh_dtype type = (lh_dtype)kind(TYPE, n);
    int64_t out = kind(OUT, n), in = kind(IN, n), gap = kind(GAP, n), experts = kind(EXPERTS, n);
    int64_t x_ld = in + gap, w_ld = in + 2 * gap, stride = (out + 3) * w_ld, size = lh_dtype_bytes(type);
    routed r = route(m, g, logits, n);
    int64_t assignments = r.on.tokens * r.on.top_k, y_bytes = assignments * (out + gap) * 4;
    const void *x = lot_normals(m, assignments * x_ld, 1.0f, 6), *w = lot_normals(m, experts * stride, 1.0f, 7);
    float *y = rig_new(g, y_bytes), *host = lot_new(m, y_bytes);
    if (type == LH_BF16) x = lot_bf16(m, x, assignments * x_ld), w = lot_bf16(m, w, experts * stride);
    RUN(g, expert_gemm, .y = y, .x = rig_put(g, x, assignments * x_ld * size),
        .w = weights_of(rig_put(g, w, experts * stride * size), type, w_ld, stride), .type = type, .routes = r.on,
        .out = out, .in = in, .y_ld = out + gap, .x_ld = x_ld, .order = (lh_order)kind(FIXED, n));
    rig_get(g, host, y, y_bytes);
    rig_reset(g);
    return host;
}

START_TEST(test_products_of_experts_of_every_backend_are_those_of_ref)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < CASES; n += rig_scale(&mine)) {
            lot m = {0};
            const float *logits = logits_of(&m, n);
            int64_t count = kind(TOKENS, n) * top_k_of(n) * (kind(OUT, n) + kind(GAP, n)), in = kind(IN, n);
            const float *want = multiply(&m, &ref, logits, n), *got = multiply(&m, &mine, logits, n);
            tolerance tol = {1e-6, 3e-6 * sqrt((double)in + 1) + 1.5e-7 * (double)in};
            if (kind(FIXED, n) == LH_ORDER_FIXED) tol = (tolerance){0, 0};
            check_near(got, want, count, tol, "expert_gemm, %s", mine.ops->name);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

/* Products by every way that a device has: by the tokens, the rows of an expert in the mean, and rows that are
 * multiples of 16 bytes or not. Some experts have no rows, others one a token. */
typedef struct product {
    int64_t tokens, top_k, experts, out, in, gap;
} product;

static const product products[] = {
    {1, 8, 128, 70, 1544, 0},  {2, 2, 8, 37, 520, 8},    {4, 3, 40, 22, 2056, 0},  {7, 4, 9, 35, 264, 1},
    {8, 2, 12, 50, 4104, 0},   {16, 4, 64, 33, 1032, 8}, {33, 6, 150, 131, 72, 0}, {40, 8, 60, 258, 8, 8},
    {100, 4, 11, 129, 264, 0}, {130, 2, 8, 300, 40, 16}, {260, 2, 4, 130, 136, 0}, {150, 1, 1, 140, 104, 7},
};

/* First assignments of experts, from lengths between 0 and the number of tokens. */
static int32_t *uneven(lot *m, const product *p)
{
    int32_t *first = lot_new(m, (p->experts + 1) * 4);
    const int64_t assignments = p->tokens * p->top_k;
    for (int64_t e = 0; e < p->experts; e++) {
        int64_t left = assignments - first[e], later = (p->experts - e - 1) * p->tokens;
        int64_t n = e % 3 == 1 ? 0 : draw(91, (uint64_t)(e + assignments), 2 * assignments / p->experts + 2);
        if (e % 5 == 2) n = p->tokens;
        if (n < left - later) n = left - later;
        first[e + 1] = first[e] + (int32_t)(n < left ? n : left);
    }
    return first;
}

static float *multiply_uneven(lot *m, rig *g, const product *p, lh_dtype type)
{
    int64_t assignments = p->tokens * p->top_k, x_ld = p->in + p->gap, stride = p->out * x_ld + 2 * p->gap;
    int64_t y_ld = p->out + p->gap, size = lh_dtype_bytes(type);
    const void *x = lot_normals(m, assignments * x_ld, 1.0f, 16), *w = lot_normals(m, p->experts * stride, 1.0f, 17);
    float *y = rig_new(g, assignments * y_ld * 4), *host = lot_new(m, assignments * y_ld * 4);
    lh_routes r = {.tokens = p->tokens, .top_k = p->top_k, .experts = p->experts};
    if (type == LH_BF16) x = lot_bf16(m, x, assignments * x_ld), w = lot_bf16(m, w, p->experts * stride);
    r.first = rig_put(g, uneven(m, p), (p->experts + 1) * 4);
    RUN(g, expert_gemm, .y = y, .x = rig_put(g, x, assignments * x_ld * size),
        .w = weights_of(rig_put(g, w, p->experts * stride * size), type, x_ld, stride), .type = type, .routes = r,
        .out = p->out, .in = p->in, .y_ld = y_ld, .x_ld = x_ld);
    rig_get(g, host, y, assignments * y_ld * 4);
    rig_reset(g);
    return host;
}

START_TEST(test_products_of_uneven_experts_of_every_backend_are_those_of_ref)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 2 * (int)(sizeof products / sizeof *products); n++) {
            lot m = {0};
            const product *p = &products[n / 2];
            lh_dtype type = n % 2 ? LH_F32 : LH_BF16;
            const float *want = multiply_uneven(&m, &ref, p, type), *got = multiply_uneven(&m, &mine, p, type);
            tolerance tol = {1e-6, 3e-6 * sqrt((double)p->in + 1) + 1.5e-7 * (double)p->in};
            check_near(got, want, p->tokens * p->top_k * (p->out + p->gap), tol, "expert_gemm %d of %s, %s", n / 2,
                       lh_dtype_name(type), mine.ops->name);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

START_TEST(test_answers_are_added_in_the_order_of_the_choices)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < CASES; n++) {
            lot m = {0};
            const float *logits = logits_of(&m, n);
            routed r = route(&m, &g, logits, n);
            int64_t dim = kind(OUT, n), tokens = r.on.tokens, top_k = r.on.top_k;
            const float *x = lot_normals(&m, tokens * top_k * dim, 1.0f, 8);
            float *y = rig_new(&g, tokens * dim * 4), *got = lot_new(&m, tokens * dim * 4);
            float *want = lot_new(&m, tokens * dim * 4);
            for (int64_t t = 0; t < tokens; t++) {
                for (int64_t i = 0; i < dim; i++) {
                    want[t * dim + i] = 0;
                    for (int64_t c = t * top_k; c < (t + 1) * top_k; c++)
                        want[t * dim + i] =
                            fmaf(r.host.weight[c], x[r.host.assignment[c] * dim + i], want[t * dim + i]);
                }
            }
            RUN(&g, combine, .y = y, .x = rig_put(&g, x, tokens * top_k * dim * 4), .routes = r.on, .dim = dim);
            rig_get(&g, got, y, tokens * dim * 4);
            if (kind(TIES, n) != 2) check_same(got, want, tokens * dim * 4, "combine, %s", g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_tokens_go_to_their_best_experts,
                                  test_routes_of_every_backend_are_those_of_ref,
                                  test_rows_are_gathered_to_the_bit,
                                  test_products_of_experts_of_every_backend_are_those_of_ref,
                                  test_products_of_uneven_experts_of_every_backend_are_those_of_ref,
                                  test_answers_are_added_in_the_order_of_the_choices,
                                  NULL};
    return rig_run("kernels/experts", tests);
}
