/* cmd_info.c - `info`: the contents of a file, or this build and its ranks, as text or JSON. */
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/markdown.h"
#include "base/size_text.h"
#include "base/version.h"
#include "cache/store.h"
#include "engine/threads.h"
#include "import/random_shapes.h"
#include "kernels/ops.h"
#include "lab/report/report.h"
#include "main/file_kinds.h"
#include "main/line_editor.h"
#include "shell/shell.h"
#include "text/chat.h"

struct values {
    lh_shell_common common;
    lh_shell_format format;
};

static const lh_option_group groups[] = {{&lh_shell_format_options, offsetof(struct values, format)},
                                         {&lh_shell_common_options, offsetof(struct values, common)},
                                         {0}};
static const lh_example examples[] = {{"longhaul info m.h5", "what a checkpoint holds"},
                                      {"mpirun -n 2 longhaul info", "this build, the ranks and what they run on"},
                                      {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "info",
    .usage = "[FILE|FOLDER] [options]",
    .summary = "Show the contents of a file, or this build and its ranks",
    .text = "FILE is a checkpoint, a cache, a prefill under way, keep sets, a trace or an analysis; of the folder of a "
            "--context-cache the contexts that it holds are listed. Without it: build, ranks, devices, backends, "
            "policies, chat formats, operations.",
    .max_args = 1,
    .reads_args = 1,
    .groups = groups,
    .examples = examples};

/* ---- the program and its ranks ---- */

static json_t *build_json(void)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "version", lh_version(), "git", lh_version_git(), "build",
                     lh_version_build(), "line_editor", lh_line_editor_name());
}

static void put_library(json_t *object, const char *name, int (*found)(char text[256]))
{
    char text[256];
    found(text);
    json_object_set_new(object, name, json_string(text));
}

static json_t *backends_json(void)
{
    json_t *object = json_object(), *names = json_array();
    for (int i = 0; lh_ops_at(i); i++) json_array_append_new(names, json_string(lh_ops_at(i)->name));
    json_object_set_new(object, "names", names);
    json_object_set_new(object, "cpu_instructions", json_string(lh_cpu_isa()));
    json_object_set_new(object, "cpu_gemm_f32", json_string(lh_cpu_gemm_library(LH_F32)));
    json_object_set_new(object, "cpu_gemm_bf16", json_string(lh_cpu_gemm_library(LH_BF16)));
    if (lh_cublas_found) { /* a build with CUDA */
        put_library(object, "cuda_cublas", lh_cublas_found);
        put_library(object, "cuda_nccl", lh_comm_nccl_found);
    }
    return object;
}

static json_t *policies_json(void)
{
    json_t *object = json_object();
    for (int i = 0; lh_policy_at(i); i++)
        json_object_set_new(object, lh_policy_at(i)->name, json_string(lh_policy_at(i)->summary));
    return object;
}

static json_t *chats_json(void)
{
    json_t *list = json_array();
    for (int i = 0; lh_chat_builtin_name(i); i++) json_array_append_new(list, json_string(lh_chat_builtin_name(i)));
    return list;
}

static json_t *shapes_json(void)
{
    json_t *object = json_object();
    for (int i = 0; lh_random_shape_name(i); i++)
        json_object_set_new(object, lh_random_shape_name(i), json_string(lh_random_shape_summary(i)));
    return object;
}

static json_t *operations_json(void)
{
    json_t *object = json_object();
    for (int i = 0; lh_op_name(i); i++) json_object_set_new(object, lh_op_name(i), json_string(lh_op_summary(i)));
    return object;
}

/* The report of a rank. */
typedef struct about_rank {
    char host[128], device[128], cuda[512];
    int64_t free_bytes, threads;
    char threads_from[LH_THREADS_SOURCE];
} about_rank;

static lh_status describe(lh_comm *comm, const lh_threads *threads, about_rank *out)
{
    lh_status st = LH_OK;
    lh_device *device = NULL;
    lh_device_found found;
    LH_TRY_DONE(lh_device_open(&device, &(lh_device_choice){.kind = LH_DEVICE_CPU}));
    snprintf(out->host, sizeof out->host, "%s", lh_comm_host(comm));
    snprintf(out->device, sizeof out->device, "%s", lh_device_name(device));
    out->free_bytes = lh_device_free_bytes(device);
    out->threads = lh_threads_count(threads);
    snprintf(out->threads_from, sizeof out->threads_from, "%s", lh_threads_source(threads));
    lh_device_find(LH_DEVICE_CUDA, &found);
    snprintf(out->cuda, sizeof out->cuda, "%s", found.text);
done:
    lh_device_close(device);
    return st;
}

