#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/h5.h"
#include "base/output.h"
#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

START_TEST(test_bad_inputs_have_one_message_and_their_code)
{
    static const struct {
        int code;
        const char *part, *line;
    } cases[] = {
        {3, "'no-such'", "import no-such -o x.h5"},
        {3, "'empty'", "import empty -o x.h5"},
        {3, "nothing", "import nothing -o x.h5"},
        {3, "noise", "import noise -o x.h5"},
        {3, "it is HDF5 already", "import tiny.h5 -o x.h5"},
        {3, "give the folder that holds it", "import tiny/config.json -o x.h5"},
        {6, "no/such/x.h5", "import tiny -o no/such/x.h5"},
        {4, "'tiny' is a folder, not an HDF5 file: 'longhaul import tiny -o m.h5'", "generate -m tiny -p a"},
        {4, "'letters' is not an HDF5 file: 'longhaul import letters -o m.h5'", "generate -m letters -p a"},
        {3, "'owner/name' does not exist; a model of the Hugging Face hub is fetched first: 'hf download owner/name ",
         "import owner/name -o x.h5"},
        {3, "'./no such' does not exist", "import './no such' -o x.h5"},
        {4, "'tiny' is a folder", "info tiny"},
        {3, "'.' has no 'tokenizer.json' or 'tokenizer.model'", "tokenize -m . -p a"},
        {5, "are free: use more ranks or --dtype bf16", "generate -m tiny.h5 -p a --memory 10K"},
        {4, "no-such.h5", "generate -m no-such.h5 -p a"},
        {4, "empty", "generate -m empty -p a"},
        {4, "noise", "generate -m noise -p a"},
        {4, "torn.h5", "generate -m torn.h5 -p a"},
        {4, "torn.h5", "plan -m torn.h5 --context 100"},
        {4, "torn.h5", "verify torn.h5"},
        {4, "torn.h5", "info torn.h5"},
        {3, "'no-such'", "generate -m tiny.h5 -f no-such"},
        {3, "'empty'", "generate -m tiny.h5 -f empty"},
        {2, "the prompt is empty", "generate -m tiny.h5 -p ''"},
        {2, "a question needs a text before it", "generate -m tiny.h5 --chat=off --question a < /dev/null"},
        {3, "standard input", "generate -m tiny.h5 < empty"},
        {3, "'zero' holds a zero byte", "generate -m tiny.h5 -p a --question-file zero"},
        {3, "'letters'", "generate -m tiny.h5 --prompt-tokens letters"},
        {3, "'high': token id 258 is not in the vocabulary", "generate -m tiny.h5 --prompt-tokens high"},
        {2, "longer than the 4096 positions", "generate -m tiny.h5 -p a -n 5000"},
        {2, "longer than the 4096 positions", "plan -m tiny.h5 --context 5000"},
        {2, "no tokenizer", "generate -m bare.h5 -p a"},
        {2, "no-such-template", "generate -m tiny.h5 -p a --chat-template no-such-template"},
        {2, "--device cpu always works", "generate -m tiny.h5 -p a --device cuda"},
        {2, "'--tp 3' asks for 3 ranks and this run has ", "generate -m tiny.h5 -p a --tp 3"},
        {6, "no/such/k.h5", "generate -m tiny.h5 -p abc --keep-sets no/such/k.h5"},
        {6, "no/such/l.h5", "generate -m tiny.h5 -p abc --logits no/such/l.h5"},
        {3, "'pipe'", "import pipe -o x.h5"},
        {3, "'pipe' is a pipe", "tokenize -m pipe -p a"},
        {4, "'pipe'", "plan -m pipe --context 100"},
        {3, "'pipe.json' is a pipe", "plan -m pipe.json --context 100"},
        {3, "'pipe' is a pipe", "generate -m tiny.h5 -p a --budget 4 --layer-budget pipe"},
        {3, "'pipes/model.safetensors' is a pipe", "import pipes -o x.h5"},
        {3, "'pipes/tokenizer.json' is a pipe", "tokenize -m pipes -p a"},
        {3, "'pipes/more/config.json' is a pipe", "plan -m pipes/more --context 100"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_refuses(1, cases[i].code, cases[i].part, cases[i].line);
        if (i % 3 == 0)
            program_refuses(2, cases[i].code, cases[i].part, cases[i].line); /* starting ranks takes its time */
    }
}
END_TEST

/* A cache of 1.5 MB on a file system of 1.2: said before the prompt is read, of which it would say the speed. */
START_TEST(test_a_cache_without_room_is_said_before_the_work)
{
    program_result r = {0};
    program_run(&r, 1, "--version > v && mkdir -p full && unshare -rm mount -t tmpfs -o size=1200k tmpfs full");
    if (r.code == 0) {
        program_run(&r, 1,
                    "--version > v && yes abc | head -c 4000 > long && unshare -rm sh -c 'mount -t tmpfs -o size=1200k "
                    "tmpfs full && " LONGHAUL
                    " generate -m tiny.h5 -f long -n 2 --ignore-eos --save-cache full/c.h5 > said; code=$?; "
                    "ls full > left; exit $code'; code=$?; cat said left; exit $code");
        program_exits(&r, 6);
        program_says(&r, "no room for 'full/c.h5': it needs 2.5 MiB");
        ck_assert_str_eq(r.out.data, "");
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_more_ranks_than_query_heads_is_usage)
{
    program_refuses(5, 2, "ranks", "generate -m tiny.h5 -p a");
}
END_TEST

START_TEST(test_a_flipped_bit_is_found_by_verify)
{
    program_result r = {0};
    program_run(&r, 1, "verify tiny.h5");
    program_exits(&r, 0);
    /* A byte near the end of the file lies in the last weights. */
    program_run(&r, 1,
                "--version && cp tiny.h5 flipped.h5 && size=$(stat -c %%s flipped.h5) && "
                "printf '\\377' | dd of=flipped.h5 bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null");
    program_exits(&r, 0);
    program_run(&r, 1, "verify flipped.h5");
    program_exits(&r, 4);
    program_says(&r, "flipped.h5");
    program_clear(&r);
}
END_TEST

/* Copy a file with every `from` in it overwritten by `to`, which is as long. */
static void copy_with(const char *source, const char *name, const char *from, const char *to)
{
    lh_buf bytes = {0};
    size_t n = strlen(from);
    int found = 0;
    ck_assert_int_eq(lh_file_read(&bytes, source, 1 << 30), LH_OK);
    for (char *at = bytes.data; (at = memmem(at, (size_t)(bytes.data + bytes.bytes - at), from, n)); at += n) {
        memcpy(at, to, n);
        found++;
    }
    ck_assert_msg(found, "'%s' has no %s", source, from);
    ck_assert_int_eq(lh_file_write(name, bytes.data, bytes.bytes), LH_OK);
    lh_buf_clear(&bytes);
}

START_TEST(test_a_damaged_tokenizer_is_a_damaged_checkpoint)
{
    static const struct {
        const char *line, *says;
    } rows[] = {
        {"generate -m meta.h5 -p a", "'/tokenizer/meta' of 'meta.h5' is damaged"},
        {"tokenize -m meta.h5 -p a", "'/tokenizer/meta' of 'meta.h5' is damaged"},
        {"info meta.h5", "'/tokenizer/meta' of 'meta.h5' is damaged"},
        {"generate -m json.h5 -p a", "'/tokenizer/json' of 'json.h5' is damaged"},
        {"tokenize -m json.h5 -p a", "'/tokenizer/json' of 'json.h5' is damaged"},
        {"info json.h5", "'/tokenizer/json' of 'json.h5' is damaged"},
    };
    copy_with("tiny.h5", "meta.h5", "\"add_bos\"", "}add_bos\"");
    copy_with("tiny.h5", "json.h5", "\"pre_tokenizer\"", "}pre_tokenizer\"");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) program_refuses(1, 4, rows[i].says, rows[i].line);
}
END_TEST

START_TEST(test_names_that_are_not_utf8_are_replaced)
{
    static const char *const commands[] = {"info", "verify"};
    program_result r = {0};
    program_run(&r, 1, "--version && cp tiny.h5 \"$(printf 'caf\\351.h5')\"");
    program_exits(&r, 0);
    for (size_t i = 0; i < 2; i++) {
        program_run(&r, 1, "%s \"$(printf 'caf\\351.h5')\" --json", commands[i]);
        program_exits(&r, 0);
        json_t *o = json_loads(r.out.data, 0, NULL);
        ck_assert_ptr_nonnull(o);
        ck_assert_str_eq(json_string_value(json_object_get(o, "file")), "caf\xEF\xBF\xBD.h5");
        json_decref(o);
    }
    program_clear(&r);
}
END_TEST

/* Fails if `text` holds a control character other than the end of a line. */
static void is_plain(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        ck_assert_msg((*c >= 0x20 || *c == '\n') && *c != 0x7F && !(c[0] == 0xC2 && c[1] < 0xA0), "%s", text);
}

START_TEST(test_a_file_does_not_control_the_terminal)
{
    static const char *const lines[] = {"info *evil.h5", "info *evil.h5 --json", "verify *evil.h5",
                                        "verify *evil.h5 --json", "generate -m *evil.h5 -p a"};
    static const char evil[] = "\x1b]0;x\x07\xC2\x9b"
                               "2J\x7f";
    program_result r = {0};
    lh_h5 *h5 = NULL;
    const int32_t value = 1;
    const lh_h5_shape one = {.type = LH_I32, .rank = 1, .dims = {1}};
    lh_buf name = {0};
    ck_assert_int_eq(lh_buf_printf(&name, "%sevil.h5", evil), LH_OK);
    ck_assert_int_eq(lh_h5_create(&h5, name.data, &(lh_h5_header){.kind = evil, .schema = 1, .run = evil}), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, evil, &one, &value), LH_OK);
    ck_assert_int_eq(lh_h5_put_string(h5, "/", evil, evil), LH_OK);
    ck_assert_msg(lh_h5_commit(h5) == LH_OK, "%s", lh_error_message());
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        program_run(&r, 1, "%s", lines[i]);
        program_exits(&r, *lines[i] == 'i' ? 0 : 4);
        is_plain(r.out.data ? r.out.data : "");
        is_plain(r.err.data ? r.err.data : "");
    }
    lh_buf_clear(&name);
    program_clear(&r);
}
END_TEST

