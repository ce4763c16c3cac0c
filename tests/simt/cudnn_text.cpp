/* Plans of the emulation's cuDNN as text: the descriptors of the graph one after the other, parts first, each with its
 * attributes. */
#include <functional>
#include <sstream>

#include "cudnn_parts.h"

typedef simt_descriptor descriptor;
typedef simt_attribute attribute;

static const char magic[] = "plan";

std::string simt_plan_text(const descriptor *plan)
{
    std::map<const void *, size_t> numbers;
    std::ostringstream out;
    std::function<void(const descriptor *)> put = [&](const descriptor *d) {
        if (numbers.count(d)) return;
        for (const auto &each : d->has)
            if (each.second.type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
                for (void *part : each.second.pointers) put((const descriptor *)part);
        numbers.insert({d, numbers.size()});
        out << ' ' << d->type << ' ' << d->has.size();
        for (const auto &each : d->has) {
            const attribute &a = each.second;
            out << ' ' << each.first << ' ' << a.type << ' ' << a.numbers.size() + a.pointers.size();
            for (int64_t n : a.numbers) out << ' ' << n;
            for (void *p : a.pointers) out << ' ' << (a.type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? numbers.at(p) : 0);
        }
    };
    put(plan->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
    return magic + std::string(" ") + std::to_string(numbers.size()) + out.str();
}

/* Handles become the plan's. */
static bool read_attribute(std::istringstream &in, descriptor *d, const descriptor *plan)
{
    int name, type;
    size_t count;
    int64_t n;
    if (!(in >> name >> type >> count)) return false;
    attribute &a = d->has[name] = {(cudnnBackendAttributeType_t)type, {}, {}};
    for (size_t i = 0; i < count; i++) {
        if (!(in >> n)) return false;
        if (a.type == CUDNN_TYPE_HANDLE)
            a.pointers.push_back(plan->pointers(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)[0]);
        else if (a.type != CUDNN_TYPE_BACKEND_DESCRIPTOR)
            a.numbers.push_back(n);
        else if (n >= 0 && (size_t)n + 1 < plan->own.size())
            a.pointers.push_back(plan->own[(size_t)n].get());
        else
            return false;
    }
    return true;
}

bool simt_plan_read(descriptor *plan, const std::string &text)
{
    std::istringstream in(text);
    std::string first;
    size_t count = 0, attributes;
    int type;
    if (!(in >> first >> count) || first != magic || !count) return false;
    for (size_t i = 0; i < count; i++) {
        if (!(in >> type >> attributes)) return false;
        plan->own.push_back(std::make_shared<descriptor>(descriptor{(cudnnBackendDescriptorType_t)type, true, {}}));
        for (size_t n = 0; n < attributes; n++)
            if (!read_attribute(in, plan->own.back().get(), plan)) return false;
    }
    descriptor *graph = plan->own.back().get(), config = {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, true, {}};
    if (graph->type != CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR || simt_sdpa_check(graph) != CUDNN_STATUS_SUCCESS)
        return false;
    config.has[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, {}, {graph}};
    plan->own.push_back(std::make_shared<descriptor>(config));
    plan->has[CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, {}, {plan->own.back().get()}};
    return true;
}