/* Collective. Gathers host, device and threads of all ranks as a JSON array. */
static lh_status ranks_json(lh_comm *comm, json_t **out)
{
    lh_status st = LH_OK;
    about_rank own = {0}, *all = NULL;
    lh_threads *threads = NULL;
    json_t *list = json_array();
    LH_TRY_DONE(lh_threads_open(&threads, comm, 0));
    st = describe(comm, threads, &own);
    if (st == LH_OK) st = lh_calloc(&all, lh_comm_size(comm), sizeof *all);
    LH_TRY_DONE(lh_comm_agree(comm, st));
    LH_TRY_DONE(lh_comm_allgather(comm, &own, all, sizeof own));
    for (int r = 0; r < lh_comm_size(comm); r++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:I, s:s, s:I, s:s}", "host", all[r].host, "device", all[r].device,
                                        "threads", (json_int_t)all[r].threads, "threads_from", all[r].threads_from,
                                        "free_bytes", (json_int_t)all[r].free_bytes, "cuda", all[r].cuda));
    *out = list;
    list = NULL;
done:
    json_decref(list);
    lh_threads_close(threads);
    lh_free(all);
    return st;
}

static lh_status about_program(lh_call *call, json_t **out)
{
    lh_status st = LH_OK;
    json_t *ranks = NULL;
    LH_TRY_DONE(lh_shell_open_world(call, NULL));
    LH_TRY_DONE(ranks_json(lh_world_comm(call->world), &ranks));
    *out = json_object();
    json_object_set_new(*out, "longhaul", build_json());
    json_object_set_new(*out, "communication", json_string(lh_comm_name(lh_world_comm(call->world))));
    json_object_set(*out, "ranks", ranks);
    json_object_set_new(*out, "backends", backends_json());
    json_object_set_new(*out, "policies", policies_json());
    json_object_set_new(*out, "chat_formats", chats_json());
    json_object_set_new(*out, "random_shapes", shapes_json());
    json_object_set_new(*out, "operations", operations_json());
done:
    json_decref(ranks);
    return st;
}

/* Removes options that had their default from the record of a file; JSON output shows all. */
static lh_status leave_defaults(json_t *object)
{
    lh_status st = LH_OK;
    json_t *run = json_object_get(object, "run"), *options = json_object_get(run, "options");
    json_t *given = json_object_get(run, "given"), *few = json_object(), *name;
    size_t i;
    json_array_foreach(given, i, name)
    {
        json_t *value = json_is_string(name) ? json_object_get(options, json_string_value(name)) : NULL;
        if (value && json_object_set(few, json_string_value(name), value) != 0)
            LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the description");
    }
    if (options && given) {
        json_object_set(run, "options", few);
        json_object_del(run, "given");
    }
done:
    json_decref(few);
    return st;
}

/* Removes the attributes and arrays of figures, which are drawn instead. */
static void leave_figures(json_t *object)
{
    static const char below[] = "/figures";
    json_t *arrays = json_object_get(object, "arrays"), *member;
    const char *key;
    void *next;
    json_object_foreach_safe(object, next, key, member) if (strncmp(key, below, sizeof below - 1) == 0)
        json_object_del(object, key);
    for (size_t i = json_array_size(arrays); i-- > 0;) {
        const char *name = json_string_value(json_object_get(json_array_get(arrays, i), "name"));
        if (name && strncmp(name, below, sizeof below - 1) == 0) json_array_remove(arrays, i);
    }
    if (json_array_size(arrays) == 0) json_object_del(object, "arrays");
}

static lh_status plot_analysis(const char *path, lh_buf *out)
{
    lh_report *report = NULL;
    lh_status st = lh_report_open(&report, &path, 1);
    if (st == LH_OK) st = lh_report_plots(report, out);
    lh_report_close(report);
    return st;
}

static lh_status plot_trace(const char *path, lh_buf *out)
{
    lh_trace_file trace = {0};
    lh_figures figures = {0};
    lh_status st = lh_trace_file_open(&trace, path);
    if (st == LH_OK) st = lh_trace_figures(&trace, &figures);
    if (st == LH_OK) st = lh_figures_plot(&figures, out);
    lh_figures_clear(&figures);
    lh_trace_file_close(&trace);
    return st;
}

/* Kinds of files that are drawn, too. */
static const struct plotted {
    const char *kind;
    lh_status (*plot)(const char *path, lh_buf *out);
} plotted[] = {{"analysis", plot_analysis}, {"trace", plot_trace}};

