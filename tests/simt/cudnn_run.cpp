/* Graphs of attention: which of them cuDNN has engines for, and what they give, worked out row by row and operation by
 * operation in f64, each result rounded to the type of its tensor. */
#include "cudnn_parts.h"

#include <math.h>
#include <string.h>

#include "cuda_bf16.h"

typedef simt_descriptor descriptor;

namespace
{

cudnnDataType_t type_of(const descriptor *t)
{
    return (cudnnDataType_t)t->number(CUDNN_ATTR_TENSOR_DATA_TYPE);
}

int64_t dim_of(const descriptor *t, int i)
{
    return t->list(CUDNN_ATTR_TENSOR_DIMENSIONS)[(size_t)i];
}

int64_t stride_of(const descriptor *t, int i)
{
    return t->list(CUDNN_ATTR_TENSOR_STRIDES)[(size_t)i];
}

/* ---- which graphs ---- */

bool starts_are_long(const descriptor *t)
{
    const descriptor *starts = t->part(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC);
    return starts && type_of(starts) == CUDNN_DATA_INT64;
}

/* Of a product: 16-bit numbers in rows of multiples of 8, up to 256; ragged with starts of 64 bits, lengths for both
 * sides. */
cudnnStatus_t check_product(const descriptor *op, bool first)
{
    const descriptor *a = op->part(CUDNN_ATTR_OPERATION_MATMUL_ADESC), *b = op->part(CUDNN_ATTR_OPERATION_MATMUL_BDESC),
                     *c = op->part(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const int64_t dim = first ? dim_of(a, 3) : dim_of(b, 3);
    if (type_of(a) != CUDNN_DATA_BFLOAT16 || type_of(b) != CUDNN_DATA_BFLOAT16)
        return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
    if (dim_of(a, 3) != dim_of(b, 2) || dim_of(c, 2) != dim_of(a, 2) || dim_of(c, 3) != dim_of(b, 3) ||
        dim_of(a, 1) % dim_of(b, 1) || dim_of(a, 0) != dim_of(b, 0))
        return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    if (dim % 8 || dim > 256 || stride_of(b, first ? 2 : 3) != 1) return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
    if (simt_is_virtual(b) || !starts_are_long(b) || !starts_are_long(first ? a : c))
        return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
    if (!op->part(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC) ||
        !op->part(first ? CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC
                        : CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC))
        return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
    return CUDNN_STATUS_SUCCESS;
}

/* What the engines know of operations between the products. */
cudnnStatus_t check_between(const descriptor *op, std::map<int64_t, int> *modes)
{
    const descriptor *points = op->part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR), *y = simt_output_of(op);
    const int64_t mode = points ? points->number(CUDNN_ATTR_POINTWISE_MODE) : -1;
    const size_t inputs = simt_inputs_of(op).size();
    ++(*modes)[mode];
    if (dim_of(y, 3) != 1 && !simt_is_virtual(y)) return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
    if (!points) return dim_of(y, 3) == 1 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    const bool one = mode == CUDNN_POINTWISE_EXP || mode == CUDNN_POINTWISE_LOG || mode == CUDNN_POINTWISE_GEN_INDEX;
    if (inputs != (one ? 1 : mode == CUDNN_POINTWISE_BINARY_SELECT ? 3 : 2)) return CUDNN_STATUS_BAD_PARAM;
    if ((mode == CUDNN_POINTWISE_GEN_INDEX) != (bool)points->has.count(CUDNN_ATTR_POINTWISE_AXIS))
        return CUDNN_STATUS_BAD_PARAM;
    const bool asks =
        mode == CUDNN_POINTWISE_CMP_GE || mode == CUDNN_POINTWISE_CMP_LT || mode == CUDNN_POINTWISE_LOGICAL_AND;
    if (asks != (type_of(y) == CUDNN_DATA_BOOLEAN)) return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
    return CUDNN_STATUS_SUCCESS;
}

} // namespace

