/* op_table.h - what a test program has seen of every operation, in the file that LONGHAUL_TEST_TABLE names: a line
 * "operation<TAB>calls<TAB>numbers compared<TAB>worst error over its tolerance<TAB>ok|failed" for each that a backend
 * other than `ref` has run. A comparison counts for the operation that ran last; so does a test that ends early,
 * because it failed, crashed or took too long. Every test is a process: the counts lie in memory that they share. */
#ifndef LH_TESTS_KERNELS_OP_TABLE_H
#define LH_TESTS_KERNELS_OP_TABLE_H

#include "kernels/ops.h"

/* Before the tests, and after them; without the variable nothing is kept. */
void op_table_open(void);
void op_table_close(void);

/* A backend is opened, runs an operation, and is closed after its comparisons. */
void op_table_begin(void);
void op_table_runs(const lh_ops *ops, const char *op);
void op_table_end(void);

/* `count` numbers were compared, the worst of which was off by `worst` times its tolerance. */
void op_table_compared(int64_t count, double worst);

#endif
