/* eval_common.c - what the tasks of `eval` share: lists in options, policies, chat format, progress, interrupts, and
 * writing tables as text, JSON, CSV and HDF5. */
#include "cli/eval_common.h"

#include <stdlib.h>
#include <string.h>

#include "base/h5.h"
#include "base/log.h"
#include "base/output.h"
#include "cli/check_files.h"
#include "cli/interrupt.h"
#include "cli/policy_rows.h"
#include "engine/engine.h"
#include "policies/list.h"

/* ---- options ---- */

static const lh_option policy_rows[] = {
    {LH_POLICY_ROW, .arg = "LIST", .word = lh_cli_policy_list_word,
     .help = "Comma-separated policies, each a preset that may have parts of its own, such as 'snapkv,h2o,ada-snapkv "
             "--pool-size 31'; quote one that contains a comma. all: every preset but those for comparison. The full "
             "cache is always included as the reference. '--policy help' lists the presets."},
    {LH_BUDGET_ROW, .arg = "LIST",
     .help = "Comma-separated budgets, such as '128,256,50%': entries kept per KV head, or a share of the prompt. "
             "Every policy runs with each."},
    LH_POLICY_PARTS(LH_POLICY_PART_ROW){0}};
const lh_option_table lh_cli_policy_list_options = {"eviction: parts hold for every policy of the list", policy_rows};

#define FIELD(member) LH_FIELD(lh_eval_files, member)
static const lh_option file_rows[] = {
    {.type = LH_OPT_FLAG, .name = "json", FIELD(json), .help = "Print one JSON object instead of tables."},
    {.type = LH_OPT_STR,
     .name = "csv",
     FIELD(csv),
     .arg = "FILE",
     .writes = 1,
     .help = "Write the means to FILE; '-' is standard output, instead of the tables."},
    {.type = LH_OPT_STR,
     .name = "answers",
     FIELD(answers),
     .arg = "FILE",
     .writes = 1,
     .help = "Write every answer with its text and measures to FILE as CSV; '-' is standard output, instead of the "
             "tables."},
    {.type = LH_OPT_STR,
     .letter = 'o',
     .name = "output",
     FIELD(output),
     .arg = "FILE",
     .writes = 1,
     .help = "Write all tables to FILE, an analysis file (HDF5)."},
    {0}};
#undef FIELD
const lh_option_table lh_eval_file_options = {"output", file_rows};

/* ---- lists ---- */

/* Copies the item of a comma-separated list at *at; advances *at past its comma, to NULL after the last. */
static lh_status next_item(const char *option, const char **at, char *item, size_t bytes)
{
    const size_t n = strcspn(*at, ",");
    if (n == 0) LH_FAIL(LH_EUSAGE, "'--%s' has an empty item in its list", option);
    if (n >= bytes) LH_FAIL(LH_EUSAGE, "'--%s' cannot take '%.*s…'", option, (int)bytes - 1, *at);
    memcpy(item, *at, n);
    item[n] = '\0';
    *at = (*at)[n] ? *at + n + 1 : NULL;
    return LH_OK;
}

static int64_t items_of(const char *text)
{
    int64_t n = 1;
    for (; *text; text++) n += *text == ',';
    return n;
}

enum { ITEM_BYTES = 64 };

static lh_status read_lengths(const char *option, const char *text, int64_t **out, int64_t *n)
{
    lh_status st = LH_OK;
    int64_t *values = NULL;
    char item[ITEM_BYTES];
    LH_TRY_DONE(lh_calloc(&values, items_of(text), sizeof *values));
    *n = 0;
    for (const char *at = text; at;) {
        LH_TRY_DONE(next_item(option, &at, item, sizeof item));
        int64_t value = 0;
        if (!lh_token_count_read(item, &value) || value < 1 || value > INT64_C(1) << 40)
            LH_FAIL_DONE(LH_EUSAGE,
                         "'--%s' got '%s', it must be comma-separated numbers of tokens, such as 2000,6000 or 8k,128k "
                         "(of 1024)",
                         option, item);
        values[(*n)++] = value;
    }
    *out = values;
    values = NULL;
done:
    lh_free(values);
    return st;
}

