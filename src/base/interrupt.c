/* interrupt.c - signals that ask a run to end: the handler sets a flag, which the run polls. */
#include "base/interrupt.h"

#include <signal.h>
#include <stddef.h>

/* Signal handlers have no argument for state. */
static volatile sig_atomic_t asked;

static void ask(int number)
{
    (void)number;
    asked = 1;
}

void lh_interrupt_begin(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1};
    struct sigaction action = {.sa_handler = ask, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &action, NULL);
}

int lh_interrupt_asked(void)
{
    return asked;
}
