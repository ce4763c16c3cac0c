/* The threads of a block as fibers. A fiber is left at barriers and warp functions only, and entered in an order that
 * is drawn anew in every round. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <vector>

#include "simt.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define LEAVE(fake, bottom, size) __sanitizer_start_switch_fiber(fake, bottom, size)
#define ENTER(fake, bottom, size) __sanitizer_finish_switch_fiber(fake, bottom, size)
#else
#define LEAVE(fake, bottom, size) ((void)(fake), (void)(bottom), (void)(size))
#define ENTER(fake, bottom, size) ((void)(fake), (void)(bottom), (void)(size))
#endif

simt_place *simt_here;

namespace
{

const size_t STACK = 256 << 10, SHIFTS = 64 << 10;
const int LANES = 32;

enum state : unsigned char { READY, AT_BARRIER, AT_WARP, WAITS, ENDED };

struct warp {
    int arrived, turn;
    unsigned char given[2][LANES * SIMT_SLOT]; /* in turns: nobody is two rounds ahead */
};

struct fiber {
    simt_place place;
    size_t index;
    struct warp *warp;
    const char *file;
    int line;
    const std::function<simt_attempt()> *attempt; /* of a fiber that WAITS */
    const char *what;
    void *jump[5];
    void *fake;
    char *stack;
    size_t shift; /* of the stack's top: tops at multiples of STACK would share a few lines of a cache */
    bool started;
};

struct block {
    fiber *fibers[1024]; /* the first `made`, kept for later blocks */
    unsigned made;
    enum state states[1024]; /* of the fibers, close together: the scheduler reads them in every round */
    std::vector<warp> warps;
    std::vector<int> order; /* of this round */
    int next;               /* the place in it of the fiber to ask next */
    bool moved;             /* a fiber went on in this round */
    std::vector<unsigned char> shared;
    const std::function<void()> *body;
    fiber *self, *latest; /* the one at work; the last one that came to the barrier */
    int threads, ended, waiting;
    void *jump[5]; /* of the scheduler */
    void *fake;
    const void *bottom; /* of the scheduler's stack; null: not known yet */
    size_t size;
} now;

/* Two functions, neither inlined: what one saves is restored by a jump from the other. */
__attribute__((noinline)) void jump_to(void **where)
{
    __builtin_longjmp(where, 1);
}

void release_barrier()
{
    for (int i = 0; i < now.threads; i++)
        if (now.states[i] == AT_BARRIER) now.states[i] = READY;
    now.waiting = 0;
}

/* Where the waiting threads stand, when none can go on. */
void report_deadlock()
{
    for (int i = 0; i < now.threads; i++) {
        const fiber *f = now.fibers[(size_t)i];
        if (now.states[i] == AT_BARRIER) fprintf(stderr, "  thread %d waits at %s:%d\n", i, f->file, f->line);
        if (now.states[i] == AT_WARP) fprintf(stderr, "  thread %d waits for its warp\n", i);
        if (now.states[i] == WAITS) fprintf(stderr, "  thread %d waits %s\n", i, f->what);
    }
    const simt_place *p = &now.fibers[0]->place;
    simt_fault("block %u, %u, %u: the threads above wait for others that have ended or wait elsewhere", p->block.x,
               p->block.y, p->block.z);
}

/* The next fiber of this round that can go on, or of the next one; null: all have ended. */
fiber *next_fiber()
{
    for (;;) {
        for (; now.next < now.threads; now.next++) {
            const int i = now.order[(size_t)now.next];
            enum state &state = now.states[i];
            if (state == WAITS) {
                const simt_attempt attempt = (*now.fibers[i]->attempt)();
                now.moved |= attempt != SIMT_STUCK;
                if (attempt == SIMT_READY) state = READY;
            }
            if (state != READY) continue;
            now.moved = true;
            now.next++;
            return now.fibers[i];
        }
        if (now.ended == now.threads) return nullptr;
        if (!now.moved) report_deadlock();
        now.next = 0;
        now.moved = false;
        simt_shuffle(now.order.data(), now.threads);
    }
}

