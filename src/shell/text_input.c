#include "shell/text_input.h"

#include <string.h>

#include "base/file.h"
#include "text/text_check.h"

/* Limit of a text: more than any model's context. */
static const int64_t TEXT_BYTES = INT64_C(1) << 32;

lh_status lh_text_read(lh_buf *out, const char *path)
{
    const int64_t from = out->bytes;
    LH_TRY(lh_file_read(out, path, TEXT_BYTES));
    return lh_text_check_file(path, out->data + from, out->bytes - from);
}

lh_status lh_text_lines(lh_buf *text, char ***out, int64_t *n)
{
    lh_status st = LH_OK;
    char **lines = NULL, *rest = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < text->bytes; i++) count += text->data[i] == '\n';
    LH_TRY_DONE(lh_calloc(&lines, count + 1, sizeof *lines));
    *n = 0;
    for (char *line = strtok_r(text->data, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest))
        if (line[strspn(line, " \t")]) LH_TRY_DONE(lh_strdup(&lines[(*n)++], line));
    *out = lines;
    lines = NULL;
done:
    for (int64_t i = 0; lines && i < *n; i++) lh_free(lines[i]);
    lh_free(lines);
    return st;
}
