/* `status` and `merge` on outputs of batches; texts of completions, and of their tokens. */
#include <check.h>
#include <string.h>
#include <unistd.h>

#include "base/unicode.h"
#include "batch/rig.h"
#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

/* An input, and no output of a test before. */
static void begin(void)
{
    rig_input("in.jsonl", 9);
    unlink("out.jsonl");
}

START_TEST(test_status_shows_how_far_a_batch_is)
{
    program_result r = {0};
    begin();
    ck_assert_int_eq(rig_answer(&(rig_batch){.limit = 8, .how = LH_EINTERRUPTED}), LH_EINTERRUPTED);
    program_run(&r, 2, "status out.jsonl");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "out.jsonl: interrupted: resume it"), 1);
    ck_assert_int_eq(program_lines(r.out.data, "  requests  8 of 9 (88.9%) done, 1 of them failed"), 1);
    ck_assert_int_eq(program_lines(r.out.data, "line 7: invalid_request: the line is not a JSON value"), 1);
    program_run(&r, 1, "status out.jsonl --json");
    program_exits(&r, 0);
    json_t *json = json_loads(r.out.data, 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(json, "state")), "interrupted");
    ck_assert_int_eq(json_integer_value(json_object_get(json, "done")), 8);
    ck_assert_int_eq(json_integer_value(json_object_get(json, "total")), 9);
    ck_assert(json_is_null(json_object_get(json, "left_s")));
    json_decref(json);
    OK(rig_answer(&(rig_batch){.resume = 1, .limit = 1, .how = -1}));
    program_run(&r, 1, "status out.jsonl");
    ck_assert_int_eq(program_lines(r.out.data, "out.jsonl: killed, or lost with its node: resume it"), 1);
    program_refuses(1, 2, "no output to look at", "status");
    program_refuses(1, 3, "none.jsonl", "status none.jsonl");
    program_refuses(1, 4, "is not the output of a batch", "status in.jsonl");
    program_clear(&r);
}
END_TEST

/* Two parts of three: one is done, one was interrupted, one has not begun. */
START_TEST(test_status_of_an_array_has_a_line_of_each_part_and_a_sum)
{
    program_result r = {0};
    begin();
    for (int64_t part = 0; part < 3; part += 2) {
        const int how = part ? LH_EINTERRUPTED : LH_OK;
        ck_assert_int_eq(rig_answer(&(rig_batch){.parts = 3, .part = part, .limit = part ? 1 : 99, .how = how}),
                         (lh_status)how);
        program_run(&r, 1, "--version > v; for f in out.jsonl*; do mv $f array.jsonl.%d-of-3${f#out.jsonl}; done",
                    (int)part);
        program_exits(&r, 0);
    }
    program_run(&r, 1, "status array.jsonl");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "array.jsonl.0-of-3: done, "), 1);
    ck_assert_int_eq(program_lines(r.out.data, "array.jsonl.2-of-3: interrupted, 1 of "), 1);
    ck_assert_int_eq(program_lines(r.out.data, "3 outputs: 1 done, 1 interrupted, 1 not begun; "), 1);
    ck_assert_msg(strstr(r.out.data, " of 9 requests done, ") != NULL, "%s", r.out.data);
    program_run(&r, 2, "status array.jsonl --json");
    program_exits(&r, 0);
    json_t *json = json_loads(r.out.data, 0, NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(json, "not_begun")), 1);
    ck_assert_int_eq(json_integer_value(json_object_get(json, "total")), 9);
    ck_assert_uint_eq(json_array_size(json_object_get(json, "outputs")), 2);
    json_decref(json);
    program_run(&r, 1, "status array.jsonl.0-of-3 array.jsonl.2-of-3");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "2 outputs: 1 done, 1 interrupted; "), 1);
    program_run(&r, 1, "status array.jsonl.0-of-3 array.jsonl array.jsonl array.jsonl.2-of-3"); /* each counts once */
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "array.jsonl.0-of-3: done, "), 1);
    ck_assert_int_eq(program_lines(r.out.data, "3 outputs: 1 done, 1 interrupted, 1 not begun; "), 1);
    program_run(&r, 1, "--version > v; echo > array.jsonl.0-of-2.state");
    program_refuses(1, 3, "parts of two arrays, of 2 and of 3 jobs", "status array.jsonl");
    program_run(&r, 1, "--version > v; rm array.jsonl.*");
    program_clear(&r);
}
END_TEST