cudnnStatus_t simt_sdpa_check(const descriptor *graph)
{
    const std::vector<void *> &ops = graph->pointers(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    std::map<int64_t, int> modes;
    for (size_t i = 0; i < ops.size(); i++) {
        const descriptor *op = (const descriptor *)ops[i];
        const bool first = i == 0, product = op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
        if (product != (first || i + 1 == ops.size())) return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
        cudnnStatus_t rc = product ? check_product(op, first) : check_between(op, &modes);
        if (rc != CUDNN_STATUS_SUCCESS) return rc;
    }
    /* The engines know softmax by all of its steps, the logarithm of the mass included. */
    for (int mode : {CUDNN_POINTWISE_EXP, CUDNN_POINTWISE_LOG, CUDNN_POINTWISE_DIV})
        if (modes[mode] != 1) return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
    return modes[-1] == 2 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
}

/* ---- what they give ---- */

namespace
{

double rounded(cudnnDataType_t type, double x)
{
    if (type == CUDNN_DATA_BFLOAT16) return __bfloat162float(__float2bfloat16_rn((float)x));
    return type == CUDNN_DATA_FLOAT ? (float)x : x;
}

const int64_t TILE = 128; /* entries that are read together: what lies after the last one, too */

double number_at(const void *p, cudnnDataType_t type, int64_t at)
{
    if (type == CUDNN_DATA_BFLOAT16) return __bfloat162float(((const __nv_bfloat16 *)p)[at]);
    return type == CUDNN_DATA_INT32 ? ((const int32_t *)p)[at] : (double)((const float *)p)[at];
}

/* A tensor in memory, whose descriptor is looked up once for the many numbers of a product. */
struct operand {
    const void *memory;
    cudnnDataType_t type;
    int64_t start, strides[4];

    double at(int64_t h, int64_t i, int64_t j) const
    {
        return number_at(memory, type, start + h * strides[1] + i * strides[2] + j * strides[3]);
    }
};

/* A row of a head: of each virtual tensor the numbers along the entries, or one. */
struct row_of {
    const simt_sdpa_run &run;
    int64_t head_of_all, head, row; /* [batch, head, row] */
    int64_t columns = 0;            /* whole tiles */
    std::map<const descriptor *, std::vector<double>> values = {};

    void *memory(const descriptor *t) const
    {
        return run.at.at(t->number(CUDNN_ATTR_TENSOR_UNIQUE_ID));
    }

    /* Number [head_of_all, head, row, column] of a tensor in memory. */
    int64_t place(const descriptor *t, int64_t h, int64_t i, int64_t j) const
    {
        const descriptor *starts = t->part(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC);
        int64_t at = starts ? ((const int64_t *)memory(starts))[head_of_all] : head_of_all * stride_of(t, 0);
        return at + h * stride_of(t, 1) + i * stride_of(t, 2) + j * stride_of(t, 3);
    }

    operand operand_of(const descriptor *t) const
    {
        return {memory(t), type_of(t), place(t, 0, 0, 0), {0, stride_of(t, 1), stride_of(t, 2), stride_of(t, 3)}};
    }

    double count(const descriptor *t) const
    {
        return number_at(memory(t), type_of(t), head_of_all);
    }

    double input(const descriptor *t, int64_t column) const
    {
        auto number = run.numbers.find(t);
        if (number != run.numbers.end()) return number->second;
        if (!simt_is_virtual(t)) return count(t);
        const std::vector<double> &all = values.at(t);
        return all.size() == 1 ? all[0] : all[(size_t)column];
    }

    void write(const descriptor *t, int64_t column, double x) const
    {
        int64_t at = place(t, head, row, column);
        if (type_of(t) == CUDNN_DATA_BFLOAT16)
            ((__nv_bfloat16 *)memory(t))[at] = __float2bfloat16_rn((float)x);
        else
            ((float *)memory(t))[at] = (float)x;
    }

    void queries_by_keys(const descriptor *op)
    {
        const descriptor *q = op->part(CUDNN_ATTR_OPERATION_MATMUL_ADESC),
                         *k = op->part(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
        const int64_t len = (int64_t)count(op->part(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC));
        const int64_t h = head * dim_of(k, 1) / dim_of(q, 1);
        const operand queries = operand_of(q), keys = operand_of(k);
        const int64_t dim = dim_of(q, 3);
        std::vector<double> &y = values[simt_output_of(op)];
        columns = in_tiles(len);
        y.assign((size_t)columns, 0.0);
        for (int64_t j = 0; j < columns; j++)
            for (int64_t x = 0; x < (j < len ? dim : 1); x++)
                y[(size_t)j] += queries.at(head, row, x) * keys.at(h, x, j);
    }

    static int64_t in_tiles(int64_t len)
    {
        return len > TILE ? (len + TILE - 1) / TILE * TILE : TILE;
    }

    /* For each dimension the sum of the values after the last entry, weighed with 0. */
    std::vector<double> behind(void) const
    {
        const descriptor *op = (const descriptor *)run.graph->pointers(CUDNN_ATTR_OPERATIONGRAPH_OPS).back(),
                         *v = op->part(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
        const int64_t len = (int64_t)count(op->part(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC));
        const operand entries = operand_of(v);
        std::vector<double> sums((size_t)dim_of(v, 3));
        for (int64_t j = len; j < in_tiles(len); j++)
            for (size_t x = 0; x < sums.size(); x++) sums[x] += 0 * entries.at(0, j, (int64_t)x);
        return sums;
    }

    void weights_by_values(const descriptor *op, const std::vector<double> &behind)
    {
        const descriptor *p = op->part(CUDNN_ATTR_OPERATION_MATMUL_ADESC),
                         *v = op->part(CUDNN_ATTR_OPERATION_MATMUL_BDESC), *o = simt_output_of(op);
        const int64_t len = (int64_t)count(op->part(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC));
        const int64_t h = head * dim_of(v, 1) / dim_of(p, 1), dim = dim_of(v, 3);
        const operand entries = operand_of(v);
        std::vector<double> weights((size_t)len);
        for (int64_t j = 0; j < len; j++) weights[(size_t)j] = input(p, j);
        for (int64_t x = 0; x < dim; x++) {
            double sum = behind[(size_t)x];
            for (int64_t j = 0; j < len; j++) sum += weights[(size_t)j] * entries.at(h, j, x);
            write(o, x, sum);
        }
    }

    double point(const descriptor *op, int64_t mode, int64_t j) const
    {
        const descriptor *how = op->part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
        const descriptor *b_of = op->part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
                         *t_of = op->part(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
        const double x = input(op->part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC), j), b = b_of ? input(b_of, j) : 0;
        switch (mode) {
        case CUDNN_POINTWISE_ADD: return x + b;
        case CUDNN_POINTWISE_SUB: return x - b;
        case CUDNN_POINTWISE_MUL: return x * b;
        case CUDNN_POINTWISE_DIV: return x / b;
        case CUDNN_POINTWISE_EXP: return exp(x);
        case CUDNN_POINTWISE_LOG: return log(x);
        case CUDNN_POINTWISE_CMP_LT: return x < b;
        case CUDNN_POINTWISE_CMP_GE: return run.wrong || x >= b;
        case CUDNN_POINTWISE_LOGICAL_AND: return x != 0 && b != 0;
        case CUDNN_POINTWISE_BINARY_SELECT: return input(t_of, j) != 0 ? x : b;
        case CUDNN_POINTWISE_GEN_INDEX: return (double)(how->number(CUDNN_ATTR_POINTWISE_AXIS) == 2 ? row : j);
        default: simt_fault("cuDNN's graph has an operation of mode %d", (int)mode);
        }
    }

    void points(const descriptor *op)
    {
        const descriptor *y = simt_output_of(op);
        const int64_t mode = op->part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)->number(CUDNN_ATTR_POINTWISE_MODE);
        std::vector<double> all((size_t)(dim_of(y, 3) == 1 ? 1 : columns));
        for (size_t j = 0; j < all.size(); j++) all[j] = rounded(type_of(y), point(op, mode, (int64_t)j));
        if (simt_is_virtual(y))
            values[y] = all;
        else
            write(y, 0, all[0]);
    }

    void reduce(const descriptor *op)
    {
        const int64_t mode = op->part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)->number(CUDNN_ATTR_REDUCTION_OPERATOR);
        const descriptor *x = op->part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
        double all = mode == CUDNN_REDUCE_TENSOR_MAX ? -INFINITY : 0;
        for (int64_t j = 0; j < columns; j++)
            all = mode == CUDNN_REDUCE_TENSOR_MAX ? fmax(all, input(x, j)) : all + input(x, j);
        values[simt_output_of(op)] = {all};
    }

    void work(const std::vector<double> &behind)
    {
        const std::vector<void *> &ops = run.graph->pointers(CUDNN_ATTR_OPERATIONGRAPH_OPS);
        for (size_t i = 0; i < ops.size(); i++) {
            const descriptor *op = (const descriptor *)ops[i];
            if (i == 0)
                queries_by_keys(op);
            else if (i + 1 == ops.size())
                weights_by_values(op, behind);
            else if (op->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                points(op);
            else
                reduce(op);
        }
    }
};

} // namespace

/* Numbers of the host are read now; one thread does it all, and fills its room. */
cudaError_t simt_sdpa_enqueue(cudaStream_t stream, const simt_sdpa_run &asked)
{
    simt_sdpa_run run = asked;
    for (void *each : run.graph->pointers(CUDNN_ATTR_OPERATIONGRAPH_OPS))
        for (const descriptor *t : simt_inputs_of((descriptor *)each))
            if (t->number(CUDNN_ATTR_TENSOR_IS_BY_VALUE))
                run.numbers[t] = *(const float *)run.at.at(t->number(CUDNN_ATTR_TENSOR_UNIQUE_ID));
    return simt_launch(stream, "cudnn", simt_shape{dim3(1), dim3(32), 0}, [run] {
        const descriptor *first = (const descriptor *)run.graph->pointers(CUDNN_ATTR_OPERATIONGRAPH_OPS)[0],
                         *q = first->part(CUDNN_ATTR_OPERATION_MATMUL_ADESC),
                         *rows = first->part(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC);
        if (threadIdx.x != 0) return;
        memset(run.room, 255, SIMT_CUDNN_ROOM);
        for (int64_t b = 0; b < dim_of(q, 0); b++) {
            const std::vector<double> behind = row_of{run, b, 0, 0}.behind();
            for (int64_t h = 0; h < dim_of(q, 1); h++)
                for (int64_t t = 0; t < (int64_t)row_of{run, b, h, 0}.count(rows); t++)
                    row_of{run, b, h, t}.work(behind);
        }
    });
}
