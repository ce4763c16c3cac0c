/* shell.c - what all commands share: opening the world with the record of the options, probing files, writing text,
 * JSON and trees of values to stdout. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/h5.h"
#include "base/json.h"
#include "base/log.h"
#include "base/output.h"
#include "base/size_text.h"
#include "base/unicode.h"
#include "policies/plugin.h"
#include "shell/shell.h"
#include "text/text_check.h"

int lh_shell_first(void)
{
    return lh_log_rank() == 0;
}

/* Standard output: 1 after its reader has gone. */
static int unread;

int lh_shell_unread(void)
{
    return unread;
}

lh_status lh_shell_write(const void *data, int64_t bytes)
{
    if (unread) return LH_OK;
    errno = 0;
    if (fwrite(data, 1, (size_t)bytes, stdout) == (size_t)bytes && fflush(stdout) == 0) return LH_OK;
    unread = errno == EPIPE;
    if (!unread) LH_FAIL(LH_EWRITE, "cannot write to standard output: %s", strerror(errno));
    return LH_OK;
}

void lh_shell_show(const void *data, int64_t bytes)
{
    if (isatty(STDERR_FILENO)) fwrite(data, 1, (size_t)bytes, stderr);
}

lh_status lh_shell_write_plain(lh_buf *text)
{
    int64_t plain = 0;
    for (int64_t at = 0; at < text->bytes;) {
        const char *feed = memchr(text->data + at, '\n', (size_t)(text->bytes - at));
        const int64_t end = feed ? feed - text->data : text->bytes,
                      kept = lh_text_make_plain(text->data + at, end - at);
        memmove(text->data + plain, text->data + at, (size_t)kept);
        plain += kept;
        if (feed) text->data[plain++] = '\n';
        at = end + 1;
    }
    text->bytes = plain;
    return lh_shell_write(text->data ? text->data : "", plain);
}

static lh_status put_json_line(lh_buf *line, const json_t *value)
{
    lh_status st = LH_OK;
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    if (!text) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the JSON text");
    LH_TRY_DONE(lh_json_put_plain(line, text, (int64_t)strlen(text)));
    LH_TRY_DONE(lh_buf_puts(line, "\n"));
done:
    free(text);
    return st;
}

lh_status lh_shell_write_json(const json_t *value)
{
    lh_buf line = {0};
    lh_status st = put_json_line(&line, value);
    if (st == LH_OK) st = lh_shell_write(line.data, line.bytes);
    lh_buf_clear(&line);
    return st;
}

lh_status lh_shell_save_json(const char *path, const json_t *value)
{
    lh_buf line = {0};
    lh_status st = put_json_line(&line, value);
    if (st == LH_OK) st = lh_file_write(path, line.data, line.bytes);
    lh_buf_clear(&line);
    return st;
}

enum { LINE_BYTES = 160 };

/* Append a name or text of a file without control characters. */
static lh_status put_plain(lh_buf *out, const char *text, int64_t bytes)
{
    int64_t start = out->bytes;
    LH_TRY(lh_buf_append(out, text, bytes));
    out->bytes = start + lh_text_make_plain(out->data + start, bytes);
    out->data[out->bytes] = '\0';
    return LH_OK;
}

static lh_status tree(lh_buf *out, const json_t *value, int depth);
static lh_status leaf(lh_buf *out, const json_t *value);

/* 1 for a value that fits on a line. */
static int is_leaf(const json_t *value)
{
    size_t i;
    json_t *item;
    if (json_is_object(value)) return json_object_size(value) == 0;
    json_array_foreach((json_t *)(uintptr_t)value, i, item)
    {
        if (json_is_object(item) || json_is_array(item)) return 0;
    }
    return 1;
}

/* Append a name; without "bytes", if the value is shown with a unit. */
static lh_status put_name(lh_buf *out, const char *name, const json_t *value)
{
    const char *bytes = json_is_integer(value) ? strstr(name, "bytes") : NULL;
    if (!bytes) return put_plain(out, name, (int64_t)strlen(name));
    if (strcmp(name, "bytes") == 0) return lh_buf_puts(out, "size");
    LH_TRY(put_plain(out, name, bytes - name - (bytes > name)));
    return put_plain(out, bytes + strlen("bytes"), (int64_t)strlen(bytes) - (int64_t)strlen("bytes"));
}

