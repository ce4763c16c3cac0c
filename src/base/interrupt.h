/* interrupt.h - signals of a person or a job manager that ask a run to end: Ctrl-C (SIGINT), SIGTERM, SIGHUP of a
 * closed terminal, and SIGUSR1, which a job manager sends before it ends a job. In a session Ctrl-C and SIGUSR2 stop an
 * answer instead. Handlers only set flags; long work polls them. */
#ifndef LH_BASE_INTERRUPT_H
#define LH_BASE_INTERRUPT_H

/* Install the handlers, in a program, not in a library. Call it after standard input was read, because these signals
 * do not interrupt a read. A second signal of the same kind kills the process. SIGHUP stays ignored under `nohup`. */
void lh_interrupt_begin(void);

/* How soon the run must end: SIGUSR1 leaves time to reach a point where the work can be saved; SIGINT, SIGTERM and
 * SIGHUP do not. */
typedef enum lh_interrupt { LH_INTERRUPT_NONE, LH_INTERRUPT_SOON, LH_INTERRUPT_NOW } lh_interrupt;

/* Not 0 after a signal that asks for the end. */
lh_interrupt lh_interrupt_asked(void);

/* Until the session begins SIGUSR2 has no effect, since there is no answer to stop. */
void lh_interrupt_ignore_stop(void);

/* Install the handlers of a session: SIGINT and SIGUSR2 stop an answer, SIGTERM, SIGHUP and SIGUSR1 end the session.
 * They end a wait for input, and none kills the process. */
void lh_interrupt_begin_session(void);

/* True after a signal that stops an answer, since lh_interrupt_forget_stop, and after a signal that asks for the
 * end. */
int lh_interrupt_stop_asked(void);
void lh_interrupt_forget_stop(void);

#endif
