/* cuDNN's backend API by plain loops, as far as graphs of attention go. Descriptors hold attributes; each is checked as
 * the library checks it: its type, its number, whether it belongs there, and that what it names is finished. A graph is
 * worked out row by row, operation by operation, in f64 with roundings to the types of its tensors. */
extern "C" {
#include "cudnn.h"
#include "kernels/cuda/cudnn_library.h"
}
#include <string.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>

#include "cudnn_parts.h"

struct simt_cudnn {
    cudaStream_t stream;
};

typedef simt_descriptor descriptor;
typedef simt_attribute attribute;

std::vector<descriptor *> simt_inputs_of(const descriptor *op)
{
    static const int names[] = {CUDNN_ATTR_OPERATION_MATMUL_ADESC,
                                CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                                CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
                                CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
                                CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
                                CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
                                CUDNN_ATTR_OPERATION_REDUCTION_XDESC};
    std::vector<descriptor *> all;
    for (int name : names)
        if (descriptor *d = op->part(name)) all.push_back(d);
    return all;
}

descriptor *simt_output_of(const descriptor *op)
{
    return op->part(op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR      ? CUDNN_ATTR_OPERATION_MATMUL_CDESC
                    : op->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ? CUDNN_ATTR_OPERATION_POINTWISE_YDESC
                                                                               : CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
}

namespace
{

std::mutex lock; /* of `how`: who makes plans is another thread than a test's */
std::condition_variable changed;
simt_cudnn_way how;
struct {
    std::atomic<int> searches, runs, descriptors;
} counts;

void wait_while_held()
{
    std::unique_lock<std::mutex> held(lock);
    changed.wait(held, [] { return how != SIMT_CUDNN_HELD; });
}

/* ---- which attributes a descriptor has ---- */

enum need { MAY, MUST };
struct rule {
    cudnnBackendDescriptorType_t of;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count; /* 0: any */
    need is;
    cudnnBackendDescriptorType_t part; /* of descriptors: which kind; of graphs: any operation */
};
const cudnnBackendDescriptorType_t TENSOR = CUDNN_BACKEND_TENSOR_DESCRIPTOR,
                                   PRODUCT = CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
                                   POINTS = CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                                   REDUCE = CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
                                   GRAPH = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
                                   SEARCH = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
                                   CONFIG = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                   PLAN = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                                   PACK = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
const cudnnBackendAttributeType_t DESC = CUDNN_TYPE_BACKEND_DESCRIPTOR, LONG = CUDNN_TYPE_INT64;
const rule rules[] = {
    {TENSOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, MUST, TENSOR},
    {TENSOR, CUDNN_ATTR_TENSOR_DIMENSIONS, LONG, 0, MUST, TENSOR},
    {TENSOR, CUDNN_ATTR_TENSOR_STRIDES, LONG, 0, MUST, TENSOR},
    {TENSOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, LONG, 1, MUST, TENSOR},
    {TENSOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, LONG, 1, MUST, TENSOR},
    {TENSOR, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, MAY, TENSOR},
    {TENSOR, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, MAY, TENSOR},
    {TENSOR, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, DESC, 1, MAY, TENSOR},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, MUST, TENSOR},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, MUST,
     TENSOR},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, MUST, TENSOR},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, MUST, TENSOR},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, MUST, TENSOR},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_AXIS, LONG, 1, MAY, TENSOR},
    {PRODUCT, CUDNN_ATTR_OPERATION_MATMUL_ADESC, DESC, 1, MUST, TENSOR},
    {PRODUCT, CUDNN_ATTR_OPERATION_MATMUL_BDESC, DESC, 1, MUST, TENSOR},
    {PRODUCT, CUDNN_ATTR_OPERATION_MATMUL_CDESC, DESC, 1, MUST, TENSOR},
    {PRODUCT, CUDNN_ATTR_OPERATION_MATMUL_DESC, DESC, 1, MUST, CUDNN_BACKEND_MATMUL_DESCRIPTOR},
    {PRODUCT, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, DESC, 1, MAY, TENSOR},
    {PRODUCT, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, DESC, 1, MAY, TENSOR},
    {PRODUCT, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, DESC, 1, MAY, TENSOR},
    {POINTS, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, DESC, 1, MUST, CUDNN_BACKEND_POINTWISE_DESCRIPTOR},
    {POINTS, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, DESC, 1, MUST, TENSOR},
    {POINTS, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, DESC, 1, MUST, TENSOR},
    {POINTS, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, DESC, 1, MAY, TENSOR},
    {POINTS, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, DESC, 1, MAY, TENSOR},
    {REDUCE, CUDNN_ATTR_OPERATION_REDUCTION_DESC, DESC, 1, MUST, CUDNN_BACKEND_REDUCTION_DESCRIPTOR},
    {REDUCE, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, DESC, 1, MUST, TENSOR},
    {REDUCE, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, DESC, 1, MUST, TENSOR},
    {GRAPH, CUDNN_ATTR_OPERATIONGRAPH_OPS, DESC, 0, MUST, GRAPH},
    {GRAPH, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, MUST, TENSOR},
    {SEARCH, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, DESC, 1, MUST, GRAPH},
    {SEARCH, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, MUST, TENSOR},
    {PLAN, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, DESC, 1, MAY, CONFIG},
    {PLAN, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, MAY, TENSOR},
    {PLAN, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, MUST, TENSOR},
    {PACK, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, LONG, 0, MUST, TENSOR},
    {PACK, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 0, MUST, TENSOR},
    {PACK, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, MAY, TENSOR},
};

