/* `chat` on a terminal: lines with arrow keys and a history, what is typed during an answer, keys that send signals. */
#include <check.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "cli/program.h"
#include "main/line_editor.h"
#include "suite.h"

/* A session on a terminal of its own. */
typedef struct terminal {
    int fd;
    pid_t program;
    struct termios before;
    char text[1 << 16]; /* what it showed since the last keys, ends with a zero byte */
    size_t bytes;
} terminal;

static void press(terminal *t, const char *keys)
{
    t->bytes = 0;
    t->text[0] = '\0';
    ck_assert_int_eq(write(t->fd, keys, strlen(keys)), (ssize_t)strlen(keys));
}

/* Reads until the terminal shows `want`; NULL: until the program has ended. */
static void shows(terminal *t, const char *want)
{
    struct pollfd screen = {.fd = t->fd, .events = POLLIN};
    while (!want || !strstr(t->text, want)) {
        ck_assert_msg(t->bytes + 1 < sizeof t->text && poll(&screen, 1, 20000) > 0, "no '%s' in:\n%s",
                      want ? want : "end", t->text);
        const ssize_t n = read(t->fd, t->text + t->bytes, sizeof t->text - 1 - t->bytes);
        ck_assert_msg(n > 0 || !want, "the program ended without '%s':\n%s", want ? want : "", t->text);
        if (n <= 0) return;
        for (ssize_t i = 0; i < n; i++) /* of a random model */
            if (!t->text[t->bytes + (size_t)i]) t->text[t->bytes + (size_t)i] = '?';
        t->bytes += (size_t)n;
        t->text[t->bytes] = '\0';
    }
}

static void begin(terminal *t)
{
    const struct winsize size = {.ws_row = 24, .ws_col = 80};
    t->bytes = 0;
    t->text[0] = '\0';
    t->program = forkpty(&t->fd, NULL, NULL, &size);
    ck_assert_int_ge(t->program, 0);
    if (t->program == 0) {
        setenv("TERM", "xterm", 1);
        setenv("LC_ALL", "C", 1);
        execl(LONGHAUL, LONGHAUL, "chat", "-m", "tiny.h5", "-p", "hello", "-q", "--room", "100k", "-n", "100000", NULL);
        _exit(99);
    }
    ck_assert_int_eq(tcgetattr(t->fd, &t->before), 0);
    shows(t, "> ");
}

static void ends(terminal *t, int code)
{
    int status = 0;
    shows(t, NULL);
    ck_assert_int_eq(waitpid(t->program, &status, 0), t->program);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == code, "status %d, not %d", status, code);
    close(t->fd);
}

START_TEST(test_a_line_is_edited_and_comes_back)
{
    terminal t;
    begin(&t);
    press(&t, "/hisry\033[D\033[Dto\r"); /* twice to the left */
    shows(&t, "room for");
    press(&t, "/\303\251x\177\177history\r"); /* a letter of two bytes, removed by one key */
    shows(&t, "room for");
    press(&t, "\351\177/history\r"); /* a byte that begins no character, removed by the key after it */
    shows(&t, "room for");
    press(&t, "\033[A\r");
    shows(&t, "room for");
    press(&t, "\004");
    ends(&t, 0);
}
END_TEST

/* Asks, presses keys while the answer is made, and stops the answer. */
static void press_during_answer(terminal *t, const char *keys)
{
    press(t, "Who?\r");
    shows(t, "Who?\r\n");
    usleep(500000);
    press(t, keys);
    usleep(300000);
    kill(t->program, SIGUSR2);
}

START_TEST(test_what_is_typed_during_an_answer_waits_for_the_next_line)
{
    terminal t;
    begin(&t);
    press_during_answer(&t, "/quit\r/his");
    shows(&t, "> /quit\r\n");
    ck_assert_msg(!strstr(t.text, "/his") && !strstr(strstr(t.text, "/quit") + 1, "/quit"), "%s", t.text);
    ends(&t, 0);
    begin(&t);
    press_during_answer(&t, "/his");
    shows(&t, "> /his");
    press(&t, "tory\r");
    shows(&t, "user: Who?");
    press(&t, "\004");
    ends(&t, 0);
}
END_TEST

START_TEST(test_keys_that_send_signals)
{
    terminal t;
    begin(&t);
    press(&t, "/quit\003"); /* drops the line */
    shows(&t, "\n> ");
    press(&t, "/history\r");
    shows(&t, "room for");
    press(&t, "Who?\r");
    shows(&t, "Who?\r\n");
    usleep(500000);
    press(&t, "\003"); /* stops the answer */
    shows(&t, "\n> ");
    press(&t, "\033"); /* begins no key */
    usleep(130000);
    press(&t, "\004");
    ends(&t, 0);
    begin(&t);
    kill(t.program, SIGTERM);
    ends(&t, 75);
    begin(&t);
    close(t.fd); /* the window is closed: SIGHUP */
    int status = 0;
    ck_assert_int_eq(waitpid(t.program, &status, 0), t.program);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 75, "status %d", status);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_line_is_edited_and_comes_back,
                                  test_what_is_typed_during_an_answer_waits_for_the_next_line,
                                  test_keys_that_send_signals, NULL};
    program_result r = {0};
    if (strcmp(lh_line_editor_name(), "none") == 0) {
        printf("skipped: a build without libedit\n");
        return 0;
    }
    program_enter();
    program_run(&r, 1, "import --random tiny -o tiny.h5 -q");
    int code = r.code;
    program_clear(&r);
    if (code == 0) code = suite_run("cli terminal", tests);
    program_leave();
    return code;
}
