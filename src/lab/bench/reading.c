/* reading.c - `bench reading`: times reading and converting all weights of a checkpoint as loading a model does, and
 * for comparison reading the bare file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/threads.h"
#include "import/checkpoint.h"
#include "import/format_tally.h"
#include "lab/bench/bench.h"

enum { PIECE = 8 << 20, MOST = 100 };

typedef struct reading {
    const char *path;
    int quick;
    lh_checkpoint *ck;
    void *piece;            /* [PIECE] bytes */
    lh_format_tally stored; /* all weights as stored */
    int64_t weights;        /* number of weights */
    double file_rate;
    lh_bench_result *result;
} reading;

/* Reads all rows of a tensor, piece by piece. */
static lh_status read_tensor(reading *r, lh_weight weight, int64_t layer, lh_dtype type)
{
    int64_t rows, cols, at_once;
    lh_weight_shape(lh_checkpoint_config(r->ck), weight, &rows, &cols);
    at_once = PIECE / (cols * lh_dtype_bytes(type));
    if (at_once < 1) LH_FAIL(LH_EFILE, "'%s': a row of %lld numbers is too long", r->path, (long long)cols);
    for (int64_t row = 0; row < rows; row += at_once) {
        const int64_t n = rows - row < at_once ? rows - row : at_once;
        LH_TRY(lh_checkpoint_read(r->ck, &(lh_weight_range){weight, layer, row, n, 0, cols}, r->piece, type, cols));
    }
    r->weights += rows * cols;
    return LH_OK;
}

static lh_status read_weights(reading *r, lh_dtype type)
{
    const lh_config *config = lh_checkpoint_config(r->ck);
    r->weights = 0;
    for (int w = 0; w < LH_WEIGHTS; w++) {
        int64_t rows, cols, layers = lh_weight_info_of((lh_weight)w)->per_layer ? config->layers : 1;
        lh_weight_shape(config, (lh_weight)w, &rows, &cols);
        for (int64_t l = 0; l < layers && rows; l++) LH_TRY(read_tensor(r, (lh_weight)w, l, type));
    }
    return LH_OK;
}

static lh_status read_file(reading *r, int64_t *bytes)
{
    lh_status st = LH_OK;
    ssize_t n = 1;
    int fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) LH_FAIL_DONE(LH_EFILE, "cannot open '%s': %s", r->path, strerror(errno));
    for (*bytes = 0; n > 0; *bytes += n) {
        n = read(fd, r->piece, PIECE);
        if (n < 0) LH_FAIL_DONE(LH_EFILE, "cannot read '%s': %s", r->path, strerror(errno));
    }
done:
    if (fd >= 0) close(fd);
    return st;
}

/* Reads the bare file repeatedly, so that it is in the page cache. */
static lh_status measure_file(reading *r)
{
    double seconds[MOST], total = 0;
    int64_t n = 0, bytes = 0;
    lh_bench_time time;
    LH_TRY(read_file(r, &bytes));
    while (n < MOST && (n < 2 || (!r->quick && (n < 5 || total < 0.5)))) {
        double start = lh_clock_s();
        LH_TRY(read_file(r, &bytes));
        seconds[n] = lh_clock_s() - start;
        total += seconds[n++];
    }
    lh_bench_sort(seconds, n, &time);
    r->file_rate = (double)bytes / time.fastest_s;
    LH_TRY(lh_bench_add(
        &r->result->machine,
        &(lh_bench_row){
            .name = "file", .shape = "read() by 8 MiB", .limit = "", .time = time, .bytes = (double)bytes}));
    return LH_OK;
}

static lh_status add_row(reading *r, const char *when, lh_dtype type, const lh_bench_time *time)
{
    char shape[112];
    snprintf(shape, sizeof shape, "%.1f M numbers, stored as %s, as %s, %s", (double)r->weights * 1e-6,
             r->stored.rows[0].format->name, lh_dtype_name(type), when);
    return lh_bench_add(
        &r->result->rows,
        &(lh_bench_row){.name = "weights",
                        .shape = shape,
                        .limit = r->file_rate > 0 ? "file" : "",
                        .time = *time,
                        .bytes = (double)r->stored.bytes,
                        .share = r->file_rate > 0 ? (double)r->stored.bytes / r->file_rate / time->median_s : 0});
}

