/* Laws of agreement: a failure on one rank is everyone's, with its message; and of faults that do not end a run. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "comm/comm_impl.h"
#include "comm/faulty_comm.h"
#include "mpi_check.h"

static lh_status fail_here(lh_status st, int rank)
{
    return st == LH_OK ? LH_OK : lh_fail(st, __FILE__, __LINE__, "no luck on rank %d", rank);
}

static int says(const char *what)
{
    return strstr(lh_error_message(), what) != NULL;
}

START_TEST(test_nobody_fails_alone)
{
    lh_comm *comm = mt_comm();
    char text[64];
    for (int bad = 0; bad < mt_size(); bad++) {
        mt_expect(lh_comm_agree(comm, fail_here(mt_rank() == bad ? LH_EFILE : LH_OK, bad)), LH_EFILE);
        snprintf(text, sizeof text, "no luck on rank %d", bad);
        mt_check(says(text), "message is '%s'", lh_error_message());
        snprintf(text, sizeof text, "rank %d on %s: no luck", bad, lh_comm_host(comm));
        mt_check(says(text) == (mt_rank() != bad), "others say where it was, not '%s'", lh_error_message());
        mt_check(lh_comm_agreed(comm), "a failure that all know is no agreement");
        lh_error_clear();
        mt_try(lh_comm_agree(comm, LH_OK));
        mt_check(!lh_comm_agreed(comm), "nothing has failed");
    }
    mt_end();
}
END_TEST

START_TEST(test_lowest_failing_rank_is_heard)
{
    static const lh_status codes[] = {LH_EINPUT, LH_EFILE, LH_ENOMEM, LH_EWRITE};
    lh_comm *comm = mt_comm();
    char text[64];
    for (int first = 0; first < mt_size(); first++) {
        lh_status st = mt_rank() >= first ? codes[mt_rank() % 4] : LH_OK;
        mt_expect(lh_comm_agree(comm, fail_here(st, mt_rank())), codes[first % 4]);
        snprintf(text, sizeof text, "no luck on rank %d", first);
        mt_check(says(text), "message is '%s'", lh_error_message());
    }
    mt_end();
}
END_TEST

START_TEST(test_long_messages_arrive)
{
    char text[2048];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    lh_status st = mt_rank() == mt_size() - 1 ? lh_fail(LH_EINPUT, __FILE__, __LINE__, "%s", text) : LH_OK;
    mt_expect(lh_comm_agree(mt_comm(), st), LH_EINPUT);
    mt_check(strlen(lh_error_message()) == 2047, "%d bytes", (int)strlen(lh_error_message()));
    mt_end();
}
END_TEST

START_TEST(test_agreement_costs_four_bytes)
{
    int64_t sent = lh_comm_sent_bytes(mt_comm());
    mt_try(lh_comm_agree(mt_comm(), LH_OK));
    mt_check(lh_comm_sent_bytes(mt_comm()) - sent == (mt_size() > 1 ? 4 : 0), "sent bytes");
    mt_end();
}
END_TEST

START_TEST(test_what_one_rank_has_found_is_known_to_all)
{
    lh_comm *comm = mt_comm();
    int64_t sent = lh_comm_sent_bytes(comm);
    for (int finder = 0; finder <= mt_size(); finder++) { /* the last of them is nobody */
        int any = mt_rank() == finder;
        mt_try(lh_comm_agree_any(comm, LH_OK, &any));
        mt_check(any == (finder < mt_size()), "rank %d has found something, and %d is known", finder, any);
    }
    mt_check(lh_comm_sent_bytes(comm) - sent == (mt_size() > 1 ? 4 * (mt_size() + 1) : 0), "sent bytes");
    int any = 1;
    mt_expect(lh_comm_agree_any(comm, fail_here(mt_rank() == 0 ? LH_EFILE : LH_OK, 0), &any), LH_EFILE);
    mt_check(any == 1, "a failure changes nothing");
    lh_error_clear();
    mt_end();
}
END_TEST

START_TEST(test_different_data_names_what_and_who)
{
    lh_comm *comm = mt_comm();
    char text[64];
    mt_try(lh_comm_same(comm, "budget 64", 9, "options"));
    mt_try(lh_comm_same(comm, NULL, 0, "options"));
    for (int odd = 1; odd < mt_size(); odd++) {
        mt_expect(lh_comm_same(comm, mt_rank() >= odd ? "budget 65" : "budget 64", 9, "options"), LH_EUSAGE);
        snprintf(text, sizeof text, "options of rank %d on ", odd);
        mt_check(says(text) && lh_comm_agreed(comm), "message is '%s'", lh_error_message());
        mt_expect(lh_comm_same(comm, "budget 64", mt_rank() == odd ? 8 : 9, "options"), LH_EUSAGE);
        mt_check(says(text), "message is '%s'", lh_error_message());
    }
    mt_end();
}
END_TEST

