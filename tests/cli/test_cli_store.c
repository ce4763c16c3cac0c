/* --context-cache: a context that any run has read before is found by everything that its cache depends on, and the
 * answers have the same bytes as without the store. Also killed and simultaneous writers, damage, full disks, the
 * limit.
 */
#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/mem.h"
#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define ASK \
    "-m tiny.h5 -f book --question What --question Why --budget 20%% -n 6 --ignore-eos --threads 1 --deterministic"
#define STORE " --context-cache store"

static const char reused[] = "tokens are not read again", kept[] = "is kept in 'store/";

static int says(const program_result *r, const char *part)
{
    return strstr(r->err.data, part) != NULL;
}

static void clear_store(void)
{
    program_result r = {0};
    program_run(&r, 1, "--version > v; rm -rf store");
    program_clear(&r);
}

/* The answers without the store are in the file `direct`. */
static void check_answers(const program_result *r)
{
    program_result cmp = {0};
    program_exits(r, 0);
    program_file("answers", r->out.data);
    program_run(&cmp, 1, "--version > v; cmp answers direct");
    ck_assert_msg(cmp.code == 0, "other answers:\n%s%s", r->out.data, r->err.data);
    program_clear(&cmp);
}

static json_t *list_store(void)
{
    program_result r = {0};
    program_run(&r, 1, "info store --json");
    program_exits(&r, 0);
    json_t *list = json_loads(r.out.data, 0, NULL);
    ck_assert(json_is_array(list));
    program_clear(&r);
    return list;
}

static size_t count_store(void)
{
    json_t *list = list_store();
    const size_t n = json_array_size(list);
    json_decref(list);
    return n;
}

START_TEST(test_a_context_is_read_once_on_any_number_of_ranks)
{
    program_result r = {0};
    for (int writer = 1; writer <= 4; writer += 3) {
        clear_store();
        program_run(&r, writer, "generate " ASK STORE);
        check_answers(&r);
        ck_assert_msg(says(&r, kept) && !says(&r, reused), "%s", r.err.data);
        for (int ranks = 1; ranks <= 4; ranks++) {
            program_run(&r, ranks, "generate " ASK STORE);
            check_answers(&r);
            ck_assert_msg(says(&r, reused) && !says(&r, kept), "%s", r.err.data);
        }
        ck_assert_uint_eq(count_store(), 1);
    }
    program_clear(&r);
}
END_TEST

/* One entry of the three commands: the same tokens and the same policy. */
START_TEST(test_generate_chat_and_batch_share_contexts)
{
    static const char batch[] =
        "batch -m tiny.h5 -i in.jsonl -o out%d.jsonl --ordered --budget 20%% --threads 1 --deterministic %s";
    program_result r = {0}, plain = {0};
    clear_store();
    program_run(&plain, 1, "chat -m tiny.h5 -f book --budget 20%% -n 6 --threads 1 --deterministic < questions");
    program_run(&r, 1, "chat -m tiny.h5 -f book --budget 20%% -n 6 --threads 1 --deterministic" STORE " < questions");
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, plain.out.data);
    ck_assert(says(&r, kept));
    program_run(&r, 2, "generate " ASK STORE);
    check_answers(&r);
    ck_assert(says(&r, reused));
    program_run(&r, 3, "chat -m tiny.h5 -f book --budget 20%% -n 6 --threads 1 --deterministic" STORE " < questions");
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, plain.out.data);
    ck_assert(says(&r, reused));
    program_run(&r, 1, batch, 0, "-q");
    program_exits(&r, 0);
    for (int ranks = 1; ranks <= 4; ranks++) {
        program_run(&r, ranks, batch, ranks, ranks == 4 ? "--tp 2 --context-cache store" : "--context-cache store");
        program_exits(&r, 0);
        ck_assert_msg(says(&r, ranks == 1 ? kept : "contexts were read from 'store'"), "%s", r.err.data);
        program_run(&r, 1, "--version > v; cmp out0.jsonl out%d.jsonl", ranks);
        program_exits(&r, 0);
    }
    ck_assert_uint_eq(count_store(), 3); /* the document with its chat format, and the two contexts of the batch */
    program_clear(&r);
    program_clear(&plain);
}
END_TEST

/* The prompt of several answers is a context in memory alone. */
START_TEST(test_a_prompt_of_several_answers_is_not_kept)
{
    program_result r = {0};
    clear_store();
    program_file("several.jsonl",
                 "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"It was\","
                 "\"max_tokens\":3,\"n\":2}}\n"
                 "{\"custom_id\":\"b\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"It was\","
                 "\"max_tokens\":3,\"n\":2,\"echo\":true,\"logprobs\":1}}\n");
    for (int ranks = 1; ranks <= 2; ranks++) {
        program_run(&r, ranks, "batch -m tiny.h5 -i several.jsonl -o several%d.jsonl --budget 20%% --threads 1" STORE,
                    ranks);
        program_exits(&r, 0);
        ck_assert_msg(!says(&r, "store"), "%s", r.err.data);
    }
    program_run(&r, 1, "--version > v; ls store | wc -l");
    ck_assert_str_eq(r.out.data, "0\n");
    program_clear(&r);
}
END_TEST

