/* Traces and their replay: the same trace on any number of ranks, what a killed run leaves, and keep sets of a replay
 * that are those of a run. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/program.h"
#include "cli/same_files.h"
#include "cli/tiny_suite.h"

#define TRACE_OF(rows)                                                           \
    "trace -m tiny.h5 --chat=off -f text -n 20 --ignore-eos --deterministic -q " \
    "--trace-rows " rows " --trace-window 48 "
#define TRACE TRACE_OF("64")
#define TWO_QUESTIONS "--scenario context-only --question 'Who is it?' --question 'Where?' "
enum { LAYERS = 3 };

/* ---- a trace on ranks ---- */

/* Two KV heads: on three and four ranks groups are split. */
START_TEST(test_a_trace_is_the_same_on_any_number_of_ranks)
{
    static const char *const runs[] = {TWO_QUESTIONS "--trace-level full",
                                       "--policy h2o --budget 60 --trace-layers 0,2",
                                       TWO_QUESTIONS "--trace-level stats --policy 'ada-snapkv' --budget 80",
                                       "--policy roco --budget 64 --trace-dtype bf16"};
    program_result r = {0};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        program_run(&r, 1, TRACE "%s -o one.h5", runs[i]);
        program_exits(&r, 0);
        for (int ranks = 2; ranks <= 4; ranks++) {
            program_run(&r, ranks, TRACE "%s -o more.h5", runs[i]);
            program_exits(&r, 0);
            same_files("trace", "one.h5", "more.h5");
        }
        program_run(&r, 1, "verify one.h5");
        program_exits(&r, 0);
    }
    program_clear(&r);
}
END_TEST

static lh_h5_filter filter_of(const char *path, const char *name)
{
    lh_h5 *h5 = same_files_open("trace", path);
    lh_h5_array *array = NULL;
    ck_assert_int_eq(lh_h5_array_open(&array, h5, name), LH_OK);
    lh_h5_filter filter = lh_h5_array_storage(array).filter;
    lh_h5_array_close(array);
    lh_h5_close(h5);
    return filter;
}

START_TEST(test_a_compressed_trace_holds_the_same)
{
    program_result r = {0};
    program_run(&r, 1, TRACE TWO_QUESTIONS "--trace-level full -o plain.h5");
    program_exits(&r, 0);
    for (int ranks = 1; ranks <= 4; ranks++) {
        program_run(&r, ranks, TRACE TWO_QUESTIONS "--trace-level full --trace-compress deflate -o small.h5");
        program_exits(&r, 0);
        same_files("trace", "plain.h5", "small.h5");
    }
    ck_assert_int_eq(filter_of("plain.h5", "/layers/000/prefill/keys"), LH_H5_PLAIN);
    ck_assert_int_eq(filter_of("small.h5", "/layers/002/prefill/keys"), LH_H5_DEFLATE);
    ck_assert_int_eq(filter_of("small.h5", "/layers/002/prefill/queries"), LH_H5_DEFLATE);
    ck_assert_int_eq(filter_of("small.h5", "/tokens"), LH_H5_PLAIN);
    program_run(&r, 1, "verify small.h5");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

/* One bit of an array: of slabs of two ranks (keys), of several answers (queries after the prompt). */
static void flip_bit(const char *path, const char *name, int rank)
{
    lh_h5 *h5 = same_files_open("trace", path);
    lh_h5_shape shape, want = {.type = LH_F32, .rank = rank, .dims = {-1, -1, -1}};
    lh_buf file = {0};
    char *data = NULL, byte;
    FILE *f = fopen(path, "r+");
    ck_assert_msg(lh_h5_get(h5, name, &want, &shape, &data) == LH_OK, "%s", lh_error_message());
    lh_h5_close(h5);
    char bytes[4096];
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, f));)
        ck_assert_int_eq(lh_buf_append(&file, bytes, (int64_t)n), LH_OK);
    const char *at = memmem(file.data, (size_t)file.bytes, data, 64);
    ck_assert_ptr_nonnull(at);
    byte = (char)(at[20] ^ 1);
    ck_assert_int_eq(fseek(f, at + 20 - file.data, SEEK_SET), 0);
    ck_assert_uint_eq(fwrite(&byte, 1, 1, f), 1);
    ck_assert_int_eq(fclose(f), 0);
    lh_buf_clear(&file);
    lh_free(data);
}

START_TEST(test_a_flipped_bit_is_found)
{
    static const char *const names[] = {"/layers/001/prefill/keys", "/layers/002/decode/queries"};
    program_result r = {0};
    for (int i = 0; i < 2; i++) {
        program_run(&r, 2, TRACE TWO_QUESTIONS "-o flipped.h5");
        program_exits(&r, 0);
        flip_bit("flipped.h5", names[i], 3);
        program_refuses(1, 4, names[i], "verify flipped.h5");
    }
    program_clear(&r);
}
END_TEST

