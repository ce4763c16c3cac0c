/* escape.h - texts of foreign files inside a page: whatever they hold, they are text there, never markup or script. */
#ifndef LH_LAB_REPORT_ESCAPE_H
#define LH_LAB_REPORT_ESCAPE_H

#include <jansson.h>

#include "base/mem.h"

/* Append text for an element or a quoted attribute. Control characters, those that reverse the direction of writing and
 * bytes that are not UTF-8 become U+FFFD, line separators a space. */
lh_status lh_html_text(lh_buf *out, const char *text);

/* Append JSON for a script element: ASCII without '<', '>' and '&'. */
lh_status lh_html_json(lh_buf *out, const json_t *value);

/* Append the base64 of `bytes` bytes. */
lh_status lh_base64(lh_buf *out, const void *data, int64_t bytes);

#endif