static lh_status read_share(const char *option, const char *item, double *out)
{
    char *end;
    *out = strtod(item, &end);
    if (end == item || *end || !(*out >= 0 && *out <= 1))
        LH_FAIL(LH_EUSAGE,
                "'--%s' got '%s', it must be comma-separated numbers from 0 to 1, or FROM:TO:COUNT, such as "
                "0.05:0.95:12",
                option, item);
    return LH_OK;
}

/* Reads a range such as "0.05:0.95:12". */
static lh_status read_range(const char *option, const char *text, double **out, int64_t *n)
{
    char parts[3][ITEM_BYTES] = {"", "", ""}, *end;
    double from, to, *values = NULL;
    if (sscanf(text, "%63[^:]:%63[^:]:%63s", parts[0], parts[1], parts[2]) != 3)
        LH_TRY(read_share(option, text, &from));
    LH_TRY(read_share(option, parts[0], &from));
    LH_TRY(read_share(option, parts[1], &to));
    long long count = strtoll(parts[2], &end, 10);
    if (*end || count < 2 || count > 100000)
        LH_FAIL(LH_EUSAGE, "'--%s %s' must end with a number from 2 to 100000", option, text);
    LH_TRY(lh_calloc(&values, count, sizeof *values));
    for (long long i = 0; i < count; i++) values[i] = from + (to - from) * (double)i / (double)(count - 1);
    *out = values;
    *n = count;
    return LH_OK;
}

lh_status lh_eval_read_shares(const char *option, const char *text, double **out, int64_t *n)
{
    lh_status st = LH_OK;
    double *values = NULL;
    char item[ITEM_BYTES];
    if (strchr(text, ':')) return read_range(option, text, out, n);
    LH_TRY_DONE(lh_calloc(&values, items_of(text), sizeof *values));
    *n = 0;
    for (const char *at = text; at;) {
        LH_TRY_DONE(next_item(option, &at, item, sizeof item));
        LH_TRY_DONE(read_share(option, item, &values[(*n)++]));
    }
    *out = values;
    values = NULL;
done:
    lh_free(values);
    return st;
}

lh_status lh_eval_read_words(const char *option, const char *text, const char *const *words, int *wanted)
{
    lh_status st = LH_OK;
    char item[ITEM_BYTES];
    lh_buf all = {0};
    for (int i = 0; words[i]; i++) LH_TRY_DONE(lh_buf_printf(&all, "%s%s", i ? ", " : "", words[i]));
    for (const char *at = text; at;) {
        int i = 0;
        LH_TRY_DONE(next_item(option, &at, item, sizeof item));
        while (words[i] && strcmp(words[i], item) != 0) i++;
        if (!words[i]) LH_FAIL_DONE(LH_EUSAGE, "'--%s' got '%s', it must be a list of: %s", option, item, all.data);
        wanted[i] = 1;
    }
done:
    lh_buf_clear(&all);
    return st;
}

/* ---- the run ---- */

static const lh_eval_values *values_of(const lh_eval_task *task)
{
    return task->call->values;
}

static int is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* LH_EUSAGE if an output would replace a profile that a policy names, or standard output gets two results. */
static lh_status check_files(const lh_eval_task *task)
{
    const lh_eval_files *files = &values_of(task)->files;
    const lh_profiles *profiles = &task->policies.profiles;
    for (int64_t i = 0; i < profiles->n; i++)
        LH_TRY(lh_cli_check_read(task->call->options, "policy", profiles->at[i]->name));
    if (files->json && (is_stdout(files->csv) || is_stdout(files->answers)))
        LH_FAIL(LH_EUSAGE, "'--json' and '--%s -' both print to standard output: name a file for one of them",
                is_stdout(files->csv) ? "csv" : "answers");
    return LH_OK;
}

/* Checks options before anything is opened; the same on all ranks. */
static lh_status check_request(lh_eval_task *task)
{
    const lh_eval_values *v = values_of(task);
    LH_TRY(lh_policy_list_resolve(&task->policies, &v->policy));
    LH_TRY(read_lengths("length", v->run.length, &task->lengths, &task->length_count));
    LH_TRY(task->kind->check(task->self));
    LH_TRY(check_files(task));
    return LH_OK;
}

/* Claims the outputs before long work. */
static lh_status claim_outputs(const lh_eval_task *task)
{
    const lh_eval_files *files = &values_of(task)->files;
    if (files->csv) LH_TRY(lh_file_claim(files->csv, 1 << 20));
    if (files->answers) LH_TRY(lh_file_claim(files->answers, 1 << 20));
    if (files->output) LH_TRY(lh_partial_claim(files->output, 1 << 20));
    return LH_OK;
}

