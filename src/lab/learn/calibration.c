#include "lab/learn/calibration.h"

static const double LIMIT = 64;

static int64_t bin_of(double x)
{
    const double at = (x + LIMIT) / (2 * LIMIT) * LH_CALIBRATION_BINS;
    if (at >= LH_CALIBRATION_BINS) return LH_CALIBRATION_BINS - 1;
    return at > 0 ? (int64_t)at : 0;
}

void lh_calibration_add(int64_t bins[LH_CALIBRATION_BINS], double x)
{
    bins[bin_of(x)]++;
}

int64_t lh_calibration_above(const int64_t bins[LH_CALIBRATION_BINS], double x)
{
    int64_t above = 0;
    for (int64_t b = bin_of(x); b < LH_CALIBRATION_BINS; b++) above += bins[b];
    return above;
}

lh_status lh_calibration_share(lh_calibration *c, lh_comm *comm)
{
    return lh_comm_allreduce(comm, c, (int64_t)(sizeof *c / sizeof c->first[0]), LH_I64, LH_SUM);
}

double lh_calibration_quantile(const int64_t bins[LH_CALIBRATION_BINS], double share)
{
    int64_t all = 0, above = 0, bin = LH_CALIBRATION_BINS - 1;
    for (int64_t b = 0; b < LH_CALIBRATION_BINS; b++) all += bins[b];
    const double wanted = share * (double)all;
    while (bin > 0 && (double)(above + bins[bin]) < wanted) above += bins[bin--];
    const double inside = bins[bin] ? (wanted - (double)above) / (double)bins[bin] : 0;
    return ((double)(bin + 1) - inside) / LH_CALIBRATION_BINS * 2 * LIMIT - LIMIT;
}

lh_calibration_line lh_calibration_fit(const lh_calibration *c, double share)
{
    static const double best[] = {0.02, 0.05, 0.1, 0.2}; /* the budgets at which the choice matters */
    enum { POINTS = sizeof best / sizeof *best };
    double x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < POINTS; i++) {
        const double a = lh_calibration_quantile(c->first, best[i]),
                     b = lh_calibration_quantile(c->second, best[i] * (1 - share) / share);
        x += a / POINTS;
        y += b / POINTS;
        xx += a * a / POINTS;
        xy += a * b / POINTS;
    }
    const double variance = xx - x * x, slope = variance > 0 ? (xy - x * y) / variance : 0;
    return (lh_calibration_line){slope, y - slope * x};
}
