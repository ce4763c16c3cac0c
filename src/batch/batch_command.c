/* batch_command.c - the ranks of `batch` as replicas of a model, and the requests of its input. */
#include "batch/batch_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/job.h"
#include "base/journal.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "batch/documents.h"
#include "engine/prompt.h"
#include "shell/policy_options.h"

/* ---- replicas ---- */

static lh_status check_replicas(int64_t ranks, int64_t tp)
{
    if (ranks % tp)
        LH_FAIL(LH_EUSAGE, "%lld ranks are no replicas of %lld ('--tp'): start a multiple of them", (long long)ranks,
                (long long)tp);
    return LH_OK;
}

lh_status lh_batch_find_replica(lh_batch_call *r)
{
    lh_comm *world = lh_world_comm(r->call->world);
    const int64_t size = lh_comm_size(world), tp = r->v->engine.tp ? r->v->engine.tp : size;
    LH_TRY(lh_comm_agree(world, check_replicas(size, tp)));
    r->replicas = size / tp;
    LH_TRY(lh_comm_split(world, (int)(lh_comm_rank(world) / tp), &r->replica));
    return lh_comm_split(world, lh_comm_rank(world) % tp != 0, &r->roots);
}

lh_status lh_batch_size_policies(lh_batch_call *r, const lh_cache_size *cache)
{
    for (int asked = LH_ASKED_IN_PROMPT; asked <= LH_ASKED_LATER; asked++)
        LH_TRY(lh_policy_size(&r->policies[asked], cache));
    return LH_OK;
}

lh_status lh_batch_open_engine(lh_batch_call *r)
{
    LH_TRY(lh_engine_open_replica(&r->engine, lh_world_comm(r->call->world), r->replica, &r->v->engine));
    const lh_cache_size cache = lh_engine_cache_size(r->engine);
    return lh_comm_agree(lh_world_comm(r->call->world), lh_batch_size_policies(r, &cache));
}

/* ---- the input ---- */

/* Reads "3/16". */
static lh_status read_shard(const char *text, int64_t *index, int64_t *count)
{
    long long i = -1, n = 0;
    int end = 0;
    if (sscanf(text, "%9lld/%9lld%n", &i, &n, &end) != 2 || text[end] || i < 0 || i >= n)
        LH_FAIL(LH_EUSAGE, "'--shard' got '%s', it must be I/N, such as 0/16 to 15/16", text);
    *index = i;
    *count = n;
    return LH_OK;
}

lh_status lh_batch_check_input_options(const lh_batch_options *o)
{
    int64_t index, count;
    if (!o->input == !o->from)
        LH_FAIL(LH_EUSAGE, o->input ? "'--input' and '--from' exclude each other: both say what the requests are"
                                    : "no requests: '--input' names a file of them, and '--from' documents");
    if (o->from && !o->text)
        LH_FAIL(LH_EUSAGE, "'--from' needs '--template', the prompt of each document, such as '{text} In short:'");
    if (o->text && !o->from) LH_FAIL(LH_EUSAGE, "'--template' is for documents: '--from' names them");
    if (o->json && !o->check)
        LH_FAIL(LH_EUSAGE, "'--json' is the form of what '--check' finds, and answers are JSON: give '--check', too");
    if (o->retry_failed && !o->resume)
        LH_FAIL(LH_EUSAGE, "'--retry-failed' goes on with an output: give '--resume', too");
    if (!o->output && !o->check) LH_FAIL(LH_EUSAGE, "'--output' is required");
    if (!o->output && o->from) LH_FAIL(LH_EUSAGE, "'--from' needs '--output', beside which the requests are written");
    return o->shard ? read_shard(o->shard, &index, &count) : LH_OK;
}

/* ---- metrics ---- */

/* Appends the name with "%j" and "%a" replaced. task: NULL: there is none. */
static lh_status expand_name(lh_buf *out, const char *name, const char *task)
{
    for (const char *c = name; *c; c++) {
        const int is_job = c[0] == '%' && c[1] == 'j', is_task = c[0] == '%' && c[1] == 'a';
        const char *value = is_job ? lh_job_name() : task;
        if (!is_job && !is_task) {
            LH_TRY(lh_buf_append(out, c, 1));
            continue;
        }
        if (!value)
            LH_FAIL(LH_EUSAGE, "'--metrics %s' names %s by '%%%c', and there is none: name the file without it", name,
                    is_job ? "the job of a batch system" : "the part of an array", c[1]);
        LH_TRY(lh_buf_puts(out, value));
        c++;
    }
    return LH_OK;
}

