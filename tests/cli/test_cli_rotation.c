/* Models whose rotary factors depend on the length of the run: a saved cache, a chat and a batch answer as one run of
 * the whole conversation does, or refuse. A question after the document is a run below the original length of the
 * models here, a second one a run beyond it. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define SHELL "--version > version; "
#define DOCUMENT \
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the epoch of belief"
enum { ORIGINAL = 190, ANSWER = 6 };

static const char *const models[] = {"longrope.h5", "dynamic.h5"};
enum { MODELS = sizeof models / sizeof *models };

/* A model of the folder `tiny` with other words for its rotary embedding. */
static int make_model(const char *name, int positions, const char *rope)
{
    program_result r = {0};
    program_run(&r, 1,
                SHELL "cp -r tiny %s && sed -i 's/\"max_position_embeddings\": [0-9]*/\"max_position_embeddings\": "
                      "%d, %s/' %s/config.json && " LONGHAUL " import %s -o %s.h5 -q",
                name, positions, rope, name, name, name);
    const int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    return code;
}

/* The text that the run of these options answers. */
static void generate(program_result *r, const char *model, const char *options)
{
    program_run(r, 1, "generate -m %s --deterministic -q -n %d %s", model, ANSWER, options);
    program_exits(r, 0);
}

/* The file `ids` grows by the answer to itself, and `second` by the next turn of the user after that. */
static void write_second_turn(const char *model)
{
    program_result r = {0};
    lh_buf text = {0};
    program_run(&r, 1, "generate -m %s --deterministic -q -n %d --json --prompt-tokens ids", model, ANSWER);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, NULL);
    const json_t *ids = json_object_get(object, "token_ids");
    ck_assert_uint_eq(json_array_size(ids), ANSWER);
    ck_assert_int_le(json_integer_value(json_object_get(object, "prompt_tokens")) + ANSWER, ORIGINAL);
    for (size_t i = 0; i < json_array_size(ids); i++)
        program_must(lh_buf_printf(&text, "%lld ", json_integer_value(json_array_get(ids, i))) == 0, "memory");
    ck_assert_msg(!strstr(text.data, "257 "), "the answer ends by itself: another document is needed");
    program_file("answer", text.data);
    program_file("tail", "<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n");
    program_run(&r, 1, SHELL "(cat ids answer; " LONGHAUL " tokenize -m %s -f tail) > second", model);
    program_exits(&r, 0);
    json_decref(object);
    lh_buf_clear(&text);
    program_clear(&r);
}

START_TEST(test_a_chat_answers_as_one_run_does_on_both_sides_of_the_original_length)
{
    program_result r = {0}, first = {0}, second = {0};
    for (int m = 0; m < MODELS; m++) {
        program_run(&r, 1, "tokenize -m %s --chat -p \"$(printf '" DOCUMENT "\\n\\nWho?')\" > ids", models[m]);
        program_exits(&r, 0);
        generate(&first, models[m], "--prompt-tokens ids");
        write_second_turn(models[m]);
        generate(&second, models[m], "--prompt-tokens second");
        for (int ranks = m ? 2 : 1; ranks <= (m ? 2 : 3); ranks++) {
            lh_buf want = {0};
            program_run(&r, 1,
                        SHELL "printf 'Who?\\nAnd?\\n/reset\\nWho?\\nAnd?\\n' | " MPIEXEC " -n %d " LONGHAUL
                              " chat -m %s --deterministic -n %d -f document",
                        ranks, models[m], ANSWER);
            program_exits(&r, 0);
            for (int i = 0; i < 2; i++)
                program_must(lh_buf_printf(&want, "%s%s", first.out.data, second.out.data) == 0, "memory");
            ck_assert_str_eq(r.out.data, want.data);
            lh_buf_clear(&want);
        }
    }
    program_clear(&r);
    program_clear(&first);
    program_clear(&second);
}
END_TEST