START_TEST(test_files_written_by_a_run_are_described)
{
    program_result r = {0};
    program_run(&r, 2,
                "generate -m tiny.h5 --chat=off -f prompt -n 4 --ignore-eos --policy longhaul --budget 16 --window 4 "
                "--keep-sets k.h5 "
                "--logits l.h5 "
                "--save-cache c.h5 --logits-last 3 -q");
    program_exits(&r, 0);
    static const struct {
        const char *file, *kind;
    } files[] = {{"tiny.h5", "checkpoint"}, {"k.h5", "keep-sets"}, {"l.h5", "analysis"}, {"c.h5", "cache"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        program_run(&r, 1, "info %s", files[i].file);
        program_exits(&r, 0);
        ck_assert_msg(strstr(r.out.data, files[i].kind), "'info %s' does not say %s:\n%s", files[i].file, files[i].kind,
                      r.out.data);
        program_run(&r, 1, "info %s --json", files[i].file);
        program_exits(&r, 0);
        json_t *o = json_loads(r.out.data, 0, NULL);
        ck_assert_ptr_nonnull(o);
        json_decref(o);
        program_run(&r, 1, "verify %s", files[i].file);
        program_exits(&r, 0);
    }
    program_clear(&r);
}
END_TEST

/* As text, of what made the file only what was given, and a line for an array; as JSON everything. */
START_TEST(test_a_description_is_short)
{
    program_result r = {0};
    program_run(
        &r, 1,
        "generate -m tiny.h5 -f prompt -n 1 --policy longhaul --budget 16 --window 4 --save-cache short.h5 -q > shown");
    program_exits(&r, 0);
    program_run(&r, 1, "info short.h5");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "    budget: 16"), 1);
    ck_assert_int_eq(program_lines(r.out.data, "    window: 4"), 1);
    ck_assert_int_eq(program_lines(r.out.data, "    sinks: "), 0);
    ck_assert_int_eq(program_lines(r.out.data, "/layers/002: budget 16; "), 1);
    ck_assert_msg(strstr(r.out.data, "\nsize: ") && strstr(r.out.data, " KiB\n"), "%s", r.out.data);
    ck_assert_ptr_null(strstr(r.out.data, "bytes: "));
    ck_assert_int_eq(program_lines(r.out.data, "  /layers/002/k: shape "), 1);
    program_run(&r, 1, "info short.h5 --json | grep -o '\"bytes\":[0-9]*' && stat -c '\"bytes\":%%s' short.h5");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "\"bytes\":"), 2);
    ck_assert_int_eq(memcmp(r.out.data, strchr(r.out.data, '\n') + 1, strcspn(r.out.data, "\n")), 0);
    program_run(&r, 1, "info short.h5 --json");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "\"sinks\":null"));
    ck_assert_ptr_nonnull(strstr(r.out.data, "\"given\":["));
    program_clear(&r);
}
END_TEST

