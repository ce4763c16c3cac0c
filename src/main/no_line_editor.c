/* no_line_editor.c - a build without libedit. */
#include "main/line_editor.h"

const char *lh_line_editor_name(void)
{
    return "none";
}

lh_status lh_line_editor_open(lh_line_editor **out)
{
    *out = NULL;
    return LH_OK;
}

lh_status lh_line_editor_read(lh_line_editor *e, int wait_ms, lh_buf *read, int *ended)
{
    (void)e, (void)wait_ms, (void)read, (void)ended;
    return LH_OK;
}

void lh_line_editor_drop(lh_line_editor *e)
{
    (void)e;
}

void lh_line_editor_close(lh_line_editor *e)
{
    (void)e;
}