START_TEST(test_a_cache_that_depends_on_anything_else_is_not_found)
{
    static const char *const others[] = {"-m tiny.h5 -f page --budget 20%% -q",
                                         "-m other.h5 -f book --budget 20%% -q",
                                         "-m tiny.h5 -f book --budget 21%% -q",
                                         "-m tiny.h5 -f book --budget 20%% --policy snapkv -q",
                                         "-m tiny.h5 -f book --budget 20%% --sinks 3 -q",
                                         "-m tiny.h5 -f book --budget 20%% --chat=off -q",
                                         "-m tiny.h5 -f book --budget 20%% --dtype bf16 -q",
                                         "-m tiny.h5 -f book --budget 20%% --kv-dtype bf16 -q",
                                         "-m tiny.h5 -f book --budget 20%% --deterministic -q",
                                         "-m tiny.h5 -f book --budget 20%% --device ref -q",
                                         "-m tiny.h5 -f book --budget 20%% --policy random -q",
                                         "-m tiny.h5 -f book --budget 20%% --policy random --seed 1 -q",
                                         "-m tiny.h5 -f book --budget 20%% --scenario question-aware -q",
                                         "-m tiny.h5 -f book -q"};
    enum { OTHERS = sizeof others / sizeof *others };
    program_result r = {0};
    clear_store();
    program_run(&r, 1, "generate -m tiny.h5 -f book --budget 20%% -n 1 --question a" STORE);
    program_exits(&r, 0);
    for (size_t i = 0; i < OTHERS; i++) {
        char line[256];
        snprintf(line, sizeof line, "generate %s -n 1 --question a" STORE, others[i]);
        for (char *c = strstr(line, "%%"); c; c = strstr(line, "%%")) memmove(c, c + 1, strlen(c));
        program_run(&r, 1, "%s", line);
        program_exits(&r, 0);
        ck_assert_msg(count_store() == i + 2, "found: %s", line);
    }
    program_run(
        &r, 1,
        "generate -m tiny.h5 -f book --budget 20%% -n 9 --temperature 1 --seed 1 --question b --question c" STORE);
    program_exits(&r, 0);
    ck_assert(says(&r, reused));
    program_clear(&r);
}
END_TEST

START_TEST(test_two_processes_at_once_are_both_right)
{
    program_result r = {0};
    clear_store();
    program_run(&r, 1,
                "generate " ASK STORE " > one 2> one.err & " LONGHAUL " generate " ASK STORE
                " > two 2> two.err; code=$?; wait; cmp one direct && cmp two direct && exit $code");
    program_exits(&r, 0);
    ck_assert_uint_eq(count_store(), 1);
    program_run(&r, 1, "--version > v; grep -h -e warning -e error one.err two.err");
    ck_assert_str_eq(r.out.data, "");
    program_run(&r, 1, "generate " ASK STORE);
    check_answers(&r);
    ck_assert(says(&r, reused));
    program_clear(&r);
}
END_TEST

