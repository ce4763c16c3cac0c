/* gpu_there PROGRAM [ARGUMENTS…]: runs the program where there is a CUDA device; elsewhere says what is missing and
 * ends with 77, which CTest counts as skipped. LONGHAUL_GPU_UNDER: words to put before the program, separated by
 * spaces, as "compute-sanitizer --tool memcheck". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"

enum { WORDS = 64 };

/* The words, then the command, into [WORDS]; 0 when they are too many. */
static int make_command(char **out, char *words, char **command)
{
    int n = 0;
    for (char *word = words ? strtok(words, " ") : NULL; word && n < WORDS - 1; word = strtok(NULL, " "))
        out[n++] = word;
    for (; *command && n < WORDS - 1; command++) out[n++] = *command;
    out[n] = NULL;
    return !*command;
}

int main(int argc, char **argv)
{
    lh_device_found found;
    lh_device_find(LH_DEVICE_CUDA, &found);
    if (found.count == 0) {
        printf("skipped: %s\n", found.text);
        return 77;
    }
    printf("on %s\n", found.text);
    fflush(stdout);
    char *command[WORDS];
    if (argc < 2 || !make_command(command, getenv("LONGHAUL_GPU_UNDER"), argv + 1)) return 1;
    execvp(command[0], command);
    perror(command[0]);
    return 1;
}
