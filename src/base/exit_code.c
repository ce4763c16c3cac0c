#include "base/exit_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A function that runs at exit gets no argument but the code. */
static lh_status wanted;

static void replace_code(int code, void *unused)
{
    (void)unused;
    if (code != EXIT_FAILURE || wanted == LH_OK) return;
    fflush(NULL);
    _exit(wanted);
}

lh_status lh_exit_code_for_others(lh_status code)
{
    static int begun;
    const lh_status before = wanted;
    if (!begun) begun = on_exit(replace_code, NULL) == 0;
    wanted = code;
    return before;
}
