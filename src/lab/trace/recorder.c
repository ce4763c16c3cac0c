/* recorder.c - a trace from the beginning of a run to its end: the listener of the cache, the segments that belong to
 * no layer, and the file joined from all segments. */
#include "lab/trace/recorder_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/output.h"
#include "lab/trace/segment.h"

lh_status lh_trace_open(lh_trace **out, const lh_trace_options *options)
{
    lh_status st = LH_OK;
    lh_trace *t = NULL;
    LH_TRY_DONE(lh_calloc(&t, 1, sizeof *t));
    t->options = *options;
    t->level = lh_trace_level_find(options->level);
    t->row_type = strcmp(options->dtype, "f32") == 0 ? LH_F32 : LH_BF16;
    LH_TRY_DONE(lh_trace_folder(&t->folder, options->path));
    *out = t;
    t = NULL;
done:
    lh_trace_close(t);
    return st;
}

void lh_trace_close(lh_trace *t)
{
    if (!t) return;
    if (t->folder) lh_partial_drop(t->options.path);
    lh_segment_writer_close(t->writer);
    lh_recorded_layer_clear(&t->layer);
    lh_recorded_after_clear(&t->after, t->shape.layers);
    lh_recorded_steps_clear(&t->steps);
    lh_evictor_close(t->stats.evictor);
    if (t->stats.device) lh_device_free(t->view.device, t->stats.device);
    lh_buf_clear(&t->staging);
    lh_free(t->layers);
    lh_free(t->positions);
    lh_free(t->seconds);
    lh_free(t->folder);
    lh_free(t);
}

/* ---- reports of the cache ---- */

static int64_t first_row(void *self, int64_t layer)
{
    const lh_trace *t = self;
    return t->layers[layer] ? 0 : INT64_MAX;
}

static lh_status take_rows(void *self, const lh_evict_job *job, const lh_kv_rows *rows)
{
    return job->phase == LH_EVICT_PREFILL ? lh_record_prompt_rows(self, job, rows) : lh_record_after(self, job, rows);
}

static lh_status take_whole(void *self, const lh_evict_job *job)
{
    lh_trace *t = self;
    return t->layers[job->layer.index] ? lh_record_whole(t, job) : LH_OK;
}

/* ---- the beginning ---- */

static json_t *layer_list(const uint8_t *layers, int64_t count)
{
    json_t *list = json_array();
    for (int64_t l = 0; l < count; l++)
        if (layers[l]) json_array_append_new(list, json_integer(l));
    return list;
}

static lh_status add_json(lh_segment *segment, const char *name, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    if (!text) LH_FAIL(LH_ENOMEM, "cannot allocate host memory for '%s' of the trace", name);
    lh_status st = lh_segment_add_text(segment, name, text);
    free(text);
    return st;
}

static json_t *model_json(const lh_trace *t)
{
    const lh_kv_shape *s = &t->shape;
    char identity[20];
    snprintf(identity, sizeof identity, "%016llx", (unsigned long long)t->view.identity);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:o}", "identity", identity, "layers",
                     (json_int_t)s->layers, "heads", (json_int_t)s->heads.heads, "kv_heads",
                     (json_int_t)s->heads.kv_heads, "head_dim", (json_int_t)s->head_dim, "hidden",
                     (json_int_t)s->hidden, "scale", (double)s->scale, "softcap", (double)s->softcap, "window",
                     (json_int_t)s->window, "sliding", s->sliding ? layer_list(s->sliding, s->layers) : json_array());
}

/* Tokens of each question. */
static json_t *question_list(const lh_generate_request *r)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < r->question_count; i++) json_array_append_new(list, json_integer(r->questions[i].n));
    return list;
}

static json_t *recording_json(const lh_trace *t, const lh_generate_request *r)
{
    const int64_t columns = t->level->column_rows < t->prompt ? t->level->column_rows : t->prompt;
    const int fixed = lh_model_options_of(t->view.model).order == LH_ORDER_FIXED;
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:o, s:o}", "level", t->level->name, "dtype",
                     lh_dtype_name(t->row_type), "prompt_tokens", (json_int_t)t->prompt, "run_tokens",
                     (json_int_t)(t->prompt + lh_generate_more(r)), "window",
                     (json_int_t)(t->level->all_rows ? t->prompt : t->options.window), "column_rows",
                     (json_int_t)(t->stats.evictor ? columns : 0), "seed", (json_int_t)r->sampling.seed,
                     "deterministic", fixed, "asked", (json_int_t)r->asked, "questions", question_list(r), "layers",
                     layer_list(t->layers, t->shape.layers));
}

