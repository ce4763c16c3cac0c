/* The cache by its memory: budgets in bytes, which every command resolves for its model; and caches of 8 bits, which
 * change nothing of a prompt. On any number of ranks. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "cli/same_files.h"
#include "cli/tiny_suite.h"
#include "kernels/q8.h"

#define RUN "-m tiny.h5 --chat=off -f text -n 8 --ignore-eos --deterministic -q "

/* 3 layers, 2 KV heads of 8 numbers as q8: 144 bytes an entry in every head. */
#define BYTES "--budget 4.3K " /* 4,403 bytes */
#define ENTRIES "--budget 30 "

START_TEST(test_a_budget_in_bytes_is_the_same_run_on_any_number_of_ranks)
{
    static const char *const names[] = {"", "--policy ada-snapkv --window 8", "--policy h2o", "--policy tova"};
    program_result r = {0}, later = {0};
    for (size_t p = 0; p < sizeof names / sizeof *names; p++) {
        program_run(&r, 1, "generate " RUN "%s " ENTRIES "--save-cache entries.h5", names[p]);
        program_exits(&r, 0);
        program_run(&later, 1 + (int)p, "generate " RUN "%s " BYTES "--save-cache bytes.h5", names[p]);
        program_exits(&later, 0);
        ck_assert_str_eq(r.out.data, later.out.data);
        same_files("cache", "entries.h5", "bytes.h5");
    }
    program_clear(&r);
    program_clear(&later);
}
END_TEST

