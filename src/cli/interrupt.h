/* interrupt.h - Ctrl-C, and the signals that a job manager sends before it ends a job (SIGTERM, SIGUSR1). The first one
 * requests an end, a second one of the same kind kills the process. */
#ifndef LH_CLI_INTERRUPT_H
#define LH_CLI_INTERRUPT_H

/* Installs the handlers: after an interrupt lh_interrupt_asked returns 1. Called after loading, which has nothing to
 * save. */
void lh_interrupt_begin(void);
int lh_interrupt_asked(void);

#endif