static lh_status copy_ints(const int32_t *from, int64_t n, const char *name, lh_segment *segment)
{
    lh_slab slab = {.shape = {LH_I32, 1, {n}}};
    int32_t *copy = NULL;
    LH_TRY(lh_calloc(&copy, n, sizeof *copy));
    memcpy(copy, from, (size_t)n * sizeof *copy);
    slab.data = copy;
    snprintf(slab.name, sizeof slab.name, "%s", name);
    return lh_segment_add(segment, &slab);
}

/* Writes the segment of the run before it begins: of a killed run only this and finished layers remain. */
static lh_status put_run(lh_trace *t, const lh_generate_request *r)
{
    lh_status st = LH_OK;
    lh_segment segment = {.name = "run", .run = r->run};
    json_t *policy = NULL;
    LH_TRY_DONE(lh_policy_json(r->policy, &policy));
    LH_TRY_DONE(lh_profiles_put_json(r->profiles, r->policy, policy));
    st = add_json(&segment, "/policy", policy);
    policy = NULL;
    LH_TRY_DONE(st);
    LH_TRY_DONE(add_json(&segment, "/model", model_json(t)));
    LH_TRY_DONE(add_json(&segment, "/recording", recording_json(t, r)));
    LH_TRY_DONE(add_json(&segment, "/segments", json_pack("{s:i}", "ranks", lh_comm_size(t->view.comm))));
    LH_TRY_DONE(copy_ints(r->prompt.ids, r->prompt.n, "/tokens", &segment));
    LH_TRY_DONE(copy_ints(t->positions, t->rows, "/rows", &segment));
    LH_TRY_DONE(lh_segment_writer_put(t->writer, &segment));
done:
    json_decref(policy);
    lh_segment_clear(&segment);
    return st;
}

static lh_status make_folder(const lh_trace *t)
{
    if (mkdir(t->folder, 0777) == 0) return LH_OK;
    if (errno == EEXIST)
        LH_FAIL(LH_EWRITE,
                "'%s' is there: the segments of an unfinished trace; make a file of them with 'longhaul trace --join "
                "%s', or remove the folder",
                t->folder, t->options.path);
    LH_FAIL(LH_EWRITE, "cannot create the folder '%s': %s", t->folder, strerror(errno));
}

/* The trace, and the folder of its segments. */
static lh_status claim(const lh_trace *t)
{
    LH_TRY(lh_partial_claim(t->options.path, 0));
    return make_folder(t);
}

/* An evictor that counts every statistic; policies that evict in blocks never hold the whole prompt. */
static lh_status open_stats(lh_trace *t, const lh_policy *policy)
{
    const lh_kv_shape *s = &t->shape;
    lh_policy_numbers numbers = lh_policy_recording(t->level->column_rows, t->prompt);
    lh_evict_shape shape = {.heads = s->heads,
                            .head_dim = s->head_dim,
                            .hidden = s->hidden,
                            .projection_bytes = s->projection_bytes,
                            .scale = s->scale,
                            .softcap = s->softcap,
                            .layers = s->layers};
    if (policy->block) return LH_OK;
    LH_TRY(lh_evictor_open(&t->stats.evictor, t->view.exec, &shape, NULL));
    lh_evictor_begin(t->stats.evictor, &numbers, t->prompt);
    t->stats.at = lh_entry_stats_of(&numbers, &s->heads);
    LH_TRY(
        lh_evictor_alloc(t->stats.evictor, &(lh_evict_need){.ld = t->prompt, .scored = 1, .counted = s->heads.split}));
    return lh_evictor_alloc_rows(t->stats.evictor, t->prompt);
}

