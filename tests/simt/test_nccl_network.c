/* Which network NCCL is told to take on a host with a fast one, by folders as the system's drivers show them; and that
 * it then fails where it lacks that network. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/temporary.h"
#include "comm/nccl_library.h"
#include "suite.h"

#define PORT "class/infiniband/mlx5_0/ports/1"
static const lh_nccl_places places = {"sys", "nccl.conf", "libnot-there.so"};

/* An empty folder of its own, and in it what the shell makes. */
static void enter(const char *commands)
{
    char folder[TEMPORARY_BYTES], line[1024];
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(folder, "/tmp")));
    ck_assert_int_eq(chdir(folder), 0);
    snprintf(line, sizeof line, "mkdir -p sys/class && cd sys && %s", commands);
    ck_assert_int_eq(system(line), 0);
    unsetenv("NCCL_NET");
}

static void leave(void)
{
    char folder[256], line[512];
    ck_assert_ptr_nonnull(getcwd(folder, sizeof folder));
    ck_assert_int_eq(chdir("/"), 0);
    snprintf(line, sizeof line, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(line), 0);
}

static const char *chosen(void)
{
    const char *net = getenv("NCCL_NET");
    return net ? net : "";
}

START_TEST(test_the_network_of_a_host_is_asked_for)
{
    static const struct {
        const char *host, *net;
    } cases[] = {
        {"true", ""},
        {"mkdir -p class/net/eth0", ""},
        {"mkdir -p class/net/hsn0", "AWS Libfabric"},
        {"mkdir -p class/cxi/cxi0", "AWS Libfabric"},
        {"mkdir -p " PORT " && cd " PORT " && echo InfiniBand >link_layer && echo '4: ACTIVE' >state", "IB"},
        {"mkdir -p " PORT " && cd " PORT " && echo InfiniBand >link_layer && echo '1: DOWN' >state", ""},
        {"mkdir -p " PORT " && cd " PORT " && echo Ethernet >link_layer && echo '4: ACTIVE' >state", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enter(cases[i].host);
        const char *help = lh_nccl_choose_network(&places);
        ck_assert_msg(strcmp(chosen(), cases[i].net) == 0, "'%s': NCCL_NET='%s'", cases[i].host, chosen());
        ck_assert_int_eq(*help != 0, cases[i].net[0] != 0);
        leave();
    }
}
END_TEST

START_TEST(test_what_people_and_administrators_set_stays)
{
    enter("mkdir -p class/cxi/cxi0");
    setenv("NCCL_NET", "IB", 1);
    ck_assert_str_eq(lh_nccl_choose_network(&places), "");
    ck_assert_str_eq(chosen(), "IB");
    unsetenv("NCCL_NET");
    setenv("NCCL_NET_PLUGIN", "ofi", 1);
    ck_assert_str_eq(lh_nccl_choose_network(&places), "");
    ck_assert_str_eq(chosen(), "");
    unsetenv("NCCL_NET_PLUGIN");
    ck_assert_int_eq(system("touch nccl.conf"), 0);
    ck_assert_str_eq(lh_nccl_choose_network(&places), "");
    ck_assert_str_eq(chosen(), "");
    leave();
}
END_TEST

/* It may be one for InfiniBand, which NCCL prefers to its own. */
START_TEST(test_a_plug_in_decides_on_infiniband)
{
    static const lh_nccl_places with = {"sys", "nccl.conf", "libc.so.6"};
    enter("mkdir -p " PORT " && cd " PORT " && echo InfiniBand >link_layer && echo '4: ACTIVE' >state");
    ck_assert_str_eq(lh_nccl_choose_network(&with), "");
    ck_assert_str_eq(chosen(), "");
    leave();
}
END_TEST

START_TEST(test_sockets_beside_a_fast_network_are_warned_of)
{
    char log[4096] = "";
    enter("mkdir -p class/cxi/cxi0");
    ck_assert_int_eq(lh_log_open("log"), LH_OK);
    setenv("NCCL_NET", "Socket", 1);
    ck_assert_str_eq(lh_nccl_choose_network(&places), "");
    ck_assert_str_eq(chosen(), "Socket");
    lh_log_close();
    FILE *f = fopen("log", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_gt(fread(log, 1, sizeof log - 1, f), 0);
    fclose(f);
    ck_assert_msg(strstr(log, "this host has Slingshot: NCCL_NET='AWS Libfabric' would be faster"), "%s", log);
    leave();
}
END_TEST

START_TEST(test_nccl_fails_without_the_network_that_it_is_told_to_take)
{
    const lh_nccl *nccl;
    ncclUniqueId id;
    ncclComm_t comm;
    ck_assert_int_eq(lh_nccl_open(&nccl), LH_OK);
    enter("mkdir -p class/cxi/cxi0");
    for (int there = 0; there < 2; there++) {
        if (there) setenv("LONGHAUL_SIMT_NETWORK", "AWS Libfabric", 1);
        lh_nccl_choose_network(&places);
        ck_assert_int_eq(nccl->GetUniqueId(&id), ncclSuccess);
        ck_assert_int_eq(nccl->CommInitRank(&comm, 1, id, 0), there ? ncclSuccess : ncclInvalidUsage);
    }
    nccl->CommDestroy(comm);
    leave();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_network_of_a_host_is_asked_for,
                                  test_what_people_and_administrators_set_stays,
                                  test_a_plug_in_decides_on_infiniband,
                                  test_sockets_beside_a_fast_network_are_warned_of,
                                  test_nccl_fails_without_the_network_that_it_is_told_to_take,
                                  NULL};
    return suite_run("network of NCCL", tests);
}
