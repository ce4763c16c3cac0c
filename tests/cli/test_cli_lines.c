/* Lines typed into `chat`, and the signals between them. */
#include <check.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "main/chat_lines.h"
#include "suite.h"

static void type(const char *text)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(dup2(ends[0], 0), 0);
    close(ends[0]), close(ends[1]);
}

static void next(lh_chat_lines *lines, lh_chat_event want, const char *text)
{
    lh_buf line = {0};
    lh_chat_event event;
    ck_assert_int_eq(lh_chat_next_line(lines, 1000, &line, &event), LH_OK);
    ck_assert_int_eq(event, want);
    if (text) ck_assert_str_eq(line.data, text);
    lh_buf_clear(&line);
}

START_TEST(test_a_signal_between_two_lines_loses_neither)
{
    static const int signals[] = {SIGINT, SIGUSR2};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        lh_chat_lines lines = {0};
        type("\357\273\277one\ntwo\nthree"); /* after a byte order mark */
        lh_interrupt_begin_session();
        raise(signals[i]);
        next(&lines, LH_CHAT_STOPPED, NULL); /* nothing is read yet */
        lh_interrupt_forget_stop();
        next(&lines, LH_CHAT_LINE, "one");
        raise(signals[i]);
        next(&lines, LH_CHAT_STOPPED, NULL);
        lh_interrupt_forget_stop();
        next(&lines, LH_CHAT_LINE, "two");
        raise(signals[i]);
        next(&lines, LH_CHAT_STOPPED, NULL);
        lh_interrupt_forget_stop();
        next(&lines, LH_CHAT_LINE, "three");
        next(&lines, LH_CHAT_INPUT_ENDED, NULL);
        lh_chat_lines_clear(&lines);
    }
}
END_TEST

START_TEST(test_a_signal_to_stop_has_no_effect_before_the_session)
{
    lh_interrupt_ignore_stop();
    raise(SIGUSR2);
    ck_assert(!lh_interrupt_stop_asked());
    lh_interrupt_begin_session();
    ck_assert(!lh_interrupt_stop_asked());
    raise(SIGUSR2);
    ck_assert(lh_interrupt_stop_asked() && !lh_interrupt_asked());
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_signal_between_two_lines_loses_neither,
                                  test_a_signal_to_stop_has_no_effect_before_the_session, NULL};
    return suite_run("cli lines", tests);
}
