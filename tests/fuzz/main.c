/* fuzz - damages inputs and gives them to everything that reads foreign files. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/options.h"
#include "base/output.h"
#include "targets.h"

static const fz_target *const targets[] = {
#define FZ_TARGET(name) &fz_##name,
    FZ_TARGETS(FZ_TARGET)
#undef FZ_TARGET
        NULL};

/* A process makes so many mutations; then it looks for leaks, and another one goes on. Processor time that one may
 * take: the slowest take milliseconds, under the sanitizers tens of them. */
enum { PER_PROCESS = 5000, CPU_S = 20, LAW_BROKEN = 98 };

typedef struct settings {
    int64_t count, seed, from, time_limit;
    lh_strings targets;
    const char *input, *out;
} settings;

#define FIELD(member) LH_FIELD(settings, member)
static const lh_option rows[] = {
    {.type = LH_OPT_LIST,
     .letter = 't',
     .name = "target",
     FIELD(targets),
     .arg = "NAME",
     .help = "Only this target; may be given several times."},
    {.type = LH_OPT_I64,
     .letter = 'n',
     .name = "count",
     FIELD(count),
     .arg = "N",
     .def = "0",
     .max = INT64_MAX,
     .help = "Mutations of each target. 0: its own number for a short run, and with LONGHAUL_LONG=1 in the environment "
             "its share of a million."},
    {.type = LH_OPT_I64,
     .letter = 's',
     .name = "seed",
     FIELD(seed),
     .arg = "N",
     .def = "1",
     .max = INT64_MAX,
     .help = "Another seed, other mutations."},
    {.type = LH_OPT_I64,
     .name = "from",
     FIELD(from),
     .arg = "N",
     .def = "0",
     .max = INT64_MAX,
     .help = "Number of the first mutation."},
    {.type = LH_OPT_I64,
     .name = "time-limit",
     FIELD(time_limit),
     .arg = "SECONDS",
     .def = "0",
     .max = INT64_MAX,
     .help = "End each target after so long; 0: when all mutations are done."},
    {.type = LH_OPT_STR,
     .letter = 'i',
     .name = "input",
     FIELD(input),
     .arg = "FILE",
     .help = "No mutations: give this file to the target, in this process, and say what it makes of it."},
    {.type = LH_OPT_STR,
     .letter = 'o',
     .name = "out",
     FIELD(out),
     .arg = "FOLDER",
     .def = ".",
     .help = "Where an input is left that breaks the law."},
    {0}};
#undef FIELD
static const lh_option_table table = {"fuzzing", rows};
static const lh_option_group groups[] = {{&table, 0}, {0}};
static const lh_syntax syntax = {.program = "fuzz",
                                 .name = "",
                                 .usage = "[options]",
                                 .summary = "damages inputs and gives them to everything that reads foreign files",
                                 .groups = groups};

/* What the processes of a target know together. */
typedef struct tally {
    int64_t at; /* the mutation under way */
    int64_t done, accepted, children;
    int64_t slowest;
    double slowest_s;
} tally;

typedef struct runner {
    const settings *set;
    const fz_target *target;
    char *folder, *path;
    fz_seeds seeds;
    void *state;
    tally *all;
    double began;
} runner;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- seeds ---- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Templates lie beside what they should give, which is no input. */
static int is_seed(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !strstr(entry->d_name, ".jsonl");
}

static lh_status read_corpus(runner *r)
{
    lh_status st = LH_OK;
    char *folder = NULL, *path = NULL;
    struct dirent **list = NULL;
    int n = 0;
    LH_TRY_DONE(lh_path_join(&folder, LH_FUZZ_CORPUS, r->target->corpus));
    n = scandir(folder, &list, is_seed, by_name);
    if (n < 1) LH_FAIL_DONE(LH_EINPUT, "'%s' holds no seeds", folder);
    for (int i = 0; i < n; i++) {
        LH_TRY_DONE(lh_path_join(&path, folder, list[i]->d_name));
        LH_TRY_DONE(fz_seeds_add_file(&r->seeds, path));
        lh_free(path);
        path = NULL;
    }
done:
    for (int i = 0; i < n; i++) free(list[i]);
    free(list);
    lh_free(folder);
    lh_free(path);
    return st;
}

/* ---- one input ---- */

/* NULL, or how the target broke the law. */
static const char *broken(const runner *r, lh_status st)
{
    const char *message = lh_error_message();
    if (st == LH_OK) return NULL;
    if (st != LH_EINPUT && st != LH_EFILE) return "this is no status for bad input";
    if (strstr(message, "exit code")) return "a sanitizer found something in the child process";
    if (!strstr(message, r->folder)) return "the message does not name the file";
    if (strchr(message, '\n')) return "the message has several lines";
    return NULL;
}