/* What a fiber does first where it goes on. The first one of a grid comes from the scheduler. */
void enter(void *fake)
{
    const void *bottom = nullptr;
    size_t size = 0;
    ENTER(fake, &bottom, &size);
    if (now.bottom) return;
    now.bottom = bottom;
    now.size = size;
}

/* To the next fiber; by the scheduler if that one has not started, or if there is none. */
__attribute__((noinline)) void leave(fiber *f)
{
    const bool ends = now.states[f->index] == ENDED;
    now.self = next_fiber();
    if (now.self == f) return;
    if (now.self) simt_here = &now.self->place;
    const bool direct = now.self && now.self->started;
    LEAVE(ends ? nullptr : &f->fake, direct ? now.self->stack : now.bottom, direct ? STACK : now.size);
    if (__builtin_setjmp(f->jump) == 0) jump_to(direct ? now.self->jump : now.jump);
    enter(now.self->fake);
}

void fiber_main()
{
    enter(nullptr);
    for (;;) {
        (*now.body)();
        now.states[now.self->index] = ENDED;
        now.ended++;
        if (now.waiting && now.waiting == now.threads - now.ended) release_barrier();
        leave(now.self);
    }
}

/* Left by a jump, never by a return: what the address sanitizer lays around its variables would stay there. */
__attribute__((noinline, no_sanitize_address)) void start(fiber *f, ucontext_t *own)
{
    ucontext_t first;
    getcontext(&first);
    first.uc_stack.ss_sp = f->stack;
    first.uc_stack.ss_size = STACK - f->shift;
    first.uc_link = nullptr;
    makecontext(&first, fiber_main, 0);
    swapcontext(own, &first);
}

/* Runs fibers until all have ended. A fiber comes back if the next one has not started, and the last one. */
__attribute__((noinline)) void run_fibers()
{
    ucontext_t own;
    now.self = next_fiber();
    while (now.self) {
        fiber *f = now.self;
        simt_here = &f->place;
        LEAVE(&now.fake, f->stack, STACK);
        if (__builtin_setjmp(now.jump) == 0) {
            if (f->started) jump_to(f->jump);
            f->started = true;
            start(f, &own);
        }
        ENTER(now.fake, nullptr, nullptr);
    }
}

fiber *new_fiber()
{
    fiber *f = new fiber();
    f->stack = (char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->stack == MAP_FAILED) simt_fault("no memory for a thread's stack");
    f->index = now.made;
    f->shift = now.made * 27 * 64 % SHIFTS;
    return f;
}

void run_block(const simt_shape &shape, dim3 at)
{
    now.ended = now.waiting = 0;
    for (warp &w : now.warps) w.arrived = w.turn = 0;
    std::fill(now.shared.begin(), now.shared.end(), (unsigned char)0xff);
    for (int i = 0; i < now.threads; i++) {
        now.states[i] = READY;
        now.fibers[i]->place.block = at;
        now.fibers[i]->place.waits = shape.is_early;
    }
    now.next = now.threads; /* as after a round, so that the first one is drawn */
    now.moved = true;
    run_fibers();
    simt_copies_end();
    simt_bulk_end();
    simt_wgmma_end();
    bool waits = shape.is_early;
    for (int i = 0; i < now.threads; i++) waits &= now.fibers[(size_t)i]->place.waits;
    if (waits) simt_fault("a block of a kernel that starts early ended without a wait for the kernels before it");
}

} // namespace

void simt_fault(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "emulated device: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

unsigned simt_draw(unsigned n)
{
    static uint64_t state;
    if (!state) {
        const char *seed = getenv("LONGHAUL_SIMT_SEED");
        state = 2 * (seed ? strtoull(seed, nullptr, 10) : 0) + 1;
    }
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 32) * n >> 32);
}

