#include "op_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_OPS = 256, NONE = -1 };

typedef struct op_row {
    int64_t calls, compared, failures;
    double worst;
} op_row;

static struct op_table {
    op_row rows[MOST_OPS];
    int last;   /* operation of the comparisons that come; NONE */
    pid_t test; /* that ran it */
} * table;      /* NULL: nothing is kept */

void op_table_open(void)
{
    if (!getenv("LONGHAUL_TEST_TABLE")) return;
    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) {
        perror("LONGHAUL_TEST_TABLE");
        exit(EXIT_FAILURE);
    }
    table->last = NONE;
}

static void write_rows(void)
{
    const char *path = getenv("LONGHAUL_TEST_TABLE");
    FILE *f = fopen(path, "w");
    for (int i = 0; f && lh_op_name(i); i++) {
        const op_row *row = &table->rows[i];
        if (row->calls)
            fprintf(f, "%s\t%lld\t%lld\t%.3g\t%s\n", lh_op_name(i), (long long)row->calls, (long long)row->compared,
                    row->worst, row->failures ? "failed" : "ok");
    }
    if (!f || fclose(f) != 0) perror(path);
}

/* The test that ran the last operation has gone without closing its backend. */
static void count_failure(void)
{
    if (table->last != NONE) table->rows[table->last].failures++;
    table->last = NONE;
}

void op_table_begin(void)
{
    if (table && table->test != getpid()) count_failure();
}

void op_table_runs(const lh_ops *ops, const char *op)
{
    if (!table || ops == &lh_ops_ref) return;
    for (int i = 0; lh_op_name(i); i++)
        if (strcmp(lh_op_name(i), op) == 0) table->last = i;
    table->test = getpid();
    table->rows[table->last].calls++;
}

void op_table_compared(int64_t count, double worst)
{
    if (!table || table->last == NONE) return;
    op_row *row = &table->rows[table->last];
    row->compared += count;
    if (!(worst <= row->worst)) row->worst = worst;
}

void op_table_end(void)
{
    if (!table) return;
    table->last = NONE;
    write_rows();
}

void op_table_close(void)
{
    if (!table) return;
    count_failure();
    write_rows();
}
