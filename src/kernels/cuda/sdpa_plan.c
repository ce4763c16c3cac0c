/* The graph has the form that cuDNN's attention engines know: product, scale, two masks (after the lengths, and causal,
 * aligned at the bottom right), softmax as row maximum, exponentials and denominator, their logarithm, and the second
 * product. All intermediate tensors are virtual: never in memory. */
#include "kernels/cuda/sdpa_plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

typedef cudnnBackendDescriptor_t desc;

/* Tensors; those before VIRTUALS are in memory, with their number as name. */
enum {
    Q,
    KEYS,
    VALUES,
    O,
    LSE,
    ROWS,
    LEN,
    STARTS,
    Q_STARTS,
    SCALE,
    LEAST,
    VIRTUALS,
    PRODUCT = VIRTUALS,
    SCALED,
    ROW_IN,
    COLUMN_IN,
    ROW_OK,
    COLUMN_OK,
    INSIDE,
    PADDED,
    ROW,
    COLUMN,
    ROW_BEHIND,
    ROW_AT,
    SEEN,
    MASKED,
    TOP,
    SHIFTED,
    WEIGHTS,
    MASS,
    LOG_MASS,
    SHARES,
    TENSORS,
    NONE = -1
};

/* The layout of a tensor. Dimensions are [KV heads, query heads of each, rows, columns]. */
typedef enum tensor_form {
    OF_ROWS,   /* q, o: a row of `dim` for each head of each token */
    OF_KEYS,   /* [.., 1, dim, entries] */
    OF_VALUES, /* [.., 1, entries, dim] */
    OF_COUNTS, /* a number for each KV head */
    OF_STARTS, /* one more */
    OF_ONE,    /* a number in host memory */
    OF_LSE,    /* a number for each row */
    OF_LOGITS, /* a number for each row and entry */
} tensor_form;

static const struct {
    cudnnDataType_t type;
    tensor_form form;
} tensors[TENSORS] = {
    [Q] = {CUDNN_DATA_BFLOAT16, OF_ROWS},
    [KEYS] = {CUDNN_DATA_BFLOAT16, OF_KEYS},
    [VALUES] = {CUDNN_DATA_BFLOAT16, OF_VALUES},
    [O] = {CUDNN_DATA_BFLOAT16, OF_ROWS},
    [LSE] = {CUDNN_DATA_FLOAT, OF_LSE},
    [ROWS] = {CUDNN_DATA_INT32, OF_COUNTS},
    [LEN] = {CUDNN_DATA_INT32, OF_COUNTS},
    [STARTS] = {CUDNN_DATA_INT64, OF_STARTS},
    [Q_STARTS] = {CUDNN_DATA_INT64, OF_STARTS},
    [SCALE] = {CUDNN_DATA_FLOAT, OF_ONE},
    [LEAST] = {CUDNN_DATA_FLOAT, OF_ONE},
    [PRODUCT] = {CUDNN_DATA_FLOAT, OF_LOGITS},
    [SCALED] = {CUDNN_DATA_FLOAT, OF_LOGITS},
    [ROW_IN] = {CUDNN_DATA_INT32, OF_LOGITS},
    [COLUMN_IN] = {CUDNN_DATA_INT32, OF_LOGITS},
    [ROW_OK] = {CUDNN_DATA_BOOLEAN, OF_LOGITS},
    [COLUMN_OK] = {CUDNN_DATA_BOOLEAN, OF_LOGITS},
    [INSIDE] = {CUDNN_DATA_BOOLEAN, OF_LOGITS},
    [PADDED] = {CUDNN_DATA_FLOAT, OF_LOGITS},
    [ROW] = {CUDNN_DATA_INT32, OF_LOGITS},
    [COLUMN] = {CUDNN_DATA_INT32, OF_LOGITS},
    [ROW_BEHIND] = {CUDNN_DATA_INT32, OF_LOGITS},
    [ROW_AT] = {CUDNN_DATA_INT32, OF_LOGITS},
    [SEEN] = {CUDNN_DATA_BOOLEAN, OF_LOGITS},
    [MASKED] = {CUDNN_DATA_FLOAT, OF_LOGITS},
    [TOP] = {CUDNN_DATA_FLOAT, OF_LSE},
    [SHIFTED] = {CUDNN_DATA_FLOAT, OF_LOGITS},
    [WEIGHTS] = {CUDNN_DATA_FLOAT, OF_LOGITS},
    [MASS] = {CUDNN_DATA_FLOAT, OF_LSE},
    [LOG_MASS] = {CUDNN_DATA_FLOAT, OF_LSE},
    [SHARES] = {CUDNN_DATA_BFLOAT16, OF_LOGITS},
};

