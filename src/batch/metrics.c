/* metrics.c - names, kinds and values of the metrics of a batch. */
#include "batch/metrics.h"

#include "base/output.h"

static double is_running(const lh_batch_state *s)
{
    return s->stage == LH_BATCH_RUNNING;
}

static double rank_seconds(const lh_batch_state *s)
{
    return 1e-3 * (double)s->rank_ms;
}

/* A value is a member of the state, or made of it; one that is negative is not known, and left out. */
static const struct {
    const char *name, *kind, *help;
    size_t at;
    double (*value)(const lh_batch_state *state);
} metrics[] = {
    {"running", "gauge", "1 while the run is at work.", 0, is_running},
    {"requests", "gauge", "Requests of the input.", offsetof(lh_batch_state, total), NULL},
    {"requests_done_total", "counter", "Requests with a line in the output.", offsetof(lh_batch_state, done), NULL},
    {"requests_failed_total", "counter", "Those that have no answer.", offsetof(lh_batch_state, failed), NULL},
    {"prompt_tokens_total", "counter", "Tokens of prompts.", offsetof(lh_batch_state, prompt_tokens), NULL},
    {"context_tokens_total", "counter", "Tokens of shared contexts in front of prompts, taken from their caches.",
     offsetof(lh_batch_state, context_tokens), NULL},
    {"generated_tokens_total", "counter", "Tokens of answers.", offsetof(lh_batch_state, new_tokens), NULL},
    {"tokens_per_second", "gauge", "Tokens of prompts and answers per second of this run.", 0,
     lh_batch_state_tokens_rate},
    {"left_seconds", "gauge", "Time that the rest takes.", 0, lh_batch_state_left},
    {"rank_seconds_total", "counter", "Time of all ranks together.", 0, rank_seconds},
    {"memory_peak_bytes", "gauge", "Most device memory of rank 0 in use.", offsetof(lh_batch_state, memory_peak), NULL},
    {"updated_timestamp_seconds", "gauge", "When this was written.", offsetof(lh_batch_state, updated), NULL}};

static lh_status append_label(lh_buf *out, const char *text)
{
    for (; *text; text++)
        LH_TRY(*text == '\n' ? lh_buf_puts(out, "\\n")
                             : lh_buf_printf(out, *text == '\\' || *text == '"' ? "\\%c" : "%c", *text));
    return LH_OK;
}

lh_status lh_batch_metrics_write(const lh_batch_state *state, const char *output, const char *path)
{
    lh_status st = LH_OK;
    lh_buf text = {0}, label = {0};
    LH_TRY_DONE(lh_buf_puts(&label, ""));
    LH_TRY_DONE(append_label(&label, output));
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        const double value = metrics[i].value
                                 ? metrics[i].value(state)
                                 : (double)*(const int64_t *)(const void *)((const char *)state + metrics[i].at);
        if (value < 0) continue;
        LH_TRY_DONE(lh_buf_printf(&text,
                                  "# HELP longhaul_batch_%s %s\n# TYPE longhaul_batch_%s %s\n"
                                  "longhaul_batch_%s{output=\"%s\"} %.15g\n",
                                  metrics[i].name, metrics[i].help, metrics[i].name, metrics[i].kind, metrics[i].name,
                                  label.data, value));
    }
    LH_TRY_DONE(lh_file_write(path, text.data, text.bytes));
done:
    lh_buf_clear(&text);
    lh_buf_clear(&label);
    return st;
}
