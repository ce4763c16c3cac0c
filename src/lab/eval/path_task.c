/* path_task.c - the task `path`: the route between two cities in a list of one-way connections, one line a step, as
 * LongProc asks for it (path_traversal; Ye et al., arXiv 2501.05414, princeton-pli/LongProc 78e873a) with names of our
 * own. Every city has one connection, so that there is one route; its length is chosen, and lines about other cities
 * fill the prompt. The answer is long, and each of its lines needs another line of the prompt. */
#include <ctype.h>
#include <string.h>

#include "lab/eval/synthetic_kinds.h"
#include "lab/eval/word_list.h"

/* As published (data/path_traversal/prompts.yaml), up to the connections. */
static const char head[] =
    "[TASK]\n"
    "In a completely hypothetical world, there are a number of cities. Each city has a one-way connection to only one "
    "other city via a specific transit method (bus, train, plane, or ferry). Your task is to provide a route from a "
    "city to another city. You should follow the specific instruction provided later and output the route following "
    "the format provided in the instruction.\n"
    "\n\n"
    "[IMPORTANT NOTES]\n"
    "- All connections are one-way. If city A is connected to city B, you can travel from A to B, but not the other "
    "way around.\n"
    "- Because each city is connected to only one other city, so there's only one possible route. To find the route, "
    "you can simply start from the starting city, identify the next city it's connected to, and repeat the process "
    "until you reach the destination city.\n"
    "- Please follow the exact format specified below when outputting the route.\n"
    "\n\n"
    "[OUTPUT FORMAT]\n"
    "Please mark the route with <Route> and </Route> tags. The route should be in the following format, where one line "
    "is one step of the route:\n"
    "<Route>\n"
    "From <CITY_NAME>, take a <TRANSIT_METHOD> to <CITY_NAME>.\n"
    "...\n"
    "From <CITY_NAME>, take a <TRANSIT_METHOD> to <CITY_NAME>.\n"
    "</Route>\n"
    "\n\n"
    "[EXAMPLE]\n"
    "In a hypothetical world, there are a number of cities. Each city has a one-way connection to only one other city "
    "via a specific transit method. The details of the cities are as follows:\n"
    "Fort Worth is a lively city. You can travel from Fort Worth to Manchester by ferry.\n"
    "Leeds is a lively city. You can travel from Leeds to London by bus.\n"
    "Manchester is a lively city. You can travel from Manchester to Indianapolis by plane.\n"
    "Houston is a lively city. You can travel from Houston to London by ferry.\n"
    "Charlotte is a lively city. You can travel from Charlotte to Charlotte by bus.\n"
    "London is a lively city. You can travel from London to San Antonio by train.\n"
    "San Antonio is a lively city. You can travel from San Antonio to Kitchener by train.\n"
    "Seattle is a lively city. You can travel from Seattle to London by train.\n"
    "Indianapolis is a lively city. You can travel from Indianapolis to Houston by ferry.\n"
    "\n"
    "Now find the route from Manchester to Kitchener based on the information above.\n"
    "\n"
    "<Route>\n"
    "From Manchester, take a plane to Indianapolis.\n"
    "From Indianapolis, take a ferry to Houston.\n"
    "From Houston, take a ferry to London.\n"
    "From London, take a train to San Antonio.\n"
    "From San Antonio, take a train to Kitchener.\n"
    "</Route>\n"
    "\n\n"
    "[PROBLEM]\n"
    "In a hypothetical world, there are a number of cities. Each city has a one-way connection to only one other city "
    "via a specific transit method. The details of the cities are as follows:\n";
static const char reminders[] =
    " based on the information above. Some reminders:\n"
    "- All connections are one-way. You can solve the problem by iteratively finding the next city to travel to until "
    "you reach the destination city.\n"
    "- Follow the specific format for the route output. Mark the route with <Route> and </Route> tags.";
static const char end_tag[] = "</Route>";

static const char *const transits[] = {"bus", "train", "plane", "ferry"};
enum { TRANSITS = sizeof transits / sizeof *transits };
enum { DRAW_CITIES, DRAW_TARGETS, DRAW_TRANSITS, DRAW_ORDER };

/* Cities 0 to steps are those of the route in its order, the others follow. */
typedef struct graph {
    int64_t steps, cities;
    int64_t *names;   /* compounds in random order, of which the first are the cities' */
    int64_t *targets; /* [cities] the next city; the last of the route has none */
    int64_t *transit; /* [cities] */
} graph;

static void clear_graph(graph *g)
{
    lh_free(g->names);
    lh_free(g->targets);
    lh_free(g->transit);
}

static lh_status draw_graph(graph *g, const lh_synthetic_maker *maker)
{
    lh_draws names = lh_synthetic_draws(maker, DRAW_CITIES), targets = lh_synthetic_draws(maker, DRAW_TARGETS);
    lh_draws transit = lh_synthetic_draws(maker, DRAW_TRANSITS);
    g->steps = maker->form->asked;
    g->cities = g->steps + 1 + maker->units;
    LH_TRY(lh_draw_order(&names, &g->names, LH_COMPOUNDS));
    LH_TRY(lh_calloc(&g->targets, g->cities, sizeof *g->targets));
    LH_TRY(lh_calloc(&g->transit, g->cities, sizeof *g->transit));
    for (int64_t i = 0; i < g->cities; i++) {
        const int64_t other = lh_draw_below(&targets, g->cities - 1); /* any city but this one */
        g->targets[i] = i < g->steps ? i + 1 : other + (other >= i);
        g->transit[i] = lh_draw_below(&transit, TRANSITS);
    }
    return LH_OK;
}

