/* source_tensors.c - the list of tensors: grown by doubling, sorted, searched by bisection. */
#include "import/source_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

lh_status lh_source_tensors_add(lh_source_tensors *list, const char *name, int64_t name_bytes, lh_source_tensor **out)
{
    if ((list->n & (list->n - 1)) == 0) LH_TRY(lh_realloc(&list->at, list->n ? 2 * list->n : 1, sizeof *list->at));
    lh_source_tensor *t = &list->at[list->n];
    *t = (lh_source_tensor){.dims = {1, 1, 1, 1}};
    list->n++;
    LH_TRY(lh_strndup(&t->name, name, name_bytes));
    *out = t;
    return LH_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const lh_source_tensor *)a)->name, ((const lh_source_tensor *)b)->name);
}

lh_status lh_source_tensors_sort(lh_source_tensors *list)
{
    qsort(list->at, (size_t)list->n, sizeof *list->at, compare_names);
    for (int64_t i = 1; i < list->n; i++)
        if (strcmp(list->at[i].name, list->at[i - 1].name) == 0)
            LH_FAIL(LH_EINPUT, "'%s' has two tensors '%s'", list->path, list->at[i].name);
    return LH_OK;
}

lh_source_tensor *lh_source_tensors_find(const lh_source_tensors *list, const char *name)
{
    const lh_source_tensor key = {.name = (char *)(uintptr_t)name};
    if (list->n == 0) return NULL;
    return bsearch(&key, list->at, (size_t)list->n, sizeof *list->at, compare_names);
}

void lh_source_tensors_clear(lh_source_tensors *list)
{
    for (int64_t i = 0; i < list->n; i++) {
        lh_free(list->at[i].name);
        lh_free(list->at[i].format_name);
    }
    lh_free(list->at);
    *list = (lh_source_tensors){0};
}
