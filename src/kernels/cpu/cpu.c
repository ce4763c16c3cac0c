/* The table of the `cpu` backend: every operation is forwarded to the table of the chosen instruction set. */
#include "kernels/cpu/cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma weak lh_cpu_ops_avx2
#pragma weak lh_cpu_ops_avx512
#pragma weak lh_cpu_ops_avx512_bf16
#pragma weak lh_cpu_ops_amx
#endif

static int always(void)
{
    return 1;
}

#if defined(__x86_64__)
static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

static int has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static int has_pairs(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
}

/* Measured: Intel's processors run these instructions at half the rate of f32 multiply-adds, AMD's at twice the
 * rate. */
static int has_fast_pairs(void)
{
    return has_pairs() && !__builtin_cpu_is("intel");
}

/* Linux grants the tile registers only to processes that ask for them (arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA)). */
static int has_amx(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18, AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
    unsigned a, b, c, d;
    if (!has_pairs() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if (!(d & AMX_BF16) || !(d & AMX_TILE)) return 0;
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
}
#endif

/* Best first. */
static const struct {
    const char *name;
    const lh_ops *ops; /* NULL: not compiled (LH_CPU_ISAS) */
    int (*runs_here)(void);
    int multiplies_bf16; /* true if bf16 products are faster than f32 */
} sets[] = {
#if defined(__x86_64__)
    {"amx-bf16", &lh_cpu_ops_amx, has_amx, 1},     {"avx512-bf16", &lh_cpu_ops_avx512_bf16, has_fast_pairs, 1},
    {"avx512", &lh_cpu_ops_avx512, has_avx512, 0}, {"avx2", &lh_cpu_ops_avx2, has_avx2, 0},
#endif
    {"generic", &lh_cpu_ops_generic, always, 0},
};
enum { SETS = sizeof sets / sizeof sets[0] };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int chosen;

static int runs_here(int set)
{
    return sets[set].ops && sets[set].runs_here();
}

/* LONGHAUL_CPU_ISA names a set below the best one, for tests and comparisons. */
static void choose(void)
{
    const char *wanted = getenv("LONGHAUL_CPU_ISA");
    while (!runs_here(chosen)) chosen++;
    if (!wanted || !*wanted) return;
    for (int i = chosen; i < SETS; i++) {
        if (strcmp(sets[i].name, wanted) == 0 && runs_here(i)) {
            chosen = i;
            return;
        }
    }
    lh_warn("LONGHAUL_CPU_ISA is '%s', which this processor or program does not have: using '%s'", wanted,
            sets[chosen].name);
}

static int chosen_set(void)
{
    pthread_once(&once, choose);
    return chosen;
}

const char *lh_cpu_isa(void)
{
    return sets[chosen_set()].name;
}

const char *lh_cpu_gemm_library(lh_dtype type)
{
    return type == LH_BF16 && sets[chosen_set()].multiplies_bf16 && lh_cpu_onednn_there() ? "oneDNN" : "own tiles";
}

#define LH_OP(op, summary)                                                   \
    static lh_status run_##op(lh_stream *stream, const lh_##op##_args *args) \
    {                                                                        \
        return sets[chosen_set()].ops->op(stream, args);                     \
    }
LH_OPS(LH_OP)
#undef LH_OP

const lh_ops lh_ops_cpu = {.name = "cpu",
                           .device = LH_DEVICE_CPU,
#define LH_OP(op, summary) .op = run_##op,
                           LH_OPS(LH_OP)
#undef LH_OP
};