static void drop_claims(const lh_eval_task *task)
{
    const lh_eval_files *files = &values_of(task)->files;
    const char *const paths[] = {files->csv, files->answers, files->output};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i]) lh_partial_drop(paths[i]);
}

/* Opens the world, loads what rank 0 reads, opens the engine. */
static lh_status open_engine(lh_eval_task *task)
{
    lh_status st = LH_OK;
    const lh_engine_options *e = &values_of(task)->engine;
    const char *const files[] = {e->model, NULL};
    LH_TRY(lh_cli_record(task->call, &task->record));
    LH_TRY(lh_cli_open_world(task->call, files));
    LH_TRY(lh_cli_same_profiles(task->call, &task->policies.profiles));
    lh_comm *world = lh_world_comm(task->call->world);
    if (lh_cli_first()) st = claim_outputs(task);
    if (st == LH_OK && lh_cli_first()) st = task->kind->load(task->self);
    LH_TRY(lh_comm_agree(world, st));
    LH_TRY(lh_engine_open(&task->engine, task->call->world, e));
    lh_interrupt_begin();
    return st;
}

/* Decides if prompts are put in a chat format. */
static lh_status choose_chat(lh_eval_task *task)
{
    const lh_eval_options *options = &values_of(task)->run;
    const lh_tokenizer *tok = lh_engine_tokenizer(task->engine);
    const int has = tok && lh_tokenizer_chat_format(tok) != NULL;
    const int asked = options->chat_template || (options->chat && strcmp(options->chat, "on") == 0);
    task->chat = asked || (!options->chat && has);
    if (options->chat && !asked && options->system)
        LH_FAIL(LH_EUSAGE, "'--system' has no effect with '--chat=off': leave one of them out");
    if (asked && !has && !options->chat_template)
        LH_FAIL(LH_EUSAGE, "the model has no known chat format: name one with '--chat-template'");
    if (options->system && !task->chat)
        LH_FAIL(LH_EUSAGE, "'--system' needs a chat format, and the model has none: name one with '--chat-template'");
    return LH_OK;
}

/* Logs the warnings of the policies before a long run, on rank 0. */
static lh_status warn_of_policies(const lh_eval_task *task)
{
    lh_status st = LH_OK;
    lh_buf lines = {0};
    for (int64_t p = 0; p < task->policies.n && lh_cli_first(); p++) {
        const lh_policy_choice *choice = &task->policies.at[p];
        lines.bytes = 0; /* most warnings hold for all lengths: log them once */
        for (int64_t i = 0; i < task->length_count && lines.bytes == 0; i++)
            LH_TRY_DONE(lh_policy_warnings(&choice->policy, task->lengths[i], &lines));
        for (char *line = lines.bytes ? lines.data : NULL, *end; line && *line; line = *end ? end + 1 : end) {
            end = line + strcspn(line, "\n");
            lh_warn("%s --budget %s: %.*s", choice->name, choice->budget, (int)(end - line), line);
        }
    }
done:
    lh_buf_clear(&lines);
    return st;
}

/* ---- results ---- */

