/* Laws of arenas in device memory: the device gets lengths as they were at the call, whatever the host, which counts on
 * without waiting, makes of them before the copy is done. */
#include "cache/arena.h"
#include "rig.h"
#include "suite.h"

enum { HEADS = 2, CAP = 9 };

static void try_it(lh_status st)
{
    ck_assert_msg(st == LH_OK, "%s", lh_error_message());
}

static void check_lens(rig *g, const lh_arena *arena, int64_t first, int64_t second)
{
    int64_t offset[HEADS], len[HEADS];
    try_it(lh_stream_sync(g->stream));
    rig_get(g, offset, arena->view.offset, sizeof offset);
    rig_get(g, len, arena->view.len, sizeof len);
    ck_assert_int_eq(offset[1] - offset[0], CAP);
    ck_assert_int_eq(len[0], first);
    ck_assert_int_eq(len[1], second);
}

START_TEST(test_the_device_has_lengths_as_they_were_at_the_call)
{
    const lh_arena_shape shape = {.heads = HEADS, .head_dim = 8, .type = LH_BF16};
    const lh_ops *cuda = lh_ops_find("cuda");
    rig g;
    lh_arena arena;
    rig_open(&g, cuda);
    const lh_exec x = {.ops = cuda, .stream = g.stream};
    try_it(lh_arena_init(&arena, &shape, rig_new(&g, 2 * HEADS * (int64_t)sizeof(int64_t)), (lh_arena_form){0}));
    try_it(lh_arena_alloc_even(&arena, &x, CAP));
    arena.len[0] = 3, arena.len[1] = 4;
    check_lens(&g, &arena, 0, 0);
    try_it(lh_arena_push_len(&arena, &x));
    arena.len[0] = 5, arena.len[1] = 1;
    check_lens(&g, &arena, 3, 4);
    lh_arena_clear(&arena, g.device);
    rig_close(&g);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_device_has_lengths_as_they_were_at_the_call, NULL};
    return suite_run("simt/arena", tests);
}