lh_status lh_batch_metrics_path(char **out, const lh_batch_options *o)
{
    lh_status st = LH_OK;
    int64_t index = 0, count = 0;
    char part[24];
    lh_buf name = {0};
    *out = NULL;
    if (!o->metrics) return LH_OK;
    if (o->shard) LH_TRY_DONE(read_shard(o->shard, &index, &count));
    snprintf(part, sizeof part, "%lld", (long long)index);
    LH_TRY_DONE(expand_name(&name, o->metrics, count ? part : lh_job_task()));
    if (!count || strstr(o->metrics, "%a")) {
        LH_TRY_DONE(lh_strdup(out, name.data));
        goto done;
    }
    const char *last = lh_path_name(name.data), *dot = strrchr(last, '.');
    const int64_t stem = dot && dot > last ? dot - name.data : name.bytes;
    LH_TRY_DONE(lh_asprintf(out, "%.*s.%lld-of-%lld%s", (int)stem, name.data, (long long)index, (long long)count,
                            name.data + stem));
done:
    lh_buf_clear(&name);
    return st;
}

/* The folder of context files. */
static lh_status choose_root(lh_batch_call *r)
{
    const lh_batch_options *o = &r->v->own;
    const char *slash = o->input ? strrchr(o->input, '/') : NULL;
    LH_TRY(lh_strdup(&r->context_root, o->context_root ? o->context_root : slash ? o->input : "."));
    if (!o->context_root && slash) r->context_root[lh_max_i64(slash - o->input, 1)] = '\0';
    return LH_OK;
}

/* Rank 0: notes the policies of requests with and without a context, where the input has such requests. */
static lh_status note_policies(const lh_batch_call *r, int64_t positions)
{
    int seen[LH_ASKED_BOTH] = {0};
    for (int64_t i = 0; i < lh_batch_input_count(r->input); i++)
        seen[lh_batch_input_line(r->input, i)->context ? LH_ASKED_LATER : LH_ASKED_IN_PROMPT] = 1;
    if (seen[LH_ASKED_LATER] && r->no_contexts.bytes)
        LH_FAIL(LH_EUSAGE, "requests of '%s' share contexts, and their questions come after the eviction: %s",
                lh_batch_input_path(r->input), r->no_contexts.data);
    for (int asked = LH_ASKED_IN_PROMPT; asked <= LH_ASKED_LATER; asked++)
        if (seen[asked]) LH_TRY(lh_shell_note_policy(&r->policies[asked], positions, (lh_policy_asked)asked));
    return LH_OK;
}

/* Writes the requests made of documents, next to the output. */
static lh_status write_documents(const lh_batch_call *r, const char *path)
{
    const lh_batch_options *o = &r->v->own;
    if (lh_journal_is_locked(o->output) == 1) LH_FAIL(LH_EWRITE, "'%s' is being written by another run", o->output);
    return lh_batch_documents_write(&(lh_batch_documents){.from = o->from, .text = o->text, .chat = r->format != NULL},
                                    path);
}

static lh_status open_requests(lh_batch_call *r)
{
    lh_status st = LH_OK;
    const lh_batch_options *o = &r->v->own;
    int64_t index = 0, count = 1;
    char *made = NULL;
    if (o->from) {
        LH_TRY_DONE(lh_asprintf(&made, "%s.requests.jsonl", o->output));
        LH_TRY_DONE(write_documents(r, made));
    }
    LH_TRY_DONE(lh_batch_input_open(&r->input, made ? made : o->input));
    if (o->shard) LH_TRY_DONE(read_shard(o->shard, &index, &count));
    if (count > 1) LH_TRY_DONE(lh_batch_input_shard(r->input, index, count));
done:
    lh_free(made);
    return st;
}

lh_status lh_batch_open_input(lh_batch_call *r, const lh_tokenizer *tok, int64_t positions)
{
    const lh_prompt_text none = {.text = "", .chat_template = r->v->chat.format};
    LH_TRY(choose_root(r));
    LH_TRY(r->v->chat.format ? lh_prompt_format(tok, &none, &r->format)
                             : lh_prompt_auto_format(tok, &none, &r->format));
    lh_shell_warn_of_arguments(r->format, r->arguments);
    LH_TRY(open_requests(r));
    return note_policies(r, positions);
}