static lh_status measure_weights(reading *r, const char *when, lh_dtype type, int64_t calls)
{
    double seconds[MOST];
    lh_bench_time time;
    for (int64_t i = 0; i < calls; i++) {
        double start = lh_clock_s();
        LH_TRY(read_weights(r, type));
        seconds[i] = lh_clock_s() - start;
    }
    lh_bench_sort(seconds, calls, &time);
    LH_TRY(add_row(r, when, type, &time));
    return LH_OK;
}

/* Measures reading and converting all weights of a checkpoint in this process. */
static lh_status measure_reading(const char *path, int quick, lh_bench_result *out)
{
    lh_status st = LH_OK;
    reading r = {.path = path, .quick = quick, .result = out};
    lh_buf text = {0};
    const int64_t calls = quick ? 2 : 5;
    lh_bench_result_init(out, lh_bench_columns);
    LH_TRY_DONE(lh_calloc(&r.piece, PIECE, 1));
    LH_TRY_DONE(lh_checkpoint_open(&r.ck, path));
    LH_TRY_DONE(lh_format_tally_of(&r.stored, lh_checkpoint_config(r.ck), lh_checkpoint_formats(r.ck)));
    LH_TRY_DONE(lh_format_tally_text(&r.stored, &text));
    snprintf(out->about, sizeof out->about, "%s: weights of %s", path, text.data);
    const lh_dtype usual = lh_checkpoint_dtype(r.ck) == LH_BF16 ? LH_BF16 : LH_F32;
    LH_TRY_DONE(measure_weights(&r, "first pass", usual, 1));
    LH_TRY_DONE(measure_file(&r));
    LH_TRY_DONE(measure_weights(&r, "again", LH_F32, calls));
    LH_TRY_DONE(measure_weights(&r, "again", LH_BF16, calls));
done:
    lh_buf_clear(&text);
    lh_checkpoint_close(r.ck);
    lh_free(r.piece);
    return st;
}

/* ---- the command ---- */
struct reading_options {
    const char *model;
};

struct values {
    lh_bench_values shared;
    struct reading_options own;
};

static const lh_option rows[] = {{.type = LH_OPT_STR,
                                  .letter = 'm',
                                  .required = 1,
                                  .name = "model",
                                  LH_FIELD(struct reading_options, model),
                                  .arg = "FILE",
                                  .help = "The checkpoint (made by 'longhaul import')."},
                                 {0}};
static const lh_option_table table = {"what is read", rows};
static const lh_option_group groups[] = {{&table, offsetof(struct values, own)},
                                         {&lh_bench_output_options, offsetof(lh_bench_values, output)},
                                         {&lh_shell_common_options, offsetof(lh_bench_values, common)},
                                         {0}};
static const lh_example examples[] = {{"longhaul bench reading -m m.h5", "how fast a checkpoint is read"}, {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "bench reading",
    .usage = "-m FILE [options]",
    .summary = "Measure how fast a checkpoint is read",
    .text =
        "Reads and converts all weights, to the type of a run and then to f32 and bf16, and for comparison the bare "
        "file by read(). Bytes are those stored. The first pass reads from disk unless the file is already in the page "
        "cache, which cannot be detected here; all others read from memory.\n\nRank 0 reads; other ranks exit at once.",
    .groups = groups,
    .examples = examples};

static lh_status run_reading(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    lh_bench_result result = {0};
    lh_threads *threads = NULL;
    if (!lh_shell_first()) goto done;
    LH_TRY_DONE(lh_bench_claim_output(&v->shared.output));
    LH_TRY_DONE(lh_shell_probe(v->own.model));
    LH_TRY_DONE(lh_threads_open_alone(&threads, 0));
    LH_TRY_DONE(measure_reading(v->own.model, v->shared.output.quick, &result));
    LH_TRY_DONE(lh_bench_write(&v->shared.output, "reading", &result));
done:
    lh_bench_drop_output(&v->shared.output);
    lh_bench_result_clear(&result);
    lh_threads_close(threads);
    return st;
}

const lh_command lh_command_bench_reading = {&syntax, sizeof(struct values), run_reading, NULL};