START_TEST(test_no_more_rows_of_logits_than_there_are_tokens)
{
    program_result r = {0};
    program_run(
        &r, 2,
        "generate -m tiny.h5 --chat=off -p abc -n 2 --ignore-eos --logits rows.h5 --logits-last 1000000000 -q > shown");
    program_exits(&r, 0);
    program_run(&r, 1, "info rows.h5 --json");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.out.data, "\"shape\":[4,258]"), "not 3 rows of the prompt and 1 of the answer:\n%s",
                  r.out.data);
    /* One file by two names. */
    program_refuses(1, 2, "'--logits' and '--model' are both", "generate -m tiny.h5 -p a --logits ./tiny.h5");
    program_clear(&r);
}
END_TEST

START_TEST(test_a_plan_tells_every_rank)
{
    program_result r = {0};
    program_run(&r, 1, "plan -m tiny.h5 --context 2000 --tp 3 --budget 10%% --json");
    program_exits(&r, 0);
    json_t *o = json_loads(r.out.data, 0, NULL);
    ck_assert_uint_eq(json_array_size(json_object_get(o, "ranks")), 3);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "budget")), 200);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "entries_kept")), 3 * 2 * 200);
    json_decref(o);
    program_run(&r, 1, "info tiny.h5");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "tokenizer: "), 1); /* its size */
    program_run(&r, 1, "plan -m tiny.h5 --context 2000");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "fits on this machine: yes"), 1);
    ck_assert_int_eq(program_lines(r.out.data, "memory in MiB"), 1);
    program_clear(&r);
}
END_TEST

