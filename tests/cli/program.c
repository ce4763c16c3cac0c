#include "cli/program.h"
#include "base/temporary.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/output.h"

static char folder[64];

void program_must(int done, const char *what)
{
    if (done) return;
    fprintf(stderr, "the test itself failed: %s\n", what);
    exit(99);
}

void program_enter(void)
{
    program_must(mkdtemp(temporary_name(folder, "/tmp")) && chdir(folder) == 0, "its folder");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
}

void program_leave(void)
{
    program_must(chdir("/") == 0, "leaving its folder");
    temporary_remove(folder);
}

static void read_back(lh_buf *out, const char *path)
{
    lh_buf_clear(out);
    program_must(lh_file_read(out, path, 1 << 28) == LH_OK, path);
}

void program_run(program_result *r, int ranks, const char *arguments, ...)
{
    lh_buf line = {0};
    char *text = NULL;
    va_list ap;
    va_start(ap, arguments);
    program_must(vasprintf(&text, arguments, ap) >= 0, "memory");
    va_end(ap);
    if (ranks > 1) program_must(lh_buf_printf(&line, "%s -n %d ", MPIEXEC, ranks) == LH_OK, "memory");
    program_must(lh_buf_printf(&line, "%s %s", LONGHAUL, text) == LH_OK, "memory");
    /* What the test redirects itself comes later on the line and wins. */
    char *command = NULL;
    program_must(asprintf(&command, "{ %s ; } >out.%d 2>err.%d </dev/null", line.data, getpid(), getpid()) >= 0,
                 "memory");
    int status = system(command);
    r->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    char path[64];
    snprintf(path, sizeof path, "out.%d", getpid());
    read_back(&r->out, path);
    snprintf(path, sizeof path, "err.%d", getpid());
    read_back(&r->err, path);
    free(command);
    free(text);
    lh_buf_clear(&line);
}

void program_clear(program_result *r)
{
    lh_buf_clear(&r->out);
    lh_buf_clear(&r->err);
}

void program_exits(const program_result *r, int code)
{
    ck_assert_msg(r->code == code, "exit code %d, not %d; stderr:\n%s", r->code, code, r->err.data);
}

int program_lines(const char *text, const char *start)
{
    int n = 0;
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
        n += strncmp(at, start, strlen(start)) == 0;
    return n;
}

void program_says(const program_result *r, const char *part)
{
    int errors = program_lines(r->err.data, "longhaul: ") - program_lines(r->err.data, "longhaul: warning: ");
    ck_assert_msg(errors == 1, "%d errors, not one; stderr:\n%s", errors, r->err.data);
    ck_assert_msg(strstr(r->err.data, part), "stderr does not say \"%s\":\n%s", part, r->err.data);
}

void program_refuses(int ranks, int code, const char *part, const char *line)
{
    program_result r = {0};
    program_run(&r, ranks, "%s", line);
    ck_assert_msg(r.code == code, "'%s' gives %d, not %d; stderr:\n%s", line, r.code, code, r.err.data);
    program_says(&r, part);
    ck_assert_str_eq(r.out.data, "");
    program_clear(&r);
}

void program_file(const char *name, const char *text)
{
    program_must(lh_file_write(name, text, (int64_t)strlen(text)) == LH_OK, name);
}