typedef enum op_kind { OP_PRODUCT, OP_POINTS, OP_REDUCE } op_kind;

/* y = mode(x, b), where t selects between x and b; `type`: the type of the computation. */
static const struct {
    op_kind kind;
    int mode, y, x, b, t, axis;
    cudnnDataType_t type;
} ops[] = {
    {OP_PRODUCT, 0, PRODUCT, Q, KEYS, NONE, 0, CUDNN_DATA_FLOAT},
    {OP_POINTS, CUDNN_POINTWISE_MUL, SCALED, PRODUCT, SCALE, NONE, 0, CUDNN_DATA_FLOAT},
    {OP_POINTS, CUDNN_POINTWISE_GEN_INDEX, ROW_IN, SCALED, NONE, NONE, 2, CUDNN_DATA_INT32},
    {OP_POINTS, CUDNN_POINTWISE_GEN_INDEX, COLUMN_IN, SCALED, NONE, NONE, 3, CUDNN_DATA_INT32},
    {OP_POINTS, CUDNN_POINTWISE_CMP_LT, ROW_OK, ROW_IN, ROWS, NONE, 0, CUDNN_DATA_BOOLEAN},
    {OP_POINTS, CUDNN_POINTWISE_CMP_LT, COLUMN_OK, COLUMN_IN, LEN, NONE, 0, CUDNN_DATA_BOOLEAN},
    {OP_POINTS, CUDNN_POINTWISE_LOGICAL_AND, INSIDE, ROW_OK, COLUMN_OK, NONE, 0, CUDNN_DATA_BOOLEAN},
    {OP_POINTS, CUDNN_POINTWISE_BINARY_SELECT, PADDED, SCALED, LEAST, INSIDE, 0, CUDNN_DATA_FLOAT},
    {OP_POINTS, CUDNN_POINTWISE_GEN_INDEX, ROW, PADDED, NONE, NONE, 2, CUDNN_DATA_FLOAT},
    {OP_POINTS, CUDNN_POINTWISE_GEN_INDEX, COLUMN, PADDED, NONE, NONE, 3, CUDNN_DATA_FLOAT},
    {OP_POINTS, CUDNN_POINTWISE_ADD, ROW_BEHIND, ROW, LEN, NONE, 0, CUDNN_DATA_INT32},
    {OP_POINTS, CUDNN_POINTWISE_SUB, ROW_AT, ROW_BEHIND, ROWS, NONE, 0, CUDNN_DATA_INT32},
    {OP_POINTS, CUDNN_POINTWISE_CMP_GE, SEEN, ROW_AT, COLUMN, NONE, 0, CUDNN_DATA_BOOLEAN},
    {OP_POINTS, CUDNN_POINTWISE_BINARY_SELECT, MASKED, PADDED, LEAST, SEEN, 0, CUDNN_DATA_FLOAT},
    {OP_REDUCE, CUDNN_REDUCE_TENSOR_MAX, TOP, MASKED, NONE, NONE, 0, CUDNN_DATA_FLOAT},
    {OP_POINTS, CUDNN_POINTWISE_SUB, SHIFTED, MASKED, TOP, NONE, 0, CUDNN_DATA_FLOAT},
    {OP_POINTS, CUDNN_POINTWISE_EXP, WEIGHTS, SHIFTED, NONE, NONE, 0, CUDNN_DATA_FLOAT},
    {OP_REDUCE, CUDNN_REDUCE_TENSOR_ADD, MASS, WEIGHTS, NONE, NONE, 0, CUDNN_DATA_FLOAT},
    {OP_POINTS, CUDNN_POINTWISE_LOG, LOG_MASS, MASS, NONE, NONE, 0, CUDNN_DATA_FLOAT},
    {OP_POINTS, CUDNN_POINTWISE_ADD, LSE, TOP, LOG_MASS, NONE, 0, CUDNN_DATA_FLOAT},
    {OP_POINTS, CUDNN_POINTWISE_DIV, SHARES, WEIGHTS, MASS, NONE, 0, CUDNN_DATA_FLOAT},
    {OP_PRODUCT, 0, O, SHARES, VALUES, NONE, 0, CUDNN_DATA_FLOAT},
};