START_TEST(test_a_cache_is_asked_in_runs_of_its_own_factors_alone)
{
    program_result r = {0}, whole = {0};
    char line[256];
    for (int m = 0; m < MODELS; m++) {
        program_run(&r, 2, "generate -m %s --deterministic -q -n 1 -f document --question 'Who?' --save-cache c.h5",
                    models[m]);
        program_exits(&r, 0);
        generate(&whole, models[m], "-f document --question 'Who?'");
        for (int ranks = m ? 2 : 1; ranks <= (m ? 2 : 3); ranks++) {
            program_run(&r, ranks, "generate -m %s --deterministic -q -n %d --load-cache c.h5 --question 'Who?'",
                        models[m], ANSWER);
            program_exits(&r, 0);
            ck_assert_str_eq(r.out.data, whole.out.data);
        }
        snprintf(line, sizeof line, "generate -m %s -n 100 --load-cache c.h5 --question 'Who?'", models[m]);
        program_refuses(2, 2, "rotates the keys of a run", line);
    }
    program_clear(&r);
    program_clear(&whole);
}
END_TEST

/* The text of the answer to a request, new memory. */
static char *answer_of(const char *output, const char *id)
{
    FILE *f = fopen(output, "r");
    char *text = NULL;
    char line[8192];
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        json_t *object = json_loads(line, 0, NULL);
        const json_t *choice =
            json_array_get(json_object_get(json_object_get(json_object_get(object, "response"), "body"), "choices"), 0);
        if (strcmp(json_string_value(json_object_get(object, "custom_id")), id) == 0)
            text = strdup(json_string_value(json_object_get(choice, "text")));
        json_decref(object);
    }
    fclose(f);
    ck_assert_ptr_nonnull(text);
    return text;
}

START_TEST(test_requests_of_one_context_have_the_factors_of_their_own_runs)
{
#define ASKS(id, n)                                                                                      \
    "{\"custom_id\": \"" id "\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"context_file\": " \
    "\"document\", \"body\": {\"prompt\": \" Who was it?\", \"ignore_eos\": true, \"max_tokens\": " n "}}\n"
    static const char *const ids[] = {"short", "long"};
    program_result r = {0};
    program_file("both.jsonl", ASKS("short", "5") ASKS("long", "150"));
    program_file("short.jsonl", ASKS("short", "5"));
    program_file("long.jsonl", ASKS("long", "150"));
    for (int m = 0; m < MODELS; m++) {
        static const char *const inputs[] = {"both", "short", "long"};
        for (int i = 0; i < 3; i++) {
            program_run(&r, i == 0 ? 2 : 1, "batch -m %s --deterministic --budget 50%% -i %s.jsonl -o %s.out -q",
                        models[m], inputs[i], inputs[i]);
            program_exits(&r, 0);
        }
        for (int i = 0; i < 2; i++) {
            char output[32];
            snprintf(output, sizeof output, "%s.out", ids[i]);
            char *together = answer_of("both.out", ids[i]), *alone = answer_of(output, ids[i]);
            ck_assert_str_eq(together, alone);
            free(together);
            free(alone);
        }
        program_run(&r, 1, SHELL "rm -f both.out* short.out* long.out*");
    }
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_chat_answers_as_one_run_does_on_both_sides_of_the_original_length,
                                  test_a_cache_is_asked_in_runs_of_its_own_factors_alone,
                                  test_requests_of_one_context_have_the_factors_of_their_own_runs, NULL};
    program_enter();
    tiny_write("tiny");
    program_file("document", DOCUMENT);
    int code = make_model("longrope", 4096,
                          "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1.1, 1.2, "
                          "1.3], \"long_factor\": [4, 6, 8, 16]}, "
                          "\"original_max_position_embeddings\": 190");
    if (code == 0) code = make_model("dynamic", ORIGINAL, "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 8.0}");
    if (code == 0) code = suite_run("cli rotation", tests);
    program_leave();
    return code;
}