/* HDF5 looks for plugins in that folder alone. */
START_TEST(test_a_filter_that_is_not_there_is_named_before_the_run)
{
    ck_assert_int_eq(setenv("HDF5_PLUGIN_PATH", "/nowhere", 1), 0);
    program_refuses(1, 2, "HDF5_PLUGIN_PATH", "trace -m tiny.h5 -p a -n 1 --trace-compress zstd -o no.h5");
    program_refuses(2, 2, "filter 'zstd'", "trace -m tiny.h5 -p a -n 1 --trace-compress zstd -o no.h5");
    ck_assert_int_ne(access("no.h5.segments", F_OK), 0);
}
END_TEST

START_TEST(test_a_trace_is_drawn)
{
    static const char *const titles[] = {
        "\nAttention that entries get (mean: 1) over position 0",
        "\nAttention on the 1% most attended entries, share of the attention over layer", "\nL2 norms",
        "\nPrefill by rank, s over layer 0 … 2", "\nSteps after the prompt by rank, s over step 0 … 18"};
    program_result r = {0};
    program_run(&r, 2, TRACE "--trace-level stats -o drawn.h5");
    program_exits(&r, 0);
    program_run(&r, 1, "info drawn.h5");
    program_exits(&r, 0);
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) ck_assert_ptr_nonnull(strstr(r.out.data, titles[i]));
    program_run(&r, 1, "info drawn.h5 --json");
    program_exits(&r, 0);
    ck_assert_ptr_null(strstr(r.out.data, "Prefill by rank"));
    program_clear(&r);
}
END_TEST

/* The size that is printed before a run is that of `plan`. */
START_TEST(test_the_size_is_known_beforehand)
{
    static const char line[] = "trace: level keys, at most ";
    static const char *const asked[][2] = {{"", ""},
                                           {"--question Who?", "--question 4"},
                                           {"--question Who? --question When?", "--question 4 --question 5"}};
    program_result r = {0}, s = {0};
    char rest[128] = "";
    program_file("ids", "1 2 3 4 5 6 7");
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        program_run(&r, 1, "trace -m tiny.h5 --prompt-tokens ids -n 3 --trace-layers 0,2 -o sized.h5 %s", asked[i][0]);
        program_exits(&r, 0);
        program_run(&s, 1, "plan -m tiny.h5 -c 7 -n 3 --trace-layers 0,2 %s", asked[i][1]);
        program_exits(&s, 0);
        const char *one = strstr(r.err.data, line), *two = strstr(s.out.data, line);
        ck_assert_ptr_nonnull(one);
        ck_assert_ptr_nonnull(two);
        snprintf(rest, sizeof rest, "%.*s", (int)strcspn(two, "\n"), two);
        ck_assert(strncmp(one, rest, strlen(rest)) == 0);
    }
    program_run(&s, 1, "plan -m tiny.h5 -c 7 -n 3");
    ck_assert_ptr_null(strstr(s.out.data, "trace"));
    program_refuses(1, 2, "'--trace-layers 3'", "plan -m tiny.h5 -c 7 --trace-layers 3");
    program_clear(&r);
    program_clear(&s);
}
END_TEST

static void *read_array(lh_h5 *h5, const char *name, lh_dtype type, lh_h5_shape *shape)
{
    lh_h5_array *array = NULL;
    void *data = NULL;
    ck_assert_msg(lh_h5_array_open(&array, h5, name) == LH_OK, "%s", lh_error_message());
    lh_h5_shape want = *lh_h5_array_shape(array);
    lh_h5_array_close(array);
    ck_assert_int_eq(want.type, type);
    ck_assert_int_eq(lh_h5_get(h5, name, &want, shape, &data), LH_OK);
    return data;
}

/* One row of logits, and what a step has of it. */
static void check_best(const float *row, int64_t vocab, const int32_t *ids, const float *best, int64_t n, float lse)
{
    double sum = 0;
    int64_t better = 0;
    for (int64_t k = 0; k < n; k++) {
        ck_assert(best[k] == row[ids[k]]);
        ck_assert(k == 0 || best[k] < best[k - 1] || (best[k] == best[k - 1] && ids[k] > ids[k - 1]));
    }
    for (int64_t i = 0; i < vocab; i++) {
        sum += exp((double)row[i]);
        better += row[i] > best[n - 1];
    }
    ck_assert_int_lt(better, n);
    ck_assert_double_eq_tol((double)lse, log(sum), 1e-5);
}

