/* faulty_comm.h - a communicator that misbehaves once, at a chosen collective of a chosen rank: what tests of failures
 * put around another. */
#ifndef LH_TESTS_FAULTY_COMM_H
#define LH_TESTS_FAULTY_COMM_H

#include "comm/comm.h"

/* Wraps `inner` (not owned). plan: "drop:3", "stop:3", "delay:3:0.5", "kill:3", "fail:3" = at the 3rd collective (from
 * 1) of rank `rank`: do not take part, then or ever again (the call does not return), stop the process, wait 0.5 s,
 * _exit(42), return LH_ECOMM without taking part. What is split off counts on and misbehaves too. Another plan fails with LH_EUSAGE. */
lh_status faulty_comm_open(lh_comm **out, lh_comm *inner, int rank, const char *plan);

#endif
