/* all.c - without an argument: the names of the families, a line each. With one: the tests of this family. */
#include <stdio.h>
#include <string.h>

#include "families.h" /* FAMILY(linear) FAMILY(fused) …: CMakeLists.txt */

#define FAMILY(name) int ops_##name(void);
FAMILIES
#undef FAMILY

#define FAMILY(name) {#name, ops_##name},
static const struct {
    const char *name;
    int (*run)(void);
} families[] = {FAMILIES};
#undef FAMILY

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (argc < 2)
            puts(families[i].name);
        else if (strcmp(families[i].name, argv[1]) == 0)
            return families[i].run();
    }
    if (argc < 2) return 0;
    fprintf(stderr, "there is no family '%s'\n", argv[1]);
    return 2;
}