/* A question, then token after token, each followed by the logits that the run has written, too. */
START_TEST(test_steps_have_the_logits_of_the_run)
{
    program_result r = {0};
    lh_h5 *written = NULL, *trace;
    lh_h5_shape l, i, b, s, t;
    program_run(&r, 1,
                TRACE "--scenario context-only --question 'Who is it?' --logits l.h5 --trace-level stats -o s.h5");
    program_exits(&r, 0);
    ck_assert_int_eq(lh_h5_open(&written, "l.h5", &(lh_h5_header){"analysis", 1, NULL}), LH_OK);
    trace = same_files_open("trace", "s.h5");
    float *logits = read_array(written, "/logits", LH_F32, &l), *lse = read_array(trace, "/steps/lse", LH_F32, &s),
          *best = read_array(trace, "/steps/top_logits", LH_F32, &b),
          *seconds = read_array(trace, "/timings/steps", LH_F32, &t);
    int32_t *ids = read_array(trace, "/steps/top_ids", LH_I32, &i),
            *rows = read_array(trace, "/steps/rows", LH_I32, &s),
            *tokens = read_array(trace, "/decode/tokens", LH_I32, &s);
    const int64_t steps = l.dims[0], n = i.dims[1];
    ck_assert_int_eq(steps, 20);
    ck_assert_int_eq(i.dims[0], steps);
    ck_assert(t.dims[0] == 1 && t.dims[1] == steps);
    ck_assert_int_eq(rows[steps - 1], s.dims[0] - 1);
    for (int64_t k = 0; k < steps; k++) {
        check_best(logits + k * l.dims[1], l.dims[1], ids + k * n, best + k * n, n, lse[k]);
        ck_assert(seconds[k] > 0);
        if (k) ck_assert_int_eq(rows[k], rows[k - 1] + 1);
        if (k) ck_assert_int_eq(tokens[rows[k]], ids[(k - 1) * n]); /* greedy */
    }
    void *const arrays[] = {logits, lse, best, seconds, ids, rows, tokens};
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++) lh_free(arrays[a]);
    lh_h5_close(written);
    lh_h5_close(trace);
    program_clear(&r);
}
END_TEST

START_TEST(test_recording_changes_nothing)
{
    program_result r = {0}, s = {0};
#define H2O "-m tiny.h5 --chat=off -f text -n 20 --ignore-eos --deterministic -q --policy h2o --budget 60"
    program_run(&r, 1, "generate " H2O);
    program_exits(&r, 0);
    program_run(&s, 2, "trace " H2O " -o t.h5");
    program_exits(&s, 0);
    ck_assert_str_eq(r.out.data, s.out.data);
    program_clear(&r);
    program_clear(&s);
}
END_TEST

/* ---- a run that is killed ---- */

START_TEST(test_an_output_that_cannot_be_is_refused_before_the_run)
{
    program_result r = {0};
    for (int ranks = 1; ranks <= 2; ranks++) {
        program_run(&r, 1, "--version > /dev/null; mkdir -p folder.h5");
        program_run(&r, ranks, "trace -m tiny.h5 --chat=off -f text -n 2 -q -o folder.h5");
        program_exits(&r, 6);
        program_says(&r, "'folder.h5': it is a folder");
        ck_assert_str_eq(r.out.data, "");
    }
    program_run(&r, 1, "--version > /dev/null; rmdir folder.h5 && ! ls -d folder.h5* 2> /dev/null");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

START_TEST(test_a_killed_run_leaves_what_it_had)
{
    program_result r = {0};
    program_run(
        &r, 1,
        "--version > /dev/null; " LONGHAUL " trace -m tiny.h5 --chat=off -f text -n 1500 --ignore-eos -q -o k.h5 "
        "> /dev/null 2>&1 & pid=$!; i=0; until [ -e k.h5.segments/after-n0001-r000.h5 ] || [ $i = 600 ]; do "
        "sleep 0.05; i=$((i+1)); done; kill -STOP $pid; " LONGHAUL
        " trace --join k.h5 2> early; joined=$?; kill -9 $pid; "
        "wait $pid; [ $? = 137 ] && [ ! -e k.h5 ] && [ $joined = 6 ] && grep -q \"process $pid of this host\" early");
    program_exits(&r, 0);
    program_run(&r, 1, "--version > /dev/null; touch k.h5.elsewhere.7.partial");
    program_refuses(1, 6, "process 7 of host elsewhere writes it; if it has ended, delete", "trace --join k.h5");
    program_run(
        &r, 1, "--version > /dev/null; rm k.h5.elsewhere.7.partial; touch k.h5.segments/notes k.h5.segments/x.partial");
    program_refuses(1, 6, "the segments of an unfinished trace", "trace -m tiny.h5 --chat=off -f text -n 2 -o k.h5");
    program_run(&r, 1, "trace --join k.h5");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.err.data, "had recorded when it ended"));
    program_run(&r, 1, "verify k.h5");
    program_exits(&r, 0);
    program_run(&r, 1, "info k.h5");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "layers_recorded: 3\n"));
    ck_assert_ptr_nonnull(strstr(r.out.data, "\nL2 norms (mean of entries) over layer 0 … 2\n"));
    ck_assert_ptr_null(strstr(r.out.data, "\nSteps after the prompt"));
    ck_assert_ptr_nonnull(strstr(r.out.data, "whole_run: no\n"));
    program_run(&r, 1, "replay k.h5 --policy snapkv --budget 20%% -q");
    program_exits(&r, 0);
    /* what is no segment stays */
    program_run(&r, 1,
                "--version > /dev/null; [ \"$(ls k.h5.segments | tr '\\n' ' ')\" = 'notes x.partial ' ] && rm -r "
                "k.h5.segments");
    program_exits(&r, 0);
    program_refuses(1, 3, "there is no folder 'k.h5.segments'", "trace --join k.h5");
    program_clear(&r);
}
END_TEST

