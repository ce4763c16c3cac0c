/* tiny_folder.c - writes the folder of tiny.h below the working folder, for tests that are scripts: tiny_folder NAME.
 */
#include "cli/tiny.h"

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    tiny_write(argv[1]);
    return 0;
}
