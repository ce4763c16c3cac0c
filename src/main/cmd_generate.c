/* cmd_generate.c - `generate`: turns options into a request of the engine (engine/generate.h) and its events into
 * output. generate_input.c reads prompt and questions, generate_output.c prints. */
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/output.h"
#include "base/status.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/given.h"
#include "engine/prefill_checkpoint.h"
#include "engine/prompt.h"
#include "engine/world.h"
#include "main/generate_command.h"
#include "main/generate_output.h"
#include "shell/policy_options.h"
#include "shell/shell.h"

#define FIELD(member) LH_FIELD(lh_answer_options, member)
static const lh_option answer_rows[] = {
    {.type = LH_OPT_TOKENS,
     .letter = 'n',
     .name = "max-new",
     FIELD(max_new),
     .arg = "TOKENS",
     .def = "128",
     .max = 1 << 30,
     .help = "Maximum number of tokens to generate."},
    {.type = LH_OPT_LIST,
     .name = "stop",
     FIELD(stops),
     .arg = "TEXT",
     .help = "Stop sequence: end the answer before this text. At this token if it is a special one."},
    {.type = LH_OPT_FLAG, .name = "ignore-eos", FIELD(ignore_eos), .help = "Do not stop at end-of-sequence tokens."},
    {LH_SHELL_KEEP_THINKING, FIELD(keep_thinking)},
    {0}};
#undef FIELD
const lh_option_table lh_answer_option_table = {"answer", answer_rows};

#define FIELD(member) LH_FIELD(lh_generate_files, member)
static const lh_option file_rows[] = {
    {.type = LH_OPT_FLAG,
     .name = "json",
     FIELD(json),
     .help = "Print one JSON object with text, ids, policy, cache and times; the text is not streamed."},
    {.type = LH_OPT_STR,
     .name = "json-file",
     FIELD(json_file),
     .arg = "FILE",
     .writes = 1,
     .makes = "text",
     .help = "Write the object of --json to FILE; the text is streamed to standard output."},
    {.type = LH_OPT_FLAG,
     .name = "logprobs",
     FIELD(logprobs),
     .help = "Add log-probabilities of generated tokens to the JSON object. Natural logarithms of the model "
             "itself, before temperature and penalty."},
    {.type = LH_OPT_STR,
     .name = "save-cache",
     FIELD(save_cache),
     .arg = "FILE",
     .writes = 1,
     .makes = "cache",
     .replaces = "load-cache",
     .help = "Save the cache after the prompt to FILE (HDF5); it answers questions that come later."},
    {.type = LH_OPT_STR,
     .name = "load-cache",
     FIELD(load_cache),
     .arg = "FILE",
     .help = "Continue after a saved cache, on any number of ranks, with the policy it was made with."},
    {.type = LH_OPT_STR,
     .name = "keep-sets",
     .detail = 1,
     FIELD(keep_sets),
     .arg = "FILE",
     .writes = 1,
     .makes = "keep-sets",
     .help = "Write the positions that every head keeps to FILE (HDF5)."},
    {.type = LH_OPT_STR,
     .name = "keep-sets-from",
     .detail = 1,
     FIELD(keep_sets_from),
     .arg = "FILE",
     .help = "Keep the positions of FILE instead of a policy's choice; the file is written by --keep-sets, or in its "
             "form (policies without C), and holds the tokens of this prompt."},
    {.type = LH_OPT_STR,
     .name = "logits",
     .detail = 1,
     FIELD(logits),
     .arg = "FILE",
     .writes = 1,
     .makes = "analysis",
     .help = "Write logits to FILE (HDF5): of the last prompt tokens, then of each generated token that was fed back."},
    {.type = LH_OPT_I64,
     .name = "logits-last",
     .detail = 1,
     FIELD(logits_last),
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = 1 << 30,
     .help = "Number of prompt tokens in --logits."},
    {0}};
#undef FIELD
const lh_option_table lh_generate_file_table = {"output", file_rows};

