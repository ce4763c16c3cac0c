/* "random:SHAPE" as a model, beside the checkpoint that `import --random SHAPE` writes, of plain numbers or blocks. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/program.h"
#include "suite.h"

/* The tokens that a run with this prompt answers with. */
static json_t *answer_to(int ranks, const char *prompt, const char *model, const char *options)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, ranks, "generate -m %s --chat off %s -n 16 --ignore-eos --json -q %s", model, prompt, options);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, &error), *ids = json_incref(json_object_get(object, "token_ids"));
    ck_assert_int_eq((int)json_array_size(ids), 16);
    json_decref(object);
    program_clear(&r);
    return ids;
}

static json_t *answer(int ranks, const char *model, const char *options)
{
    return answer_to(ranks, "-p 'It was a dark and stormy night'", model, options);
}

/* The same for models without a tokenizer. */
static json_t *ids_of(int ranks, const char *model, const char *options)
{
    FILE *f = fopen("prompt.ids", "w");
    for (int i = 0; i < 40; i++) fprintf(f, "%d ", (i * 37 + 5) % 256);
    fclose(f);
    return answer_to(ranks, "--prompt-tokens prompt.ids", model, options);
}

/* To the token, for weights of which each rank reads or draws a part. */
START_TEST(test_it_answers_as_its_checkpoint_does_on_any_number_of_ranks)
{
    static const char *const options[] = {"--dtype f32", "--dtype bf16 --deterministic", "--dtype f32 --budget 12"};
    for (int ranks = 1; ranks <= 4; ranks++)
        for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
            json_t *read = answer(ranks, "tiny.h5", options[i]), *drawn = answer(ranks, "random:tiny", options[i]);
            ck_assert_msg(json_equal(read, drawn), "other tokens with '%s' on %d ranks", options[i], ranks);
            json_decref(read);
            json_decref(drawn);
        }
}
END_TEST

/* In blocks that lie on one rank, and in larger ones that ranks share. */
START_TEST(test_weights_of_few_bits_are_the_same_on_any_number_of_ranks)
{
    program_result r = {0};
    program_run(&r, 1, "import --random tiny --quantize q4_1 -o few.h5 -q");
    program_exits(&r, 0);
    program_run(&r, 1, "import --random llama-3.1-8b-narrow --quantize q4_K_M -o narrow.h5 -q");
    program_exits(&r, 0);
    json_t *few = answer(1, "few.h5", "--deterministic"), *narrow = ids_of(1, "narrow.h5", "--deterministic");
    for (int ranks = 1; ranks <= 4; ranks++) {
        json_t *drawn = answer(ranks, "random:tiny --weights q4_1", "--deterministic");
        ck_assert_msg(json_equal(few, drawn), "other tokens of q4_1 on %d ranks", ranks);
        json_decref(drawn);
        drawn = ids_of(ranks, "random:llama-3.1-8b-narrow --weights q4_K_M", "--deterministic");
        ck_assert_msg(json_equal(narrow, drawn), "other tokens of q4_K_M on %d ranks", ranks);
        json_decref(drawn);
    }
    json_decref(few);
    json_decref(narrow);
    program_clear(&r);
}
END_TEST

static void make_folder(const char *name, int layers, int hidden, int channels)
{
    char path[64];
    snprintf(path, sizeof path, "%s/config.json", name);
    ck_assert_int_eq(mkdir(name, 0700), 0);
    FILE *f = fopen(path, "w");
    fprintf(f,
            "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 300,"
            " \"hidden_size\": %d, \"intermediate_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": 2,"
            " \"num_key_value_heads\": 1, \"rms_norm_eps\": 1e-05, \"max_position_embeddings\": 2048}",
            hidden, channels, layers);
    fclose(f);
}

START_TEST(test_a_folder_s_configuration_is_a_shape)
{
    program_result drawn = {0}, folder = {0};
    make_folder("shape", 2, 64, 96);
    json_decref(ids_of(2, "random:shape", "--weights q8_0"));
    program_run(&drawn, 1, "plan -m random:shape --weights q5_0 --context 1000 --device cpu --memory 8G");
    program_exits(&drawn, 0);
    program_run(&folder, 1, "plan -m shape --weights q5_0 --context 1000 --device cpu --memory 8G");
    program_exits(&folder, 0);
    ck_assert_str_eq(drawn.out.data, folder.out.data);
    ck_assert(strstr(drawn.out.data, "as q5_0") != NULL);
    program_clear(&drawn);
    program_clear(&folder);
}
END_TEST

/* An import draws 4 Mi values at a time, and at least a row. */
START_TEST(test_a_row_is_drawn_however_long_it_is)
{
    program_result r = {0};
    make_folder("wide", 1, 4, (1 << 22) + 32);
    program_run(&r, 1, "import --random wide -o wide.h5 -q");
    program_exits(&r, 0);
    json_t *read = ids_of(1, "wide.h5", ""), *drawn = ids_of(1, "random:wide", "");
    ck_assert_msg(json_equal(read, drawn), "the checkpoint answers with other tokens");
    json_decref(read);
    json_decref(drawn);
    program_clear(&r);
}
END_TEST

START_TEST(test_it_is_known_to_commands_that_take_a_model)
{
    program_result file = {0}, shape = {0};
    program_run(&file, 1, "plan -m tiny.h5 --context 1000 --budget 100 --device cpu --memory 8G");
    program_exits(&file, 0);
    program_run(&shape, 1, "plan -m random:tiny --context 1000 --budget 100 --device cpu --memory 8G");
    program_exits(&shape, 0);
    ck_assert_str_eq(shape.out.data, file.out.data);
    program_run(&file, 1, "tokenize -m tiny.h5 -p 'a word'");
    program_exits(&file, 0);
    program_run(&shape, 1, "tokenize -m random:tiny -p 'a word'");
    program_exits(&shape, 0);
    ck_assert_str_eq(shape.out.data, file.out.data);
    program_run(&shape, 2, "bench run -m random:tiny --quick --json");
    program_exits(&shape, 0);
    program_clear(&file);
    program_clear(&shape);
}
END_TEST

START_TEST(test_what_cannot_be_drawn_is_said)
{
    make_folder("odd", 2, 64, 100);
    program_refuses(1, 2, "shape 'huge' is unknown: tiny, llama-3.2-1b, ", "generate -m random:huge -p a");
    program_refuses(2, 2, "shape 'huge' is unknown", "generate -m random:huge -p a");
    program_refuses(1, 2, "shape '' is unknown", "plan -m random: --context 100");
    program_refuses(2, 2, "no weights of 'down' are drawn as q4_K: its rows have 100 numbers, no multiple of 32",
                    "generate -m random:odd --weights q4_K -p a");
    program_refuses(1, 2, "no weights of 'down' are drawn as q8_0", "import --random odd --quantize q8_0 -o x.h5");
    program_refuses(1, 2, "'--weights q8_0' is the format of random weights ('random:SHAPE'), and 'tiny.h5' is a file",
                    "plan -m tiny.h5 --weights q8_0 --context 100");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_it_answers_as_its_checkpoint_does_on_any_number_of_ranks,
                                  test_weights_of_few_bits_are_the_same_on_any_number_of_ranks,
                                  test_a_folder_s_configuration_is_a_shape,
                                  test_a_row_is_drawn_however_long_it_is,
                                  test_it_is_known_to_commands_that_take_a_model,
                                  test_what_cannot_be_drawn_is_said,
                                  NULL};
    program_enter();
    program_result r = {0};
    program_run(&r, 1, "import --random tiny -o tiny.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli random", tests);
    program_leave();
    return code;
}