static lh_status open_all(lh_trace *t, const lh_generate_request *r)
{
    const lh_kv_shape *s = &t->shape;
    LH_TRY(lh_calloc(&t->layers, s->layers, 1));
    LH_TRY(lh_calloc(&t->seconds, s->layers, sizeof *t->seconds));
    LH_TRY(lh_trace_layers(&t->options, s->layers, t->layers));
    for (int64_t l = 0; l < s->layers; l++)
        if (t->layers[l]) t->last_layer = l;
    t->rows = lh_trace_rows(&t->options, t->prompt, NULL);
    LH_TRY(lh_calloc(&t->positions, t->rows, sizeof *t->positions));
    lh_trace_rows(&t->options, t->prompt, t->positions);
    LH_TRY(open_stats(t, r->policy));
    return lh_comm_rank(t->view.comm) == 0 ? claim(t) : LH_OK;
}

static lh_status begin(void *self, lh_engine *engine, const lh_generate_request *r, lh_kv_listener *listener)
{
    lh_trace *t = self;
    lh_status st = LH_OK;
    t->view = *lh_engine_get(engine);
    t->shape = lh_model_kv_shape(t->view.model, &t->view.kv_types);
    t->prompt = r->prompt.n;
    if (r->load_cache)
        LH_FAIL(LH_EUSAGE, "a trace follows a prompt from its beginning, which a loaded cache has behind it: leave out "
                           "'--load-cache'");
    LH_TRY(lh_comm_agree(t->view.comm, open_all(t, r)));
    st = lh_segment_writer_open(&t->writer, t->folder, t->options.compress);
    if (st == LH_OK && lh_comm_rank(t->view.comm) == 0) st = put_run(t, r);
    LH_TRY(lh_comm_agree(t->view.comm, st));
    t->began_s = lh_clock_s();
    *listener = (lh_kv_listener){.self = t, .first_row = first_row, .rows = take_rows, .whole = take_whole};
    return LH_OK;
}

/* ---- after the prompt, and after answers ---- */

static lh_status add_kept(lh_trace *t, const lh_keep_sets *sets, lh_segment *segment)
{
    for (int64_t l = 0; l < t->shape.layers; l++) {
        const lh_positions *p = &sets->parts[LH_KEEP_KEPT][l];
        int64_t n = p->offsets[p->heads], *offsets = NULL;
        char name[LH_SEGMENT_NAME];
        snprintf(name, sizeof name, "/layers/%03lld/kept/positions", (long long)l);
        LH_TRY(copy_ints(p->positions, n, name, segment));
        LH_TRY(lh_calloc(&offsets, p->heads + 1, sizeof *offsets));
        memcpy(offsets, p->offsets, (size_t)(p->heads + 1) * sizeof *offsets);
        LH_TRY(lh_record_slab(segment, l, "kept/offsets",
                              &(lh_slab){.shape = {LH_I64, 1, {p->heads + 1}}, .data = offsets}));
    }
    return LH_OK;
}

static lh_status put_prompt(lh_trace *t, lh_session *session, const lh_keep_sets *sets, const float *logits)
{
    lh_status st = LH_OK;
    lh_segment segment = {.name = "prompt"};
    int32_t chunk = (int32_t)lh_session_chunk(session);
    lh_slab row = {.name = "/logits", .shape = {LH_F32, 2, {1, t->view.config->vocab}}};
    if (sets->parts[LH_KEEP_KEPT]) LH_TRY_DONE(add_kept(t, sets, &segment));
    LH_TRY_DONE(copy_ints(&chunk, 1, "/chunk_tokens", &segment));
    LH_TRY_DONE(lh_calloc(&row.data, t->view.config->vocab, sizeof *logits));
    memcpy(row.data, logits, (size_t)t->view.config->vocab * sizeof *logits);
    LH_TRY_DONE(lh_segment_add(&segment, &row));
    LH_TRY_DONE(lh_segment_writer_put(t->writer, &segment));
done:
    lh_segment_clear(&segment);
    return st;
}