/* "Amber Acorn" */
static lh_status put_city(const graph *g, int64_t city, lh_buf *out)
{
    const int64_t start = out->bytes;
    LH_TRY(lh_compound_put(g->names[city], out));
    char *dash = strchr(out->data + start, '-');
    *dash = ' ';
    dash[1] = (char)toupper((unsigned char)dash[1]);
    out->data[start] = (char)toupper((unsigned char)out->data[start]);
    return LH_OK;
}

/* " is a lively city. You can travel from … to … by …." */
static lh_status put_connection(const graph *g, int64_t city, lh_buf *out)
{
    LH_TRY(put_city(g, city, out));
    LH_TRY(lh_buf_puts(out, " is a lively city. You can travel from "));
    LH_TRY(put_city(g, city, out));
    LH_TRY(lh_buf_puts(out, " to "));
    LH_TRY(put_city(g, g->targets[city], out));
    return lh_buf_printf(out, " by %s.", transits[g->transit[city]]);
}

static lh_status put_step(const graph *g, int64_t city, lh_buf *out)
{
    LH_TRY(lh_buf_puts(out, "From "));
    LH_TRY(put_city(g, city, out));
    LH_TRY(lh_buf_printf(out, ", take a %s to ", transits[g->transit[city]]));
    LH_TRY(put_city(g, g->targets[city], out));
    return lh_buf_puts(out, ".");
}

/* All connections in random order; the destination has none. */
static lh_status put_connections(const lh_synthetic_maker *maker, const graph *g, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_draws draws = lh_synthetic_draws(maker, DRAW_ORDER);
    int64_t *order = NULL;
    const int64_t n = g->cities - 1;
    LH_TRY_DONE(lh_draw_order(&draws, &order, n));
    for (int64_t i = 0; i < n; i++) {
        if (i) LH_TRY_DONE(lh_buf_puts(out, "\n"));
        LH_TRY_DONE(put_connection(g, order[i] + (order[i] >= g->steps), out));
    }
done:
    lh_free(order);
    return st;
}

/* The references are the steps. */
static lh_status put_route(const graph *g, lh_synthetic_sample *s)
{
    lh_status st = LH_OK;
    lh_buf step = {0};
    for (int64_t i = 0; i < g->steps; i++) {
        step.bytes = 0;
        LH_TRY_DONE(put_step(g, i, &step));
        LH_TRY_DONE(lh_buf_printf(&s->expected, "%s\n", step.data));
        LH_TRY_DONE(lh_synthetic_reference(s, step.data));
    }
    LH_TRY_DONE(lh_buf_puts(&s->expected, end_tag));
done:
    lh_buf_clear(&step);
    return st;
}

static lh_status build_path(const lh_synthetic_maker *maker)
{
    lh_status st = LH_OK;
    lh_synthetic_sample *s = maker->out;
    graph g = {0};
    LH_TRY_DONE(draw_graph(&g, maker));
    LH_TRY_DONE(lh_buf_puts(&s->text, head));
    LH_TRY_DONE(put_connections(maker, &g, &s->text));
    LH_TRY_DONE(lh_buf_puts(&s->question, "Now find the route from "));
    LH_TRY_DONE(put_city(&g, 0, &s->question));
    LH_TRY_DONE(lh_buf_puts(&s->question, " to "));
    LH_TRY_DONE(put_city(&g, g.steps, &s->question));
    LH_TRY_DONE(lh_buf_puts(&s->question, reminders));
    LH_TRY_DONE(lh_buf_puts(&s->prefix, maker->form->format ? "<Route>\n" : "\n\n<Route>\n"));
    LH_TRY_DONE(put_route(&g, s));
done:
    clear_graph(&g);
    return st;
}

static int64_t min_path(const lh_synthetic_form *form, const lh_synthetic_spec *spec)
{
    (void)form, (void)spec;
    return 1;
}

/* The share of the steps before the first one that is not right. */
static lh_status score_path(const lh_synthetic_sample *sample, const char *answer, double *score)
{
    int64_t right = 0;
    const char *at = answer + strspn(answer, " \n");
    while (right < sample->reference_count) {
        const char *step = sample->references[right];
        const size_t bytes = strlen(step);
        if (strncmp(at, step, bytes) != 0 || (at[bytes] != '\n' && at[bytes] != '\0')) break;
        at += bytes + (at[bytes] != '\0');
        right++;
    }
    /* what follows the last step must be the end */
    if (right == sample->reference_count && *at && strncmp(at, end_tag, strlen(end_tag)) != 0) right--;
    *score = 100.0 * (double)right / (double)sample->reference_count;
    return LH_OK;
}

enum { MOST_STEPS = 4096 };
static const lh_synthetic_kind kind = {build_path, min_path, "\n\n", LH_COMPOUNDS - MOST_STEPS - 1, score_path};
const lh_synthetic_task lh_path_task = {.name = "path", .label = "path", .kind = &kind};