enum {
    OPS = sizeof ops / sizeof *ops,
    ENTRIES =
        1 << 28, /* entries of a head in the description, more than fit on a device; the lengths are in device memory */
    CONFIGS = 8, /* configurations that are tried per list */
    DESCRIPTORS = TENSORS + 2 * OPS + 1 + 2 * (1 + 2 * CONFIGS)
};

/* Descriptors belong to the plan. The first failure is kept; later calls do nothing. */
struct lh_sdpa_plan {
    const lh_cudnn *call;
    cudnnHandle_t handle;
    desc plan;
    int64_t room_bytes;
    cudnnStatus_t rc;
    const char *failed; /* the failed step */
    int count;
    desc all[DESCRIPTORS];
};

static void check(lh_sdpa_plan *p, cudnnStatus_t rc, const char *what)
{
    if (p->rc == CUDNN_STATUS_SUCCESS && rc != CUDNN_STATUS_SUCCESS) p->rc = rc, p->failed = what;
}

static desc make(lh_sdpa_plan *p, cudnnBackendDescriptorType_t type)
{
    desc d = NULL;
    if (p->rc != CUDNN_STATUS_SUCCESS) return NULL;
    check(p, p->call->BackendCreateDescriptor(type, &d), "a descriptor");
    if (d) p->all[p->count++] = d;
    return d;
}

static void set(lh_sdpa_plan *p, desc d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                const void *value)
{
    if (p->rc == CUDNN_STATUS_SUCCESS) check(p, p->call->BackendSetAttribute(d, name, type, 1, value), "an attribute");
}

static void set_desc(lh_sdpa_plan *p, desc d, cudnnBackendAttributeName_t name, desc value)
{
    set(p, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &value);
}

static void finish(lh_sdpa_plan *p, desc d, const char *what)
{
    if (p->rc == CUDNN_STATUS_SUCCESS) check(p, p->call->BackendFinalize(d), what);
}

/* ---- the graph ---- */

static void measure(const lh_sdpa_shape *s, tensor_form form, int64_t dims[4], int64_t strides[4])
{
    const int64_t token = s->group * s->dim;
    const struct {
        int64_t dims[4], strides[4];
    } of[] = {
        [OF_ROWS] = {{s->kv_heads, s->group, s->tokens, s->dim}, {s->tokens * token, s->dim, token, 1}},
        [OF_KEYS] = {{s->kv_heads, 1, s->dim, ENTRIES}, {ENTRIES * s->dim, s->dim, 1, s->dim}},
        [OF_VALUES] = {{s->kv_heads, 1, ENTRIES, s->dim}, {ENTRIES * s->dim, s->dim, s->dim, 1}},
        [OF_COUNTS] = {{s->kv_heads, 1, 1, 1}, {1, 1, 1, 1}},
        [OF_STARTS] = {{s->kv_heads + 1, 1, 1, 1}, {1, 1, 1, 1}},
        [OF_ONE] = {{1, 1, 1, 1}, {1, 1, 1, 1}},
        [OF_LSE] = {{s->kv_heads, s->group, s->tokens, 1}, {s->group * s->tokens, s->tokens, 1, 1}},
        [OF_LOGITS] = {{s->kv_heads, s->group, s->tokens, ENTRIES},
                       {s->group * s->tokens * ENTRIES, s->tokens * ENTRIES, ENTRIES, 1}},
    };
    memcpy(dims, of[form].dims, sizeof of[form].dims);
    memcpy(strides, of[form].strides, sizeof of[form].strides);
}