/* The value of a member: a number of bytes with a suitable unit. */
static lh_status put_value(lh_buf *out, const char *name, const json_t *value)
{
    char size[LH_SIZE_TEXT];
    if (json_is_integer(value) && strstr(name, "bytes"))
        return lh_buf_puts(out, lh_size_text(size, json_integer_value(value)));
    return leaf(out, value);
}

static lh_status leaf(lh_buf *out, const json_t *value)
{
    lh_status st = LH_OK;
    char *text = NULL;
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            if (i) LH_TRY_DONE(lh_buf_puts(out, ", "));
            LH_TRY_DONE(leaf(out, json_array_get(value, i)));
        }
    } else if (json_is_string(value)) {
        LH_TRY_DONE(put_plain(out, json_string_value(value), (int64_t)json_string_length(value)));
    } else if (json_is_boolean(value)) {
        LH_TRY_DONE(lh_buf_puts(out, json_is_true(value) ? "yes" : "no"));
    } else if (json_is_null(value)) {
        LH_TRY_DONE(lh_buf_puts(out, "none"));
    } else {
        text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        if (!text) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the text");
        LH_TRY_DONE(lh_buf_puts(out, text));
    }
done:
    free(text);
    return st;
}

static lh_status branch(lh_buf *out, const char *name, const json_t *value, int depth)
{
    LH_TRY(lh_buf_printf(out, "%*s", 2 * depth, ""));
    LH_TRY(put_name(out, name, value));
    LH_TRY(lh_buf_puts(out, ":"));
    if (is_leaf(value)) {
        LH_TRY(lh_buf_puts(out, " "));
        LH_TRY(put_value(out, name, value));
        LH_TRY(lh_buf_puts(out, "\n"));
    } else {
        LH_TRY(lh_buf_puts(out, "\n"));
        LH_TRY(tree(out, value, depth + 1));
    }
    return LH_OK;
}

/* Writes an object of leaves on one line, without empty texts, if that is short enough: *done. */
static lh_status line(lh_buf *out, const char *name, const json_t *value, int depth, int *done)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    const char *key, *before = ":";
    json_t *member;
    *done = 0;
    LH_TRY_DONE(lh_buf_printf(&text, "%*s", 2 * depth, ""));
    LH_TRY_DONE(put_plain(&text, name, (int64_t)strlen(name)));
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (!is_leaf(member)) goto done;
        if (strcmp(key, "name") == 0 || (json_is_string(member) && json_string_length(member) == 0)) continue;
        LH_TRY_DONE(lh_buf_printf(&text, "%s ", before));
        LH_TRY_DONE(put_name(&text, key, member));
        LH_TRY_DONE(lh_buf_puts(&text, " "));
        LH_TRY_DONE(put_value(&text, key, member));
        before = ";";
    }
    *done = text.bytes <= LINE_BYTES;
    if (*done) LH_TRY_DONE(lh_buf_printf(out, "%s\n", text.data));
done:
    lh_buf_clear(&text);
    return st;
}

/* 1 if the object also has the size of this member, which is shown under the same name. */
static int has_size(const json_t *object, const char *name)
{
    char size[64];
    snprintf(size, sizeof size, "%s_bytes", name);
    return json_object_get(object, size) != NULL;
}

static lh_status tree(lh_buf *out, const json_t *value, int depth)
{
    const char *key;
    json_t *item;
    char number[32];
    size_t i;
    int done = 0;
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        if (json_is_true(item) && has_size(value, key)) continue;
        const int is_group = *key == '/' && json_is_object(item); /* a group of a file */
        if (is_group) LH_TRY(line(out, key, item, depth, &done));
        if (!is_group || !done) LH_TRY(branch(out, key, item, depth));
    }
    json_array_foreach((json_t *)(uintptr_t)value, i, item)
    {
        snprintf(number, sizeof number, "%zu", i);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name) LH_TRY(line(out, name, item, depth, &done));
        if (!name || !done) LH_TRY(branch(out, name ? name : number, item, depth));
    }
    return LH_OK;
}