#define FIELD(member) LH_FIELD(lh_resume_options, member)
static const lh_option resume_rows[] = {
    {.type = LH_OPT_STR,
     .name = "resume",
     FIELD(path),
     .arg = "STATE_FILE",
     .writes = 1,
     .help =
         "Resume an interrupted run: keep the state of the run in this file (HDF5) until the answer is complete; the "
         "same command continues from it, on any number of ranks."},
    {.type = LH_OPT_F64,
     .name = "checkpoint-every",
     .detail = 1,
     FIELD(every_s),
     .arg = "SECONDS",
     .def = "600",
     .low = 0,
     .high = 1e9,
     .help =
         "Write the file of --resume at the end of a layer or after a token when so much time has passed since it was "
         "written; 0: at every opportunity."},
    {0}};
#undef FIELD
static const lh_option_table resume_table = {"resume", resume_rows};

static const lh_option_group groups[] = {{&lh_input_option_table, offsetof(lh_generate_values, input)},
                                         {&lh_shell_chat_options, offsetof(lh_generate_values, chat)},
                                         {&lh_answer_option_table, offsetof(lh_generate_values, answer)},
                                         {&lh_shell_sampling_options, offsetof(lh_generate_values, sampling)},
                                         {&lh_shell_policy_options, offsetof(lh_generate_values, policy)},
                                         {&lh_shell_engine_options, offsetof(lh_generate_values, engine)},
                                         {&lh_generate_file_table, offsetof(lh_generate_values, files)},
                                         {&resume_table, offsetof(lh_generate_values, resume)},
                                         {&lh_shell_context_store_options, offsetof(lh_generate_values, store)},
                                         {&lh_shell_common_options, offsetof(lh_generate_values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"longhaul generate -m m.h5 --prompt 'Once upon a time'", "continue a text"},
    {"mpirun --bind-to none -n 2 longhaul generate -m m.h5 -f book.txt --question 'Who did it?' --scenario "
     "question-aware "
     "--budget 512",
     "ask about a long document, on two ranks, with the 512 entries per head that the question attends to"},
    {"longhaul generate -m m.h5 -f book.txt --budget 20% --question 'Who?' --save-cache book.cache.h5",
     "read a document once, keep a fifth of its cache for questions that are not known yet"},
    {"longhaul generate -m m.h5 --load-cache book.cache.h5 --question 'Why?' --question 'How?'",
     "and ask later, as often as you like"},
    {"longhaul generate -m m.h5 --messages conversation.json", "answer the last turn of a conversation"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "generate",
    .usage = "-m FILE [-p TEXT | -f FILE] [options]",
    .summary = "Generate text after a prompt",
    .text =
        "The prompt is prefilled layer by layer; the policy then keeps a subset of the cache, from which the "
        "answer is generated. A model with a chat format gets the prompt as the user's turn ('--chat=off': as plain "
        "text). With --question the cache is evicted before the question is known, and every "
        "question is answered from the same state (context-only), all of them together; with '--scenario "
        "question-aware' the only "
        "question is the end of the prompt, and the policy sees it first. Without --policy a budget selects ask-later "
        "where questions come after the eviction, else longhaul.\n\nText is streamed to standard output. "
        "Ctrl-C ends the run with the text so far and exit code 75.",
    .groups = groups,
    .examples = examples};

/* ---- the run ---- */

typedef struct run {
    lh_call *call;
    lh_generate_values *v;
    lh_policy policy;
    lh_profiles profiles; /* those that the policy names */
    lh_input input;
    lh_input_ids ids;
    int64_t asked; /* tokens of the question at the end of the prompt */
    lh_engine *engine;
    lh_context_store *store;
    lh_generation generation;
    lh_output output;
    char *record;
    json_t *identity;                      /* of the run, for --resume: options and questions; the latter on rank 0 */
    lh_buf chat;                           /* the conversation, stored with a saved cache; rank 0 */
    const lh_trace_options *trace_options; /* NULL: the run is not recorded */
    lh_trace *trace;
} run;

/* 1 if the question is the end of the prompt, before the eviction. */
static int sees_question(const run *r)
{
    return r->policy.proxies.kind == LH_PROXIES_QUESTION || r->v->input.scenario == LH_QUESTION_AWARE;
}

/* LH_EUSAGE unless a policy that sees the question has exactly one. */
static lh_status check_question(const run *r)
{
    int64_t questions = lh_input_questions(&r->v->input);
    int given = lh_options_given(r->call->options, "scenario");
    const char *why =
        r->policy.proxies.kind == LH_PROXIES_QUESTION ? "--proxies question" : "--scenario question-aware";
    if (r->policy.proxies.kind == LH_PROXIES_QUESTION && questions == 0)
        LH_FAIL(LH_EUSAGE,
                "'--proxies question' observes the question: give it with '--question TEXT', separate from the "
                "rest of the prompt");
    if (given && questions == 0)
        LH_FAIL(LH_EUSAGE,
                "'--scenario' says when the question comes: give it with '--question TEXT', separate from the "
                "rest of the prompt");
    if (r->policy.proxies.kind == LH_PROXIES_QUESTION && r->v->input.scenario == LH_CONTEXT_ONLY && given)
        LH_FAIL(LH_EUSAGE, "'--proxies question' observes the question, which comes after the eviction with "
                           "'--scenario context-only': leave one of them out");
    if (!sees_question(r)) return LH_OK;
    if (r->v->files.load_cache)
        LH_FAIL(LH_EUSAGE, "'--scenario question-aware' evicts when the question is known, and a loaded cache has "
                           "evicted already: leave it out");
    if (questions > 1)
        LH_FAIL(LH_EUSAGE,
                "'%s' evicts by what one question attends to, and several are given: give one, and the others to "
                "separate runs",
                why);
    return LH_OK;
}

/* A document and one question about it: the policy may see both. */
static void choose_scenario(run *r)
{
    if (lh_input_is_pair(&r->v->input) && lh_input_questions(&r->v->input) == 1 && !r->v->files.load_cache &&
        !lh_options_given(r->call->options, "scenario"))
        r->v->input.scenario = LH_QUESTION_AWARE;
}

/* When questions come: one that is given, or those that a cache is saved for. */
static lh_policy_asked when_asked(const run *r)
{
    const int is_asked = lh_input_questions(&r->v->input) > 0;
    const char *proxies = r->v->policy.parts.proxies;
    if (proxies && strcmp(proxies, "question") == 0) return LH_ASKED_IN_PROMPT; /* they see it */
    const int later = is_asked ? r->v->input.scenario == LH_CONTEXT_ONLY : r->v->files.save_cache != NULL;
    return later ? LH_ASKED_LATER : LH_ASKED_IN_PROMPT;
}

/* Checks options before anything is opened; the same on all ranks. */
static lh_status check_request(run *r)
{
    const lh_generate_values *v = r->v;
    LH_TRY(lh_shell_check_loaded(&v->policy, v->files.load_cache));
    if (v->files.keep_sets_from && (lh_policy_given(&v->policy) || v->files.load_cache || v->files.save_cache))
        LH_FAIL(LH_EUSAGE, "'--keep-sets-from' takes the place of a policy, by whose name a cache is saved and loaded: "
                           "leave out '--policy', '--budget', the parts of a policy, '--load-cache' and "
                           "'--save-cache'");
    LH_TRY(lh_input_check(r->call->options, &v->input, &v->chat));
    choose_scenario(r);
    r->v->policy.profiles = &r->profiles;
    r->v->policy.asked = when_asked(r);
    LH_TRY(v->files.keep_sets_from ? lh_given_policy(&r->policy) : lh_policy_resolve(&r->policy, &v->policy));
    LH_TRY(check_question(r));
    if (v->files.load_cache && v->input.messages)
        LH_FAIL(LH_EUSAGE, "'--messages' is a whole chat, and a loaded cache holds the beginning of one: give "
                           "'--question'");
    if (v->files.load_cache && v->input.truncate)
        LH_FAIL(LH_EUSAGE, "'--truncate' shortens a prompt, and a loaded cache has read it: leave it out");
    if (v->files.load_cache && v->input.system)
        LH_FAIL(LH_EUSAGE, "'--system' is the beginning of a chat, and a loaded cache holds that already: give it to "
                           "the run that saves the cache");
    LH_TRY(lh_shell_check_stops(&v->answer.stops));
    if (v->sampling.top_p == 0) LH_FAIL(LH_EUSAGE, "--top-p must be above 0 and at most 1 (off)");
    LH_TRY(lh_sampling_check(&v->sampling));
    if (v->files.logprobs && !v->files.json && !v->files.json_file)
        LH_FAIL(LH_EUSAGE, "'--logprobs' are part of the JSON object: give '--json' or '--json-file', too");
    if (lh_options_given(r->call->options, "logits-last") && !v->files.logits)
        LH_FAIL(LH_EUSAGE, "'--logits-last' counts the rows of '--logits': give that option, too");
    return LH_OK;
}

/* Collective. Appends a question that the policy sees to the prompt. */
static lh_status join_question(run *r)
{
    lh_status st = LH_OK;
    lh_tokens *question = r->ids.questions;
    if (!sees_question(r)) return LH_OK;
    if (question->n == 0) LH_FAIL_DONE(LH_EUSAGE, "the question is empty: '--question' got no text");
    for (int64_t i = 0; i < question->n; i++) LH_TRY_DONE(lh_tokens_push(&r->ids.prompt, question->ids[i]));
    lh_policy_ask(&r->policy, question->n);
    r->asked = question->n;
    lh_tokens_clear(question);
    r->ids.n = 0;
done:
    return lh_comm_agree(lh_engine_get(r->engine)->comm, st);
}

/* The options that the answers depend on, and the questions: files are known by their contents. */
static lh_status make_identity(run *r)
{
    const lh_option_table *const tables[] = {&lh_generate_file_table, &resume_table, &lh_shell_context_store_options,
                                             NULL};
    const lh_generate_files *files = &r->v->files; /* a state is of a run that has written its files so far */
    const char *const outputs[][2] = {
        {"save-cache", files->save_cache}, {"keep-sets", files->keep_sets}, {"logits", files->logits}};
    json_t *questions = json_array();
    lh_status st = lh_shell_result_options(r->call, tables, &r->identity);
    for (int64_t i = 0; i < r->input.n && lh_shell_first(); i++)
        json_array_append_new(questions, lh_json_text(r->input.questions[i], (int64_t)strlen(r->input.questions[i])));
    if (st == LH_OK) json_object_set(r->identity, "question", questions);
    if (st == LH_OK) json_object_set_new(r->identity, "logprobs", json_boolean(r->v->files.logprobs));
    for (size_t i = 0; st == LH_OK && i < sizeof outputs / sizeof *outputs; i++)
        json_object_set_new(r->identity, outputs[i][0], outputs[i][1] ? json_string(outputs[i][1]) : json_null());
    if (st == LH_OK && r->ids.force.n)
        json_object_set_new(r->identity, "force-tokens",
                            json_integer((json_int_t)(lh_hash64(r->ids.force.ids, r->ids.force.n * 4) >> 1)));
    json_decref(questions);
    return st;
}

/* A file that the run reads in addition to the model, or NULL; the options allow only one. */
static const char *file_read(const lh_generate_values *v)
{
    if (v->files.load_cache) return v->files.load_cache;
    if (v->files.keep_sets_from) return v->files.keep_sets_from;
    return v->resume.path && lh_file_exists(v->resume.path) ? v->resume.path : NULL;
}

static lh_status open_all(run *r)
{
    lh_status st = LH_OK;
    lh_generate_values *v = r->v;
    const char *const files[] = {v->engine.model, file_read(v), NULL};
    LH_TRY(lh_shell_open_world(r->call, files));
    LH_TRY(lh_shell_same_policies(r->call, &r->profiles));
    lh_comm *world = lh_world_comm(r->call->world);
    if (r->trace_options) st = lh_h5_filter_check(r->trace_options->compress);
    if (st == LH_OK) st = lh_input_read(&r->input);
    if (st == LH_OK && lh_shell_first() && v->files.json_file) st = lh_file_claim(v->files.json_file, 1 << 16);
    LH_TRY(lh_comm_agree_untimed(world, st));
    lh_interrupt_begin();
    LH_TRY(lh_engine_open_on(&r->engine, lh_world_comm(r->call->world), &v->engine));
    LH_TRY(lh_engine_size_policy(r->engine, &r->policy));
    LH_TRY(
        lh_context_store_open(&r->store, r->engine, &v->store, (lh_context_store_about){v->engine.model, r->record}));
    LH_TRY(lh_input_encode(&r->input, r->engine, &r->ids));
    LH_TRY(join_question(r));
    /* A question that comes later ends the user's turn, which the cache holds the beginning of. */
    r->ids.chat.answers = r->ids.n == 0;
    if (lh_shell_first()) st = lh_chat_state_write(&r->ids.chat, &r->chat);
    if (st == LH_OK && v->resume.path) st = make_identity(r);
    LH_TRY(lh_comm_agree(world, st));
    return st;
}

/* ---- a recorded run ---- */

/* Says beforehand how large the trace will be. */
static lh_status open_trace(run *r)
{
    lh_status st = LH_OK;
    const lh_engine_view *e = lh_engine_get(r->engine);
    const lh_trace_options *o = r->trace_options;
    lh_trace_run recorded = {e->config, e->kv_types.prompt, e->dtype, r->ids.prompt.n, r->v->answer.max_new};
    lh_trace_size size;
    lh_buf text = {0};
    if (!o) return LH_OK;
    for (int64_t i = 0; i < r->ids.n; i++) recorded.after += r->ids.questions[i].n + (i ? r->v->answer.max_new : 0);
    LH_TRY_DONE(lh_trace_bytes(&size, o, &recorded));
    LH_TRY_DONE(lh_trace_size_text(&text, o, &size));
    lh_info("trace: %s to '%s'", text.data, o->path);
    LH_TRY_DONE(lh_trace_open(&r->trace, o));
done:
    lh_buf_clear(&text);
    return st;
}

/* Questions and answers as JSON. */
static lh_status answers_json(const run *r, char **out)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < r->generation.answer_count; i++) {
        const lh_answer *a = &r->generation.answers[i];
        json_t *answer = json_pack("{s:o}", "text", lh_json_text(a->text.data ? a->text.data : "", a->text.bytes));
        const char *question = i < r->input.n ? r->input.questions[i] : NULL;
        if (question) json_object_set_new(answer, "question", lh_json_text(question, (int64_t)strlen(question)));
        json_array_append_new(list, answer);
    }
    *out = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    if (!*out) LH_FAIL(LH_ENOMEM, "cannot allocate host memory for the answers as JSON");
    return LH_OK;
}