/* Small plots, after the description. */
static lh_status draw_plots(const char *path, const char *kind)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    for (size_t i = 0; i < sizeof plotted / sizeof *plotted; i++)
        if (strcmp(plotted[i].kind, kind) == 0) LH_TRY_DONE(plotted[i].plot(path, &text));
    if (text.bytes) LH_TRY_DONE(lh_shell_write("\n", 1));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

/* ---- a store of contexts ---- */

static lh_status put_context(const lh_markdown *table, int64_t row, const json_t *entry)
{
    const json_t *identity = json_object_get(entry, "identity");
    const char *texts[] = {json_string_value(json_object_get(entry, "text")),
                           json_string_value(json_object_get(entry, "model_name")),
                           json_string_value(json_object_get(entry, "policy"))};
    char size[LH_SIZE_TEXT], when[32] = "";
    const time_t used = (time_t)json_integer_value(json_object_get(entry, "last_use"));
    struct tm utc;
    if (gmtime_r(&used, &utc)) strftime(when, sizeof when, "%Y-%m-%d %H:%M", &utc);
    for (int c = 0; c < 3; c++) LH_TRY(lh_buf_puts(lh_markdown_cell(table, row, c), texts[c] ? texts[c] : ""));
    LH_TRY(lh_buf_printf(lh_markdown_cell(table, row, 3), "%lld",
                         (long long)json_integer_value(json_object_get(identity, "tokens"))));
    LH_TRY(lh_buf_printf(lh_markdown_cell(table, row, 4), "%lld of %lld",
                         (long long)json_integer_value(json_object_get(entry, "entries_kept")),
                         (long long)json_integer_value(json_object_get(entry, "entries"))));
    LH_TRY(lh_buf_puts(lh_markdown_cell(table, row, 5),
                       lh_size_text(size, json_integer_value(json_object_get(entry, "bytes")))));
    LH_TRY(lh_buf_puts(lh_markdown_cell(table, row, 6), when));
    return lh_buf_puts(lh_markdown_cell(table, row, 7), json_string_value(json_object_get(entry, "file")));
}

static lh_status print_contexts(const json_t *all)
{
    enum { COLUMNS = 8, LEFT = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 7 };
    static const char *const heading[COLUMNS] = {"text",    "model", "policy",         "tokens",
                                                 "entries", "bytes", "last use (UTC)", "file"};
    lh_status st = LH_OK;
    lh_markdown table = {0};
    lh_buf text = {0};
    const int64_t n = (int64_t)json_array_size(all);
    LH_TRY_DONE(lh_markdown_init(&table, n + 1, COLUMNS));
    for (int c = 0; c < COLUMNS; c++) LH_TRY_DONE(lh_buf_puts(lh_markdown_cell(&table, 0, c), heading[c]));
    for (int64_t i = 0; i < n; i++) LH_TRY_DONE(put_context(&table, i + 1, json_array_get(all, (size_t)i)));
    LH_TRY_DONE(lh_markdown_print(&table, LEFT, &text));
    LH_TRY_DONE(lh_shell_write_plain(&text));
done:
    lh_markdown_clear(&table);
    lh_buf_clear(&text);
    return st;
}

/* Rank 0. */
static lh_status list_store(const char *folder, int as_json)
{
    json_t *all = NULL;
    lh_status st = lh_store_list(folder, &all);
    if (st == LH_OK) st = as_json ? lh_shell_write_json(all) : print_contexts(all);
    json_decref(all);
    return st;
}

static lh_status run_info(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    const char *path = lh_options_arg(call->options, 0), *kind;
    json_t *object = NULL;
    if (path && !lh_shell_first()) goto done;
    if (path && lh_file_is_folder(path)) {
        st = list_store(path, v->format.json);
        goto done;
    }
    if (path)
        LH_TRY_DONE(lh_info_json(path, file_kinds, &object));
    else
        LH_TRY_DONE(about_program(call, &object));
    if (!v->format.json) LH_TRY_DONE(leave_defaults(object));
    if (path && !v->format.json) leave_figures(object);
    if (lh_shell_first()) LH_TRY_DONE(v->format.json ? lh_shell_write_json(object) : lh_shell_write_tree(object));
    kind = json_string_value(json_object_get(object, "kind"));
    if (path && kind && !v->format.json) LH_TRY_DONE(draw_plots(path, kind));
done:
    json_decref(object);
    return st;
}

const lh_command lh_command_info = {&syntax, sizeof(struct values), run_info, NULL};
