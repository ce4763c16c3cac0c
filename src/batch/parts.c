#include "batch/parts.h"

#include <stdio.h>
#include <string.h>

#include "base/minmax.h"

enum { MAX_PARTS = 1 << 16 };

/* The number of parts in "NAME.I-of-N.state", the file of a part; 0: another file. */
static int64_t count_in_name(const char *file, const char *name)
{
    const size_t n = strlen(name);
    long long part = -1, count = 0;
    int end = 0;
    if (strncmp(file, name, n) != 0) return 0;
    const int read = sscanf(file + n, ".%lld-of-%lld.state%n", &part, &count, &end);
    return read == 2 && end && !file[n + (size_t)end] && part >= 0 && part < count && count <= MAX_PARTS ? count : 0;
}

/* *count: number of parts of the array that wrote this output; 0: no array did. */
static lh_status count_parts(int64_t *count, const char *output)
{
    static const char *const endings[] = {".state", NULL};
    lh_status st = LH_OK;
    char *folder = NULL;
    lh_paths files = {0};
    *count = 0;
    LH_TRY_DONE(lh_path_folder(&folder, output));
    if (!lh_file_is_folder(folder)) goto done;
    LH_TRY_DONE(lh_folder_list(&files, NULL, folder, endings));
    for (int64_t i = 0; i < files.n; i++) {
        const int64_t n = count_in_name(lh_path_name(files.at[i]), lh_path_name(output));
        if (*count && n && n != *count)
            LH_FAIL_DONE(LH_EINPUT, "'%s' has parts of two arrays, of %lld and of %lld jobs: name the outputs", output,
                         (long long)*count, (long long)n);
        if (n) *count = n;
    }
done:
    lh_free(folder);
    lh_paths_clear(&files);
    return st;
}

/* Appends a copy of the name unless it is there. */
static lh_status add_once(lh_paths *out, const char *name)
{
    char *copy = NULL;
    for (int64_t i = 0; i < out->n; i++)
        if (strcmp(out->at[i], name) == 0) return LH_OK;
    LH_TRY(lh_strdup(&copy, name));
    return lh_paths_add(out, copy);
}

/* Appends the output of a part if it has a state; else counts it as missing. */
static lh_status add_part(lh_paths *out, const char *output, int64_t part, int64_t count, int64_t *missing)
{
    lh_status st = LH_OK;
    char *name = NULL, *state = NULL;
    LH_TRY_DONE(lh_asprintf(&name, "%s.%lld-of-%lld", output, (long long)part, (long long)count));
    LH_TRY_DONE(lh_asprintf(&state, "%s.state", name));
    if (lh_file_exists(state))
        LH_TRY_DONE(add_once(out, name));
    else
        (*missing)++;
done:
    lh_free(name);
    lh_free(state);
    return st;
}

lh_status lh_batch_parts_find(lh_paths *out, int64_t *missing, const char *output)
{
    lh_status st = LH_OK;
    lh_batch_state own = {.stage = LH_BATCH_UNKNOWN};
    int64_t count = 0;
    *missing = 0;
    LH_TRY_DONE(lh_batch_state_of(&own, output));
    if (own.stage == LH_BATCH_UNKNOWN) LH_TRY_DONE(count_parts(&count, output));
    for (int64_t i = 0; i < count; i++) LH_TRY_DONE(add_part(out, output, i, count, missing));
    if (!count) st = add_once(out, output);
done:
    lh_batch_state_clear(&own);
    return st;
}

lh_batch_sum lh_batch_sum_of(const lh_batch_status *statuses, int64_t n, int64_t missing)
{
    lh_batch_sum sum = {.left_s = -1};
    int64_t unknown = 0;
    for (int64_t i = 0; i < n; i++) {
        const lh_batch_state *s = &statuses[i].state;
        const double left_s = lh_batch_state_left(s);
        sum.stages[s->stage]++;
        unknown += s->total == 0 && s->stage == LH_BATCH_UNKNOWN;
        sum.total += s->total;
        sum.done += s->done;
        sum.failed += s->failed;
        sum.rank_hours += lh_batch_state_rank_hours(s);
        if (s->stage == LH_BATCH_RUNNING) sum.tokens_per_s += lh_batch_state_tokens_rate(s);
        if (left_s > sum.left_s) sum.left_s = left_s;
    }
    if (missing && n) sum.total = lh_max_i64(sum.total, statuses[0].state.input_total);
    if (unknown) sum.total = 0;
    return sum;
}