/* Decoding reads the bytes of the table: of all ranks from one memory, or from the memory of each. */
START_TEST(test_a_plan_bounds_the_tokens_of_a_second)
{
    static const char line[] = "plan -m llama-3.1-8b --weights q4_K_M --kv-dtype q8 --context 1000 --tp 2 --device cpu";
    program_result r = {0};
    double read = 0;
    program_run(&r, 1, "%s --memory 20G --bandwidth 100GB --json", line);
    program_exits(&r, 0);
    json_t *o = json_loads(r.out.data, 0, NULL);
    const json_t *ranks = json_object_get(o, "ranks"), *rank;
    size_t i;
    json_array_foreach(ranks, i, rank) read += json_number_value(json_object_get(rank, "decode_read_bytes_per_token"));
    ck_assert_double_eq_tol(json_number_value(json_object_get(o, "decode_tokens_per_s")), 2 * 100e9 / read, 0.01);
    json_decref(o);
    program_run(&r, 1, "%s --memory 20G --bandwidth 100GB", line);
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "decoding reads 2."), 1);
    ck_assert_int_eq(program_lines(r.out.data, "rank heads kv |  weights    cache  1 layer unpacked "), 1);
    program_run(&r, 1, "%s --memory 20G --json", line); /* of another machine */
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "\"decode_tokens_per_s\":null"));
    program_run(&r, 1, "plan -m tiny.h5 --context 100 --tp 2 --json");
    program_exits(&r, 0);
    o = json_loads(r.out.data, 0, NULL);
    ck_assert_double_gt(json_number_value(json_object_get(o, "read_bytes_per_s")), 1e8);
    ck_assert_double_gt(json_number_value(json_object_get(o, "decode_tokens_per_s")), 1);
    json_decref(o);
    program_clear(&r);
}
END_TEST

