/* line_editor.c - libedit, one key at a time: rank 0 must not wait for a person, since the other ranks wait for its
 * next order. */
#include "main/line_editor.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/unicode.h"

enum { HISTORY_LINES = 1000, SEQUENCE_MS = 100, CTRL_D = 4, ESCAPE = 27 };

struct lh_line_editor {
    EditLine *line;
    HistoryW *history;
    struct termios before; /* the terminal's modes without an editor */
    int editing;           /* true: the prompt is shown, and the terminal hands over single keys */
    unsigned char kept;    /* byte that was read after a torn character; 0: none */
    uint32_t last;         /* character before, of the same key; 0: none */
    int ended;
};

const char *lh_line_editor_name(void)
{
    return "libedit";
}

static wchar_t *prompt(EditLine *line)
{
    static wchar_t text[] = L"> ";
    (void)line;
    return text;
}

/* *byte is the next byte, 0 if none came in time. False: a signal came, or the terminal has gone, e->ended. */
static int next_byte(lh_line_editor *e, unsigned char *byte)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    *byte = e->kept;
    e->kept = '\0';
    if (*byte) return 1;
    const int ready = poll(&input, 1, SEQUENCE_MS);
    if (ready > 0 && read(STDIN_FILENO, byte, 1) == 1) return 1;
    e->ended |= ready > 0 && errno != EINTR;
    return ready == 0;
}

/* libedit's source of characters. It is called when a key was pressed, and again within the sequence of a key such as
 * an arrow; a sequence that does not go on, after Escape alone, is completed by a zero, which no key is bound to. */
static int next_character(EditLine *line, wchar_t *out)
{
    lh_line_editor *e;
    char text[4];
    unsigned char byte;
    uint32_t cp = 0;
    int n = 0, skip;
    el_wget(line, EL_CLIENTDATA, &e);
    const LineInfoW *now = el_wline(line);
    do {
        if (!next_byte(e, &byte)) return -1;
        text[n++] = (char)byte;
    } while (lh_utf8_read(text, n, &cp, &skip) == 0 && skip == n && n < 4);
    if (skip < n) e->kept = byte;
    e->ended |= cp == CTRL_D && e->last != ESCAPE && now->lastchar == now->buffer;
    e->last = cp;
    *out = (wchar_t)cp;
    return e->ended ? 0 : 1;
}

/* Keys that libedit leaves unbound. */
static void bind_keys(EditLine *line)
{
    static const wchar_t *const keys[][2] = {
        {L"\\e[3~", L"ed-delete-next-char"}, {L"\\e[1~", L"ed-move-to-beg"}, {L"\\e[4~", L"ed-move-to-end"},
        {L"\\e[H", L"ed-move-to-beg"},       {L"\\e[F", L"ed-move-to-end"},  {L"\\eOH", L"ed-move-to-beg"},
        {L"\\eOF", L"ed-move-to-end"},       {L"\\e[1;5C", L"em-next-word"}, {L"\\e[1;5D", L"ed-prev-word"},
        {L"^R", L"ed-search-prev-history"},  {L"^I", L"ed-insert"}, /* tabs of a pasted text */
        {L"^W", L"ed-delete-prev-word"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) el_wset(line, EL_BIND, keys[i][0], keys[i][1], NULL);
}

/* False: without UTF-8 libedit shows bytes as numbers. */
static int use_utf8(void)
{
    if (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0) return 1;
    return setlocale(LC_CTYPE, "C.UTF-8") != NULL;
}

lh_status lh_line_editor_open(lh_line_editor **out)
{
    lh_status st = LH_OK;
    lh_line_editor *e = NULL;
    HistEventW event;
    const char *terminal = getenv("TERM");
    *out = NULL;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) || !terminal || strcmp(terminal, "dumb") == 0) goto done;
    LH_TRY_DONE(lh_calloc(&e, 1, sizeof *e));
    if (tcgetattr(STDIN_FILENO, &e->before) != 0 || !use_utf8()) goto done;
    e->history = history_winit();
    e->line = el_init("longhaul", stdin, stderr, stderr);
    if (!e->history || !e->line) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the line editor");
    history_w(e->history, &event, H_SETSIZE, HISTORY_LINES);
    history_w(e->history, &event, H_SETUNIQUE, 1);
    el_wset(e->line, EL_CLIENTDATA, e);
    el_wset(e->line, EL_GETCFN, next_character);
    el_wset(e->line, EL_PROMPT, prompt);
    el_wset(e->line, EL_HIST, history_w, e->history);
    el_wset(e->line, EL_EDITOR, L"emacs");
    bind_keys(e->line);
    el_source(e->line, NULL); /* ~/.editrc, the user's keys of all programs with libedit */
    *out = e;
    e = NULL;
done:
    lh_line_editor_close(e);
    return st;
}

/* The terminal hands over single keys, and libedit shows them. */
static void begin_line(lh_line_editor *e)
{
    el_wset(e->line, EL_UNBUFFERED, 1); /* shows the prompt */
    e->editing = 1;
}

/* Until the next line the terminal shows nothing that is typed, and lets it be edited then. Signals of keys stay. */
static void end_line(lh_line_editor *e)
{
    struct termios quiet = e->before;
    el_wset(e->line, EL_UNBUFFERED, 0);
    e->editing = 0;
    quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    quiet.c_cc[VMIN] = 1;
    quiet.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
}

/* True if a shell has set the terminal to its modes, after Ctrl-Z and `fg`. */
static int was_suspended(void)
{
    struct termios now;
    return tcgetattr(STDIN_FILENO, &now) == 0 && (now.c_lflag & ICANON);
}

static lh_status take_line(lh_line_editor *e, const wchar_t *text, int n, lh_buf *read)
{
    HistEventW event;
    char bytes[4];
    if (n > 1) history_w(e->history, &event, H_ENTER, text);
    for (int i = 0; i < n; i++) LH_TRY(lh_buf_append(read, bytes, lh_utf8_write(bytes, (uint32_t)text[i])));
    return LH_OK;
}

lh_status lh_line_editor_read(lh_line_editor *e, int wait_ms, lh_buf *read, int *ended)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    if (e->editing && was_suspended()) el_wset(e->line, EL_UNBUFFERED, 0), e->editing = 0;
    if (!e->editing) begin_line(e);
    for (int wait = wait_ms; e->kept || poll(&input, 1, wait) > 0; wait = 0) {
        int n = 0;
        el_resize(e->line);
        e->last = 0;
        const wchar_t *text = el_wgets(e->line, &n);
        *ended = e->ended;
        if (*ended) lh_line_editor_drop(e);
        if (*ended) break;
        if (!text || n < 1 || text[n - 1] != L'\n') continue;
        end_line(e);
        return take_line(e, text, n, read);
    }
    return LH_OK;
}

void lh_line_editor_drop(lh_line_editor *e)
{
    if (!e->editing) return;
    if (write(STDERR_FILENO, "\n", 1) < 0) e->ended = 1;
    end_line(e);
}

void lh_line_editor_close(lh_line_editor *e)
{
    if (!e) return;
    if (e->line) el_end(e->line);
    if (e->line) tcsetattr(STDIN_FILENO, TCSADRAIN, &e->before);
    if (e->history) history_wend(e->history);
    lh_free(e);
}