/* Command lines whose results are the same with bytes and with entries. */
START_TEST(test_every_command_takes_a_budget_in_bytes)
{
    static const char *const commands[] = {
        "plan -m tiny.h5 --context 300 -q %s | grep -v -e free -e tokens/s",
        "trace " RUN "--trace-level full %s -o t.h5 && " LONGHAUL " info t.h5 | grep '^  budget'",
        "replay whole.h5 --policy snapkv,h2o -q %s",
        "eval ppl -m tiny.h5 --text text --context 200 --score 20 --policy snapkv,h2o -q %s | grep -v ' s'",
        "batch -m tiny.h5 -i in.jsonl -q --deterministic %s -o out.jsonl && cat out.jsonl && rm out.jsonl*",
        "batch -m tiny.h5 -i in.jsonl --check -q %s | grep -v -e time -e memory"};
    program_result a = {0}, b = {0};
    program_file("in.jsonl",
                 "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": {\"prompt\": "
                 "\"once upon a time there was a cache of forty words or more\", \"max_tokens\": 4}}\n");
    program_run(&a, 1, "trace " RUN "--policy full --trace-level full -o whole.h5");
    program_exits(&a, 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char line[400];
        snprintf(line, sizeof line, commands[i], ENTRIES);
        program_run(&a, 1, "%s", line);
        program_exits(&a, 0);
        snprintf(line, sizeof line, commands[i], BYTES);
        program_run(&b, 1, "%s", line);
        program_exits(&b, 0);
        ck_assert_str_eq(a.out.data, b.out.data);
    }
    program_clear(&a);
    program_clear(&b);
}
END_TEST

/* Weights of few bits: their plain numbers of a layer, the rounded rows of products, and entries of either type. */
START_TEST(test_a_plan_has_the_memory_of_few_bits)
{
    static const char run[] = "-m random:llama-3.1-8b-narrow --weights q4_K_M --kv-dtype %s --tp %d -n 4 --json -q";
    program_result planned = {0}, ran = {0};
    char options[128], ids[2000] = "";
    for (int i = 0; i < 300; i++) snprintf(ids + strlen(ids), 8, "%d ", 5 + i);
    program_file("prompt.ids", ids);
    for (int ranks = 1; ranks <= 4; ranks++) {
        snprintf(options, sizeof options, run, ranks % 2 ? "bf16" : "q8", ranks);
        program_run(&planned, 1, "plan --context 300 %s", options);
        program_exits(&planned, 0);
        program_run(&ran, ranks, "generate --chat off --prompt-tokens prompt.ids --ignore-eos %s", options);
        program_exits(&ran, 0);
        json_t *plan = json_loads(planned.out.data, 0, NULL), *result = json_loads(ran.out.data, 0, NULL);
        const json_t *peaks = json_object_get(json_object_get(result, "kv"), "peak_bytes");
        for (int r = 0; r < ranks; r++) {
            const json_t *rank = json_array_get(json_object_get(plan, "ranks"), (size_t)r);
            const double peak = json_number_value(json_object_get(rank, "peak_bytes")),
                         unpacked = json_number_value(json_object_get(rank, "unpacked_bytes"));
            ck_assert_double_eq_tol(json_number_value(json_array_get(peaks, (size_t)r)), peak, 0.01 * peak);
            ck_assert_double_ge(unpacked, 2.0 * 3 * 512 * 1792 / ranks); /* gate, up and down as bf16 */
        }
        json_decref(plan);
        json_decref(result);
    }
    program_clear(&planned);
    program_clear(&ran);
}
END_TEST

/* The type of the cache that the model goes on with; and a size that is as many entries as another budget of the list,
 * which is then compared once. */
START_TEST(test_a_replay_counts_the_bytes_of_its_own_cache)
{
    static const char *const replays[][2] = {{"--kv-dtype q8 -m tiny.h5 --policy snapkv --budget 8K",
                                              "--kv-dtype q8 -m tiny.h5 --policy snapkv --budget %d"},
                                             {"--policy snapkv --budget 30,4.25K,4.3K", "--policy snapkv --budget 30"}};
    program_result r = {0}, other = {0};
    program_run(&r, 1, "trace " RUN "--policy full --trace-level full -o whole.h5");
    program_exits(&r, 0);
    program_run(&r, 1, "plan -m tiny.h5 -c 300 --kv-dtype q8 --budget 8K --memory 1G -q --json");
    program_exits(&r, 0);
    json_t *plan = json_loads(r.out.data, 0, NULL);
    for (size_t i = 0; i < sizeof replays / sizeof *replays; i++) {
        char line[200];
        snprintf(line, sizeof line, replays[i][1], (int)json_integer_value(json_object_get(plan, "budget")));
        program_run(&r, 1, "replay whole.h5 %s -q", replays[i][0]);
        program_exits(&r, 0);
        program_run(&other, 1, "replay whole.h5 %s -q", line);
        program_exits(&other, 0);
        ck_assert_str_eq(r.out.data, other.out.data);
    }
    json_decref(plan);
    program_clear(&r);
    program_clear(&other);
}
END_TEST

START_TEST(test_bytes_that_hold_nothing_are_refused)
{
    for (int ranks = 1; ranks <= 2; ranks++)
        program_refuses(ranks, 2, "'--budget 100B' is less than one entry", "generate -m tiny.h5 -p Hi --budget 100B");
    program_refuses(1, 2, "or a size of the cache, such as 512M", "generate -m tiny.h5 -p Hi --budget 5X");
}
END_TEST

/* ---- 8 bits ---- */

/* Fitted, of competing layers; with statistics that go on, in blocks; of a window that is observed again; by slots;
 * with norms of values while decoding; and everything. */
static const char *const policies[] = {"--policy ask-later --budget 40",
                                       "--policy h2o --evict block:16,every:2 --budget 40",
                                       "--policy ada-snapkv --window 8 --evict every:3 --budget 40",
                                       "--policy streaming --positions slot --budget 40",
                                       "--policy ahakv --budget 40",
                                       ""};
enum { POLICIES = sizeof policies / sizeof *policies };

START_TEST(test_a_prompt_does_not_depend_on_the_type_that_its_entries_get)
{
    program_result r = {0}, later = {0};
    for (int p = 0; p < POLICIES; p++) {
        static const char *const types[] = {"f32", "q8"};
        for (int t = 0; t < 2; t++) {
            program_run(&r, 1 + t, "trace " RUN "%s --max-new 1 --kv-dtype %s --trace-level full -o %s.trace.h5",
                        policies[p], types[t], types[t]);
            program_exits(&r, 0);
        }
        same_files("trace", "f32.trace.h5", "q8.trace.h5");
        if (!*policies[p]) continue;
        for (int t = 0; t < 2; t++) {
            program_run(&later, 1, "generate " RUN "%s --kv-dtype %s --keep-sets %s.keep.h5", policies[p], types[t],
                        types[t]);
            program_exits(&later, 0);
        }
        lh_h5 *one = same_files_open("keep-sets", "f32.keep.h5"), *other = same_files_open("keep-sets", "q8.keep.h5");
        static const char *const arrays[] = {"offsets", "positions", "budgets"};
        for (int l = 0; l < 3; l++)
            for (int a = 0; a < 3; a++) {
                char name[64];
                snprintf(name, sizeof name, "/layers/%03d/kept/%s", l, arrays[a]);
                same_array(one, other, name);
            }
        lh_h5_close(one);
        lh_h5_close(other);
    }
    program_clear(&r);
    program_clear(&later);
}
END_TEST

START_TEST(test_a_cache_of_8_bits_is_the_same_on_any_number_of_ranks_and_goes_on_elsewhere)
{
    program_result r = {0}, later = {0};
    for (int p = 0; p < POLICIES; p++) {
        program_run(&r, 1, "generate " RUN "%s --kv-dtype q8 --save-cache one.h5", policies[p]);
        program_exits(&r, 0);
        program_run(&later, 2 + p % 3, "generate " RUN "%s --kv-dtype q8 --save-cache more.h5", policies[p]);
        program_exits(&later, 0);
        ck_assert_str_eq(r.out.data, later.out.data);
        same_files("cache", "one.h5", "more.h5");
        program_run(&later, 1 + p % 4,
                    "generate -m tiny.h5 --kv-dtype q8 --load-cache one.h5 -n 8 --ignore-eos --deterministic -q");
        program_exits(&later, 0);
        ck_assert_str_eq(r.out.data, later.out.data);
    }
    program_clear(&r);
    program_clear(&later);
}
END_TEST

/* An array of a layer: of this type, with `width` numbers an entry. */
static void *array_of(lh_h5 *h5, int layer, const char *name, lh_dtype type, int64_t width, int64_t *entries)
{
    char path[64];
    void *numbers = NULL;
    lh_h5_shape shape;
    snprintf(path, sizeof path, "/layers/%03d/%s", layer, name);
    const lh_h5_shape want = {.type = type, .rank = width ? 2 : 1, .dims = {-1, width}};
    ck_assert_msg(lh_h5_get(h5, path, &want, &shape, &numbers) == LH_OK, "%s", lh_error_message());
    *entries = shape.dims[0];
    return numbers;
}

START_TEST(test_codes_are_the_saved_numbers_to_half_a_scale)
{
    enum { DIM = 8 };
    program_result r = {0}, direct = {0};
    program_run(&r, 1, "generate " RUN "--policy ask-later --budget 40 --kv-dtype f32 --save-cache f32.h5");
    program_exits(&r, 0);
    program_run(&direct, 1, "generate " RUN "--policy ask-later --budget 40 --kv-dtype q8 --save-cache q8.h5");
    program_exits(&direct, 0);
    lh_h5 *wide = same_files_open("cache", "f32.h5"), *quantised = same_files_open("cache", "q8.h5");
    for (int l = 0; l < 3; l++) {
        static const char *const names[][2] = {{"k", "k_scale"}, {"v", "v_scale"}};
        for (int a = 0; a < 2; a++) {
            int64_t n, m;
            float *x = array_of(wide, l, names[a][0], LH_F32, DIM, &n);
            int8_t *codes = array_of(quantised, l, names[a][0], LH_Q8, DIM, &m);
            ck_assert_int_eq(n, m);
            float *scales = array_of(quantised, l, names[a][1], LH_F32, 0, &m);
            ck_assert_int_eq(n, m);
            for (int64_t i = 0; i < n && a == 0; i++) lh_q8_hadamard(x + i * DIM, DIM);
            for (int64_t i = 0; i < n * DIM; i++)
                ck_assert(fabs((double)x[i] - (double)scales[i / DIM] * codes[i]) <=
                          0.5 * (double)scales[i / DIM] * (1 + 1e-5)); /* x / scale is rounded */
            lh_free(x);
            lh_free(codes);
            lh_free(scales);
        }
    }
    lh_h5_close(wide);
    lh_h5_close(quantised);
    /* quantised when it is loaded, it is the same cache; the other way there is none */
    program_run(&r, 3, "generate -m tiny.h5 --kv-dtype q8 --load-cache f32.h5 -n 8 --ignore-eos --deterministic -q");
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, direct.out.data);
    program_refuses(2, 4, "is q8, this run wants f32 ('--kv-dtype')",
                    "generate -m tiny.h5 --kv-dtype f32 --load-cache q8.h5 -n 2");
    program_run(&r, 1, "verify q8.h5 -q");
    program_exits(&r, 0);
    program_clear(&r);
    program_clear(&direct);
}
END_TEST

