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

void lh_exit_code_for_others(lh_status code)
{
    static int begun;
    if (!begun) begun = on_exit(replace_code, NULL) == 0;
    wanted = code;
}