static lh_status write_csv(const lh_table *table, const char *path)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_table_csv(table, &text));
    LH_TRY_DONE(lh_file_write(path, text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status write_analysis(const lh_eval_task *task, const lh_table *means, int interrupted)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    const lh_table *table;
    char *group = NULL, *path = NULL;
    const char *name;
    LH_TRY_DONE(lh_h5_create(&h5, values_of(task)->files.output, &(lh_h5_header){"analysis", 1, task->record}));
    LH_TRY_DONE(lh_asprintf(&group, "/%s", task->kind->name));
    LH_TRY_DONE(lh_h5_group(h5, group));
    LH_TRY_DONE(lh_h5_put_i64(h5, group, "interrupted", interrupted));
    LH_TRY_DONE(lh_asprintf(&path, "%s/means", group));
    LH_TRY_DONE(lh_table_h5(means, h5, path));
    for (int64_t i = 0; (table = task->kind->table(task->self, i, &name)); i++) {
        lh_free(path);
        path = NULL;
        LH_TRY_DONE(lh_asprintf(&path, "%s/%s", group, name));
        LH_TRY_DONE(lh_table_h5(table, h5, path));
    }
    st = lh_h5_commit(h5);
    h5 = NULL;
    if (st != LH_OK) goto done;
done:
    lh_h5_close(h5);
    lh_free(group);
    lh_free(path);
    return st;
}

static lh_status write_json(const lh_eval_task *task, const lh_table *means, int interrupted)
{
    lh_status st = LH_OK;
    json_t *object = json_object(), *rows = NULL;
    const lh_table *table;
    const char *name;
    json_object_set_new(object, "task", json_string(task->kind->name));
    json_object_set_new(object, "interrupted", json_boolean(interrupted));
    LH_TRY_DONE(lh_table_json(means, &rows));
    json_object_set_new(object, "means", rows);
    for (int64_t i = 0; (table = task->kind->table(task->self, i, &name)); i++) {
        LH_TRY_DONE(lh_table_json(table, &rows));
        json_object_set_new(object, name, rows);
    }
    json_object_set_new(object, "ranks", json_integer(lh_comm_size(lh_engine_get(task->engine)->comm)));
    json_object_set_new(object, "dtype", json_string(lh_dtype_name(lh_engine_get(task->engine)->dtype)));
    json_object_set_new(object, "kv_dtype", json_string(lh_dtype_name(lh_engine_get(task->engine)->kv_dtype)));
    json_object_set_new(object, "version", json_string(lh_version()));
    LH_TRY_DONE(lh_cli_write_json(object));
done:
    json_decref(object);
    return st;
}

static lh_status write_results(const lh_eval_task *task, int interrupted)
{
    lh_status st = LH_OK;
    const lh_eval_files *f = &values_of(task)->files;
    lh_table means = {0};
    lh_buf text = {0};
    const char *name;
    LH_TRY_DONE(task->kind->means(task->self, &means));
    if (f->csv) LH_TRY_DONE(write_csv(&means, f->csv));
    if (f->answers) LH_TRY_DONE(write_csv(task->kind->table(task->self, 0, &name), f->answers));
    if (f->output) LH_TRY_DONE(write_analysis(task, &means, interrupted));
    if (f->json) {
        LH_TRY_DONE(write_json(task, &means, interrupted));
    } else if (!is_stdout(f->csv) && !is_stdout(f->answers)) {
        LH_TRY_DONE(task->kind->print(task->self, &text));
        LH_TRY_DONE(lh_cli_write(text.data ? text.data : "", text.bytes));
    }
done:
    lh_table_clear(&means);
    lh_buf_clear(&text);
    return st;
}

/* Collective. Rank 0 writes the results to standard output and files. */
static lh_status finish_task(lh_eval_task *task)
{
    lh_status st = LH_OK;
    lh_progress_clear(&task->progress);
    if (lh_cli_first()) st = write_results(task, 0);
    return lh_comm_agree(lh_engine_get(task->engine)->comm, st);
}

/* On an interrupt: writes the results so far and ends the run. */
static void end_interrupted(lh_eval_task *task)
{
    lh_progress_clear(&task->progress);
    lh_status st = write_results(task, 1);
    if (st != LH_OK) lh_log(LH_LOG_ERROR, 0, "%s", lh_error_message());
    lh_warn("interrupted: means of the results so far");
    drop_claims(task); /* of those that could not be written */
    lh_comm_leave(lh_engine_get(task->engine)->comm, st != LH_OK ? (int)st : LH_EINTERRUPTED);
}

void lh_eval_show(void *self, int64_t done, int64_t total)
{
    lh_eval_task *task = self;
    if (!task->progress.what) lh_progress_init(&task->progress, task->kind->name, "tokens", total);
    lh_progress_update(&task->progress, done);
    if (lh_cli_first() && lh_interrupt_asked()) end_interrupted(task);
}

lh_status lh_eval_run(lh_eval_task *task)
{
    lh_status st = LH_OK;
    LH_TRY_DONE(check_request(task));
    LH_TRY_DONE(open_engine(task));
    LH_TRY_DONE(choose_chat(task));
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(task->engine)->comm, warn_of_policies(task)));
    LH_TRY_DONE(task->kind->run(task->self));
    LH_TRY_DONE(finish_task(task));
done:
    drop_claims(task);
    lh_progress_clear(&task->progress);
    lh_policy_list_clear(&task->policies);
    lh_engine_close(task->engine);
    lh_free(task->lengths);
    free(task->record);
    return st;
}
