/* "random:SHAPE" as a model, beside the checkpoint that `import --random SHAPE` writes. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "suite.h"

/* The tokens that a run answers with. */
static json_t *answer(int ranks, const char *model, const char *options)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, ranks,
                "generate -m %s --chat off -p 'It was a dark and stormy night' -n 16 --ignore-eos --json -q %s", model,
                options);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, &error), *ids = json_incref(json_object_get(object, "token_ids"));
    ck_assert_int_eq((int)json_array_size(ids), 16);
    json_decref(object);
    program_clear(&r);
    return ids;
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
    program_refuses(1, 2, "shape 'huge' is unknown: tiny, llama-3.2-1b, ", "generate -m random:huge -p a");
    program_refuses(2, 2, "shape 'huge' is unknown", "generate -m random:huge -p a");
    program_refuses(1, 2, "shape '' is unknown", "plan -m random: --context 100");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_it_answers_as_its_checkpoint_does_on_any_number_of_ranks,
                                  test_it_is_known_to_commands_that_take_a_model, test_what_cannot_be_drawn_is_said,
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