/* A layer that one of the ranks had not finished is left out. */
START_TEST(test_a_layer_of_a_killed_run_is_whole_or_not_there)
{
    program_result r = {0};
    program_run(
        &r, 1,
        "--version > /dev/null; n=k2; " MPIEXEC " -n 2 " LONGHAUL
        " trace -m tiny.h5 --chat=off -f text -n 1500 --ignore-eos -q -o $n.h5 > /dev/null 2>&1 & i=0; until [ -e "
        "k2.h5.segments/after-n0001-r000.h5 ] || [ $i = 600 ]; do sleep 0.05; i=$((i+1)); done; "
        "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2> /dev/null | grep -q -- '-o k2[.]h5' && kill -9 "
        "${p#/proc/}; done; "
        "wait; rm k2.h5.segments/prefill-l001-r001.h5");
    program_exits(&r, 0);
    program_run(&r, 1, "trace --join k2.h5");
    program_exits(&r, 0);
    program_run(&r, 1, "info k2.h5");
    ck_assert_ptr_nonnull(strstr(r.out.data, "layers_recorded: 2\n"));
    program_run(&r, 1, "replay k2.h5 --policy snapkv --budget 20%% -q");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

/* ---- replay ---- */

/* The positions of all layers, one after the other, with their offsets; of what was `kept` of the prompt, or is there
 * in the end (`final`). */
static void read_part(lh_buf *out, const char *path, const char *part)
{
    lh_h5 *h5 = NULL;
    lh_h5_shape shape;
    out->bytes = 0;
    ck_assert_msg(lh_h5_open(&h5, path, &(lh_h5_header){.kind = "keep-sets", .schema = 1}) == LH_OK, "%s",
                  lh_error_message());
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 2; i++) {
            char name[64];
            void *data = NULL;
            const lh_dtype type = i ? LH_I32 : LH_I64;
            snprintf(name, sizeof name, "/layers/%03d/%s/%s", l, part, i ? "positions" : "offsets");
            ck_assert_int_eq(lh_h5_get(h5, name, &(lh_h5_shape){.type = type, .rank = 1, .dims = {-1}}, &shape, &data),
                             LH_OK);
            ck_assert_int_eq(lh_buf_append(out, data, shape.dims[0] * lh_dtype_bytes(type)), LH_OK);
            lh_free(data);
        }
    lh_h5_close(h5);
}

/* The tokens of two files are the same. */
static void same_tokens(const char *one, const char *other)
{
    lh_h5 *h5 = same_files_open("keep-sets", one), *there = same_files_open("keep-sets", other);
    same_array(h5, there, "/tokens");
    lh_h5_close(h5);
    lh_h5_close(there);
}

static void read_kept(lh_buf *out, const char *path)
{
    read_part(out, path, "kept");
}

/* Every source of scores, every kind of budgets and selections. */
static const char *const policies[] = {"streaming",
                                       "h2o",
                                       "scissorhands",
                                       "tova",
                                       "mas",
                                       "roco",
                                       "snapkv",
                                       "pyramidkv",
                                       "ada-snapkv",
                                       "ada-pyramid",
                                       "critical-snapkv",
                                       "critical-ada-snapkv",
                                       "ada-snapkv --layer-budget adaptive",
                                       "ada-snapkv --statistic rms --rows-at after --rows sample:24",
                                       "ada-snapkv --compete-by losses --select topk+keys --row-share 0.3",
                                       "nacl",
                                       "ahakv",
                                       "knorm",
                                       "keydiff",
                                       "lagkv --lag 8",
                                       "leverage",
                                       "defensive",
                                       "layer-defensive",
                                       "expected-attention",
                                       "random",
                                       "longhaul"};