/* Forks of a full cache share its blocks of 256 entries; evicting ones are copies. */
START_TEST(test_forks_of_a_cache_of_8_bits_answer_as_if_alone)
{
    static const char *const questions[] = {"Who was it?", "What is the answer to that?"};
    program_result both = {0}, alone = {0};
    lh_buf text = {0};
    for (int p = 0; p < POLICIES; p++) {
        lh_buf_clear(&text);
        for (int q = 0; q < 2; q++) {
            program_run(&alone, 1, "generate " RUN "%s --kv-dtype q8 --question '%s'", policies[p], questions[q]);
            program_exits(&alone, 0);
            ck_assert_int_eq(lh_buf_printf(&text, "%s> %s\n%s", q ? "\n" : "", questions[q], alone.out.data), LH_OK);
        }
        program_run(&both, 2, "generate " RUN "%s --kv-dtype q8 --question '%s' --question '%s'", policies[p],
                    questions[0], questions[1]);
        program_exits(&both, 0);
        ck_assert_str_eq(both.out.data, text.data);
    }
    program_run(&both, 1, "trace " RUN "--kv-dtype q8 --question '%s' --question '%s' -o forks.trace.h5", questions[0],
                questions[1]);
    program_exits(&both, 0);
    lh_buf_clear(&text);
    program_clear(&both);
    program_clear(&alone);
}
END_TEST

