/* interrupt.h - Ctrl-C, and the signals that a job manager sends before it ends a job (SIGTERM, SIGUSR1). The first one
 * requests an end, a second one of the same kind kills the process. */
#ifndef LH_BASE_INTERRUPT_H
#define LH_BASE_INTERRUPT_H

/* Installs the handlers, which programs do and libraries do not. Reading of standard input begins before: nothing would
 * end it. */
void lh_interrupt_begin(void);

/* 1 after a signal; long work polls it. */
int lh_interrupt_asked(void);

#endif