/* Of a policy with parts: letters that file names do not have become '_'. */
static void as_file_name(char *path)
{
    for (char *c = path; (c = strpbrk(c, " :+"));) *c = '_';
}

START_TEST(test_a_replay_keeps_what_a_run_keeps)
{
    program_result r = {0};
    lh_buf list = {0}, replayed = {0}, kept = {0};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        ck_assert_int_eq(lh_buf_printf(&list, "%s%s", p ? "," : "", policies[p]), LH_OK);
    program_run(&r, 2, TRACE "--trace-level full -o whole.h5");
    program_exits(&r, 0);
    for (int ranks = 1; ranks <= 4; ranks += 3) {
        program_run(&r, ranks, "replay whole.h5 --policy '%s' --budget 40,25%% --keep-sets sets%d -q -o a%d.h5",
                    list.data, ranks, ranks);
        program_exits(&r, 0);
    }
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        for (int b = 0; b < 2; b++) {
            const char *budget = b ? "25%" : "40";
            char path[128];
            program_run(&r, 1,
                        "generate -m tiny.h5 --chat=off -f text -n 1 --deterministic -q --policy %s --budget %s "
                        "--keep-sets live.h5",
                        policies[p], budget);
            program_exits(&r, 0);
            read_kept(&kept, "live.h5");
            for (int ranks = 1; ranks <= 4; ranks += 3) {
                snprintf(path, sizeof path, "sets%d/whole.%s-%s.h5", ranks, policies[p], budget);
                as_file_name(path);
                read_kept(&replayed, path);
                ck_assert_msg(replayed.bytes == kept.bytes && memcmp(replayed.data, kept.data, (size_t)kept.bytes) == 0,
                              "%s keeps other entries than the run", path);
            }
        }
    lh_buf_clear(&list);
    lh_buf_clear(&replayed);
    lh_buf_clear(&kept);
    program_clear(&r);
}
END_TEST

/* Without all rows: those that are spread over the prompt, layer by layer and where layers compete. */
START_TEST(test_rows_that_are_spread_over_the_prompt_are_enough)
{
    static const char *const spread[] = {"snapkv --statistic rms --rows-at after --rows sample:32",
                                         "ada-snapkv --statistic rms --rows-at after --rows sample:32 --layer-budget "
                                         "adaptive",
                                         "ada-snapkv --compete-by losses --select topk+keys --row-share 0.3",
                                         "ada-snapkv --compete-by losses --layer-budget adaptive"};
    enum { SPREAD = sizeof spread / sizeof *spread };
    program_result r = {0};
    lh_buf kept = {0}, replayed = {0};
    program_run(&r, 2, TRACE "-o some.h5");
    program_exits(&r, 0);
    for (int i = 0; i < SPREAD; i++) {
        char path[160];
        if (i == 2) program_run(&r, 2, TRACE_OF("256") "-o some.h5"); /* as many as references of a short prompt */
        program_exits(&r, 0);
        program_run(&r, 1 + i % 2, "replay some.h5 --policy '%s' --budget 40 --keep-sets spread -q", spread[i]);
        program_exits(&r, 0);
        program_run(
            &r, 1,
            "generate -m tiny.h5 --chat=off -f text -n 1 --deterministic -q --policy %s --budget 40 --keep-sets "
            "live.h5",
            spread[i]);
        program_exits(&r, 0);
        snprintf(path, sizeof path, "spread/some.%s-40.h5", spread[i]);
        as_file_name(path);
        read_kept(&kept, "live.h5");
        read_kept(&replayed, path);
        ck_assert_msg(replayed.bytes == kept.bytes && memcmp(replayed.data, kept.data, (size_t)kept.bytes) == 0,
                      "%s keeps other entries than the run", path);
    }
    lh_buf_clear(&kept);
    lh_buf_clear(&replayed);
    program_clear(&r);
}
END_TEST