/* Tokens are counted in k and M of 1024, and a context that leaves no room for the answer is told the longest that
 * does. */
START_TEST(test_tokens_have_units)
{
    program_result r = {0};
    program_run(&r, 1, "plan -m llama-3.1-8b-4m --memory 900G --context 1M --max-new 1k --json");
    program_exits(&r, 0);
    json_t *o = json_loads(r.out.data, 0, NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "context")), 1 << 20);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "max_new")), 1 << 10);
    json_decref(o);
    program_refuses(1, 2, "at most '--context 130944'", "plan -m llama-3.1-8b --memory 900G --context 128k");
    program_refuses(1, 2, "such as 4096, 128k or 1M", "plan -m llama-3.1-8b --memory 900G --context 128kB");
    program_clear(&r);
}
END_TEST

static int64_t number_of(const program_result *r, const char *name)
{
    json_t *o = json_loads(r->out.data, 0, NULL);
    int64_t value = json_integer_value(json_object_get(o, name));
    json_decref(o);
    return value;
}

START_TEST(test_a_plan_for_a_device_that_is_elsewhere)
{
    static const char line[] = "plan -m llama-3.1-8b-4m --device cuda --memory %s --budget 1024 --context 1000000 %s";
    program_result r = {0};
    char options[32];
    program_run(&r, 1, line, "139G", "--json");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "\"fits\":true"));
    ck_assert_int_eq(number_of(&r, "chunk"), 4096);
    const int64_t memory = INT64_C(139) << 30; /* a reserve stays: docs/gpu.md */
    ck_assert_int_eq(number_of(&r, "free_bytes"), memory - memory / 64);
    program_run(&r, 1, line, "36.3G", "--json"); /* 1.5 GB stay; room for shorter chunks only */
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "\"fits\":true"));
    ck_assert_int_ge(number_of(&r, "chunk"), 64);
    ck_assert_int_lt(number_of(&r, "chunk"), 4096);
    program_run(&r, 1, line, "25.4G", "");
    program_exits(&r, 5);
    ck_assert_int_eq(program_lines(r.out.data, "fits in this memory: no (24.00 GiB per rank)"), 1);
    ck_assert_int_eq(program_lines(r.out.data, "prefill in chunks of 64 tokens"), 1);
    ck_assert_int_eq(program_lines(r.out.data, "memory in GiB"), 1);
    /* 1,000,000 tokens x 32 layers x 8 heads x 128 channels x keys and values x 2 bytes */
    ck_assert_int_eq(program_lines(r.out.data, "full cache of the prompt: 122.07 GiB as bf16 on all ranks together"),
                     1);
    program_says(&r, "and has 24.00 GiB (the full cache is 122.07 GiB): it fits from '--tp 3' on");
    program_run(&r, 1, line, "25.4G", "--tp 3");
    program_exits(&r, 0);
    program_run(&r, 1, line, "21.4G", "--json"); /* not a power of two */
    program_exits(&r, 5);
    int64_t needed = number_of(&r, "fits_from_tp");
    ck_assert_int_eq(needed, 5);
    ck_assert_int_eq(number_of(&r, "full_cache_bytes"), INT64_C(1000000) * 32 * 8 * 128 * 2 * 2);
    for (int64_t tp = needed - 1; tp <= needed; tp++) {
        snprintf(options, sizeof options, "--tp %lld", (long long)tp);
        program_run(&r, 1, line, "21.4G", options);
        program_exits(&r, tp < needed ? 5 : 0);
    }
    program_run(&r, 1, line, "2G", "");
    program_exits(&r, 5);
    program_says(&r, "no number of ranks is enough");
    program_run(&r, 1, line, "25.4G", "--tp 8");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "fits in this memory: yes"), 1);
    program_refuses(1, 2, "'--memory'", "plan -m tiny.h5 --device cuda --context 100");
    program_refuses(1, 2, "--deterministic", "plan -m tiny.h5 --context 100 --chunk 512 --deterministic");
    program_clear(&r);
}
END_TEST

