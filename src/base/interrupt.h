/* interrupt.h - Ctrl-C, and the signals that a job manager sends before it ends a job (SIGTERM, SIGUSR1). The first one
 * requests an end, a second one of the same kind kills the process. */
#ifndef LH_BASE_INTERRUPT_H
#define LH_BASE_INTERRUPT_H

/* Install the handlers: a program's business, not a library's. After standard input was read, because a read goes on
 * after these signals. */
void lh_interrupt_begin(void);

/* 1 after a signal; long work polls it. */
int lh_interrupt_asked(void);

#endif
