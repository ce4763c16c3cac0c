/* sample_maker.c - writes sample.h5 and hostile.h5 into a folder, for the test in a browser. */
#include <stdio.h>
#include <unistd.h>

#include "report/sample.h"

int main(int argc, char **argv)
{
    if (argc != 2 || chdir(argv[1]) != 0) return 2;
    if (sample_write("sample.h5") == LH_OK && sample_write_hostile("hostile.h5") == LH_OK) return 0;
    fprintf(stderr, "%s\n", lh_error_message());
    return 1;
}