/* Ranks are divided evenly over nodes; what a plan takes for granted is in the line; memory is that of a node. */
START_TEST(test_a_plan_prints_the_line_for_slurm)
{
    static const char end[] = "DOCUMENT QUESTION --policy longhaul --budget 1024 --max-new 128\n";
    static const struct {
        const char *options, *line, *end;
    } cases[] = {
        {"llama-3.1-70b --device cuda --memory 79G --budget 1024 --sbatch 4",
         "\nsbatch --nodes=1 --ntasks=2 --ntasks-per-node=2 --gpus-per-task=1 jobs/longhaul.sbatch CHECKPOINT ", end},
        {"llama-3.1-70b --device cuda --memory 79G --budget 1024 --sbatch 4 --tp 5",
         "\nsbatch --nodes=2 --ntasks=5 --ntasks-per-node=3 --gpus-per-task=1 jobs/longhaul.sbatch CHECKPOINT ", end},
        {"llama-3.1-70b --device cpu --memory 79G --budget 1024 --sbatch 2 --tp 2",
         "\nsbatch --nodes=1 --ntasks=2 --ntasks-per-node=2 --mem=14", end},
        {"llama-3.1-8b --device cpu --memory 79G --budget 1024 --sbatch 2 --threads 24",
         "\nsbatch --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=24 --mem=", end},
        {"llama-3.1-8b --device cpu --memory 79G --sbatch 2 --dtype f32 --deterministic -n 5",
         "\nsbatch --nodes=1 --ntasks=1 --ntasks-per-node=1 --mem=",
         "--policy full --dtype f32 --deterministic --max-new 5\n"}};
    program_result r = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_run(&r, 1, "plan --context 120k -m %s", cases[i].options);
        program_exits(&r, 0);
        ck_assert_msg(strstr(r.out.data, cases[i].line) && strstr(r.out.data, cases[i].end), "%s", r.out.data);
    }
    program_run(&r, 1, "plan --context 2000 -m tiny.h5 --memory 1G --budget 20%% --sbatch 2 --json");
    program_exits(&r, 0);
    ck_assert_msg(
        strstr(r.out.data, "jobs/longhaul.sbatch tiny.h5 DOCUMENT QUESTION --policy longhaul --budget 20% --max"), "%s",
        r.out.data);
    ck_assert_ptr_nonnull(
        strstr(r.out.data,
               "\"sbatch\":{\"nodes\":1,\"ntasks\":1,\"ntasks_per_node\":1,\"cpus_per_task\":null,\"mem_bytes\":1"));
    program_run(&r, 1, "plan --context 2000 -m tiny.h5 --memory 1M --sbatch 2");
    program_exits(&r, 5);
    ck_assert_ptr_null(strstr(r.out.data, "sbatch"));
    program_refuses(1, 2, "'--sbatch' needs '--memory'", "plan -m tiny.h5 --context 2000 --sbatch 2");
    program_refuses(1, 2, "leave out '--question'", "plan -m tiny.h5 --context 2k --sbatch 2 --memory 1G --question 9");
    program_clear(&r);
}
END_TEST