bool is_operation(const descriptor *d)
{
    return d->type == PRODUCT || d->type == POINTS || d->type == REDUCE;
}

cudnnStatus_t create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    if (!out) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    *out = new descriptor{type, false, {}};
    counts.descriptors++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t destroy(cudnnBackendDescriptor_t d)
{
    delete (descriptor *)d;
    counts.descriptors--;
    return CUDNN_STATUS_SUCCESS;
}

int64_t number_at(cudnnBackendAttributeType_t type, const void *values, int64_t i)
{
    if (type == LONG) return ((const int64_t *)values)[i];
    if (type == CUDNN_TYPE_CHAR) return ((const char *)values)[i];
    return type == CUDNN_TYPE_BOOLEAN ? ((const bool *)values)[i] : ((const int *)values)[i];
}

cudnnStatus_t set(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  int64_t count, const void *values)
{
    descriptor *d = (descriptor *)to;
    const rule *r = nullptr;
    attribute a = {type, {}, {}};
    if (!d || !values) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    for (const rule &each : rules)
        if (each.of == d->type && each.name == name) r = &each;
    if (!r || d->finished || count < 1 || (r->count && count != r->count)) return CUDNN_STATUS_BAD_PARAM;
    if (r->type != type) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    for (int64_t i = 0; i < count; i++) {
        if (type != DESC && type != CUDNN_TYPE_HANDLE && type != CUDNN_TYPE_VOID_PTR) {
            a.numbers.push_back(number_at(type, values, i));
            continue;
        }
        a.pointers.push_back(((void *const *)values)[i]);
        if (type != CUDNN_TYPE_VOID_PTR && !a.pointers.back()) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
        if (type != DESC) continue;
        const descriptor *part = (const descriptor *)a.pointers.back();
        if (!part->finished) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
        if (d->type == GRAPH ? !is_operation(part) : part->type != r->part) return CUDNN_STATUS_BAD_PARAM;
    }
    d->has[name] = a;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- what is finished must be whole ---- */

cudnnStatus_t finish_tensor(const descriptor *d)
{
    const size_t dims = d->list(CUDNN_ATTR_TENSOR_DIMENSIONS).size();
    const descriptor *starts = d->part(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC);
    if (dims < 3 || dims > 8 || d->list(CUDNN_ATTR_TENSOR_STRIDES).size() != dims)
        return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    for (int64_t n : d->list(CUDNN_ATTR_TENSOR_DIMENSIONS))
        if (n < 1) return CUDNN_STATUS_BAD_PARAM;
    if (starts && starts->list(CUDNN_ATTR_TENSOR_DIMENSIONS)[0] != d->list(CUDNN_ATTR_TENSOR_DIMENSIONS)[0] + 1)
        return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    return CUDNN_STATUS_SUCCESS;
}

/* Every tensor between is made before it is used, once, and names are of one tensor. */
cudnnStatus_t finish_graph(const descriptor *d)
{
    std::map<int64_t, const descriptor *> names;
    std::set<const descriptor *> made;
    for (void *each : d->pointers(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
        const descriptor *op = (const descriptor *)each;
        std::vector<descriptor *> tensors = simt_inputs_of(op);
        for (const descriptor *in : tensors)
            if (simt_is_virtual(in) && !made.count(in)) return CUDNN_STATUS_BAD_PARAM;
        tensors.push_back(simt_output_of(op));
        if (!made.insert(tensors.back()).second) return CUDNN_STATUS_BAD_PARAM;
        for (const descriptor *t : tensors) {
            auto seen = names.insert({t->number(CUDNN_ATTR_TENSOR_UNIQUE_ID), t});
            if (seen.first->second != t) return CUDNN_STATUS_BAD_PARAM;
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

/* Of an engine's configuration, or of a text. */
cudnnStatus_t finish_plan(descriptor *d)
{
    wait_while_held();
    if (d->has.count(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)) return CUDNN_STATUS_SUCCESS;
    if (!d->has.count(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)) return CUDNN_STATUS_BAD_PARAM;
    const std::vector<int64_t> &text = d->list(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    return simt_plan_read(d, std::string(text.begin(), text.end())) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t finalize(cudnnBackendDescriptor_t what)
{
    descriptor *d = (descriptor *)what;
    cudnnStatus_t rc = CUDNN_STATUS_SUCCESS;
    if (!d) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (d->finished) return CUDNN_STATUS_BAD_PARAM;
    for (const rule &r : rules)
        if (r.of == d->type && r.is == MUST && !d->has.count(r.name)) return CUDNN_STATUS_BAD_PARAM;
    if (d->type == PLAN) rc = finish_plan(d);
    if (d->type == TENSOR) rc = finish_tensor(d);
    if (d->type == GRAPH) rc = finish_graph(d);
    d->finished = rc == CUDNN_STATUS_SUCCESS;
    return rc;
}

/* ---- engines, plans, runs ---- */

cudnnStatus_t get_configs(const descriptor *search, int64_t most, int64_t *count, void *values)
{
    counts.searches++;
    const descriptor *graph = search->part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    descriptor *config = most > 0 ? *(descriptor **)values : nullptr;
    *count = how != SIMT_CUDNN_REFUSES && simt_sdpa_check(graph) == CUDNN_STATUS_SUCCESS;
    if (!*count || !config) return CUDNN_STATUS_SUCCESS;
    if (config->type != CONFIG || config->finished) return CUDNN_STATUS_BAD_PARAM;
    config->has[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] = {DESC, {}, {(void *)graph}};
    config->finished = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get_text(const descriptor *plan, int64_t most, int64_t *count, void *values)
{
    const std::string text = simt_plan_text(plan);
    *count = (int64_t)text.size();
    if (most > 0) memcpy(values, text.data(), (size_t)std::min(most, *count));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get(cudnnBackendDescriptor_t const from, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t most, int64_t *count, void *values)
{
    const descriptor *d = (const descriptor *)from;
    if (!d) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!d->finished) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (d->type == SEARCH && name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == DESC)
        return get_configs(d, most, count, values);
    if (d->type == PLAN && name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION && type == CUDNN_TYPE_CHAR)
        return get_text(d, most, count, values);
    if (d->type != PLAN || name != CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE || type != LONG || most < 1)
        return CUDNN_STATUS_BAD_PARAM;
    if (count) *count = 1;
    *(int64_t *)values = SIMT_CUDNN_ROOM;
    return CUDNN_STATUS_SUCCESS;
}

/* All that the graph has in memory must be in the pack, and nothing else. */
cudnnStatus_t match(const descriptor *graph, const simt_sdpa_run &run)
{
    std::set<int64_t> wanted;
    for (void *each : graph->pointers(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
        std::vector<descriptor *> tensors = simt_inputs_of((descriptor *)each);
        tensors.push_back(simt_output_of((descriptor *)each));
        for (size_t i = 0; i < tensors.size(); i++) {
            const descriptor *t = tensors[i];
            if (descriptor *starts = t->part(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC)) tensors.push_back(starts);
            if (simt_is_virtual(t)) continue;
            const int64_t name = t->number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
            auto at = run.at.find(name);
            if (at == run.at.end() || !at->second) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
            if (!t->number(CUDNN_ATTR_TENSOR_IS_BY_VALUE) &&
                (uintptr_t)at->second % (uintptr_t)t->number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT))
                return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
            wanted.insert(name);
        }
    }
    return wanted.size() == run.at.size() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t execute(cudnnHandle_t h, cudnnBackendDescriptor_t of, cudnnBackendDescriptor_t with)
{
    const descriptor *plan = (const descriptor *)of, *pack = (const descriptor *)with;
    if (!h || !plan || !pack) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!plan->finished || !pack->finished) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (!h->stream || plan->pointers(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)[0] != h) return CUDNN_STATUS_BAD_PARAM;
    const descriptor *config = plan->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    simt_sdpa_run run = {config->part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), {}, nullptr, how == SIMT_CUDNN_WRONG, {}};
    const std::vector<int64_t> &names = pack->list(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const std::vector<void *> &at = pack->pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    if (names.size() != at.size() || !pack->has.count(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)) return CUDNN_STATUS_BAD_PARAM;
    run.room = pack->pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)[0];
    if (!run.room) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    for (size_t i = 0; i < names.size(); i++)
        if (!run.at.insert({names[i], at[i]}).second) return CUDNN_STATUS_BAD_PARAM;
    cudnnStatus_t rc = match(run.graph, run);
    if (rc != CUDNN_STATUS_SUCCESS) return rc;
    if (how == SIMT_CUDNN_FAILS) return CUDNN_STATUS_EXECUTION_FAILED;
    counts.runs++;
    return simt_sdpa_enqueue(h->stream, run) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_INITIALIZED;
}

/* ---- the library ---- */

size_t version(void)
{
    return 91900;
}

const char *error_string(cudnnStatus_t rc)
{
    return rc == CUDNN_STATUS_SUCCESS ? "success" : "an error of the emulation";
}

cudnnStatus_t create_handle(cudnnHandle_t *out)
{
    *out = new simt_cudnn();
    simt_library(1);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t destroy_handle(cudnnHandle_t h)
{
    delete h;
    simt_library(0);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_stream(cudnnHandle_t h, cudaStream_t stream)
{
    h->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

} // namespace

extern "C" void simt_cudnn_go(simt_cudnn_way way)
{
    std::lock_guard<std::mutex> held(lock);
    how = way;
    changed.notify_all();
}

extern "C" simt_cudnn_counts simt_cudnn_count(void)
{
    return {counts.searches, counts.runs, counts.descriptors};
}

extern "C" lh_status lh_cudnn_open(lh_cudnn *out)
{
    if (how == SIMT_CUDNN_MISSING) LH_FAIL(LH_EUSAGE, "cuDNN was not found (the test hides it)");
    *out = {version,  error_string, create_handle, destroy_handle, set_stream,       create, destroy,
            finalize, set,          get,           execute,        "the emulation's"};
    return LH_OK;
}