/* A run that evicts while decoding, and the replay of its own policy on its own rows: the same entries in the end. */
START_TEST(test_a_replay_evicts_while_decoding_as_the_run)
{
    static const struct {
        const char *policy, *input;
    } runs[] = {{"h2o", "--scenario context-only --question 'Who is it?'"},
                {"tova", ""},
                {"roco", "--scenario context-only --question 'Who is it?'"},
                {"random", ""},
                {"nacl --proxies question", "--scenario question-aware --question 'Who is it?'"}};
    program_result r = {0};
    lh_buf run = {0}, replayed = {0};
    for (int i = 0; i < 5; i++) {
        char path[64], said[96];
        program_run(&r, 2, TRACE "%s --policy %s --budget 60 --kv-dtype f32 -o d.h5 --keep-sets d.keep.h5",
                    runs[i].input, runs[i].policy);
        program_exits(&r, 0);
        program_run(&r, i % 4 + 1, "replay d.h5 --policy '%s' --budget 50,60 --keep-sets decoded", runs[i].policy);
        program_exits(&r, 0);
        snprintf(said, sizeof said, "as in the recorded run: %s at 60", runs[i].policy);
        ck_assert_msg(strstr(r.err.data, said) != NULL, "%s", r.err.data);
        snprintf(path, sizeof path, "decoded/d.%s-60.h5", runs[i].policy);
        for (char *c = path; (c = strpbrk(c, " :+"));) *c = '_';
        same_tokens("d.keep.h5", path);
        for (int part = 0; part < 2; part++) {
            read_part(&run, "d.keep.h5", part ? "final" : "kept");
            read_part(&replayed, path, part ? "final" : "kept");
            ck_assert_msg(run.bytes == replayed.bytes && memcmp(run.data, replayed.data, (size_t)run.bytes) == 0,
                          "%s: other entries than the run's", runs[i].policy);
        }
    }
    program_refuses(2, 2, "'--scenario question-aware'",
                    "replay whole.h5 --policy 'nacl --proxies question' --budget 60");
    lh_buf_clear(&run);
    lh_buf_clear(&replayed);
    program_clear(&r);
}
END_TEST

/* Scores that are positions make the policy of the most recent tokens. */
static void write_scores(const char *path, int layers)
{
    float scores[2 * 400];
    lh_h5 *h5 = NULL;
    for (int i = 0; i < 2 * 400; i++) scores[i] = (float)(i % 400);
    ck_assert_int_eq(lh_h5_create(&h5, path, &(lh_h5_header){"scores", 1, NULL}), LH_OK);
    for (int l = 0; l < layers; l++) {
        char name[64];
        snprintf(name, sizeof name, "/layers/%03d/scores", l);
        ck_assert_int_eq(lh_h5_put(h5, name, &(lh_h5_shape){.type = LH_F32, .rank = 2, .dims = {2, 400}}, scores),
                         LH_OK);
    }
    ck_assert_int_eq(lh_h5_commit(h5), LH_OK);
}

/* A replay judges entries as they were recorded: the rows that a fit refers to need not be in the trace. */
START_TEST(test_a_fit_needs_nothing_of_a_trace)
{
    static const char *const chosen[] = {"--policy keydiff", "--scores late.h5"}; /* with a file, 'random' unnamed */
    program_result r = {0};
    program_run(&r, 1, TRACE "-o own.h5");
    program_exits(&r, 0);
    write_scores("late.h5", LAYERS);
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int i = 0; i < 2; i++) {
            program_run(&r, ranks, "replay own.h5 %s --fit values --rows-at after --rows sample:31 --budget 40",
                        chosen[i]);
            program_exits(&r, 0);
            ck_assert_msg(!strstr(r.err.data, "left out"), "%s", r.err.data);
        }
    program_refuses(1, 2, "'--trace-rows N'", "replay own.h5 --policy 'ask-later --rows sample:31' --budget 40");
    program_clear(&r);
}
END_TEST

START_TEST(test_scores_of_a_file_are_a_policy)
{
    program_result r = {0};
    lh_buf theirs = {0}, ours = {0};
    program_run(&r, 1, TRACE "-o own.h5");
    program_exits(&r, 0);
    write_scores("late.h5", LAYERS);
    write_scores("half.h5", 1);
    for (int ranks = 1; ranks <= 2; ranks++) {
        program_run(&r, ranks, "replay own.h5 --scores late.h5 --policy recency --budget 40,25%% --keep-sets own -q");
        program_exits(&r, 0);
        read_kept(&theirs, "own/own.late-25%.h5");
        read_kept(&ours, "own/own.recency-25%.h5");
        ck_assert(theirs.bytes == ours.bytes && memcmp(theirs.data, ours.data, (size_t)ours.bytes) == 0);
    }
    program_refuses(1, 4, "'half.h5' has no '/layers/001/scores'", "replay own.h5 --scores half.h5 --budget 40");
    lh_buf_clear(&theirs);
    lh_buf_clear(&ours);
    program_clear(&r);
}
END_TEST