START_TEST(test_a_budget_in_bytes_holds_twice_the_entries_in_8_bits)
{
    static const char *const budgets[][2] = {
        {"--kv-dtype bf16", "\"budget\":4096,"},
        {"--device cuda --kv-dtype q8", "\"budget\":7943,"}, /* 264 bytes for 512 */
        {"", "\"budget\":7943,"}};
    program_result r = {0};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        program_run(&r, 1, "plan -m random:llama-3.1-8b --context 100k --budget 512M --memory 80G -q --json %s",
                    budgets[i][0]);
        program_exits(&r, 0);
        ck_assert_ptr_nonnull(strstr(r.out.data, budgets[i][1]));
    }
    program_clear(&r);
}
END_TEST

static int64_t sum_of(const json_t *run, const char *member)
{
    size_t r;
    const json_t *rank;
    int64_t sum = 0;
    json_array_foreach(json_object_get(json_object_get(run, "kv"), member), r, rank) sum += json_integer_value(rank);
    return sum;
}

/* By default a cache that evicts is of q8, and one that keeps all entries has the type of the weights: the same bits as
 * if the type was given. */
START_TEST(test_a_cache_that_evicts_is_of_8_bits)
{
    program_result r = {0}, given = {0};
    for (int p = 0; p < POLICIES; p++) {
        const char *type = *policies[p] ? "q8" : "f32";
        program_run(&r, 1 + p % 4, "generate " RUN "%s --json --save-cache auto.h5", policies[p]);
        program_exits(&r, 0);
        program_run(&given, 1, "generate " RUN "%s --json --save-cache given.h5 --kv-dtype %s", policies[p], type);
        program_exits(&given, 0);
        same_files("cache", "auto.h5", "given.h5");
        json_t *run = json_loads(r.out.data, 0, NULL), *same = json_loads(given.out.data, 0, NULL);
        ck_assert_str_eq(json_string_value(json_object_get(run, "kv_dtype")), type);
        ck_assert(json_equal(json_object_get(run, "token_ids"), json_object_get(same, "token_ids")));
        ck_assert_int_eq(sum_of(run, "bytes"), sum_of(run, "entries") * 64);
        ck_assert_int_eq(sum_of(run, "bytes_kept"), sum_of(run, "entries_kept") * (*policies[p] ? 24 : 64));
        json_decref(run);
        json_decref(same);
    }
    /* a file of f32 becomes q8 where its policy evicts */
    program_run(&r, 1, "generate " RUN "--policy ask-later --budget 40 --kv-dtype f32 --save-cache f32.h5");
    program_exits(&r, 0);
    program_run(&r, 3, "generate -m tiny.h5 --load-cache f32.h5 -n 8 --ignore-eos --deterministic -q");
    program_exits(&r, 0);
    program_run(&given, 1, "generate " RUN "--policy ask-later --budget 40 --kv-dtype q8");
    program_exits(&given, 0);
    ck_assert_str_eq(r.out.data, given.out.data);
    program_clear(&r);
    program_clear(&given);
}
END_TEST

