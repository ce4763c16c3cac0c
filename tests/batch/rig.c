#include "rig.h"
#include "base/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

static char folder[64];

/* In memory, where syncing takes no time. */
void rig_enter(void)
{
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(folder, TEMPORARY_MEMORY)));
    ck_assert_int_eq(chdir(folder), 0);
    lh_log_set_level(LH_LOG_ERROR); /* thousands of torn lines are cut off */
}

void rig_leave(void)
{
    ck_assert_int_eq(chdir("/"), 0);
    temporary_remove(folder);
}

void rig_file(const char *name, const void *data, int64_t bytes)
{
    FILE *f = fopen(name, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, (size_t)bytes, f), (size_t)bytes);
    ck_assert_int_eq(fclose(f), 0);
}

void rig_text(const char *name, const char *text)
{
    rig_file(name, text, (int64_t)strlen(text));
}

void rig_read(const char *name, lh_buf *out)
{
    out->bytes = 0;
    OK(lh_buf_puts(out, ""));
    OK(lh_file_read_regular(out, name, INT64_C(1) << 30));
}

int64_t rig_size(const char *name)
{
    struct stat info;
    return stat(name, &info) == 0 ? info.st_size : -1;
}

void rig_input(const char *name, int64_t count)
{
    lh_buf text = {0};
    for (int64_t i = 0; i < count; i++)
        if (i % 7 == 6)
            OK(lh_buf_printf(&text, "{\"number\": %lld, is not JSON\n", (long long)i));
        else
            OK(lh_buf_printf(&text,
                             "{\"custom_id\":\"r%lld\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{"
                             "\"model\":\"m\",\"prompt\":\"What is %lld?\",\"max_tokens\":7}}\n",
                             (long long)i, (long long)i));
    rig_file(name, text.data, text.bytes);
    lh_buf_clear(&text);
}

json_t *rig_run(void)
{
    return json_pack("{s:s, s:{s:s, s:f}}", "model", "tiny", "policy", "name", "snapkv", "alpha", 0.2);
}

lh_status rig_line(const lh_batch_input *input, int64_t i, const json_t *run, lh_buf *out, int *failed)
{
    static const lh_batch_defaults defaults = {.max_new = 16};
    lh_batch_request request;
    lh_status st = lh_batch_request_read(&request, lh_batch_input_line(input, i), &defaults);
    *failed = st != LH_OK;
    out->bytes = 0;
    if (st != LH_OK) {
        st = lh_batch_failure_line(lh_batch_input_line(input, i), st, run, out);
    } else {
        const lh_batch_choice choice = {.text = request.prompt, .bytes = (int64_t)strlen(request.prompt)};
        const lh_batch_answer answer = {.model = "tiny",
                                        .choices = &choice,
                                        .choice_count = 1,
                                        .prompt_tokens = 5,
                                        .new_tokens = 4,
                                        .kv = {.budget = 8, .entries = 40, .entries_kept = 16}};
        st = lh_batch_answer_line(&request, &answer, run, out);
    }
    lh_batch_request_clear(&request);
    return st;
}

lh_status rig_answer(rig_batch *b)
{
    lh_batch_input *input = NULL;
    lh_batch_output *output = NULL;
    lh_buf line = {0};
    json_t *run = rig_run();
    const lh_batch_output_options options = {.run = run,
                                             .resume = b->resume,
                                             .retry_failed = b->retry_failed,
                                             .ordered = b->ordered,
                                             .sync_s = 1,
                                             .ranks = 2,
                                             .replicas = 1};
    b->answered = 0;
    lh_status st = lh_batch_input_open(&input, "in.jsonl");
    if (st == LH_OK && b->parts) st = lh_batch_input_shard(input, b->part, b->parts);
    if (st == LH_OK) st = lh_batch_output_open(&output, "out.jsonl", input, &options);
    for (int64_t k = 0; st == LH_OK && k < lh_batch_input_count(input) && b->answered < b->limit; k++) {
        lh_batch_put put = {.i = b->order ? b->order[k] : k};
        if (lh_batch_output_has(output, put.i)) continue;
        if (b->pause_us) usleep(b->pause_us);
        st = rig_line(input, put.i, run, &line, &put.failed);
        put.line = line.data;
        put.bytes = line.bytes;
        if (st == LH_OK) st = lh_batch_output_put(output, &put);
        b->answered++;
    }
    if (output && b->how >= 0) st = lh_batch_output_finish(output, st == LH_OK ? (lh_status)b->how : st);
    lh_batch_output_close(output);
    lh_batch_input_close(input);
    lh_buf_clear(&line);
    json_decref(run);
    return st;
}