/* Drains the writer: from here on the run may write its own files. */
static lh_status after_prompt(void *self, lh_session *session)
{
    lh_status st = LH_OK;
    lh_trace *t = self;
    lh_keep_sets sets = {0};
    const float *logits = NULL;
    int64_t rows = 0;
    LH_TRY_DONE(lh_kv_take_keep_sets(lh_session_kv(session), LH_KEEP_KEPT, &sets));
    LH_TRY_DONE(lh_session_logits(session, &logits, &rows));
    if (logits) st = put_prompt(t, session, &sets, logits + (rows - 1) * t->view.config->vocab);
    if (st == LH_OK) st = lh_segment_writer_drain(t->writer);
    LH_TRY_DONE(lh_comm_agree(t->view.comm, st));
done:
    lh_keep_sets_clear(&sets);
    return st;
}

static lh_status after_step(void *self, lh_session *session, int64_t tokens, double seconds)
{
    lh_trace *t = self;
    return lh_comm_agree(t->view.comm, lh_record_step(t, session, tokens, seconds));
}

/* The rows of an answer go into the index, and what waits is written. */
static lh_status end_answer(lh_trace *t, const lh_session *session, int64_t answer)
{
    lh_recorded_after *a = &t->after;
    const lh_tokens *tokens = lh_session_tokens(session);
    const int32_t number = (int32_t)answer;
    for (int64_t i = t->prompt; i < tokens->n; i++) {
        int32_t position = (int32_t)i;
        LH_TRY(lh_buf_append(&a->positions, &position, sizeof position));
        LH_TRY(lh_buf_append(&a->answers, &number, sizeof number));
        LH_TRY(lh_buf_append(&a->tokens, &tokens->ids[i], sizeof *tokens->ids));
    }
    LH_TRY(lh_record_flush(t));
    return lh_segment_writer_drain(t->writer);
}

static lh_status after_answer(void *self, lh_session *session, int64_t answer)
{
    lh_trace *t = self;
    return lh_comm_agree(t->view.comm, end_answer(t, session, answer));
}

lh_generate_recorder lh_trace_recorder(lh_trace *trace)
{
    return (lh_generate_recorder){trace, begin, after_prompt, after_step, after_answer};
}

/* ---- the end ---- */

/* Collective. Seconds of every rank, [ranks, n], as an array of the segment on rank 0. */
static lh_status add_timings(lh_trace *t, lh_segment *segment, const char *name, const float *own, int64_t n)
{
    lh_comm *comm = t->view.comm;
    lh_slab slab = {.shape = {LH_F32, 2, {lh_comm_size(comm), n}}};
    if (!n) return LH_OK;
    lh_status st = lh_calloc(&slab.data, lh_comm_size(comm) * n, sizeof *own);
    snprintf(slab.name, sizeof slab.name, "%s", name);
    st = lh_comm_agree(comm, st);
    if (st == LH_OK) st = lh_comm_allgather(comm, own, slab.data, n * (int64_t)sizeof *own);
    if (st == LH_OK && lh_comm_rank(comm) == 0)
        st = lh_segment_add(segment, &slab);
    else
        lh_free(slab.data);
    return lh_comm_agree(comm, st);
}

static lh_status put_end(lh_trace *t, lh_segment *segment, const char *answers)
{
    LH_TRY(lh_record_index(t, segment));
    LH_TRY(lh_record_steps(t, segment));
    LH_TRY(lh_segment_add_text(segment, "/answers", answers ? answers : "[]"));
    return lh_segment_writer_put(t->writer, segment);
}

lh_status lh_trace_finish(lh_trace *t, const char *answers)
{
    lh_status st = LH_OK;
    lh_comm *comm = t->view.comm;
    const int first = lh_comm_rank(comm) == 0;
    lh_segment segment = {.name = "run-end"};
    int missing = 0;
    LH_TRY_DONE(add_timings(t, &segment, "/timings/prefill", t->seconds, t->shape.layers));
    LH_TRY_DONE(
        add_timings(t, &segment, "/timings/steps", (const float *)(const void *)t->steps.seconds.data, t->steps.count));
    if (first) st = put_end(t, &segment, answers);
    if (st == LH_OK) st = lh_segment_writer_drain(t->writer);
    LH_TRY_DONE(lh_comm_agree(comm, st));
    LH_TRY_DONE(lh_comm_agree_untimed(comm, first ? lh_trace_join(t->options.path, &missing) : LH_OK));
done:
    lh_segment_clear(&segment);
    return st;
}
