/* progress.c - draws the bar or writes the lines of progress.h; the rate is the mean since the start. */
#include "base/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/job.h"
#include "base/log.h"

static const double FIRST_S = 1.0, BAR_S = 0.1, LINE_S = 10.0;
enum { BAR_CELLS = 16, TEXT_BYTES = 256 };

void lh_progress_init(lh_progress *p, const char *what, const char *unit, int64_t total)
{
    *p = (lh_progress){.what = what, .unit = unit, .total = total, .started_s = lh_clock_s()};
    p->shown_s = p->started_s;
}

/* A duration in a suitable unit: "75 s", "12 min", "3.1 h". */
static void duration_text(double seconds, char *out, size_t bytes)
{
    if (seconds < 120)
        snprintf(out, bytes, "%.0f s", seconds);
    else if (seconds < 7200)
        snprintf(out, bytes, "%.0f min", seconds / 60);
    else
        snprintf(out, bytes, "%.1f h", seconds / 3600);
}

/* Units per second, minute or hour, so that there is a digit to read. */
static void write_rate(double per_s, const char *unit, char *out, size_t bytes)
{
    static const struct {
        double seconds;
        const char *name;
    } per[] = {{1, "s"}, {60, "min"}, {3600, "h"}};
    int i = 0;
    while (i < 2 && per_s * per[i].seconds < 0.1) i++;
    const double rate = per_s * per[i].seconds;
    snprintf(out, bytes, ", %.*f %s/%s", rate < 10 ? 1 : 0, rate, unit, per[i].name);
}

void lh_progress_text(const lh_progress *p, int64_t done, double elapsed_s, char *out, int64_t bytes)
{
    const int is_bytes = p->unit[0] == 'b' && p->unit[1] == 'y';
    const double scale = is_bytes ? 1.0 / (1 << 20) : 1.0;
    const char *unit = is_bytes ? "MiB" : p->unit;
    double rate = elapsed_s > 0 ? (double)(done - p->before) / elapsed_s : 0, left_s = p->left_s;
    const double limit_s = lh_job_left_s();
    char left[32] = "", limit[64] = "", rate_text[64] = "";
    if (rate > 0) write_rate(rate * scale, unit, rate_text, sizeof rate_text);
    if (p->total <= 0) {
        snprintf(out, (size_t)bytes, "%s %.0f %s%s", p->what, (double)done * scale, unit, rate_text);
        return;
    }
    if (!p->estimated) left_s = rate > 0 ? (double)(p->total - done) / rate : -1;
    if (left_s >= 0) duration_text(left_s, left, sizeof left);
    if (limit_s >= 0 && left_s > limit_s) {
        const int n = snprintf(limit, sizeof limit, ", the job's limit in ");
        duration_text(limit_s, limit + n, sizeof limit - (size_t)n);
    }
    snprintf(out, (size_t)bytes, "%s %.0f/%.0f %s (%.0f%%)%s%s%s%s%s%s", p->what, (double)done * scale,
             (double)p->total * scale, unit, 100.0 * (double)done / (double)p->total, rate_text, *left ? ", " : "",
             left, *left ? " left" : "", limit, p->more ? p->more : "");
}

static void show_bar(lh_progress *p, int64_t done, const char *text)
{
    char bar[BAR_CELLS + 1];
    int64_t full = p->total > 0 ? done * BAR_CELLS / p->total : 0;
    for (int i = 0; i < BAR_CELLS; i++) bar[i] = i < full ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    if (p->total > 0)
        lh_log_bar("[%s] %s", bar, text);
    else
        lh_log_bar("%s", text);
    p->bar = 1;
}

void lh_progress_update(lh_progress *p, int64_t done)
{
    if (lh_log_rank() != 0 || lh_log_level_now() < LH_LOG_INFO) return;
    double now = lh_clock_s();
    if (now - p->started_s < FIRST_S || now - p->shown_s < BAR_S) return;
    const int bar = isatty(2);
    if (!bar && now - p->shown_s < LINE_S) return;
    char text[TEXT_BYTES];
    lh_progress_text(p, done, now - p->started_s, text, sizeof text);
    p->shown_s = now;
    if (bar)
        show_bar(p, done, text);
    else
        lh_info("%s", text);
}

void lh_progress_estimate(lh_progress *p, int64_t done, double left_s)
{
    p->estimated = 1;
    p->left_s = left_s;
    lh_progress_update(p, done);
}

void lh_progress_clear(lh_progress *p)
{
    if (p->bar) lh_log_bar(NULL);
    p->bar = 0;
}
