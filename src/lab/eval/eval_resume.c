/* eval_resume.c - what the results of an evaluation depend on, by which the same command is known again
 * (eval/resume.h): its options but for those that change neither prompts nor answers, the model, the contents of the
 * files that it reads, and the version of the program. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/version.h"
#include "engine/engine.h"
#include "lab/eval/eval_common.h"

/* Options of the engine that change how a run computes, not what. */
static const int64_t TEMPLATE_BYTES = 1 << 24;

static const lh_eval_values *values_of(const lh_eval_task *task)
{
    return task->call->values;
}

/* The options that change results; files are known by their contents. */
static lh_status options_of(const lh_eval_task *task, json_t **out)
{
    const lh_option_table *const without[] = {&lh_eval_file_options, NULL};
    LH_TRY(lh_shell_result_options(task->call, without, out));
    json_object_del(*out, "together");
    /* the keep sets of finished prompts must be there */
    const char *folder = values_of(task)->files.keep_sets;
    json_object_set_new(*out, "keep-sets", folder ? json_string(folder) : json_null());
    return LH_OK;
}

static json_t *hex(uint64_t hash)
{
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    return json_string(text);
}

/* Of the task's input, of given keep sets, and of a template of the chat format that is a file. */
static lh_status data_of(const lh_eval_task *task, uint64_t *hash)
{
    lh_status st = LH_OK;
    const char *template = values_of(task)->run.format.format;
    lh_buf text = {0};
    uint64_t parts[3] = {task->data};
    LH_TRY_DONE(lh_given_files_hash(&task->given, &parts[1]));
    if (template && lh_file_exists(template)) {
        LH_TRY_DONE(lh_file_read_regular(&text, template, TEMPLATE_BYTES));
        parts[2] = lh_hash64(text.data, text.bytes);
    }
    *hash = lh_hash64(parts, sizeof parts);
done:
    lh_buf_clear(&text);
    return st;
}

/* Policies by their names, in which weights of budgets are named by their hashes. */
static lh_status policies_of(const lh_eval_task *task, json_t **out)
{
    lh_status st = LH_OK;
    lh_buf name = {0};
    json_t *list = json_array();
    for (int64_t i = 0; i < task->policies.n; i++) {
        name.bytes = 0;
        LH_TRY_DONE(lh_buf_printf(&name, "%s %s", task->policies.at[i].name, task->policies.at[i].budget));
        json_array_append_new(list, json_string(name.data));
    }
    *out = json_incref(list);
done:
    lh_buf_clear(&name);
    json_decref(list);
    return st;
}

static lh_status make_identity(const lh_eval_task *task, json_t **out)
{
    lh_status st = LH_OK;
    const lh_engine_view *engine = lh_engine_get(task->engine);
    json_t *options = NULL, *policies = NULL;
    char version[256];
    uint64_t data = 0;
    snprintf(version, sizeof version, "%s %s", lh_version(), lh_version_git());
    LH_TRY_DONE(options_of(task, &options));
    LH_TRY_DONE(policies_of(task, &policies));
    LH_TRY_DONE(data_of(task, &data));
    /* in the order in which differences are named */
    *out = json_pack("{s:s, s:O, s:s, s:o, s:o, s:o, s:O, s:s, s:s, s:s}", "task", task->kind->name, "options", options,
                     "version", version, "model", hex(engine->identity), "score_weights", hex(engine->score_weights),
                     "data", hex(data), "policies", policies,
                     "dtype", lh_dtype_name(engine->dtype), "kv_dtype", lh_dtype_name(engine->kv_types.full),
                     "evicted_kv_dtype", lh_dtype_name(engine->kv_types.evicted));
    if (!*out) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for what identifies the evaluation");
done:
    json_decref(options);
    json_decref(policies);
    return st;
}

lh_status lh_eval_open_resume(lh_eval_task *task)
{
    lh_status st = LH_OK;
    const char *output = NULL;
    json_t *identity = NULL;
    LH_TRY_DONE(lh_eval_kept_beside(task, &output));
    if (!output) goto done;
    LH_TRY_DONE(make_identity(task, &identity));
    LH_TRY_DONE(lh_resume_open(&task->resume, output, identity));
    if (lh_resume_finished(task->resume))
        lh_info("%lld prompts are finished, from '%s'", (long long)lh_resume_finished(task->resume),
                lh_resume_path(task->resume));
done:
    json_decref(identity);
    return st;
}
