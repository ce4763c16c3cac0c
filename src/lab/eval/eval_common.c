/* eval_common.c - the shared parts of the tasks of `eval`: lists in options, policies, chat format, progress and
 * interrupts (eval_results.c: the outputs; eval_resume.c: the identity of an interrupted run). */
#include "lab/eval/eval_common.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/world.h"
#include "lab/eval/questions.h"
#include "lab/eval/run_policies.h"
#include "policies/list.h"
#include "shell/check_files.h"
#include "shell/policy_options.h"
#include "shell/shell.h"

/* ---- options ---- */

#define FIELD(member) LH_FIELD(lh_eval_files, member)
static const lh_option file_rows[] = {
    {.type = LH_OPT_FLAG, .name = "json", FIELD(json), .help = "Print one JSON object instead of tables."},
    {.type = LH_OPT_STR,
     .name = "csv",
     FIELD(csv),
     .arg = "FILE",
     .writes = 1,
     .makes = "text",
     .help = "Write the means to FILE; '-' is standard output, instead of the tables."},
    {.type = LH_OPT_STR,
     .name = "answers",
     FIELD(answers),
     .arg = "FILE",
     .writes = 1,
     .makes = "text",
     .help = "Write every answer with its text and measures to FILE as CSV; '-' is standard output, instead of the "
             "tables."},
    {.type = LH_OPT_STR,
     .letter = 'o',
     .name = "output",
     FIELD(output),
     .arg = "FILE",
     .writes = 1,
     .makes = "analysis",
     .help = "Write all tables to FILE, an analysis file (HDF5)."},
    {.type = LH_OPT_STR,
     .name = "keep-sets",
     FIELD(keep_sets),
     .arg = "FOLDER",
     .writes = 1,
     .help =
         "Write the positions that every head keeps after the prefill to a file in FOLDER (HDF5) for every prompt and "
         "policy; the folder is made if it does not exist."},
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

lh_status lh_eval_read_lengths(const char *option, const char *text, int64_t **out, int64_t *n)
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

lh_status lh_eval_read_scenarios(lh_eval_task *task, const char *text, int *wanted)
{
    LH_TRY(lh_eval_read_words("scenario", text, lh_scenario_names, wanted));
    if (wanted[LH_CONTEXT_ONLY]) task->lists.asked = wanted[LH_QUESTION_AWARE] ? LH_ASKED_BOTH : LH_ASKED_LATER;
    return LH_OK;
}

/* ---- the run ---- */

static const lh_eval_values *values_of(const lh_eval_task *task)
{
    return task->call->values;
}

/* LH_EUSAGE if an output would replace a profile that a policy names, or standard output gets two results. */
static lh_status check_files(const lh_eval_task *task)
{
    const lh_eval_files *files = &values_of(task)->files;
    const lh_profiles *profiles = &task->policies.profiles;
    for (int64_t i = 0; i < profiles->n; i++)
        LH_TRY(lh_shell_check_read(task->call->options, "policy", profiles->at[i]->name));
    if (files->json && (lh_eval_is_stdout(files->csv) || lh_eval_is_stdout(files->answers)))
        LH_FAIL(LH_EUSAGE, "'--json' and '--%s -' both print to standard output: name a file for one of them",
                lh_eval_is_stdout(files->csv) ? "csv" : "answers");
    return LH_OK;
}

/* LH_EUSAGE naming an option that would have no effect. */
static lh_status check_chat(const lh_eval_options *options)
{
    const char *const rendered[][2] = {
        {"chat-template", options->format.format},
        {"template-arg", options->format.arguments.n ? options->format.arguments.at[0] : NULL},
        {"system", options->system}};
    if (!options->chat || strcmp(options->chat, "off") != 0) return LH_OK;
    for (size_t i = 0; i < sizeof rendered / sizeof *rendered; i++)
        if (rendered[i][1])
            LH_FAIL(LH_EUSAGE, "'--%s' has no effect with '--chat=off': leave one of them out", rendered[i][0]);
    return LH_OK;
}

/* Checks options before anything is opened; the same on all ranks. */
static lh_status check_request(lh_eval_task *task)
{
    const lh_eval_values *v = values_of(task);
    LH_TRY(check_chat(&v->run));
    LH_TRY(lh_shell_template_arguments(&v->run.format, &task->arguments));
    task->lists = v->policy;
    if (task->kind->check) LH_TRY(task->kind->check(task->self));
    LH_TRY(lh_policy_list_resolve(&task->policies, &task->lists));
    for (int64_t i = 0; i < v->run.given.n; i++) LH_TRY(lh_given_sets_add(&task->policies, v->run.given.at[i]));
    LH_TRY(lh_given_files_find(&task->given, &task->policies));
    if (v->run.length) LH_TRY(lh_eval_read_lengths("length", v->run.length, &task->lengths, &task->length_count));
    LH_TRY(check_files(task));
    return LH_OK;
}

/* "models/smollm2.h5" -> "smollm2" */
static lh_status name_model(lh_eval_task *task)
{
    const char *path = values_of(task)->engine.model, *slash = strrchr(path, '/');
    const char *name = slash && slash[1] ? slash + 1 : path, *dot = strrchr(name, '.');
    return lh_strndup(&task->model, name, dot && strcmp(dot, ".h5") == 0 ? dot - name : (int64_t)strlen(name));
}

/* The model and the keep sets are probed before. */
static lh_status open_world(lh_eval_task *task)
{
    lh_status st = LH_OK;
    const char **files = NULL;
    LH_TRY_DONE(lh_calloc(&files, task->given.n + 2, sizeof *files));
    files[0] = values_of(task)->engine.model;
    for (int64_t i = 0; i < task->given.n; i++) files[i + 1] = task->given.at[i];
    LH_TRY_DONE(lh_shell_open_world(task->call, files));
done:
    lh_free((void *)files);
    return st;
}

/* Opens the world, loads what rank 0 reads, opens the engine. */
static lh_status open_engine(lh_eval_task *task)
{
    lh_status st = LH_OK;
    const lh_engine_options *e = &values_of(task)->engine;
    LH_TRY(lh_shell_record(task->call, &task->record));
    LH_TRY(name_model(task));
    LH_TRY(open_world(task));
    LH_TRY(lh_shell_same_policies(task->call, &task->policies.profiles));
    lh_comm *world = lh_world_comm(task->call->world);
    if (lh_shell_first()) st = lh_eval_claim(task);
    if (st == LH_OK && lh_shell_first()) st = task->kind->load(task->self);
    LH_TRY(lh_comm_agree_untimed(world, st));
    lh_interrupt_begin();
    LH_TRY(lh_engine_open_on(&task->engine, lh_world_comm(task->call->world), e));
    const lh_cache_size cache = lh_engine_cache_size(task->engine);
    return lh_comm_agree(world, lh_policy_list_size(&task->policies, &cache));
}

/* Decides if prompts are put in a chat format. */
static lh_status choose_chat(lh_eval_task *task)
{
    const lh_eval_options *options = &values_of(task)->run;
    const lh_tokenizer *tok = lh_engine_tokenizer(task->engine);
    const int has = tok && lh_tokenizer_chat_format(tok) != NULL;
    if (!options->chat) return LH_OK;
    const int asked = options->format.format || strcmp(options->chat, "on") == 0;
    task->chat = asked || (strcmp(options->chat, "auto") == 0 && has);
    if (asked && !has && !options->format.format)
        LH_FAIL(LH_EUSAGE, "the model has no known chat format: name one with '--chat-template'");
    if (options->system && !task->chat)
        LH_FAIL(LH_EUSAGE, "'--system' needs a chat format, and the model has none: name one with '--chat-template'");
    return LH_OK;
}

/* Collective. Rank 0 writes the results to standard output and files. */
static lh_status finish_task(lh_eval_task *task)
{
    lh_status st = LH_OK;
    lh_progress_clear(&task->progress);
    if (lh_shell_first()) {
        lh_failures_add(&task->unwritten, lh_eval_write(task, 0));
        st = lh_failures_end(&task->unwritten);
    }
    if (st == LH_OK) lh_resume_remove(task->resume);
    return lh_comm_agree(lh_engine_get(task->engine)->comm, st);
}

/* On an interrupt: rank 0 prints the results so far, and all end the run. */
static void end_interrupted(lh_eval_task *task, const lh_eval_work *work)
{
    const long long done = work->prompts, all = work->prompt_total;
    if (!lh_shell_first()) lh_comm_leave(lh_engine_get(task->engine)->comm, LH_EINTERRUPTED);
    lh_progress_clear(&task->progress);
    lh_status st = lh_eval_write(task, 1);
    if (st != LH_OK) lh_log(LH_LOG_ERROR, 0, "%s", lh_error_message());
    const long long kept = lh_resume_finished(task->resume);
    if (kept)
        lh_warn("interrupted after %lld of %lld prompts: no file was replaced; %lld %s kept in '%s', and the same "
                "command goes on with the others",
                done, all, kept, kept == 1 ? "is" : "are", lh_resume_path(task->resume));
    else if (task->resume)
        lh_warn(
            "interrupted after %lld of %lld prompts: no file was replaced; none is kept, and the same command begins "
            "again",
            done, all);
    else
        lh_warn(
            "interrupted after %lld of %lld prompts, which are lost; with '--csv', '--answers' or '--output' the same "
            "command would go on with the others",
            done, all);
    lh_resume_close(task->resume);
    lh_eval_drop_claims(task);
    lh_comm_leave(lh_engine_get(task->engine)->comm, st != LH_OK ? (int)st : LH_EINTERRUPTED);
}

static void show_progress(void *self, const lh_eval_work *work)
{
    lh_eval_task *task = self;
    if (!task->progress.what) {
        lh_progress_init(&task->progress, task->kind->name, "prompts", work->prompt_total);
        task->progress.before = work->resumed;
    }
    lh_progress_estimate(&task->progress, work->prompts, lh_work_left_s(work));
    if (lh_shell_interrupted(lh_engine_get(task->engine)->comm)) end_interrupted(task, work);
}

lh_eval_setup lh_eval_setup_of(lh_eval_task *task)
{
    const lh_eval_options *o = &values_of(task)->run;
    return (lh_eval_setup){.policies = &task->policies,
                           .seed = (uint64_t)o->seed,
                           .max_new = o->max_new,
                           .together = o->together,
                           .resume = task->resume,
                           .progress = {task, show_progress},
                           .model = task->model,
                           .timed = !values_of(task)->engine.deterministic,
                           .keep_sets = values_of(task)->files.keep_sets,
                           .run = task->record,
                           .unwritten = &task->unwritten};
}

lh_status lh_eval_run(lh_eval_task *task)
{
    lh_status st = LH_OK;
    LH_TRY_DONE(check_request(task));
    LH_TRY_DONE(open_engine(task));
    LH_TRY_DONE(choose_chat(task));
    if (lh_shell_first()) st = lh_eval_open_resume(task);
    LH_TRY_DONE(lh_comm_agree_untimed(lh_engine_get(task->engine)->comm, st));
    lh_shell_note_defaults(&task->policies);
    st = lh_eval_warn_of_policies(&task->policies, task->lengths, task->length_count);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(task->engine)->comm, st));
    LH_TRY_DONE(task->kind->run(task->self));
    LH_TRY_DONE(finish_task(task));
done:
    if (lh_shell_first()) lh_eval_drop_claims(task);
    lh_progress_clear(&task->progress);
    lh_resume_close(task->resume);
    lh_policy_list_clear(&task->policies);
    lh_engine_close(task->engine);
    lh_free(task->lengths);
    lh_free(task->model);
    json_decref(task->arguments);
    lh_given_files_clear(&task->given);
    free(task->record);
    return st;
}
