/* interrupt.c - signals that end a run or stop an answer: the handlers set flags, which the run polls. */
#include "base/interrupt.h"

#include <signal.h>
#include <stddef.h>

/* Signal handlers have no argument for state. */
static volatile sig_atomic_t end_asked, stop_asked;

static void ask_end(int number)
{
    const int how = number == SIGUSR1 ? LH_INTERRUPT_SOON : LH_INTERRUPT_NOW;
    if (how > end_asked) end_asked = how;
}

static void ask_stop(int number)
{
    (void)number;
    stop_asked = 1;
}

static void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, before;
    /* `nohup` starts a program with SIGHUP ignored. */
    if (number == SIGHUP && sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN) return;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void lh_interrupt_begin(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        handle(signals[i], ask_end, (int)SA_RESETHAND | SA_RESTART);
}

lh_interrupt lh_interrupt_asked(void)
{
    return (lh_interrupt)end_asked;
}

void lh_interrupt_ignore_stop(void)
{
    handle(SIGUSR2, SIG_IGN, 0);
}

void lh_interrupt_begin_session(void)
{
    handle(SIGINT, ask_stop, 0);
    handle(SIGUSR2, ask_stop, 0);
    handle(SIGTERM, ask_end, 0);
    handle(SIGHUP, ask_end, 0);
    handle(SIGUSR1, ask_end, 0);
}

int lh_interrupt_stop_asked(void)
{
    return stop_asked || end_asked;
}

void lh_interrupt_forget_stop(void)
{
    stop_asked = 0;
}