void simt_shuffle(int *order, int n)
{
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)simt_draw((unsigned)(i + 1)), held = order[i];
        order[i] = order[j];
        order[j] = held;
    }
}

void simt_barrier(const char *file, int line)
{
    fiber *f = now.self;
    f->file = file;
    f->line = line;
    if (now.waiting && now.latest->line != line)
        simt_fault("threads of a block wait at different barriers: %s:%d and %s:%d", file, line, now.latest->file,
                   now.latest->line);
    now.latest = f;
    now.waiting++;
    if (now.waiting == now.threads - now.ended) {
        release_barrier();
        return;
    }
    now.states[f->index] = AT_BARRIER;
    leave(f);
}

const unsigned char *simt_warp(const void *mine, int bytes)
{
    return simt_warp_after(mine, bytes, nullptr);
}

const unsigned char *simt_warp_after(const void *mine, int bytes, void (*all)(unsigned char *given))
{
    fiber *f = now.self;
    struct warp *w = f->warp;
    int turn = w->turn;
    if (bytes > SIMT_SLOT) simt_fault("a warp function of %d bytes", bytes);
    if (bytes) memcpy(w->given[turn] + simt_lane() * SIMT_SLOT, mine, (size_t)bytes);
    if (++w->arrived == LANES) {
        w->arrived = 0;
        w->turn = !turn;
        if (all) all(w->given[turn]);
        size_t first = (size_t)(w - now.warps.data()) * LANES;
        for (size_t i = first; i < first + LANES; i++)
            if (now.states[i] == AT_WARP) now.states[i] = READY;
        return w->given[turn];
    }
    now.states[f->index] = AT_WARP;
    leave(f);
    return w->given[turn];
}

void simt_wait_until(const std::function<simt_attempt()> &attempt, const char *what)
{
    fiber *f = now.self;
    if (attempt() == SIMT_READY) return;
    f->attempt = &attempt;
    f->what = what;
    now.states[f->index] = WAITS;
    leave(f);
}

size_t simt_thread(void)
{
    const simt_place *p = simt_here;
    return p->thread.x + p->block_dim.x * (p->thread.y + (size_t)p->block_dim.y * p->thread.z);
}

void *simt_dynamic_shared(void)
{
    return now.shared.data();
}

size_t simt_dynamic_bytes(void)
{
    return now.shared.size();
}

void simt_run(const simt_shape &shape, const std::function<void()> &body)
{
    unsigned threads = shape.block.x * shape.block.y * shape.block.z;
    uint64_t blocks = (uint64_t)shape.grid.x * shape.grid.y * shape.grid.z;
    if (!threads || threads > 1024 || threads % LANES) simt_fault("blocks of %u threads", threads);
    if (!blocks || shape.grid.y > 65535 || shape.grid.z > 65535 || blocks > INT32_MAX)
        simt_fault("a grid of %u x %u x %u blocks", shape.grid.x, shape.grid.y, shape.grid.z);
    now.threads = (int)threads;
    while (now.made < threads) now.fibers[now.made++] = new_fiber();
    now.order.resize(threads);
    now.warps.resize(threads / LANES);
    std::vector<unsigned char>(shape.shared_bytes).swap(now.shared); /* to the byte, for the address sanitizer */
    now.body = &body;
    now.bottom = nullptr;
    for (unsigned i = 0; i < threads; i++) {
        fiber *f = now.fibers[i];
        f->warp = &now.warps[i / LANES];
        f->place.thread =
            dim3(i % shape.block.x, i / shape.block.x % shape.block.y, i / (shape.block.x * shape.block.y));
        f->place.block_dim = shape.block;
        f->place.grid_dim = shape.grid;
    }
    std::vector<int> order((size_t)blocks);
    simt_shuffle(order.data(), (int)blocks);
    for (int b : order) {
        unsigned n = (unsigned)b, x = shape.grid.x, y = shape.grid.y;
        run_block(shape, dim3(n % x, n / x % y, n / (x * y)));
    }
    simt_here = nullptr;
}