/* Caches of one prefill: the full cache is not quantised, and the other one is. */
START_TEST(test_an_evaluation_compares_caches_of_different_types)
{
    static const char run[] = "eval fidelity -m tiny.h5 --text text --length 120 --count 1 -n 4 -q --json --policy "
                              "full,ada-snapkv --window 8 --budget 30 --kv-dtype %s";
    static const struct {
        const char *given, *full, *evicted;
        int bytes[2]; /* of an entry */
    } cases[] = {{"auto", "f32", "q8", {64, 24}}, {"q8", "q8", "q8", {24, 24}}, {"f32", "f32", "f32", {64, 64}}};
    program_result r = {0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t i;
        json_t *row;
        program_run(&r, 1 + (int)c, run, cases[c].given);
        program_exits(&r, 0);
        json_t *result = json_loads(r.out.data, 0, NULL);
        ck_assert_str_eq(json_string_value(json_object_get(result, "kv_dtype")), cases[c].full);
        ck_assert_str_eq(json_string_value(json_object_get(result, "evicted_kv_dtype")), cases[c].evicted);
        json_array_foreach(json_object_get(result, "means"), i, row)
        {
            const int evicts = strcmp(json_string_value(json_object_get(row, "policy")), "full") != 0;
            ck_assert_int_eq(json_integer_value(json_object_get(row, "kv_bytes")),
                             json_integer_value(json_object_get(row, "entries_kept")) * cases[c].bytes[evicts]);
        }
        json_decref(result);
    }
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_budget_in_bytes_is_the_same_run_on_any_number_of_ranks,
                                  test_every_command_takes_a_budget_in_bytes,
                                  test_a_plan_has_the_memory_of_few_bits,
                                  test_a_replay_counts_the_bytes_of_its_own_cache,
                                  test_bytes_that_hold_nothing_are_refused,
                                  test_a_prompt_does_not_depend_on_the_type_that_its_entries_get,
                                  test_a_cache_of_8_bits_is_the_same_on_any_number_of_ranks_and_goes_on_elsewhere,
                                  test_codes_are_the_saved_numbers_to_half_a_scale,
                                  test_forks_of_a_cache_of_8_bits_answer_as_if_alone,
                                  test_a_budget_in_bytes_holds_twice_the_entries_in_8_bits,
                                  test_a_cache_that_evicts_is_of_8_bits,
                                  test_an_evaluation_compares_caches_of_different_types,
                                  NULL};
    return tiny_suite_run("cli memory", tests);
}