START_TEST(test_merge_joins_outputs)
{
    program_result r = {0};
    begin();
    OK(rig_answer(&(rig_batch){.limit = 1 << 30, .how = LH_OK}));
    program_run(&r, 1, "merge out.jsonl -o - | cmp - out.jsonl");
    program_exits(&r, 0);
    program_run(&r, 1, "merge out.jsonl -o -");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.err.data, "merged 1 outputs: 9 requests, 1 of them failed"));
    ck_assert_int_eq(program_lines(r.out.data, "{\"id\":\"batch_req_"), 9);
    program_run(&r, 2, "merge out.jsonl out.jsonl -o all.jsonl");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.err.data, "lines that several outputs have are there once"));
    program_refuses(1, 6, "'all.jsonl' exists: '--force' overwrites it", "merge out.jsonl -o all.jsonl");
    program_run(&r, 1, "merge out.jsonl -o all.jsonl --force && cmp all.jsonl out.jsonl");
    program_exits(&r, 0);
    program_refuses(1, 2, "nothing to merge", "merge -o x.jsonl");
    program_refuses(1, 2, "would write 'out.jsonl', which is read", "merge out.jsonl -o out.jsonl --force");
    program_refuses(1, 3, "none.jsonl", "merge none.jsonl -o x.jsonl");
    program_refuses(1, 4, "is not the output of a batch", "merge in.jsonl -o x.jsonl");
    program_clear(&r);
}
END_TEST

/* The tiny model with pieces of SentencePiece: 100 byte pieces, words with a blank before them, two special tokens. */
static void write_sentence_model(void)
{
    lh_buf json = {0};
    program_result r = {0};
    program_run(&r, 1, "--version > v && rm -rf pieces pieces.h5");
    tiny_write("pieces");
    OK(lh_buf_puts(&json,
                   "{\"added_tokens\": [{\"id\": 256, \"content\": \"<s>\", \"special\": true}, {\"id\": 257, "
                   "\"content\": \"</s>\", \"special\": true}], \"normalizer\": {\"type\": \"Replace\", "
                   "\"pattern\": {\"String\": \" \"}, \"content\": \"▁\"}, \"decoder\": {\"type\": \"Sequence\", "
                   "\"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"▁\"}, \"content\": \" \"}, "
                   "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", "
                   "\"start\": 1, \"stop\": 0}]}, \"model\": {\"type\": \"BPE\", \"byte_fallback\": true, "
                   "\"merges\": [], \"vocab\": {"));
    for (int i = 0; i < 100; i++) OK(lh_buf_printf(&json, "\"<0x%02X>\": %d, ", 0x61 + i, i));
    for (int i = 100; i < 258; i++) OK(lh_buf_printf(&json, "%s\"▁w%d\": %d", i > 100 ? ", " : "", i, i));
    OK(lh_buf_puts(&json, "}}}"));
    program_file("pieces/tokenizer.json", json.data);
    program_run(&r, 1, "import pieces -o pieces.h5 -q");
    program_exits(&r, 0);
    program_clear(&r);
    lh_buf_clear(&json);
}

static json_t *printed_json(int ranks, const char *command)
{
    program_result r = {0};
    program_run(&r, ranks, "%s", command);
    program_exits(&r, 0);
    json_t *json = json_loads(r.out.data, JSON_DECODE_ANY, NULL);
    ck_assert_ptr_nonnull(json);
    program_clear(&r);
    return json;
}

/* The text of ids, without special tokens. */
static json_t *text_of(const json_t *prompt, const json_t *answer)
{
    json_t *all = json_array(), *id;
    size_t i;
    json_array_extend(all, (json_t *)(uintptr_t)prompt);
    json_array_foreach(answer, i, id) if (json_integer_value(id) < 256) json_array_append(all, id);
    char *line = json_dumps(all, 0);
    program_file("ids.jsonl", line);
    free(line);
    json_decref(all);
    return printed_json(1, "tokenize -m pieces.h5 --decode --jsonl -f ids.jsonl");
}

/* Every token that is text stands where its offset says. */
static void check_offsets(const json_t *choice)
{
    const json_t *logprobs = json_object_get(choice, "logprobs"), *name;
    const char *text = json_string_value(json_object_get(choice, "text"));
    int seen = 0;
    size_t i;
    json_array_foreach(json_object_get(logprobs, "tokens"), i, name)
    {
        const char *token = json_string_value(name), *at = text;
        int64_t offset = json_integer_value(json_array_get(json_object_get(logprobs, "text_offset"), i));
        for (; offset > 0 && *at; offset--) at += lh_utf8_length(at);
        ck_assert_int_eq(offset, 0);
        if (strncmp(token, " w", 2) != 0) continue; /* of a word */
        ck_assert_msg(strncmp(at, token, strlen(token)) == 0, "'%s' is not at '%s'", token, at);
        seen++;
    }
    ck_assert_int_gt(seen, 2);
}