/* Any number of ranks, a mixture of experts, sliding layers; no weights are read. */
START_TEST(test_a_plan_measures_the_time_of_a_run)
{
    static const char *const models[] = {"tiny.h5",
                                         "random:tiny",
                                         "tiny --tp 3",
                                         "gemma --tp 2",
                                         "mixture",
                                         "mixture --weights q8_0",
                                         "random:llama-3.1-8b-narrow --tp 3 --weights q4_K_M"};
    program_result r = {0};
    program_run(&r, 1, "--version > v; mkdir -p gemma mixture");
    program_file("gemma/config.json",
                 "{\"architectures\":[\"Gemma2ForCausalLM\"],\"model_type\":\"gemma2\",\"hidden_size\":64,"
                 "\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"
                 "\"intermediate_size\":96,\"vocab_size\":200,\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-6,"
                 "\"sliding_window\":64,\"query_pre_attn_scalar\":16,\"attn_logit_softcapping\":50.0,"
                 "\"final_logit_softcapping\":30.0,\"hidden_activation\":\"gelu_pytorch_tanh\"}");
    program_file("mixture/config.json",
                 "{\"architectures\":[\"MixtralForCausalLM\"],\"model_type\":\"mixtral\",\"hidden_size\":64,"
                 "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":96,"
                 "\"vocab_size\":200,\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-6,\"num_local_experts\":4,"
                 "\"num_experts_per_tok\":2,\"hidden_act\":\"silu\"}");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        program_run(&r, 1, "plan -m %s --context 1500 -n 10 --time --memory 1G --json", models[i]);
        program_exits(&r, 0);
        json_t *plan = json_loads(r.out.data, 0, NULL);
        const json_t *time = json_object_get(plan, "time");
        const double prefill = json_number_value(json_object_get(time, "prefill_s")),
                     step = json_number_value(json_object_get(time, "step_s"));
        ck_assert_msg(prefill > 1e-6 && prefill < 60 && step > 1e-7 && step < 10, "%s", r.out.data);
        ck_assert_double_eq_tol(json_number_value(json_object_get(time, "decode_s")), 10 * step, 1e-6);
        json_decref(plan);
    }
    program_run(&r, 1, "plan -m tiny.h5 --context 1500 --time --memory 1G --sbatch 2");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.out.data, "ask for --time=00:10:00\n") && strstr(r.out.data, "--time=00:10:00 --mem="), "%s",
                  r.out.data);
    program_run(&r, 1, "plan -m tiny.h5 --context 1500 --time --memory 1M");
    program_exits(&r, 5); /* a run that does not fit takes no time */
    ck_assert_ptr_null(strstr(r.out.data, "ask for --time"));
    program_clear(&r);
}
END_TEST

/* A checkpoint, the folder that it was made from and the configuration in it. */
START_TEST(test_a_plan_needs_no_checkpoint)
{
    static const char *const sources[] = {"tiny.h5", "tiny", "tiny/config.json"};
    program_result r[3] = {{0}, {0}, {0}};
    for (int i = 0; i < 3; i++) {
        program_run(&r[i], 1, "plan -m %s --context 2000 --tp 2 --budget 100 --dtype f32 --memory 1G", sources[i]);
        program_exits(&r[i], 0);
        ck_assert_str_eq(r[i].out.data, r[0].out.data);
    }
    program_refuses(1, 3, "'nothing' has no 'config.json'", "plan -m nothing --context 100");
    program_refuses(1, 4, "'llama-9' is no file, and no shape", "plan -m llama-9 --context 100");
    program_refuses(1, 4, "cannot open 'no.h5'", "plan -m no.h5 --context 100");
    program_file("huge.json", "{\"model_type\": \"llama\", \"vocab_size\": 1000, \"hidden_size\": 16777216,"
                              " \"intermediate_size\": 16777216, \"num_hidden_layers\": 10000,"
                              " \"num_attention_heads\": 65536, \"num_key_value_heads\": 65536, \"head_dim\": 65536,"
                              " \"max_position_embeddings\": 1099511627776}");
    program_refuses(1, 3, "'huge.json' describes a model of 10000 layers", "plan -m huge.json --context 1000");
    program_refuses(1, 2, "longer than the 2147483647 positions", "plan -m huge.json --context 2147483647");
    for (int i = 0; i < 3; i++) program_clear(&r[i]);
}
END_TEST

START_TEST(test_a_run_within_its_memory)
{
    program_result r = {0};
    program_run(&r, 2, "generate -m tiny.h5 -p 'abc def' -n 2 --ignore-eos --memory 1G --json");
    program_exits(&r, 0);
    ck_assert_int_eq(number_of(&r, "chunk"), 512);
    program_refuses(2, 5, "are missing", "generate -m tiny.h5 -f prompt -n 2000 --memory 300K");
    program_refuses(2, 5, "a smaller '--chunk' or", "generate -m tiny.h5 -f prompt -n 2 --memory 8M --chunk 60000");
    program_clear(&r);
}
END_TEST