static desc make_tensor(lh_sdpa_plan *p, const lh_sdpa_shape *s, int i, desc starts)
{
    const int64_t name = i + 1, alignment = 16;
    const _Bool yes = 1;
    int64_t dims[4], strides[4];
    desc d = make(p, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    measure(s, tensors[i].form, dims, strides);
    set(p, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &tensors[i].type);
    if (p->rc == CUDNN_STATUS_SUCCESS) {
        check(p, p->call->BackendSetAttribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims), "a shape");
        check(p, p->call->BackendSetAttribute(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides), "strides");
    }
    set(p, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &name);
    set(p, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, &alignment);
    if (i >= VIRTUALS) set(p, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, &yes);
    if (tensors[i].form == OF_ONE) set(p, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, &yes);
    if (starts) set_desc(p, d, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, starts);
    finish(p, d, "a tensor");
    return d;
}

static desc make_product(lh_sdpa_plan *p, const desc *all, int i)
{
    desc how = make(p, CUDNN_BACKEND_MATMUL_DESCRIPTOR), d;
    set(p, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &ops[i].type);
    finish(p, how, "a product's kind");
    d = make(p, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_desc(p, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, all[ops[i].x]);
    set_desc(p, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, all[ops[i].b]);
    set_desc(p, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, all[ops[i].y]);
    set_desc(p, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    set_desc(p, d, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, all[ROWS]);
    set_desc(p, d,
             ops[i].b == KEYS ? CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC
                              : CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
             all[LEN]);
    finish(p, d, "a product");
    return d;
}

static desc make_points(lh_sdpa_plan *p, const desc *all, int i)
{
    const cudnnPointwiseMode_t mode = (cudnnPointwiseMode_t)ops[i].mode;
    const int64_t axis = ops[i].axis;
    desc how = make(p, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), d;
    set(p, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &mode);
    set(p, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, &ops[i].type);
    if (mode == CUDNN_POINTWISE_GEN_INDEX) set(p, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, &axis);
    finish(p, how, "an operation's kind");
    d = make(p, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_desc(p, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_desc(p, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, all[ops[i].x]);
    if (ops[i].b != NONE) set_desc(p, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, all[ops[i].b]);
    if (ops[i].t != NONE) set_desc(p, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, all[ops[i].t]);
    set_desc(p, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, all[ops[i].y]);
    finish(p, d, "an operation");
    return d;
}

static desc make_reduction(lh_sdpa_plan *p, const desc *all, int i)
{
    const cudnnReduceTensorOp_t mode = (cudnnReduceTensorOp_t)ops[i].mode;
    desc how = make(p, CUDNN_BACKEND_REDUCTION_DESCRIPTOR), d;
    set(p, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, &mode);
    set(p, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &ops[i].type);
    finish(p, how, "a reduction's kind");
    d = make(p, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_desc(p, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    set_desc(p, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, all[ops[i].x]);
    set_desc(p, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, all[ops[i].y]);
    finish(p, d, "a reduction");
    return d;
}

static desc make_graph(lh_sdpa_plan *p, const lh_sdpa_shape *s)
{
    desc all[TENSORS], nodes[OPS], graph;
    all[STARTS] = make_tensor(p, s, STARTS, NULL);
    all[Q_STARTS] = make_tensor(p, s, Q_STARTS, NULL);
    for (int i = 0; i < TENSORS; i++)
        if (tensors[i].form != OF_STARTS)
            all[i] = make_tensor(p, s, i,
                                 i == KEYS || i == VALUES ? all[STARTS]
                                 : i == Q || i == O       ? all[Q_STARTS]
                                                          : NULL);
    for (int i = 0; i < OPS; i++)
        nodes[i] = ops[i].kind == OP_PRODUCT  ? make_product(p, all, i)
                   : ops[i].kind == OP_POINTS ? make_points(p, all, i)
                                              : make_reduction(p, all, i);
    graph = make(p, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (p->rc == CUDNN_STATUS_SUCCESS)
        check(p,
              p->call->BackendSetAttribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, OPS,
                                           nodes),
              "the operations");
    if (p->handle) set(p, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &p->handle);
    finish(p, graph, "the graph");
    return graph;
}

/* ---- the plan ---- */

/* The engine configurations in one of cuDNN's lists for a graph: the first `*count` of configs. */
static void find_configs(lh_sdpa_plan *p, desc graph, cudnnBackendHeurMode_t mode, desc device, desc configs[CONFIGS],
                         int64_t *count)
{
    desc list = make(p, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_desc(p, list, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(p, list, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
    if (device) set_desc(p, list, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
    finish(p, list, "a list of engines");
    for (int i = 0; i < CONFIGS; i++) configs[i] = make(p, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    *count = 0;
    if (p->rc == CUDNN_STATUS_SUCCESS)
        check(p,
              p->call->BackendGetAttribute(list, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS,
                                           count, configs),
              "engines");
    if (p->rc != CUDNN_STATUS_SUCCESS) *count = 0;
    if (*count > CONFIGS) *count = CONFIGS;
}

/* The first configuration that makes a plan. */
static desc begin_plan(lh_sdpa_plan *p, desc device)
{
    desc plan = make(p, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (p->handle) set(p, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &p->handle);
    if (device) set_desc(p, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
    return plan;
}

static void choose(lh_sdpa_plan *p, const desc *configs, int64_t count, desc device)
{
    for (int64_t i = 0; i < count && !p->plan; i++) {
        desc plan = begin_plan(p, device);
        set_desc(p, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i]);
        if (p->rc == CUDNN_STATUS_SUCCESS && p->call->BackendFinalize(plan) == CUDNN_STATUS_SUCCESS) p->plan = plan;
    }
}

static void make_plan(lh_sdpa_plan *p, const lh_sdpa_place *place, const lh_sdpa_shape *shape)
{
    static const cudnnBackendHeurMode_t lists[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    desc graph = make_graph(p, shape), configs[CONFIGS];
    const cudnnStatus_t built = p->rc;
    for (int i = 0; i < 2 && built == CUDNN_STATUS_SUCCESS && !p->plan; i++) {
        int64_t count;
        p->rc = CUDNN_STATUS_SUCCESS;
        find_configs(p, graph, lists[i], place->device, configs, &count);
        choose(p, configs, count, place->device);
    }
    if (!p->plan) check(p, CUDNN_STATUS_NOT_SUPPORTED, "an engine");
}

static lh_status new_plan(lh_sdpa_plan **out, const lh_sdpa_place *place)
{
    lh_sdpa_plan *p = NULL;
    LH_TRY(lh_calloc(&p, 1, sizeof *p));
    p->call = place->call;
    p->handle = place->handle;
    *out = p;
    return LH_OK;
}

/* *out = p without a failure; else p is closed. */
static void end_plan(lh_sdpa_plan *p, lh_sdpa_plan **out, char why[128])
{
    if (p->rc == CUDNN_STATUS_SUCCESS)
        check(p,
              p->call->BackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, NULL,
                                           &p->room_bytes),
              "the size of its room");
    *out = p;
    if (p->rc == CUDNN_STATUS_SUCCESS) return;
    snprintf(why, 128, "%s at %s", p->call->GetErrorString(p->rc), p->failed);
    lh_sdpa_plan_close(p);
    *out = NULL;
}

lh_status lh_sdpa_plan_open(lh_sdpa_plan **out, const lh_sdpa_place *place, const lh_sdpa_shape *shape, char why[128])
{
    lh_sdpa_plan *p = NULL;
    LH_TRY(new_plan(&p, place));
    make_plan(p, place, shape);
    end_plan(p, out, why);
    return LH_OK;
}

lh_status lh_sdpa_plan_restore(lh_sdpa_plan **out, const lh_sdpa_place *place, const lh_buf *text, char why[128])
{
    lh_sdpa_plan *p = NULL;
    LH_TRY(new_plan(&p, place));
    p->plan = begin_plan(p, place->device);
    if (p->rc == CUDNN_STATUS_SUCCESS)
        check(p,
              p->call->BackendSetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                           text->bytes, text->data),
              "the text of a plan");
    finish(p, p->plan, "a plan of a text");
    end_plan(p, out, why);
    return LH_OK;
}

lh_status lh_sdpa_plan_text(const lh_sdpa_plan *p, lh_buf *out)
{
    lh_status st = LH_OK;
    char *text = NULL;
    int64_t bytes = 0;
    cudnnStatus_t rc = p->call->BackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                                    CUDNN_TYPE_CHAR, 0, &bytes, NULL);
    LH_TRY_DONE(lh_calloc(&text, bytes + 1, 1));
    if (rc == CUDNN_STATUS_SUCCESS)
        rc = p->call->BackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                          bytes, &bytes, text);
    if (rc != CUDNN_STATUS_SUCCESS)
        LH_FAIL_DONE(LH_EUSAGE, "cuDNN has no text of a plan: %s", p->call->GetErrorString(rc));
    LH_TRY_DONE(lh_buf_puts(out, text));
done:
    lh_free(text);
    return st;
}

void lh_sdpa_plan_close(lh_sdpa_plan *p)
{
    if (!p) return;
    while (p->count > 0) p->call->BackendDestroyDescriptor(p->all[--p->count]);
    lh_free(p);
}

int64_t lh_sdpa_plan_room(const lh_sdpa_plan *p)
{
    return p->room_bytes;
}

lh_status lh_sdpa_plan_run(lh_sdpa_plan *p, const lh_sdpa_data *d)
{
    static const struct {
        cudnnBackendAttributeName_t name;
        cudnnBackendAttributeType_t type;
        int64_t count;
    } parts[] = {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, VIRTUALS},
                 {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, VIRTUALS},
                 {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1}};
    lh_status st = LH_OK;
    float scale = d->scale, least = -INFINITY;
    const void *at[VIRTUALS] = {[Q] = d->q,       [KEYS] = d->k,        [VALUES] = d->v,
                                [O] = d->o,       [LSE] = d->lse,       [ROWS] = d->rows,
                                [LEN] = d->len,   [STARTS] = d->starts, [Q_STARTS] = d->q_starts,
                                [SCALE] = &scale, [LEAST] = &least};
    int64_t names[VIRTUALS];
    const void *values[] = {names, at, &d->room};
    desc pack = NULL;
    cudnnStatus_t rc = p->call->BackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    for (int i = 0; i < VIRTUALS; i++) names[i] = i + 1;
    for (int i = 0; i < 3 && rc == CUDNN_STATUS_SUCCESS; i++)
        rc = p->call->BackendSetAttribute(pack, parts[i].name, parts[i].type, parts[i].count, values[i]);
    if (rc == CUDNN_STATUS_SUCCESS) rc = p->call->BackendFinalize(pack);
    if (rc == CUDNN_STATUS_SUCCESS) rc = p->call->BackendExecute(p->handle, p->plan, pack);
    if (rc != CUDNN_STATUS_SUCCESS)
        LH_FAIL_DONE(LH_EINTERNAL, "attention of a block failed in cuDNN: %s", p->call->GetErrorString(rc));
done:
    if (pack) p->call->BackendDestroyDescriptor(pack);
    return st;
}