/* Also of the first one, whose blank is no part of the content. */
START_TEST(test_the_bytes_of_the_tokens_of_a_chat_are_its_content)
{
    int words = 0;
    program_result r = {0};
    write_sentence_model();
    program_file("chat.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
    program_run(
        &r, 1,
        "--version > v && for i in 1 2 3 4 5 6 7 8; do echo '{\"custom_id\": \"'$i'\", \"method\": \"POST\", \"url\": "
        "\"/v1/chat/completions\", \"body\": {\"messages\": [{\"role\": \"user\", \"content\": \"abc\"}], "
        "\"max_tokens\": 2, "
        "\"temperature\": 2, \"seed\": '$i', \"logprobs\": true, \"top_logprobs\": 2}}'; done > chats.jsonl "
        "&& " LONGHAUL " batch -m pieces.h5 --chat-template chat.jinja -q -i chats.jsonl -o chats.out && " LONGHAUL
        " merge chats.out -o - -q");
    program_exits(&r, 0);
    char *rest = NULL;
    for (char *at = strtok_r(r.out.data, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
        json_t *line = json_loads(at, 0, NULL), *token, *byte;
        const json_t *body = json_object_get(json_object_get(line, "response"), "body");
        const json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
        const char *content = json_string_value(json_object_get(json_object_get(choice, "message"), "content"));
        lh_buf bytes = {0};
        size_t i, k;
        OK(lh_buf_puts(&bytes, ""));
        json_array_foreach(json_object_get(json_object_get(choice, "logprobs"), "content"), i, token)
        {
            json_array_foreach(json_object_get(token, "bytes"), k, byte)
            {
                const char c = (char)json_integer_value(byte);
                OK(lh_buf_append(&bytes, &c, 1));
            }
        }
        if (lh_utf8_valid(bytes.data, bytes.bytes)) ck_assert_str_eq(bytes.data, content);
        words += *content == 'w';
        lh_buf_clear(&bytes);
        json_decref(line);
    }
    ck_assert_int_gt(words, 1);
    program_clear(&r);
}
END_TEST

START_TEST(test_a_completion_goes_on_where_its_prompt_ends)
{
    program_result r = {0};
    write_sentence_model();
    program_file("prompt", "256 120 130 140");
    program_file(
        "one.jsonl",
        "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": {\"prompt\": [256, "
        "120, 130, 140], \"max_tokens\": 40, \"temperature\": 2, \"seed\": 1, \"ignore_eos\": true, \"logprobs\": "
        "3}}\n");
    for (int ranks = 1; ranks <= 3; ranks++) {
        json_t *ran =
            printed_json(ranks, "generate -m pieces.h5 --deterministic -q --json --prompt-tokens prompt -n 40 "
                                "--temperature 2 --seed 1 --ignore-eos");
        const json_t *ids = json_object_get(ran, "token_ids");
        json_t *prompt = json_pack("[i,i,i]", 120, 130, 140), *whole = text_of(prompt, ids);
        lh_buf joined = {0};
        OK(lh_buf_printf(&joined, "w120 w130 w140%s", json_string_value(json_object_get(ran, "text"))));
        ck_assert_str_eq(joined.data, json_string_value(whole));
        program_run(&r, ranks, "batch -m pieces.h5 --deterministic --threads 1 -q -i one.jsonl -o one%d.out", ranks);
        program_exits(&r, 0);
        json_t *line = printed_json(1, "--version > v && cat one?.out && rm one?.out");
        const json_t *body = json_object_get(json_object_get(line, "response"), "body");
        const json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
        ck_assert_str_eq(json_string_value(json_object_get(choice, "text")),
                         json_string_value(json_object_get(ran, "text")));
        check_offsets(choice);
        lh_buf_clear(&joined);
        json_decref(ran), json_decref(prompt), json_decref(whole), json_decref(line);
    }
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_status_shows_how_far_a_batch_is,
                                  test_status_of_an_array_has_a_line_of_each_part_and_a_sum,
                                  test_merge_joins_outputs,
                                  test_a_completion_goes_on_where_its_prompt_ends,
                                  test_the_bytes_of_the_tokens_of_a_chat_are_its_content,
                                  NULL};
    program_enter();
    const int failed = suite_run("cli batch", tests);
    program_leave();
    return failed;
}
