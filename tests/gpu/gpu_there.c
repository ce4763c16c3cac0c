/* gpu_there PROGRAM [ARGUMENTS…]: runs the program where there is a CUDA device; elsewhere says what is missing and
 * ends with 77, which CTest counts as skipped. */
#include <stdio.h>
#include <unistd.h>

#include "device/device.h"

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
    if (argc > 1) execv(argv[1], argv + 1);
    return 1;
}
