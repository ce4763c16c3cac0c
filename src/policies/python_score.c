#include "policies/python_score.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"

extern char **environ;

typedef struct python_score {
    lh_plugin table;
    char *path;
    int socket;              /* -1: there is no process */
    pid_t child, parent;     /* the process, and the one that has started it: a fork starts its own */
    pthread_mutex_t at_work; /* one head at a time */
    json_t *about;           /* owns the texts of the table */
} python_score;

enum { ANSWER_BYTES = 1 << 20 };

int lh_python_score_is_file(const char *name)
{
    const size_t bytes = strlen(name);
    return bytes > 3 && strcmp(name + bytes - 3, ".py") == 0;
}

static lh_status fail_ended(const python_score *p)
{
    LH_FAIL(LH_EINPUT, "'%s': the process of Python that scores has ended; its own message is above", p->path);
}

/* ---- messages: sizes and floats as the processor has them, since both processes run on one host ---- */

static lh_status put(const python_score *p, const void *data, int64_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        const ssize_t n = send(p->socket, at, (size_t)bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_ended(p);
        at += n;
        bytes -= n;
    }
    return LH_OK;
}

static lh_status get(const python_score *p, void *data, int64_t bytes)
{
    for (char *at = data; bytes > 0;) {
        const ssize_t n = recv(p->socket, at, (size_t)bytes, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return fail_ended(p);
        at += n;
        bytes -= n;
    }
    return LH_OK;
}

/* A text, after its length. */
static lh_status get_text(const python_score *p, char **out)
{
    int64_t bytes;
    LH_TRY(get(p, &bytes, sizeof bytes));
    if (bytes < 0 || bytes > ANSWER_BYTES) return fail_ended(p);
    LH_TRY(lh_calloc(out, bytes + 1, 1));
    return get(p, *out, bytes);
}

/* ---- a head and its scores ---- */

/* What serve.py unpacks as ten int64 and a double. */
typedef struct head_message {
    int64_t layer, kv_head, count, head_dim, tokens, window, group, rows, hidden_size, reads;
    double softcap;
} head_message;

static lh_status send_head(const python_score *p, const lh_head_entries *e)
{
    const int64_t n = e->count, row = e->rows * (int64_t)sizeof(int32_t), entry = e->head_dim * (int64_t)sizeof(float);
    const head_message m = {e->layer,          e->kv_head, n,       e->head_dim,    e->tokens,
                            e->window,         e->group,   e->rows, e->hidden_size, p->table.reads,
                            (double)e->softcap};
    LH_TRY(put(p, &m, sizeof m));
    LH_TRY(put(p, e->positions, n * (int64_t)sizeof *e->positions));
    LH_TRY(put(p, e->keys, n * entry));
    LH_TRY(put(p, e->values, n * entry));
    if (m.reads) LH_TRY(put(p, e->first_seen, row));
    if (m.reads) LH_TRY(put(p, e->last_seen, row));
    if (m.reads) LH_TRY(put(p, e->row_positions, row));
    if (m.reads & LH_READS_QUERIES) LH_TRY(put(p, e->queries, e->rows * e->group * entry));
    if (m.reads & LH_READS_ATTENTION) LH_TRY(put(p, e->attention, e->group * n * (int64_t)sizeof(float)));
    if (m.reads & LH_READS_HIDDEN) LH_TRY(put(p, e->hidden, e->rows * e->hidden_size * (int64_t)sizeof(float)));
    return LH_OK;
}

/* answered: 1 if the process has said that the score fails, and lives. */
static lh_status receive_scores(const python_score *p, float *scores, int64_t n, int *answered)
{
    int64_t failed;
    char *why = NULL;
    LH_TRY(get(p, &failed, sizeof failed));
    if (!failed) return get(p, scores, n * (int64_t)sizeof *scores);
    lh_status st = get_text(p, &why);
    *answered = st == LH_OK;
    if (st == LH_OK) st = lh_fail(LH_EINPUT, __FILE__, __LINE__, "'%s': %s", p->path, why);
    lh_free(why);
    return st;
}

/* ---- the process ---- */

/* Its standard input is the socket, and what it prints goes to standard error. */
static int spawn(pid_t *child, const char *python, const char *path, int socket)
{
    /* the working folder is no place of modules: a numpy.py there is not numpy */
    char *const argv[] = {(char *)(uintptr_t)python, "-c",
                          "import sys; sys.path = [p for p in sys.path if p]; "
                          "from longhaul.serve import main; main(sys.argv[1])",
                          (char *)(uintptr_t)path, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, socket, 0);
    posix_spawn_file_actions_adddup2(&files, 2, 1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    const int error = posix_spawnp(child, python, &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static lh_status start(python_score *p)
{
    const char *python = getenv("LONGHAUL_PYTHON");
    int ends[2];
    if (!python || !*python) python = "python3";
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        LH_FAIL(LH_EINPUT, "'%s': no socket for Python: %s", p->path, strerror(errno));
    p->socket = ends[0];
    p->parent = getpid();
    const int error = spawn(&p->child, python, p->path, ends[1]);
    close(ends[1]);
    if (!error) return LH_OK;
    p->child = 0;
    LH_FAIL(LH_EINPUT, "'%s' needs Python: '%s' cannot be started (%s), LONGHAUL_PYTHON names another one", p->path,
            python, strerror(error));
}

/* Waits for the process, which ends when its socket is closed. */
static void stop(python_score *p)
{
    if (p->socket >= 0) close(p->socket);
    if (p->child > 0 && p->parent == getpid()) waitpid(p->child, NULL, 0);
    p->socket = -1;
    p->child = 0;
}

/* {"name", "help", "parts", "reads"} of the score, or {"error"}. */
static lh_status read_about(python_score *p, json_t **about)
{
    char *text = NULL;
    lh_error_clear();
    lh_status st = get_text(p, &text);
    if (st == LH_OK) st = lh_json_parse(about, p->path, text, (int64_t)strlen(text));
    lh_free(text);
    if (st != LH_OK)
        LH_FAIL(LH_EINPUT,
                "'%s' cannot be served by Python, which says why above: it needs the package longhaul (pip install "
                "./python), and LONGHAUL_PYTHON names another Python",
                p->path);
    const char *error = json_string_value(json_object_get(*about, "error"));
    if (error) LH_FAIL(LH_EINPUT, "'%s': %s", p->path, error);
    return LH_OK;
}

/* ---- scores ---- */

/* A process that has died, or that belongs to the process of which this one is a fork, is started again. */
static lh_status restart(python_score *p)
{
    json_t *about = NULL;
    if (p->socket >= 0 && p->parent == getpid()) return LH_OK;
    stop(p);
    LH_TRY(start(p));
    const lh_status st = read_about(p, &about);
    json_decref(about);
    return st;
}

static lh_status score(void *self, const lh_head_entries *e, float *scores)
{
    python_score *p = self;
    int answered = 0;
    pthread_mutex_lock(&p->at_work);
    lh_status st = restart(p);
    if (st == LH_OK) st = send_head(p, e);
    if (st == LH_OK) st = receive_scores(p, scores, e->count, &answered);
    if (st != LH_OK && !answered) stop(p);
    pthread_mutex_unlock(&p->at_work);
    return st;
}

static void make_table(python_score *p)
{
    const json_t *about = p->about;
    p->table = (lh_plugin){.size = sizeof p->table,
                           .abi = LH_PLUGIN_ABI,
                           .name = json_string_value(json_object_get(about, "name")),
                           .help = json_string_value(json_object_get(about, "help")),
                           .parts = json_string_value(json_object_get(about, "parts")),
                           .reads = json_integer_value(json_object_get(about, "reads")),
                           .score = score};
}

static void close_score(python_score *p)
{
    if (!p) return;
    stop(p);
    json_decref(p->about);
    lh_free(p->path);
    lh_free(p);
}

lh_status lh_python_score_open(const lh_plugin **table, lh_scorer *scorer, const char *path)
{
    lh_status st = LH_OK;
    python_score *p = NULL;
    LH_TRY(lh_calloc(&p, 1, sizeof *p));
    p->socket = -1;
    pthread_mutex_init(&p->at_work, NULL);
    LH_TRY_DONE(lh_strdup(&p->path, path));
    LH_TRY_DONE(start(p));
    LH_TRY_DONE(read_about(p, &p->about));
    make_table(p);
    *table = &p->table;
    *scorer = (lh_scorer){.size = sizeof *scorer, .self = p, .score = score, .reads = p->table.reads};
    p = NULL;
done:
    close_score(p);
    return st;
}