/* Layers are shared out among ranks: every value is one rank's. */
START_TEST(test_an_analysis_is_the_same_on_any_number_of_ranks)
{
    program_result r = {0};
    program_run(&r, 2, TRACE TWO_QUESTIONS "-o k2.h5");
    program_exits(&r, 0);
    program_run(&r, 1, "replay k2.h5 --policy snapkv,h2o --budget 10%%,30%% --threads 1 -q -o one.analysis.h5");
    program_exits(&r, 0);
    for (int ranks = 2; ranks <= 4; ranks++) {
        program_run(&r, ranks,
                    "replay k2.h5 --policy snapkv,h2o --budget 10%%,30%% --threads 1 -q -o more.analysis.h5");
        program_exits(&r, 0);
        same_arrays("analysis", "one.analysis.h5", "more.analysis.h5");
    }
    program_clear(&r);
}
END_TEST

/* A column of f32 of the table that has a row for each text; its length must be `n`. */
static float *read_texts(const char *path, const char *name, int64_t n)
{
    lh_h5 *h5 = NULL;
    lh_h5_shape shape;
    void *data = NULL;
    ck_assert_int_eq(lh_h5_open(&h5, path, &(lh_h5_header){.kind = "analysis", .schema = 1}), LH_OK);
    ck_assert_int_eq(lh_h5_get(h5, name, &(lh_h5_shape){.type = LH_F32, .rank = 1, .dims = {-1}}, &shape, &data),
                     LH_OK);
    ck_assert_int_eq(shape.dims[0], n);
    lh_h5_close(h5);
    return data;
}

/* Of two texts together as of each alone: an interval of differences needs the values of each. */
START_TEST(test_texts_have_values_of_their_own)
{
    enum { CELLS = 3 * 2 }; /* snapkv, random, oracle; two budgets */
    program_result r = {0};
    const char *const name = "/replay/texts/perturbation-l2";
    float *alone[2], *both;
    program_run(&r, 2, TRACE "--scenario context-only --question 'Who is it?' -o s0.h5");
    program_exits(&r, 0);
    program_run(&r, 2, TRACE "--scenario context-only --question 'Where?' -o s1.h5");
    program_exits(&r, 0);
    for (int i = 0; i < 2; i++) {
        program_run(&r, 1, "replay s%d.h5 --policy snapkv --budget 10%%,60%% -q -o s%d.a.h5", i, i);
        program_exits(&r, 0);
        alone[i] = read_texts(i ? "s1.a.h5" : "s0.a.h5", name, CELLS);
    }
    for (int ranks = 1; ranks <= 3; ranks++) {
        program_run(&r, ranks, "replay s0.h5 s1.h5 --policy snapkv --budget 10%%,60%% -q -o s.a.h5");
        program_exits(&r, 0);
        both = read_texts("s.a.h5", name, 2 * CELLS);
        for (int i = 0; i < 2 * CELLS; i++)
            ck_assert_msg(fabsf(both[i] - alone[i / CELLS][i % CELLS]) < 1e-6F, "value %d: %g", i, (double)both[i]);
        lh_free(both);
    }
    lh_free(alone[0]);
    lh_free(alone[1]);
    program_clear(&r);
}
END_TEST

START_TEST(test_a_window_that_fills_the_budget_is_warned_of_once_and_marked)
{
    program_result r = {0};
    lh_buf page = {0};
    program_run(&r, 1, TRACE TWO_QUESTIONS "-o w.h5");
    program_exits(&r, 0);
    program_run(&r, 2, "replay w.h5 --policy snapkv,ada-snapkv,h2o --budget 5%%,10%%,90%% -q -o w.a.h5");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: snapkv --budget 5%: window 32 leaves no entry"), 1);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: "), 1);
    program_run(&r, 1, "report w.a.h5 -o w.html");
    program_exits(&r, 0);
    ck_assert_int_eq(lh_file_read(&page, "w.html", 1 << 24), LH_OK);
    ck_assert_ptr_nonnull(strstr(page.data, "Hollow points: window fills the budget"));
    lh_buf_clear(&page);
    program_clear(&r);
}
END_TEST

