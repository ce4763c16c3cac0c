/* interrupt.h - Ctrl-C, and what a job manager sends before it ends a job (SIGTERM, SIGUSR1). The first one asks, a
 * second one of the same kind kills as ever. */
#ifndef LH_CLI_INTERRUPT_H
#define LH_CLI_INTERRUPT_H

/* From now on an interrupt is a question that lh_interrupt_asked answers with 1. Reading and loading come before: they
 * have nothing to save. */
void lh_interrupt_begin(void);
int lh_interrupt_asked(void);

#endif