static lh_status run_input(const runner *r, const lh_buf *input)
{
    lh_status st = LH_OK;
    fz_case c = {.folder = r->folder, .path = r->path, .bytes = input->bytes, .state = r->state};
    char *exact = NULL;
    c.rng = fz_rng_of(lh_hash64(input->data ? input->data : "", input->bytes), 0, 0);
    LH_TRY_DONE(lh_calloc(&exact, input->bytes, 1)); /* what lies after it must not be read */
    if (input->bytes) memcpy(exact, input->data, (size_t)input->bytes);
    c.data = exact;
    LH_TRY_DONE(fz_put(r->folder, r->target->file, input->data, input->bytes));
    lh_error_clear();
    st = r->target->run(&c);
done:
    lh_free(exact);
    return st;
}

static lh_status make_input(const runner *r, int64_t i, lh_buf *out)
{
    const char *name = r->target->name;
    fz_rng rng = fz_rng_of((uint64_t)r->set->seed, lh_hash64(name, (int64_t)strlen(name)), i);
    const lh_buf *seed = &r->seeds.at[fz_below(&rng, r->seeds.n)];
    out->bytes = 0;
    LH_TRY(lh_buf_append(out, seed->data, seed->bytes));
    LH_TRY(fz_mutate(out, r->target->form, &rng));
    return LH_OK;
}

/* ---- many, in processes of their own ---- */

/* The exit code of the process: 0, or LAW_BROKEN. */
static int work(const runner *r, int64_t until)
{
    lh_buf input = {0};
    int code = 0;
    for (int64_t i = r->all->at; i < until && code == 0; i++) {
        const struct itimerval limit = {.it_value = {.tv_sec = CPU_S}};
        double from = seconds(CLOCK_PROCESS_CPUTIME_ID);
        r->all->at = i;
        setitimer(ITIMER_PROF, &limit, NULL);
        if (make_input(r, i, &input) != LH_OK) abort();
        lh_status st = run_input(r, &input);
        const char *how = broken(r, st);
        double took = seconds(CLOCK_PROCESS_CPUTIME_ID) - from;
        if (took > r->all->slowest_s) r->all->slowest_s = took, r->all->slowest = i;
        if (how) fprintf(stderr, "%s; status %d: %s\n", how, (int)st, lh_error_message());
        if (how) code = LAW_BROKEN;
        r->all->done++;
        r->all->accepted += st == LH_OK;
        r->all->children += strstr(lh_error_message(), "is damaged: reading it") != NULL;
    }
    lh_buf_clear(&input);
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
    return code;
}