/* Collective. */
static lh_status finish_trace(run *r)
{
    char *answers = NULL;
    lh_status st = lh_comm_agree(lh_engine_get(r->engine)->comm, answers_json(r, &answers));
    if (st == LH_OK) st = lh_trace_finish(r->trace, answers);
    free(answers);
    return st;
}

static lh_status generate(run *r)
{
    lh_failures failed = {0};
    const lh_generate_values *v = r->v;
    r->output = (lh_output){
        .json = v->files.json,
        .json_file = v->files.json_file,
        .wants_length = v->answer.ignore_eos,
        .writes_at_end = v->files.keep_sets || v->files.logits || v->files.json_file,
        .saves_cache = v->files.save_cache != NULL,
        .trace = r->trace ? r->trace_options->path : NULL,
        .claims = {v->files.save_cache, v->files.keep_sets, v->files.logits, v->resume.path, v->files.json_file},
        .resume = v->resume.path,
        .stores_answer = v->resume.path && r->ids.n < 2 && !v->files.keep_sets && !v->files.logits,
        .config = lh_engine_get(r->engine)->config,
        .comm = lh_engine_get(r->engine)->comm,
        .questions = (const char *const *)r->input.questions,
        .question_count = r->input.n,
        .prompt_tokens = r->ids.prompt.n,
        .answer = -1,
        .generation = &r->generation};
    lh_generate_request request = {.prompt = r->ids.prompt,
                                   .asked = r->asked,
                                   .questions = r->ids.questions,
                                   .question_count = r->ids.n,
                                   .max_new = v->answer.max_new,
                                   .left_out = r->ids.cut.left_out,
                                   .ignore_eos = v->answer.ignore_eos,
                                   .continues = !r->ids.in_chat || v->input.continues_turn,
                                   .splits_thoughts = r->ids.in_chat && !v->answer.keep_thinking,
                                   .continues_thoughts = r->ids.in_thoughts,
                                   .stops = v->answer.stops.at,
                                   .stop_count = v->answer.stops.n,
                                   .sampling = v->sampling,
                                   .force = r->ids.force,
                                   .logprobs = v->files.logprobs,
                                   .ends = r->ids.ends,
                                   .policy = v->files.load_cache ? NULL : &r->policy,
                                   .profiles = &r->profiles,
                                   .load_cache = v->files.load_cache,
                                   .save_cache = v->files.save_cache,
                                   .keep_sets = v->files.keep_sets,
                                   .given = v->files.keep_sets_from,
                                   .logits = v->files.logits,
                                   .logits_last = v->files.logits_last,
                                   .store = r->store,
                                   .resume = v->resume.path,
                                   .resume_s = v->resume.every_s,
                                   .identity = r->identity,
                                   .run = r->record,
                                   .chat = r->chat.data,
                                   .events = {&r->output, lh_output_prefill, lh_output_token, lh_output_checkpoint_due,
                                              lh_output_checkpoint_kept}};
    const lh_generate_recorder recorder = lh_trace_recorder(r->trace);
    if (r->trace) request.recorder = &recorder;
    lh_status st = lh_generate(r->engine, &request, &r->generation);
    if (st != LH_OK && !r->generation.complete) return st;
    lh_failures_add(&failed, st); /* of files: the answers are printed all the same */
    if (r->trace) lh_failures_add(&failed, finish_trace(r));
    lh_failures_add(&failed, lh_output_finish(&r->output, r->engine, &r->generation));
    if (v->resume.path && failed.st == LH_OK) lh_checkpoint_remove(lh_engine_get(r->engine)->comm, v->resume.path);
    return lh_failures_end(&failed);
}

