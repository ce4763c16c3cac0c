/* eval_results.c - the outputs of `eval`: means and answers as CSV, all tables as HDF5, and tables on standard output.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/destination.h"
#include "base/file.h"
#include "base/h5.h"
#include "base/output.h"
#include "base/status.h"
#include "engine/engine.h"
#include "lab/eval/eval_common.h"

enum { FILES = 3 };

static const lh_eval_files *files_of(const lh_eval_task *task)
{
    return &((const lh_eval_values *)task->call->values)->files;
}

int lh_eval_is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* ---- claims ---- */

lh_status lh_eval_claim(const lh_eval_task *task)
{
    const lh_eval_files *files = files_of(task);
    if (files->csv) LH_TRY(lh_file_claim(files->csv, 1 << 20));
    if (files->answers) LH_TRY(lh_file_claim(files->answers, 1 << 20));
    if (files->output) LH_TRY(lh_partial_claim(files->output, 1 << 20));
    if (files->keep_sets && mkdir(files->keep_sets, 0777) != 0 && !lh_file_is_folder(files->keep_sets))
        LH_FAIL(LH_EWRITE, "cannot make the folder '%s' of '--keep-sets': %s", files->keep_sets, strerror(errno));
    return LH_OK;
}

void lh_eval_drop_claims(const lh_eval_task *task)
{
    const lh_eval_files *files = files_of(task);
    const char *const paths[FILES] = {files->csv, files->answers, files->output};
    for (int i = 0; i < FILES; i++)
        if (paths[i]) lh_partial_drop(paths[i]);
}

lh_status lh_eval_kept_beside(const lh_eval_task *task, const char **path)
{
    const lh_eval_files *files = files_of(task);
    const char *const paths[FILES] = {files->output, files->answers, files->csv};
    *path = NULL;
    for (int i = 0; i < FILES && !*path; i++) {
        char *target = NULL;
        int stream = 0;
        if (!paths[i]) continue;
        LH_TRY(lh_destination_find(&target, &stream, paths[i]));
        lh_free(target);
        if (!stream) *path = paths[i];
    }
    return LH_OK;
}

/* ---- writing ---- */

/* The i-th table besides the means; NULL after the last. */
static const lh_table *table_at(const lh_eval_task *task, int i)
{
    if (!task->kind->tables[i].name) return NULL;
    const lh_table *table = (const lh_table *)((const char *)task->self + task->kind->tables[i].at);
    return i == 0 || table->n ? table : NULL;
}

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

/* The table `name` of the task. */
static lh_status write_group(const lh_eval_task *task, lh_h5 *h5, const char *name, const lh_table *table)
{
    lh_status st = LH_OK;
    char *path = NULL;
    LH_TRY_DONE(lh_asprintf(&path, "/%s/%s", task->kind->name, name));
    LH_TRY_DONE(lh_table_h5(table, h5, path));
done:
    lh_free(path);
    return st;
}

static lh_status write_analysis(const lh_eval_task *task, const lh_table *means, const lh_table *curve)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    const lh_table *table;
    char *group = NULL;
    LH_TRY_DONE(lh_h5_create(&h5, files_of(task)->output, &(lh_h5_header){"analysis", 1, task->record}));
    LH_TRY_DONE(lh_asprintf(&group, "/%s", task->kind->name));
    LH_TRY_DONE(lh_h5_group(h5, group));
    LH_TRY_DONE(write_group(task, h5, "means", means));
    if (task->kind->curve) LH_TRY_DONE(write_group(task, h5, "curve", curve));
    for (int i = 0; (table = table_at(task, i)); i++)
        LH_TRY_DONE(write_group(task, h5, task->kind->tables[i].name, table));
    st = lh_h5_commit(h5);
    h5 = NULL;
    if (st != LH_OK) goto done;
done:
    lh_h5_close(h5);
    lh_free(group);
    return st;
}

static lh_status write_json(const lh_eval_task *task, const lh_table *means, const lh_table *curve, int interrupted)
{
    lh_status st = LH_OK;
    const lh_engine_view *engine = lh_engine_get(task->engine);
    json_t *object = json_object(), *rows = NULL;
    const lh_table *table;
    json_object_set_new(object, "task", json_string(task->kind->name));
    json_object_set_new(object, "interrupted", json_boolean(interrupted));
    LH_TRY_DONE(lh_table_json(means, &rows));
    json_object_set_new(object, "means", rows);
    if (task->kind->curve) {
        LH_TRY_DONE(lh_table_json(curve, &rows));
        json_object_set_new(object, "curve", rows);
    }
    for (int i = 0; (table = table_at(task, i)); i++) {
        LH_TRY_DONE(lh_table_json(table, &rows));
        json_object_set_new(object, task->kind->tables[i].name, rows);
    }
    json_object_set_new(object, "ranks", json_integer(lh_comm_size(engine->comm)));
    json_object_set_new(object, "dtype", json_string(lh_dtype_name(engine->dtype)));
    json_object_set_new(object, "kv_dtype", json_string(lh_dtype_name(engine->kv_types.full)));
    json_object_set_new(object, "evicted_kv_dtype", json_string(lh_dtype_name(engine->kv_types.evicted)));
    json_object_set_new(object, "version", json_string(lh_version()));
    LH_TRY_DONE(lh_shell_write_json(object));
done:
    json_decref(object);
    return st;
}

static lh_status print_tables(const lh_eval_task *task)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    const lh_kv_types *types = &lh_engine_get(task->engine)->kv_types;
    LH_TRY_DONE(lh_buf_printf(&text, "Entries of the full cache: %s, of caches that evict: %s.\n\n",
                              lh_dtype_name(types->full), lh_dtype_name(types->evicted)));
    LH_TRY_DONE(task->kind->print(task->self, &text));
    LH_TRY_DONE(lh_shell_write_plain(&text));
done:
    lh_buf_clear(&text);
    return st;
}

lh_status lh_eval_write(const lh_eval_task *task, int interrupted)
{
    lh_failures failed = {0};
    const lh_eval_files *f = files_of(task);
    const int csv_shown = lh_eval_is_stdout(f->csv), answers_shown = lh_eval_is_stdout(f->answers);
    lh_table means = {0}, curve = {0};
    lh_failures_add(&failed, task->kind->means(task->self, &means));
    if (task->kind->curve) lh_failures_add(&failed, task->kind->curve(task->self, &curve));
    if (failed.st != LH_OK) goto done;
    if (f->csv && (csv_shown || !interrupted)) lh_failures_add(&failed, write_csv(&means, f->csv));
    if (f->answers && (answers_shown || !interrupted))
        lh_failures_add(&failed, write_csv(table_at(task, 0), f->answers));
    if (f->output && !interrupted) lh_failures_add(&failed, write_analysis(task, &means, &curve));
    if (f->json)
        lh_failures_add(&failed, write_json(task, &means, &curve, interrupted));
    else if (!csv_shown && !answers_shown)
        lh_failures_add(&failed, print_tables(task));
done:
    lh_table_clear(&means);
    lh_table_clear(&curve);
    return lh_failures_end(&failed);
}