/* Leaves the input that was under way, and says how to repeat it. */
static lh_status keep_input(const runner *r, int how)
{
    lh_status st = LH_OK;
    const char *name = r->target->name;
    lh_buf input = {0};
    char *path = NULL, why[64];
    LH_TRY_DONE(make_input(r, r->all->at, &input));
    LH_TRY_DONE(
        lh_asprintf(&path, "%s/fuzz-%s-%lld-%lld", r->set->out, name, (long long)r->set->seed, (long long)r->all->at));
    LH_TRY_DONE(lh_file_write(path, input.data ? input.data : "", input.bytes));
    snprintf(why, sizeof why, WIFSIGNALED(how) ? "signal %d" : "exit code %d",
             WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
    printf("%s: mutation %lld of seed %lld ends with %s%s\n  the input: %s\n  again: fuzz --target %s --input %s\n",
           name, (long long)r->all->at, (long long)r->set->seed, why,
           WIFSIGNALED(how) && WTERMSIG(how) == SIGPROF ? " (it takes too long)" : "", path, name, path);
    printf("  leaks are found after all mutations of a process: fuzz --target %s --seed %lld --from %lld --count %d\n",
           name, (long long)r->set->seed, (long long)(r->all->at - r->all->at % PER_PROCESS), PER_PROCESS);
done:
    lh_buf_clear(&input);
    lh_free(path);
    return st;
}

static lh_status run_many(runner *r, int64_t count, int *failed)
{
    int64_t end = r->set->from + count;
    for (int64_t at = r->set->from; at < end && !*failed;) {
        int64_t until = at - at % PER_PROCESS + PER_PROCESS;
        int how = 0;
        if (until > end) until = end;
        if (r->set->time_limit && seconds(CLOCK_MONOTONIC) - r->began > (double)r->set->time_limit) break;
        r->all->at = at;
        fflush(NULL);
        pid_t child = fork();
        if (child < 0) LH_FAIL(LH_ENOMEM, "cannot start a process: %s", strerror(errno));
        if (child == 0) exit(work(r, until));
        while (waitpid(child, &how, 0) < 0 && errno == EINTR) continue;
        *failed = how != 0;
        if (how) LH_TRY(keep_input(r, how));
        at = until;
    }
    return LH_OK;
}

static void report(const runner *r)
{
    const tally *a = r->all;
    double s = seconds(CLOCK_MONOTONIC) - r->began;
    printf("%-15s %8lld mutations, %lld accepted, %lld refused", r->target->name, (long long)a->done,
           (long long)a->accepted, (long long)(a->done - a->accepted));
    if (a->children) printf(" (%lld by the end of a child process)", (long long)a->children);
    printf(", %.0f a second, the slowest (%lld) %.0f ms\n", (double)a->done / (s > 0 ? s : 1), (long long)a->slowest,
           a->slowest_s * 1e3);
    fflush(stdout);
}

static lh_status run_file(runner *r, int *failed)
{
    lh_status st = LH_OK;
    lh_buf input = {0};
    LH_TRY_DONE(lh_file_read(&input, r->set->input, 1 << 30));
    lh_status got = run_input(r, &input);
    const char *how = broken(r, got);
    printf("%s: status %d%s%s%s%s\n", r->target->name, (int)got, got ? ": " : "", got ? lh_error_message() : "",
           how ? "; " : "", how ? how : "");
    *failed = how != NULL;
done:
    lh_buf_clear(&input);
    return st;
}

static lh_status run_target(const settings *set, const fz_target *target, const char *folder, int *failed)
{
    lh_status st = LH_OK;
    const char *is_long = getenv("LONGHAUL_LONG");
    runner r = {.set = set, .target = target, .began = seconds(CLOCK_MONOTONIC)};
    r.all = mmap(NULL, sizeof *r.all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r.all == MAP_FAILED) LH_FAIL_DONE(LH_ENOMEM, "no shared memory: %s", strerror(errno));
    LH_TRY_DONE(lh_path_join(&r.folder, folder, target->name));
    LH_TRY_DONE(lh_path_join(&r.path, r.folder, target->file));
    mkdir(r.folder, 0777);
    if (target->corpus) LH_TRY_DONE(read_corpus(&r));
    if (target->seeds) LH_TRY_DONE(target->seeds(&r.seeds, r.folder));
    if (target->prepare) LH_TRY_DONE(target->prepare(&r.state, r.folder));
    if (set->input) {
        LH_TRY_DONE(run_file(&r, failed));
        goto done;
    }
    LH_TRY_DONE(run_many(&r,
                         set->count                             ? set->count
                         : is_long && strcmp(is_long, "1") == 0 ? target->share
                                                                : target->quick,
                         failed));
    report(&r);
done:
    if (target->forget && r.state) target->forget(r.state);
    if (r.all != MAP_FAILED) munmap(r.all, sizeof *r.all);
    fz_seeds_clear(&r.seeds);
    lh_free(r.folder);
    lh_free(r.path);
    return st;
}

static int remove_one(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    (void)what, (void)kind, (void)where;
    return remove(path);
}

static int is_wanted(const settings *set, const char *name)
{
    int found = set->targets.n == 0;
    for (int64_t i = 0; i < set->targets.n; i++) found |= strcmp(set->targets.at[i], name) == 0;
    return found;
}

static lh_status check_targets(const settings *set)
{
    if (set->input && set->targets.n != 1) LH_FAIL(LH_EUSAGE, "'--input' goes to one target: give '--target'");
    for (int64_t i = 0; i < set->targets.n; i++) {
        int found = 0;
        for (int t = 0; targets[t]; t++) found |= strcmp(set->targets.at[i], targets[t]->name) == 0;
        if (!found) LH_FAIL(LH_EUSAGE, "there is no target '%s': '--help' lists them", set->targets.at[i]);
    }
    return LH_OK;
}

static lh_status print_help(void)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_options_help(&text, &syntax, LH_HELP_ALL));
    printf("%s\ntargets, with their shares of a million:\n", text.data);
    for (int t = 0; targets[t]; t++)
        printf("  %-15s %6lld  %s\n", targets[t]->name, (long long)targets[t]->share, targets[t]->summary);
done:
    lh_buf_clear(&text);
    return st;
}

int main(int argc, char **argv)
{
    lh_status st = LH_OK;
    lh_options *options = NULL;
    settings set = {0};
    char folder[32] = "";
    int failed = 0;
    omp_set_num_threads(1); /* threads do not survive a fork */
    lh_log_set_level(LH_LOG_ERROR);
    if (lh_options_help_asked(argc - 1, argv + 1)) return (int)print_help();
    LH_TRY_DONE(lh_options_parse(&options, &syntax, &set, argc - 1, argv + 1));
    LH_TRY_DONE(check_targets(&set));
    snprintf(folder, sizeof folder, "%s/lh-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder)) LH_FAIL_DONE(LH_EWRITE, "cannot make '%s': %s", folder, strerror(errno));
    for (int t = 0; targets[t] && !failed; t++)
        if (is_wanted(&set, targets[t]->name)) LH_TRY_DONE(run_target(&set, targets[t], folder, &failed));
done:
    if (st != LH_OK) fprintf(stderr, "fuzz: %s\n", lh_error_message());
    if (*folder) nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    lh_options_close(options);
    return st != LH_OK ? (int)st : failed;
}