lh_status lh_shell_generate(lh_call *call, lh_generate_values *v, const lh_trace_options *trace)
{
    lh_status st = LH_OK;
    run r = {.call = call,
             .v = v,
             .input = {.options = &v->input,
                       .chat = &v->chat,
                       .load_cache = v->files.load_cache,
                       .saves_cache = v->files.save_cache != NULL,
                       .max_new = v->answer.max_new,
                       .keep_thinking = v->answer.keep_thinking,
                       .stops = {v->answer.stops.at, v->answer.stops.n},
                       .ignore_eos = v->answer.ignore_eos},
             .trace_options = trace};
    LH_TRY_DONE(check_request(&r));
    LH_TRY_DONE(lh_shell_record(r.call, &r.record));
    LH_TRY_DONE(open_all(&r));
    if (!v->files.load_cache && !v->files.keep_sets_from)
        LH_TRY_DONE(lh_shell_note_policy(&r.policy, r.ids.prompt.n, v->policy.asked));
    LH_TRY_DONE(open_trace(&r));
    LH_TRY_DONE(generate(&r));
done:
    if (v->files.json_file && lh_shell_first()) lh_partial_drop(v->files.json_file);
    lh_output_clear(&r.output);
    lh_generation_clear(&r.generation);
    lh_trace_close(r.trace);
    lh_context_store_close(r.store);
    lh_engine_close(r.engine);
    lh_input_ids_clear(&r.ids);
    lh_input_clear(&r.input);
    lh_profiles_clear(&r.profiles);
    lh_buf_clear(&r.chat);
    json_decref(r.identity);
    free(r.record);
    return st;
}

/* Options that `trace` does not have. */
static lh_status check_resume(const lh_call *call, const lh_generate_values *v)
{
    if (lh_options_given(call->options, "checkpoint-every") && !v->resume.path)
        LH_FAIL(LH_EUSAGE, "'--checkpoint-every' says when the state of a run is written: give '--resume FILE', too");
    if (v->resume.path && (v->files.load_cache || v->files.keep_sets_from))
        LH_FAIL(LH_EUSAGE, "'--resume' keeps the run of a prompt under a policy: leave out '--load-cache' and "
                           "'--keep-sets-from'");
    return LH_OK;
}

static lh_status run_generate(lh_call *call)
{
    LH_TRY(check_resume(call, call->values));
    LH_TRY(lh_shell_check_store(&((const lh_generate_values *)call->values)->store));
    return lh_shell_generate(call, call->values, NULL);
}

const lh_command lh_command_generate = {&syntax, sizeof(lh_generate_values), run_generate, NULL};