/* A process waits for the claim of another one, "zzz.1", and finds its entry then. */
START_TEST(test_an_entry_that_another_process_wrote_meanwhile_stays)
{
    char *partial = NULL;
    program_result r = {0};
    clear_store();
    program_run(&r, 1, "generate " ASK STORE " -q && mv store saved && mkdir store && cd saved && printf %%s *.json");
    program_exits(&r, 0);
    const char *name = strrchr(r.out.data, '\n') + 1;
    program_must(lh_asprintf(&partial, "store/%s.zzz.1.partial", name) == LH_OK, "memory");
    const int fd = open(partial, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    ck_assert(fd >= 0 && lh_lock_take(fd, (lh_lock_range){0, 1}, F_WRLCK) == LH_LOCK_TAKEN);
    program_run(&r, 1,
                "generate " ASK STORE " > late 2> late.err & "
                "for k in $(seq 500); do [ $(ls store | grep -c partial) = 2 ] && break; sleep 0.01; done; "
                "cp saved/*.h5 saved/*.json store/ && rm store/*.zzz.1.partial");
    program_exits(&r, 0);
    close(fd);
    program_run(&r, 1,
                "--version > v; while [ \"$(ls store | grep -c partial)\" != 0 ]; do sleep 0.01; done; "
                "while ! grep -q 'entries per head' late.err; do sleep 0.01; done; cat late.err");
    ck_assert_msg(strstr(r.out.data, kept) == NULL && strstr(r.out.data, "not kept") == NULL, "%s", r.out.data);
    program_run(&r, 1,
                "--version > v; cmp late direct && cmp saved/*.h5 store/*.h5; code=$?; rm -rf saved; exit $code");
    program_exits(&r, 0);
    lh_free(partial);
    program_clear(&r);
}
END_TEST

/* At any moment: an entry is whole afterwards, or not believed. */
START_TEST(test_a_killed_writer_leaves_nothing_that_is_believed)
{
    program_result r = {0};
    clear_store();
    for (int ms = 20; ms <= 400; ms += 60) {
        program_run(&r, 1, "--version > v; timeout -s KILL 0.%03d " LONGHAUL " generate " ASK STORE " > killed 2>&1",
                    ms);
        program_run(&r, 1, "generate " ASK STORE);
        check_answers(&r);
        ck_assert_msg(!says(&r, "warning"), "%s", r.err.data);
        if (ms % 120 == 20) clear_store();
    }
    program_run(&r, 1, "generate " ASK STORE " -q"); /* a cache without a description */
    program_run(&r, 1, "--version > v; rm store/*.json");
    program_run(&r, 2, "generate " ASK STORE);
    check_answers(&r);
    ck_assert(says(&r, kept) && !says(&r, "warning"));
    program_run(&r, 1,
                "--version > v; cd store; for f in ????????????????.h5; do touch -d '2 hours ago' 0123456789abcdef.h5 "
                "$f.host.1.partial; touch foreign.h5; done; touch -d '2 hours ago' foreign.h5");
    program_run(&r, 1,
                "generate -m tiny.h5 -f page -n 1" STORE); /* the next context removes files of killed processes */
    program_exits(&r, 0);
    program_run(&r, 1, "--version > v; ls store | grep -c -e partial -e 0123456789abcdef; ls store/foreign.h5");
    ck_assert_str_eq(r.out.data, "0\nstore/foreign.h5\n");
    program_clear(&r);
}
END_TEST

START_TEST(test_a_damaged_file_is_replaced_with_one_warning)
{
    static const char *const damages[] = {
        "printf x | dd of=$(ls store/*.h5) bs=1 seek=5000 conv=notrunc 2> dd.err", /* a byte */
        "truncate -s 3000 store/*.h5",
        ": > $(ls store/*.h5)",
        "rm store/*.h5",
        "truncate -s 40 store/*.json",
        "echo nothing > $(ls store/*.json)"};
    program_result r = {0};
    clear_store();
    program_run(&r, 1, "generate " ASK STORE);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        program_run(&r, 1, "--version > v; %s", damages[i]);
        program_exits(&r, 0);
        program_run(&r, i % 2 ? 3 : 1, "generate " ASK STORE);
        check_answers(&r);
        ck_assert_msg(program_lines(r.err.data, "longhaul: warning") + program_lines(r.err.data, "warning") == 1 &&
                          says(&r, "damaged") && says(&r, kept),
                      "%s", r.err.data);
        program_run(&r, 1, "generate " ASK STORE);
        check_answers(&r);
        ck_assert_msg(says(&r, reused) && !says(&r, "warning"), "%s", r.err.data);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_a_full_disk_costs_no_answer)
{
    program_result r = {0};
    clear_store();
    for (int blocks = 0; blocks <= 64; blocks += 32) { /* of 512 bytes, for any file */
        program_run(&r, 1, "--version > v; ulimit -f %d; " LONGHAUL " generate " ASK STORE " 2>&1 > answers | cat",
                    blocks + 8);
        program_exits(&r, 0);
        ck_assert_msg(strstr(r.out.data, "the context is not kept") != NULL, "%s", r.out.data);
        program_run(&r, 1, "--version > v; cmp answers direct");
        program_exits(&r, 0);
        ck_assert_uint_eq(count_store(), 0);
    }
    program_run(&r, 2, "generate " ASK STORE);
    check_answers(&r);
    ck_assert(says(&r, kept));
    program_clear(&r);
}
END_TEST

static void ask_page(program_result *r, int page, const char *options)
{
    program_run(r, 1, "generate -m tiny.h5 -p 'page %d of a book that has several' --chat=off -n 1 --ignore-eos%s",
                page, options);
    program_exits(r, 0);
}

/* Three contexts where two have room: the one that was not used for longest goes. */
START_TEST(test_the_least_recently_used_contexts_go)
{
    program_result r = {0};
    char limited[96];
    clear_store();
    ask_page(&r, 1, STORE);
    ask_page(&r, 2, STORE);
    json_t *list = list_store();
    const json_int_t bytes = json_integer_value(json_object_get(json_array_get(list, 0), "bytes"));
    json_decref(list);
    ask_page(&r, 1, STORE);
    ck_assert(says(&r, reused));
    snprintf(limited, sizeof limited, STORE " --context-cache-limit %lldK", (long long)(bytes * 5 / 2 / 1024));
    ask_page(&r, 3, limited);
    ck_assert_uint_eq(count_store(), 2);
    ask_page(&r, 1, STORE);
    ck_assert(says(&r, reused));
    ask_page(&r, 3, STORE);
    ck_assert(says(&r, reused));
    ask_page(&r, 2, STORE " --context-cache-limit 1K"); /* larger than the limit: nothing else goes for it */
    ck_assert_msg(says(&r, "more than the limit"), "%s", r.err.data);
    ck_assert_uint_eq(count_store(), 2);
    program_clear(&r);
}
END_TEST

START_TEST(test_the_folder_is_listed)
{
    program_result r = {0};
    clear_store();
    program_run(&r, 1, "generate " ASK STORE);
    program_run(&r, 1, "info store");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.out.data, "It was the ") && strstr(r.out.data, "tiny.h5") &&
                      strstr(r.out.data, "ask-later --budget 20%"),
                  "%s", r.out.data);
    json_t *list = list_store();
    const json_t *one = json_array_get(list, 0);
    const json_int_t entries = json_integer_value(json_object_get(one, "entries")),
                     held = json_integer_value(json_object_get(one, "entries_kept"));
    ck_assert(held > 0 && held <= entries / 5 && json_integer_value(json_object_get(one, "bytes")) > held);
    program_run(&r, 1, "verify store/%s", json_string_value(json_object_get(one, "file")));
    program_exits(&r, 0);
    json_decref(list);
    program_refuses(1, 4, "is a folder, not an HDF5 file, and holds no stored contexts", "info tiny");
    program_refuses(1, 2, "'book' is no folder", "generate -m tiny.h5 -p a -n 1 --context-cache book");
    program_refuses(1, 6, "cannot create the folder 'no/store'",
                    "generate -m tiny.h5 -p a -n 1 --context-cache no/store");
    program_refuses(1, 2, "give '--context-cache FOLDER', too", "generate -m tiny.h5 -p a --context-cache-limit 1G");
    program_refuses(1, 2, "--context-cache", "chat -m tiny.h5 --load-cache c.h5 --context-cache store");
    program_refuses(1, 2, "--context-cache", "generate -m tiny.h5 -p a --logits l.h5 --context-cache store");
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_context_is_read_once_on_any_number_of_ranks,
                                  test_generate_chat_and_batch_share_contexts,
                                  test_a_prompt_of_several_answers_is_not_kept,
                                  test_a_cache_that_depends_on_anything_else_is_not_found,
                                  test_two_processes_at_once_are_both_right,
                                  test_a_killed_writer_leaves_nothing_that_is_believed,
                                  test_an_entry_that_another_process_wrote_meanwhile_stays,
                                  test_a_damaged_file_is_replaced_with_one_warning,
                                  test_a_full_disk_costs_no_answer,
                                  test_the_least_recently_used_contexts_go,
                                  test_the_folder_is_listed,
                                  NULL};
    lh_buf text = {0};
    program_result r = {0};
    program_enter();
    tiny_write("tiny");
    program_must(lh_buf_puts(&text, "It was the best of times. ") == LH_OK, "a text");
    tiny_sentences(&text);
    text.data[2000] = '\0';
    program_file("book", text.data);
    program_file("page", "It was the season of light, it was the season of darkness, it was the spring of hope.\n");
    program_file("questions", "What\nWhy\n");
    program_file(
        "in.jsonl",
        "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"context_file\":\"book\",\"body\":"
        "{\"prompt\":\" Who?\",\"max_tokens\":4}}\n"
        "{\"custom_id\":\"b\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"context_file\":\"book\",\"body\":"
        "{\"prompt\":\" Where?\",\"max_tokens\":4}}\n"
        "{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"context_file\":\"page\",\"body\":"
        "{\"prompt\":\" When?\",\"max_tokens\":4}}\n");
    program_run(&r, 1, "import tiny -o tiny.h5 -q");
    program_must(r.code == 0, r.err.data);
    program_run(&r, 1, "import --random tiny -o other.h5 -q");
    program_must(r.code == 0, r.err.data);
    program_run(&r, 1, "generate " ASK " -q > direct");
    program_must(r.code == 0, r.err.data);
    program_clear(&r);
    lh_buf_clear(&text);
    const int failed = suite_run("cli store", tests);
    program_leave();
    return failed;
}
