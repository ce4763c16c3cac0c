/* cudnn_parts.h - descriptors of the cuDNN of the emulation, and what it does with graphs. */
#ifndef LH_TESTS_SIMT_CUDNN_PARTS_H
#define LH_TESTS_SIMT_CUDNN_PARTS_H

extern "C" {
#include "cudnn.h"
#include "kernels/cuda/cudnn_library.h"
}
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simt.h"

struct simt_descriptor;
struct simt_attribute {
    cudnnBackendAttributeType_t type;
    std::vector<int64_t> numbers; /* integers, booleans, enumerators */
    std::vector<void *> pointers; /* handles, descriptors, memory */
};
struct simt_descriptor {
    cudnnBackendDescriptorType_t type;
    bool finished;
    std::map<int, simt_attribute> has;
    std::vector<std::shared_ptr<simt_descriptor>> own = {}; /* of a plan that was read: what it is of */

    int64_t number(int name, int64_t without = 0) const
    {
        auto at = has.find(name);
        return at == has.end() ? without : at->second.numbers[0];
    }
    simt_descriptor *part(int name) const
    {
        auto at = has.find(name);
        return at == has.end() ? nullptr : (simt_descriptor *)at->second.pointers[0];
    }
    const std::vector<int64_t> &list(int name) const
    {
        return has.at(name).numbers;
    }
    const std::vector<void *> &pointers(int name) const
    {
        return has.at(name).pointers;
    }
};

static inline bool simt_is_virtual(const simt_descriptor *tensor)
{
    return tensor->number(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}
std::vector<simt_descriptor *> simt_inputs_of(const simt_descriptor *op);
simt_descriptor *simt_output_of(const simt_descriptor *op);

/* ---- cudnn_text.cpp ---- */

/* A plan as text; and what a plan needs from one: 0 if it is none. */
std::string simt_plan_text(const simt_descriptor *plan);
bool simt_plan_read(simt_descriptor *plan, const std::string &text);

/* ---- cudnn_run.cpp ---- */

const int64_t SIMT_CUDNN_ROOM = 17152; /* bytes that a plan wants: what 9.19 wants on sm_90 */

/* Whether there is an engine for a graph: those of attention alone. */
cudnnStatus_t simt_sdpa_check(const simt_descriptor *graph);

/* Tensors by name, and how: enqueued. */
struct simt_sdpa_run {
    const simt_descriptor *graph;
    std::map<int64_t, void *> at;
    void *room;
    bool wrong;
    std::map<const simt_descriptor *, double> numbers; /* of the host: filled when it is enqueued */
};
cudaError_t simt_sdpa_enqueue(cudaStream_t stream, const simt_sdpa_run &run);

#endif