START_TEST(test_delay_changes_nothing)
{
    lh_comm *faulty = NULL, *group = NULL;
    for (int slow = 0; slow < mt_size(); slow++) {
        int64_t x[3] = {1, mt_rank(), 5};
        int32_t all[64] = {0}, own = 100 + mt_rank();
        mt_try(faulty_comm_open(&faulty, mt_comm(), slow, "delay:2:0.05"));
        mt_check(strcmp(lh_comm_name(faulty), "faulty") == 0, "called %s", lh_comm_name(faulty));
        mt_try(lh_comm_allgather(faulty, &own, all, sizeof own));
        mt_try(lh_comm_allreduce(faulty, x, 3, LH_I64, LH_SUM));
        mt_check(x[0] == mt_size() && x[2] == 5 * mt_size(), "sums %d %d", (int)x[0], (int)x[2]);
        for (int r = 0; r < mt_size(); r++) mt_check(all[r] == 100 + r, "block %d", r);
        mt_try(lh_comm_split(faulty, 7, &group));
        mt_check(lh_comm_size(group) == mt_size(), "%d ranks", lh_comm_size(group));
        mt_try(lh_comm_bcast(group, 0, x, sizeof x));
        mt_try(lh_comm_barrier(group));
        mt_try(lh_comm_agree(group, LH_OK));
        mt_check(lh_comm_sent_bytes(faulty) == (mt_size() > 1 ? 28 : 0), "sent bytes");
        lh_comm_close(group);
        lh_comm_close(faulty);
    }
    mt_end();
}
END_TEST

START_TEST(test_fault_plans_are_checked)
{
    static const char *const bad[] = {"",          "drop",     "drop:",   "drop:0",    "drop:-1",
                                      "drop:1x",   "melt:1",   "delay:1", "delay:1:0", "delay:1:1s",
                                      "fail:1:2:", "kill : 1", "fail:1.5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lh_comm *faulty = NULL;
        mt_expect(faulty_comm_open(&faulty, mt_comm(), 0, bad[i]), LH_EUSAGE);
        mt_check(says(bad[i]) && !faulty, "plan '%s': %s", bad[i], lh_error_message());
    }
    mt_end();
}
END_TEST

/* In a world of its own, so that the failure breaks only that. */
START_TEST(test_after_a_failure_nothing_is_said)
{
    lh_comm *inner = NULL, *faulty = NULL;
    int64_t x = 1;
    mt_try(lh_comm_open_self(&inner));
    mt_try(faulty_comm_open(&faulty, inner, 0, "fail:2"));
    mt_try(lh_comm_allreduce(faulty, &x, 1, LH_I64, LH_SUM));
    lh_status st = lh_comm_allreduce(faulty, &x, 1, LH_I64, LH_SUM);
    mt_check(st == LH_ECOMM && says("collective 2 fails"), "message is '%s'", lh_error_message());
    mt_expect(lh_comm_agree(faulty, st), LH_ECOMM);
    mt_check(says("collective 2 fails"), "the cause is lost: '%s'", lh_error_message());
    mt_check(!lh_comm_agreed(faulty), "nobody has agreed");
    mt_expect(lh_comm_barrier(faulty), LH_ECOMM);
    mt_expect(lh_comm_barrier(inner), LH_ECOMM);
    mt_expect(lh_comm_agree(inner, LH_OK), LH_ECOMM);
    lh_comm_close(faulty);
    lh_comm_close(inner);
    mt_end();
}
END_TEST

START_TEST(test_self_is_one_rank)
{
    lh_comm *self = NULL;
    int32_t own[2] = {3, 4}, all[2] = {0};
    int64_t bytes = 8, at = 0;
    mt_try(lh_comm_open_self(&self));
    mt_check(lh_comm_size(self) == 1 && lh_comm_rank(self) == 0 && lh_comm_local_rank(self) == 0, "more than one");
    lh_comm_step(self, "nothing", -1);
    mt_try(lh_comm_allgatherv(self, own, all, &bytes, &at));
    mt_check(all[0] == 3 && all[1] == 4, "%d %d", all[0], all[1]);
    all[0] = all[1] = 0;
    mt_try(lh_comm_gatherv(self, 0, own, all, &bytes, &at));
    mt_check(all[0] == 3 && all[1] == 4, "%d %d", all[0], all[1]);
    mt_try(lh_comm_allreduce(self, own, 2, LH_I32, LH_MAX));
    mt_check(own[0] == 3 && lh_comm_sent_bytes(self) == 0, "%d", own[0]);
    mt_expect(lh_comm_agree(self, fail_here(LH_EWRITE, 0)), LH_EWRITE);
    mt_check(strcmp(lh_error_message(), "no luck on rank 0") == 0, "message is '%s'", lh_error_message());
    lh_comm_close(self);
    lh_comm_close(NULL);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("agreement");
    TCase *all = tcase_create("all");
    tcase_add_test(all, test_nobody_fails_alone);
    tcase_add_test(all, test_lowest_failing_rank_is_heard);
    tcase_add_test(all, test_long_messages_arrive);
    tcase_add_test(all, test_agreement_costs_four_bytes);
    tcase_add_test(all, test_what_one_rank_has_found_is_known_to_all);
    tcase_add_test(all, test_different_data_names_what_and_who);
    tcase_add_test(all, test_delay_changes_nothing);
    tcase_add_test(all, test_fault_plans_are_checked);
    tcase_add_test(all, test_after_a_failure_nothing_is_said);
    tcase_add_test(all, test_self_is_one_rank);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
