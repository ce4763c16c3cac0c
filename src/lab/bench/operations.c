/* operations.c - `bench operations`: checks the words, measures the machine, and runs every group of cases. */
#include <omp.h>
#include <stdio.h>

#include "base/mem.h"
#include "lab/bench/bench_impl.h"

static const lh_bench_group *const groups[] = {
    &lh_bench_gemm,        &lh_bench_attention, &lh_bench_decode, &lh_bench_rows, &lh_bench_fused,
    &lh_bench_projections, &lh_bench_scores,    &lh_bench_shares, &lh_bench_fit,  &lh_bench_experts};
enum { GROUPS = sizeof groups / sizeof *groups };

/* Names of all cases, each once; ends with NULL. The caller frees the array. */
static lh_status list_names(const char ***out)
{
    const char **names = NULL;
    int64_t n = 0;
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; groups[g]->names[i]; i++) n++;
    LH_TRY(lh_calloc(&names, n + 1, sizeof *names));
    n = 0;
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; groups[g]->names[i]; i++) names[n++] = groups[g]->names[i];
    *out = names;
    return LH_OK;
}

static int in_a_name(const char *word, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strstr(names[i], word)) return 1;
    return 0;
}

lh_status lh_bench_check_words(const lh_bench_request *request, const char *const *names)
{
    lh_status st = LH_OK;
    lh_buf all = {0};
    for (int64_t w = 0; w < request->word_count; w++) {
        const char *word = request->words[w];
        if (in_a_name(word, names)) continue;
        for (int i = 0; names[i]; i++) LH_TRY_DONE(lh_buf_printf(&all, "%s%s", i ? ", " : "", names[i]));
        LH_FAIL_DONE(LH_EUSAGE, "no case has '%s' in its name; cases: %s", word, all.data);
    }
done:
    lh_buf_clear(&all);
    return st;
}

static int group_wanted(const lh_bench *b, const lh_bench_group *group)
{
    for (int i = 0; group->names[i]; i++)
        if (lh_bench_wanted(b, group->names[i])) return 1;
    return 0;
}

void lh_bench_describe(const lh_bench *b)
{
    char *about = b->result->about;
    const size_t cap = sizeof b->result->about;
    int n = snprintf(about, cap, "%s, operations of '%s'", lh_device_name(b->device), b->ops->name);
    if (lh_device_kind_of(b->device) == LH_DEVICE_CPU && n > 0 && (size_t)n < cap)
        snprintf(about + n, cap - (size_t)n, "; %d threads; instruction set '%s'; gemm: f32 by %s, bf16 by %s",
                 omp_get_max_threads(), lh_cpu_isa(), lh_cpu_gemm_library(LH_F32), lh_cpu_gemm_library(LH_BF16));
    if (lh_device_kind_of(b->device) == LH_DEVICE_CUDA && lh_cudnn_found && n > 0 && (size_t)n < cap) {
        char text[256];
        snprintf(about + n, cap - (size_t)n, "; %s%s", lh_cudnn_found(text) ? "cuDNN " : "", text);
    }
}

lh_status lh_bench_operations(const lh_bench_request *request, lh_bench_result *out)
{
    lh_status st = LH_OK;
    const char **names = NULL;
    lh_comm *self = NULL;
    lh_bench b = {0};
    lh_bench_result_init(out, request->count ? lh_bench_count_columns : lh_bench_columns);
    LH_TRY_DONE(list_names(&names));
    LH_TRY_DONE(lh_bench_check_words(request, names));
    LH_TRY_DONE(lh_comm_open_self(&self));
    LH_TRY_DONE(lh_bench_open(&b, request, self, out));
    lh_bench_describe(&b);
    lh_progress_init(&b.progress, "measuring", "cases", 0);
    LH_TRY_DONE(request->count ? lh_bench_check_counts(b.device) : lh_bench_machine(&b));
    for (int g = 0; g < GROUPS; g++)
        if (group_wanted(&b, groups[g])) LH_TRY_DONE(groups[g]->run(&b));
done:
    lh_bench_close(&b);
    lh_comm_close(self);
    lh_free(names);
    return st;
}
