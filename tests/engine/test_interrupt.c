/* A signal while weights load, which takes minutes for large models: on whichever rank it arrives, all ranks end. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/temporary.h"
#include "engine/engine.h"
#include "mpi_check.h"
#include "tiny_model.h"

static const tiny_shape shape = {
    .name = "tiny", .heads = 4, .kv_heads = 4, .head_dim = 8, .layers = 2, .ff = 40, .vocab = 97};

/* One test, because the request of a signal stays. */
START_TEST(test_a_signal_on_one_rank_ends_the_loading_of_all)
{
    char path[64] = "";
    lh_engine *engine = NULL;
    const lh_engine_options options = lh_engine_defaults(&(lh_engine_options){.model = path, .device = "cpu"});
    if (mt_rank() == 0) mt_check(mkstemp(temporary_name(path, "/tmp")) >= 0, "cannot make '%s'", path);
    mt_try(lh_comm_bcast(mt_comm(), 0, path, sizeof path));
    if (mt_rank() == 0) tiny_model_make(path, &shape);
    mt_try(lh_comm_barrier(mt_comm()));
    mt_try(lh_engine_open_on(&engine, mt_comm(), &options));
    lh_engine_close(engine);
    engine = NULL;
    lh_interrupt_begin();
    mt_check(!lh_interrupt_asked(), "nobody asked");
    if (mt_rank() == mt_size() - 1) raise(SIGUSR1);
    mt_expect(lh_engine_open_on(&engine, mt_comm(), &options), LH_EINTERRUPTED);
    mt_check(engine == NULL && lh_comm_agreed(mt_comm()), "all ranks must know");
    mt_check(strstr(lh_error_message(), "interrupted while loading weights") != NULL, "%s", lh_error_message());
    if (mt_rank() == 0) unlink(path);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interrupt");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_a_signal_on_one_rank_ends_the_loading_of_all);
    suite_add_tcase(suite, tc);
    return mt_run(suite);
}