START_TEST(test_an_import_leaves_the_old_file_when_it_fails)
{
    program_result r = {0};
    program_run(&r, 1, "--version && cp tiny.h5 kept.h5");
    program_refuses(1, 6, "'kept.h5' exists: '--force' replaces it", "import tiny -o kept.h5");
    program_refuses(1, 3, "nothing", "import nothing -o kept.h5 --force");
    program_run(&r, 1, "verify kept.h5 && ! ls *.partial");
    program_exits(&r, 0);
    program_run(&r, 1, "import tiny --dtype bf16 -o kept.h5 --force -q && ! cmp -s kept.h5 tiny.h5");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

/* Warnings of an import: no tokenizer; a tokenizer with more tokens than the model has, which no prompt may hold. */
START_TEST(test_an_import_warns_of_its_tokenizer)
{
    program_result r = {0};
    program_run(&r, 1, "--version && touch bare/tekken.json && " LONGHAUL " import bare -o untold.h5");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning"), 1);
    ck_assert_msg(strstr(r.err.data, "'bare' has no 'tokenizer.json' or 'tokenizer.model', and these are not read: "
                                     "'tekken.json' (AutoTokenizer") != NULL,
                  "%s", r.err.data);
    program_run(&r, 1,
                "--version && cp -r tiny wide && sed -i 's/added_tokens\": \\[/&{\"id\": 300, \"content\": \"<pad>\", "
                "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": "
                "false}, /' wide/tokenizer.json && " LONGHAUL " import wide -o wide.h5");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning"), 1);
    ck_assert_msg(strstr(r.err.data, "'wide': the tokenizer has ids up to 300 ('<pad>'), and the model's vocabulary "
                                     "ends at 257: a text that holds a token above is refused") != NULL,
                  "%s", r.err.data);
    program_refuses(2, 2, "token id 300 is not in the model's vocabulary",
                    "generate -m wide.h5 -p 'a<pad>' --chat=off");
    program_refuses(1, 2, "token id 300", "trace -m wide.h5 -p 'a<pad>' --chat=off -o t.h5");
    program_file("pad", "a<pad>b");
    program_refuses(1, 2, "token id 300", "eval ppl -m wide.h5 --text pad --context 2 --score 1 --bins 1");
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_bad_inputs_have_one_message_and_their_code,
                                  test_a_cache_without_room_is_said_before_the_work,
                                  test_more_ranks_than_query_heads_is_usage,
                                  test_a_flipped_bit_is_found_by_verify,
                                  test_a_damaged_tokenizer_is_a_damaged_checkpoint,
                                  test_names_that_are_not_utf8_are_replaced,
                                  test_a_file_does_not_control_the_terminal,
                                  test_files_written_by_a_run_are_described,
                                  test_a_description_is_short,
                                  test_no_more_rows_of_logits_than_there_are_tokens,
                                  test_a_plan_tells_every_rank,
                                  test_a_plan_bounds_the_tokens_of_a_second,
                                  test_tokens_have_units,
                                  test_a_plan_for_a_device_that_is_elsewhere,
                                  test_a_plan_measures_the_time_of_a_run,
                                  test_a_plan_prints_the_line_for_slurm,
                                  test_a_plan_needs_no_checkpoint,
                                  test_a_run_within_its_memory,
                                  test_an_import_leaves_the_old_file_when_it_fails,
                                  test_an_import_warns_of_its_tokenizer,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    tiny_write("bare");
    program_file("prompt", "It was the best of times, it was the worst of times, it was the age of wisdom");
    program_file("empty", "");
    program_file("noise", "This is neither a model nor a checkpoint, and long enough to be looked at twice.");
    program_file("letters", "1 2 c");
    program_file("high", "1 2 258");
    program_result r = {0};
    program_run(&r, 1,
                "import tiny -o tiny.h5 -q && rm bare/token* && mkdir nothing && printf 'a\\n\\0' > zero && " LONGHAUL
                " import bare -o bare.h5 -q && cp -r tiny pipes && "
                "mkdir pipes/more && mkfifo pipe pipe.json pipes/more/config.json && rm pipes/*.safetensors "
                "pipes/tokenizer.json && "
                "mkfifo pipes/model.safetensors pipes/tokenizer.json && head -c 5000 tiny.h5 > torn.h5");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli files", tests);
    program_leave();
    return code;
}