lh_status lh_shell_write_tree(const json_t *value)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(tree(&text, value, 0));
    LH_TRY_DONE(lh_shell_write(text.data ? text.data : "", text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

lh_status lh_shell_probe(const char *path)
{
    return lh_h5_is_file(path) ? lh_h5_probe(path) : LH_OK;
}

lh_status lh_shell_record(const lh_call *call, char **out)
{
    lh_status st = LH_OK;
    json_t *record = NULL;
    LH_TRY_DONE(lh_options_json(call->options, &record));
    *out = json_dumps(record, JSON_COMPACT);
    if (!*out) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the record of the options");
done:
    json_decref(record);
    return st;
}

static void drop_rows(json_t *options, const lh_option_table *table)
{
    for (int64_t i = 0; lh_option_row(table, i); i++) json_object_del(options, lh_option_row(table, i)->name);
}

lh_status lh_shell_result_options(const lh_call *call, const lh_option_table *const *without, json_t **out)
{
    static const char *const placement[] = {"tp", "threads", "memory", "chunk", "device", "share-device", NULL};
    lh_status st = LH_OK;
    json_t *record = NULL;
    lh_named_file *files = NULL;
    int64_t n = 0;
    LH_TRY_DONE(lh_options_json(call->options, &record));
    LH_TRY_DONE(lh_options_files(call->options, &files, &n));
    json_t *options = json_object_get(record, "options");
    drop_rows(options, &lh_shell_common_options);
    for (int i = 0; without[i]; i++) drop_rows(options, without[i]);
    for (int i = 0; placement[i]; i++) json_object_del(options, placement[i]);
    for (int64_t i = 0; i < n; i++)
        if (files[i].option) json_object_del(options, files[i].option);
    *out = json_incref(options);
done:
    json_decref(record);
    lh_free(files);
    return st;
}

lh_status lh_shell_open_world(lh_call *call, const char *const *files)
{
    lh_status st = LH_OK;
    char *text = NULL;
    const lh_shell_common *common = call->values;
    LH_TRY_DONE(lh_shell_record(call, &text));
    LH_TRY_DONE(lh_world_open(
        &call->world,
        &(lh_world_options){.size = sizeof(lh_world_options),
                            .comm_timeout_s = common->comm_timeout_s > 0 ? common->comm_timeout_s : INFINITY,
                            .files = files,
                            .same = text}));
done:
    free(text);
    return st;
}

/* Compares hashes, which all ranks have or none: their options are the same. */
static lh_status compare_hashes(const lh_call *call, const lh_buf *hashes, const char *what)
{
    return hashes->bytes ? lh_comm_same(lh_world_comm(call->world), hashes->data, hashes->bytes, what) : LH_OK;
}

lh_status lh_shell_same_policies(const lh_call *call, const lh_profiles *profiles)
{
    lh_status st = LH_OK;
    lh_buf weights = {0}, code = {0};
    const lh_loaded_plugin *plugin;
    for (int64_t i = 0; i < profiles->n; i++)
        LH_TRY_DONE(lh_buf_append(&weights, &profiles->at[i]->hash, sizeof profiles->at[i]->hash));
    for (int i = 0; (plugin = lh_plugin_at(i)); i++)
        LH_TRY_DONE(lh_buf_append(&code, &plugin->hash, sizeof plugin->hash));
    LH_TRY_DONE(compare_hashes(call, &weights, "the files of '--layer-budget', '--head-budget' and '--rows-at'"));
    LH_TRY_DONE(compare_hashes(call, &code, "the files of plug-ins"));
done:
    lh_buf_clear(&weights);
    lh_buf_clear(&code);
    return st;
}

lh_interrupt lh_shell_interrupted(lh_comm *comm)
{
    int none = 0;
    return lh_shell_interrupted_any(comm, &none);
}

lh_interrupt lh_shell_interrupted_any(lh_comm *comm, int *any)
{
    int32_t asked[2] = {(int32_t)lh_interrupt_asked(), *any};
    /* If this fails, so does the next collective, which can report it. */
    if (lh_comm_allreduce(comm, asked, 2, LH_I32, LH_MAX) != LH_OK) return LH_INTERRUPT_NONE;
    *any = asked[1];
    return (lh_interrupt)asked[0];
}

/* Limit of a text: more than any model's context. */
static const int64_t TEXT_BYTES = INT64_C(1) << 32;

lh_status lh_text_read(lh_buf *out, const char *path)
{
    const int64_t from = out->bytes;
    LH_TRY(lh_file_read(out, path, TEXT_BYTES));
    return lh_text_check_file(path, out->data + from, out->bytes - from);
}
