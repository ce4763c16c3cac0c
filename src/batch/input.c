/* input.c - finds the lines of an input. */
#include "batch/input.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "text/text_check.h"

struct lh_batch_input {
    lh_map map;
    lh_batch_line *lines;
    int64_t n, cap;
    uint64_t *others; /* [other_count] hashes of the lines of other parts */
    int64_t other_count;
    lh_ids *ids;
};

static int is_blank(const char *text, int64_t bytes)
{
    while (bytes > 0 && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t' || text[bytes - 1] == '\r')) bytes--;
    return bytes == 0;
}

/* The string of a member without zero bytes; NULL if the member is none. */
static const char *text_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

/* A hash that is the same for all lines of a context, and never 0. */
static lh_status hash_context(const char *id, const char *file, uint64_t *out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    if (id) LH_TRY_DONE(lh_buf_printf(&text, "i%s", id));
    if (id) LH_TRY_DONE(lh_buf_append(&text, "", 1));
    if (file) LH_TRY_DONE(lh_buf_printf(&text, "f%s", file));
    if (file) LH_TRY_DONE(lh_buf_append(&text, "", 1));
    *out = lh_hash64(text.data, text.bytes) | 1;
done:
    lh_buf_clear(&text);
    return st;
}

/* Reads the custom_id and the context of a line, where it has them. The object is dropped again: all requests of an
 * input may need more memory than there is. */
static lh_status read_names(lh_batch_line *line)
{
    lh_status st = LH_OK;
    json_t *object = NULL;
    if (line->bytes > LH_BATCH_LINE_BYTES) return LH_OK;
    object = json_loadb(line->text, (size_t)line->bytes, JSON_ALLOW_NUL, NULL);
    const char *id = text_of(object, "custom_id"), *context_id = text_of(object, "context_id");
    const char *file = text_of(object, "context_file");
    if (id && *id && strlen(id) <= LH_BATCH_ID_BYTES) LH_TRY_DONE(lh_strdup(&line->custom_id, id));
    if (file) LH_TRY_DONE(lh_strdup(&line->context_file, file));
    if (context_id || file) LH_TRY_DONE(hash_context(context_id, file, &line->context));
done:
    json_decref(object);
    return st;
}

static void clear_line(lh_batch_line *line)
{
    lh_free(line->custom_id);
    lh_free(line->context_file);
}

static lh_status add_line(lh_batch_input *input, int64_t number, const char *text, int64_t bytes)
{
    lh_batch_line *line;
    if (input->n == input->cap) {
        input->cap = lh_max_i64(1024, 2 * input->cap);
        LH_TRY(lh_realloc(&input->lines, input->cap, sizeof *input->lines));
    }
    line = &input->lines[input->n++];
    *line = (lh_batch_line){.number = number, .hash = lh_hash64(text, bytes), .text = text, .bytes = bytes};
    return read_names(line);
}

static lh_status find_lines(lh_batch_input *input)
{
    const char *at = (const char *)input->map.data, *end = at + input->map.bytes;
    if (input->map.bytes >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) at += 3; /* byte order mark */
    for (int64_t number = 1; at < end; number++) {
        const char *feed = memchr(at, '\n', (size_t)(end - at)), *stop = feed ? feed : end;
        int64_t bytes = stop - at;
        if (bytes > 0 && at[bytes - 1] == '\r') bytes--;
        if (!is_blank(at, bytes)) LH_TRY(add_line(input, number, at, bytes));
        at = feed ? feed + 1 : end;
    }
    if (input->n == 0) LH_FAIL(LH_EINPUT, "'%s' holds no request", input->map.path);
    return LH_OK;
}

static int has_within(const char *text, int64_t bytes, char c)
{
    return bytes > 0 && memchr(text, c, (size_t)bytes) != NULL;
}

/* LH_EINPUT, with advice, if no line of the file can be a request. */
static lh_status check_any(const lh_batch_input *input)
{
    lh_status st = LH_OK;
    char where[64];
    json_t *object = NULL;
    const char *path = input->map.path;
    const lh_batch_line *first = &input->lines[0];
    for (int64_t i = 0; i < input->n; i++)
        if (input->lines[i].custom_id || input->lines[i].bytes > LH_BATCH_LINE_BYTES) return LH_OK;
    if (has_within(first->text, first->bytes, '\0'))
        LH_FAIL(LH_EINPUT, "'%s' holds zero bytes, it is no text: 'iconv -f utf-16 -t utf-8 FILE' converts UTF-16",
                path);
    LH_TRY(lh_text_check_line_ends(path, first->text, first->bytes));
    if (input->n > 1 && *first->text == '{' && first->text[first->bytes - 1] != '}')
        LH_FAIL(LH_EINPUT, "'%s' has a JSON value over several lines, not one a line: 'jq -c . FILE' makes lines",
                path);
    snprintf(where, sizeof where, "line %lld", (long long)first->number);
    st = lh_json_parse_line(&object, where, first->text, first->bytes);
    json_decref(object);
    if (st != LH_OK) return lh_fail_within(LH_EINPUT, "'%s' holds no request", path);
    LH_FAIL(LH_EINPUT, "'%s' holds no request: no line is a JSON object with a 'custom_id' of 1 to %d bytes", path,
            (int)LH_BATCH_ID_BYTES);
}

/* A custom_id belongs to the first line that has it. */
static lh_status find_duplicates(lh_batch_input *input)
{
    LH_TRY(lh_ids_open(&input->ids, input->n));
    for (int64_t i = 0; i < input->n; i++) {
        lh_batch_line *line = &input->lines[i];
        const int64_t first = line->custom_id ? lh_ids_add(input->ids, line->custom_id, i) : -1;
        if (first < 0) continue;
        line->same_as = input->lines[first].number;
        lh_free(line->custom_id);
        line->custom_id = NULL;
    }
    return LH_OK;
}

static int64_t shard_of(const lh_batch_input *input, int64_t i, int64_t count)
{
    const uint64_t context = input->lines[i].context >> 1; /* the lowest bit is always set */
    return (int64_t)((context ? context : (uint64_t)i) % (uint64_t)count);
}

lh_status lh_batch_input_shard(lh_batch_input *input, int64_t index, int64_t count)
{
    int64_t kept = 0;
    LH_TRY(lh_calloc(&input->others, input->n, sizeof *input->others));
    for (int64_t i = 0; i < input->n; i++) {
        if (shard_of(input, i, count) == index) {
            input->lines[kept++] = input->lines[i];
            continue;
        }
        input->others[input->other_count++] = input->lines[i].hash;
        clear_line(&input->lines[i]);
    }
    input->n = kept;
    lh_ids_close(input->ids);
    input->ids = NULL;
    LH_TRY(lh_ids_open(&input->ids, kept));
    for (int64_t i = 0; i < kept; i++)
        if (input->lines[i].custom_id) lh_ids_add(input->ids, input->lines[i].custom_id, i);
    return LH_OK;
}

lh_status lh_batch_input_open(lh_batch_input **out, const char *path)
{
    lh_status st = LH_OK;
    lh_batch_input *input = NULL;
    LH_TRY_DONE(lh_calloc(&input, 1, sizeof *input));
    LH_TRY_DONE(lh_map_open(&input->map, path));
    LH_TRY_DONE(lh_text_check_lines(path, (const char *)input->map.data, input->map.bytes));
    LH_TRY_DONE(find_lines(input));
    LH_TRY_DONE(check_any(input));
    LH_TRY_DONE(find_duplicates(input));
    LH_TRY_DONE(lh_map_unchanged(&input->map));
    *out = input;
    input = NULL;
done:
    lh_batch_input_close(input);
    return st;
}

void lh_batch_input_close(lh_batch_input *input)
{
    if (!input) return;
    lh_ids_close(input->ids);
    for (int64_t i = 0; i < input->n; i++) clear_line(&input->lines[i]);
    lh_free(input->lines);
    lh_free(input->others);
    lh_map_close(&input->map);
    lh_free(input);
}

const char *lh_batch_input_path(const lh_batch_input *input)
{
    return input->map.path;
}

int64_t lh_batch_input_count(const lh_batch_input *input)
{
    return input->n;
}

int64_t lh_batch_input_total(const lh_batch_input *input)
{
    return input->n + input->other_count;
}

int lh_batch_input_is_elsewhere(const lh_batch_input *input, uint64_t hash)
{
    for (int64_t i = 0; i < input->other_count; i++)
        if (input->others[i] == hash) return 1;
    return 0;
}

const lh_batch_line *lh_batch_input_line(const lh_batch_input *input, int64_t i)
{
    return &input->lines[i];
}

int64_t lh_batch_input_find(const lh_batch_input *input, const char *custom_id)
{
    return lh_ids_find(input->ids, custom_id);
}

int64_t lh_batch_input_find_number(const lh_batch_input *input, int64_t number)
{
    int64_t low = 0, high = input->n; /* the line is in [low, high) */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (input->lines[middle].number == number) return middle;
        if (input->lines[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

lh_status lh_batch_input_unchanged(const lh_batch_input *input)
{
    return lh_map_unchanged(&input->map);
}

typedef struct slot {
    const char *id; /* NULL: free */
    int64_t number;
} slot;

struct lh_ids {
    slot *slots;
    int64_t size; /* a power of two, twice the ids or more */
    int64_t n;
};

lh_status lh_ids_open(lh_ids **out, int64_t count)
{
    lh_status st = LH_OK;
    lh_ids *ids = NULL;
    LH_TRY_DONE(lh_calloc(&ids, 1, sizeof *ids));
    for (ids->size = 16; ids->size < 2 * count;) ids->size *= 2;
    LH_TRY_DONE(lh_calloc(&ids->slots, ids->size, sizeof *ids->slots));
    *out = ids;
    ids = NULL;
done:
    lh_ids_close(ids);
    return st;
}

void lh_ids_close(lh_ids *ids)
{
    if (!ids) return;
    lh_free(ids->slots);
    lh_free(ids);
}

/* The slot that holds `id`, or the free one where it would be. */
static slot *slot_of(const lh_ids *ids, const char *id)
{
    uint64_t at = lh_hash64(id, (int64_t)strlen(id));
    for (;; at++) {
        slot *s = &ids->slots[at & (uint64_t)(ids->size - 1)];
        if (!s->id || strcmp(s->id, id) == 0) return s;
    }
}

int64_t lh_ids_add(lh_ids *ids, const char *id, int64_t number)
{
    slot *s = slot_of(ids, id);
    if (s->id) return s->number;
    assert(2 * ids->n < ids->size);
    ids->n++;
    *s = (slot){id, number};
    return -1;
}

int64_t lh_ids_find(const lh_ids *ids, const char *id)
{
    const slot *s = slot_of(ids, id);
    return s->id ? s->number : -1;
}