/* numpy, from the raw trace; and what the reader in Python reads. */
START_TEST(test_figures_are_those_of_an_independent_computation)
{
    program_result r = {0};
    program_run(&r, 1, TRACE TWO_QUESTIONS "-o raw.h5");
    program_exits(&r, 0);
    program_run(&r, 1,
                "replay raw.h5 --policy snapkv,ada-snapkv,streaming,recency --budget 10%%,30%% -q -o raw.a.h5 "
                "--keep-sets raws && "
                "{ command -v python3 > /dev/null || exit 0; for check in 'check_analysis.py raw.h5 raw.a.h5 raws' "
                "'check_reader.py tiny.h5 raw.h5 raw.a.h5 raws/raw.ada-snapkv-10%%.h5'; do python3 " SOURCE_DIR
                "/tests/replay/$check; code=$?; [ $code = 0 ] || [ $code = 77 ] || exit $code; done; }");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

START_TEST(test_what_was_not_recorded_is_refused)
{
    program_result r = {0};
    program_run(&r, 1, TRACE "-o keys.h5");
    program_exits(&r, 0);
    program_run(&r, 1, TRACE "--trace-level stats -o stats.h5");
    program_exits(&r, 0);
    program_refuses(1, 2, "policy 'expected-attention' cannot be replayed on 'keys.h5' (level keys)",
                    "replay keys.h5 --policy expected-attention --budget 40");
    program_refuses(2, 2, "'--trace-level keys' or 'full'", "replay stats.h5 --policy streaming --budget 40");
    program_run(&r, 1,
                "replay keys.h5 --policy 'snapkv --statistic rms --rows-at after --rows sample:32' --budget 40 -q");
    program_exits(&r, 0);
    program_refuses(1, 2, "'--trace-rows N' those of '--rows sample:N'",
                    "replay keys.h5 --policy 'snapkv --rows sample:31' --budget 40");
    program_run(&r, 1, "trace -m tiny.h5 --chat=off -f text -n 1 --trace-rows 60 --trace-window 48 -q -o few.h5");
    program_exits(&r, 0);
    program_refuses(1, 2, "it observes rows spread over the prompt that were not recorded",
                    "replay few.h5 --policy 'ada-snapkv --compete-by losses' --budget 40");
    program_run(&r, 1, "replay keys.h5 --policy 'keydiff --fit both --rows sample:32' --budget 40 -q");
    program_exits(&r, 0);
    program_refuses(1, 2, "policy 'snapkv --evict block:8' cannot be replayed",
                    "replay keys.h5 --policy 'snapkv --evict block:8' --budget 40");
    program_run(&r, 1, TRACE "--trace-layers 0,2 -o some.h5");
    program_exits(&r, 0);
    program_refuses(1, 2, "'--judge prompt'", "replay some.h5 --policy h2o --budget 40 --judge after");
    program_run(&r, 1, "replay some.h5 --policy snapkv --budget 40 --judge after");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.err.data, "does not hold what they need: random"));
    program_refuses(1, 2, "more query rows than were recorded",
                    "replay keys.h5 --policy 'snapkv --window 64 --evict every:1' --budget 100%");
    program_refuses(3, 2, "its layers compete, and the trace does not have all of them",
                    "replay some.h5 --policy ada-snapkv --layer-budget adaptive --budget 40");
    program_refuses(1, 2, "'--positions original'", "replay keys.h5 --policy streaming --positions slot --budget 40");
    program_run(&r, 2, "replay some.h5 --policy h2o,snapkv --budget 40 -q");
    program_exits(&r, 0);
    program_refuses(1, 2, "nothing to replay", "replay --budget 40");
    program_refuses(1, 4, "'tiny.h5' is a checkpoint, not a trace", "replay tiny.h5 --budget 40");
    program_refuses(1, 2, "'--trace-layers 3'", "trace -m tiny.h5 -p a -n 1 --trace-layers 3 -o no.h5");
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_trace_is_the_same_on_any_number_of_ranks,
                                  test_a_compressed_trace_holds_the_same,
                                  test_a_filter_that_is_not_there_is_named_before_the_run,
                                  test_the_size_is_known_beforehand,
                                  test_a_flipped_bit_is_found,
                                  test_a_trace_is_drawn,
                                  test_steps_have_the_logits_of_the_run,
                                  test_recording_changes_nothing,
                                  test_an_output_that_cannot_be_is_refused_before_the_run,
                                  test_a_killed_run_leaves_what_it_had,
                                  test_a_layer_of_a_killed_run_is_whole_or_not_there,
                                  test_a_replay_keeps_what_a_run_keeps,
                                  test_rows_that_are_spread_over_the_prompt_are_enough,
                                  test_a_replay_evicts_while_decoding_as_the_run,
                                  test_a_fit_needs_nothing_of_a_trace,
                                  test_scores_of_a_file_are_a_policy,
                                  test_an_analysis_is_the_same_on_any_number_of_ranks,
                                  test_texts_have_values_of_their_own,
                                  test_a_window_that_fills_the_budget_is_warned_of_once_and_marked,
                                  test_figures_are_those_of_an_independent_computation,
                                  test_what_was_not_recorded_is_refused,
                                  NULL};
    return tiny_suite_run("cli trace", tests);
}
