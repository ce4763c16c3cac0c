/* mpi_check.h - Check under mpirun. A test of several ranks records what it finds and decides at its end, together:
 * all ranks pass or all fail, and rank 0 prints the first failing rank, file and line. ck_assert would end one rank
 * alone and leave the others waiting. Such a program's CMakeLists.txt:
 *
 *     lh_test_program(test_thing SOURCES test_thing.c ROOMS comm device base)
 *     lh_mpi_test(test_thing RANKS 1 2 3 4)          (adds mpi_check.c)
 *
 *     START_TEST(test_sum_is_the_same_everywhere)
 *     {
 *         mt_try(lh_comm_allreduce(mt_comm(), &x, 1, LH_I64, LH_SUM));
 *         mt_check(x == expected, "%lld is not the sum", (long long)x);
 *         mt_end();
 *     }
 *     END_TEST
 *
 *     int main(void) { return mt_run(make_suite()); }
 */
#ifndef LH_TESTS_MPI_CHECK_H
#define LH_TESTS_MPI_CHECK_H

#include <check.h>

#include "comm/comm.h"

/* Runs the suite without forking, on all ranks of mpirun (or alone), and returns what main returns. A collective that
 * takes longer than 120 s ends the program. Under the address sanitizer memory that leaked is a failure. */
int mt_run(Suite *suite);

/* The world, inside a test. */
lh_comm *mt_comm(void);
int mt_rank(void);
int mt_size(void);

/* Collective. A new folder for files that all ranks see, and its end with all that is in it, when nobody uses it. */
enum { MT_FOLDER_BYTES = 64 };
void mt_folder_make(char folder[MT_FOLDER_BYTES]);
void mt_folder_remove(const char *folder);

/* Records the first failure of this rank; the test goes on. Needs a format: mt_check(a == b, "%d is not %d", a, b). */
#define mt_check(condition, ...) mt_record((condition) ? 1 : 0, __FILE__, __LINE__, __VA_ARGS__)

/* The call must return LH_OK, or `expected`. */
#define mt_try(call) mt_expect((call), LH_OK)
#define mt_expect(call, expected) mt_record_status((call), (expected), __FILE__, __LINE__, #call)

/* Collective, the last line of every test. */
#define mt_end() mt_finish()

void mt_record(int passed, const char *file, int line, const char *format, ...) __attribute__((format(printf, 4, 5)));
void mt_record_status(lh_status got, lh_status expected, const char *file, int line, const char *call);
void mt_finish(void);

#endif
