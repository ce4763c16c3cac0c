/* bf16 products by oneDNN. Weights are used in place, [out, in], as a transposed matrix. A primitive costs some
 * microseconds after the first time: oneDNN caches generated code. Workspace is the stream's. */
#include <dnnl.h>
#include <pthread.h>

#include "kernels/cpu/cpu.h"

typedef struct lh_product {
    dnnl_engine_t engine;
    dnnl_stream_t queue;
    dnnl_memory_desc_t x, w, bias, y;
    dnnl_post_ops_t after; /* y += */
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[5];
} lh_product;

static void product_clear(lh_product *p)
{
    for (int i = 0; i < 5; i++) {
        if (p->memory[i]) dnnl_memory_destroy(p->memory[i]);
    }
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    if (p->desc) dnnl_primitive_desc_destroy(p->desc);
    if (p->attr) dnnl_primitive_attr_destroy(p->attr);
    if (p->after) dnnl_post_ops_destroy(p->after);
    if (p->queue) dnnl_stream_destroy(p->queue);
    if (p->engine) dnnl_engine_destroy(p->engine);
}

/* Turns oneDNN's status into ours, naming the step. */
static lh_status checked(dnnl_status_t status, const char *step)
{
    if (status == dnnl_out_of_memory) LH_FAIL(LH_ENOMEM, "no memory for a matrix product of oneDNN (%s)", step);
    if (status != dnnl_success)
        LH_FAIL(LH_EINTERNAL, "oneDNN refused a matrix product (%s, status %d)", step, (int)status);
    return LH_OK;
}

static lh_status product_describe_attributes(lh_product *p, const lh_gemm_args *a)
{
    LH_TRY(checked(dnnl_primitive_attr_create(&p->attr), "attributes"));
    LH_TRY(checked(dnnl_primitive_attr_set_scratchpad_mode(p->attr, dnnl_scratchpad_mode_user), "attributes"));
    if (!a->adds) return LH_OK;
    LH_TRY(checked(dnnl_post_ops_create(&p->after), "attributes"));
    LH_TRY(checked(dnnl_post_ops_append_sum(p->after, 1.0f), "attributes"));
    LH_TRY(checked(dnnl_primitive_attr_set_post_ops(p->attr, p->after), "attributes"));
    return LH_OK;
}

static lh_status product_describe(lh_product *p, const lh_gemm_args *a)
{
    dnnl_matmul_desc_t desc;
    const dnnl_dims_t x = {a->tokens, a->in}, x_by = {a->x_ld, 1}, w = {a->in, a->out}, w_by = {1, a->w.ld};
    const dnnl_dims_t bias = {1, a->out}, bias_by = {a->out, 1}, y = {a->tokens, a->out}, y_by = {a->y_ld, 1};
    LH_TRY(checked(dnnl_engine_create(&p->engine, dnnl_cpu, 0), "engine"));
    LH_TRY(checked(dnnl_stream_create(&p->queue, p->engine, dnnl_stream_default_flags), "stream"));
    LH_TRY(checked(dnnl_memory_desc_init_by_strides(&p->x, 2, x, dnnl_bf16, x_by), "input"));
    LH_TRY(checked(dnnl_memory_desc_init_by_strides(&p->w, 2, w, dnnl_bf16, w_by), "weights"));
    LH_TRY(checked(dnnl_memory_desc_init_by_strides(&p->bias, 2, bias, dnnl_f32, bias_by), "bias"));
    LH_TRY(checked(dnnl_memory_desc_init_by_strides(&p->y, 2, y, dnnl_f32, y_by), "output"));
    LH_TRY(product_describe_attributes(p, a));
    LH_TRY(checked(dnnl_matmul_desc_init(&desc, &p->x, &p->w, a->bias ? &p->bias : NULL, &p->y), "description"));
    LH_TRY(checked(dnnl_primitive_desc_create(&p->desc, &desc, p->attr, p->engine, NULL), "description"));
    LH_TRY(checked(dnnl_primitive_create(&p->primitive, p->desc), "code"));
    return LH_OK;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int multiplies;

/* oneDNN uses the instruction sets of the processor, or a subset by DNNL_MAX_CPU_ISA: without bf16 products it refuses
 * them, or widens the numbers, which our tiles do faster. */
static void ask(void)
{
    const float bias[1] = {0};
    const lh_gemm_args sizes[] = {{.type = LH_BF16, .tokens = 128, .out = 64, .in = 96},
                                  {.type = LH_BF16, .tokens = 65, .out = 33, .in = 17, .adds = 1, .bias = bias}};
    const unsigned has = dnnl_get_effective_cpu_isa(), wants = dnnl_cpu_isa_avx512_core_bf16;
    multiplies = (has & wants) == wants;
    for (int i = 0; i < 2 && multiplies; i++) {
        lh_product p = {0};
        lh_gemm_args a = sizes[i];
        a.x_ld = a.w.ld = a.in;
        a.y_ld = a.out;
        multiplies = product_describe(&p, &a) == LH_OK;
        product_clear(&p);
    }
    lh_error_clear();
}

int lh_cpu_onednn_there(void)
{
    pthread_once(&once, ask);
    return multiplies;
}

lh_status lh_cpu_onednn_gemm(lh_stream *stream, const lh_gemm_args *a)
{
    lh_status st = LH_OK;
    lh_product p = {0};
    void *work = NULL;
    int count = 0;
    LH_TRY_DONE(product_describe(&p, a));
    const dnnl_memory_desc_t *space = dnnl_primitive_desc_query_md(p.desc, dnnl_query_scratchpad_md, 0);
    LH_TRY_DONE(lh_stream_scratch(stream, &work, (int64_t)dnnl_memory_desc_get_size(space)));
    const struct {
        int argument;
        const dnnl_memory_desc_t *desc;
        const void *data;
    } parts[5] = {{DNNL_ARG_SRC, &p.x, a->x},
                  {DNNL_ARG_WEIGHTS, &p.w, a->w.data},
                  {DNNL_ARG_DST, &p.y, a->y},
                  {DNNL_ARG_SCRATCHPAD, space, work},
                  {DNNL_ARG_BIAS, &p.bias, a->bias}};
    dnnl_exec_arg_t args[5];
    for (; count < (a->bias ? 5 : 4); count++) {
        LH_TRY_DONE(checked(
            dnnl_memory_create(&p.memory[count], parts[count].desc, p.engine, (void *)parts[count].data), "memory"));
        args[count] = (dnnl_exec_arg_t){parts[count].argument, p.memory[count]};
    }
    LH_TRY_DONE(checked(dnnl_primitive_execute(p.primitive, p.queue, count, args), "run"));
    LH_TRY_DONE(checked(dnnl_stream_wait(p.queue), "run"));
done:
    product_clear(&p);
    return st;
}
