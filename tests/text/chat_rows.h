/* chat_rows.h - conversations in files, a JSON object a line: {"messages", "add_generation_prompt", "expected" or
 * "error" (empty: any)}, and the tokens "bos_token" and "eos_token" where they are not <s> and </s>. */
#ifndef LH_TESTS_CHAT_ROWS_H
#define LH_TESTS_CHAT_ROWS_H

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "text/chat.h"

enum { MESSAGES = 32 };

static inline lh_status render_row(const lh_chat_format *format, const json_t *row, lh_chat_text *text)
{
    const json_t *list = json_object_get(row, "messages"), *bos = json_object_get(row, "bos_token");
    const json_t *eos = json_object_get(row, "eos_token");
    lh_message messages[MESSAGES];
    int64_t n = (int64_t)json_array_size(list);
    ck_assert_int_le(n, MESSAGES);
    for (int64_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(list, (size_t)i);
        messages[i] = (lh_message){.role = json_string_value(json_object_get(m, "role")),
                                   .content = json_string_value(json_object_get(m, "content"))};
    }
    lh_chat_request request = {messages,
                               n,
                               json_is_true(json_object_get(row, "add_generation_prompt")),
                               bos ? json_string_value(bos) : "<s>",
                               eos ? json_string_value(eos) : "</s>",
                               NULL};
    return lh_chat_render(format, &request, text);
}

/* Pieces cover the text without gaps, and contents are where they say. */
static inline void check_pieces(const json_t *row, const lh_chat_text *text)
{
    int64_t at = 0;
    for (int64_t i = 0; i < text->n; i++) {
        const lh_chat_piece *p = &text->pieces[i];
        ck_assert_int_eq(p->start, at);
        at += p->bytes;
        if (!p->from_content || p->message < 0) continue;
        const json_t *m = json_array_get(json_object_get(row, "messages"), (size_t)p->message);
        const char *content = json_string_value(json_object_get(m, "content"));
        if (text->text.data[p->start] == '"') continue; /* quoted as JSON */
        ck_assert_mem_eq(text->text.data + p->start, content + p->skipped, (size_t)p->bytes);
    }
    ck_assert_int_eq(at, text->text.bytes);
}

static inline void check_row(const lh_chat_format *format, const json_t *row)
{
    const char *expected = json_string_value(json_object_get(row, "expected"));
    const char *error = json_string_value(json_object_get(row, "error"));
    lh_chat_text text = {0};
    lh_status st = render_row(format, row, &text);
    char *messages = json_dumps(json_object_get(row, "messages"), 0);
    if (expected) {
        ck_assert_msg(st == LH_OK, "%s refuses %s: %s", lh_chat_name(format), messages, lh_error_message());
        ck_assert_msg(strcmp(text.text.data, expected) == 0, "%s of %s\nwanted %s\ngot    %s", lh_chat_name(format),
                      messages, expected, text.text.data);
        check_pieces(row, &text);
    } else {
        ck_assert_msg(st == LH_EINPUT && (!*error || strcmp(lh_error_message(), error) == 0),
                      "%s of %s: wanted '%s', got '%s'", lh_chat_name(format), messages, error, lh_error_message());
    }
    free(messages);
    lh_chat_text_clear(&text);
}

/* Every line of a file; `format` resolves the line's template. */
static inline int check_file(const char *path, void (*resolve)(const json_t *row, const lh_chat_format **format))
{
    lh_buf text = {0};
    int rows = 0;
    ck_assert_int_eq(lh_file_read(&text, path, 1 << 24), LH_OK);
    for (char *at = text.data, *end; (end = strchr(at, '\n')); at = end + 1, rows++) {
        const lh_chat_format *format = NULL;
        json_t *row = json_loadb(at, (size_t)(end - at), 0, NULL);
        ck_assert_ptr_nonnull(row);
        resolve(row, &format);
        check_row(format, row);
        lh_chat_close(format);
        json_decref(row);
    }
    lh_buf_clear(&text);
    return rows;
}

#endif
