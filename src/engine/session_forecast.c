/* session_forecast.c - the memory of a session before it is opened. */
#include "base/minmax.h"
#include "engine/probes.h"
#include "engine/session.h"
#include "kv/forecast.h"
#include "model/rotations.h"

/* A loaded cache is taken to be as large as after its prompt. */
lh_status lh_session_forecast(lh_session_bytes *out, const lh_engine *engine, const lh_session_options *o)
{
    const lh_engine_view *parts = lh_engine_get(engine);
    const int64_t rotations = lh_rotations_bytes(parts->config);
    lh_kv_forecast_request request = {.policy = o->policy,
                                      .others = o->others,
                                      .other_count = o->other_count,
                                      .given = o->given,
                                      .tokens = o->prompt ? o->prompt : o->length - o->more,
                                      .more = o->more - o->fork_more,
                                      .fork_more = o->fork_more,
                                      .block = o->block,
                                      .device = lh_device_kind_of(parts->device)};
    lh_kv_shape shape = lh_model_kv_shape(parts->model, &parts->kv_types);
    lh_kv_forecast f;
    shape.profiles = o->profiles;
    *out = (lh_session_bytes){.after = rotations};
    if (request.tokens <= 0) return LH_OK;
    LH_TRY(lh_probe_leads_of(&shape.leads, engine, o->policy, o->profiles));
    LH_TRY(lh_kv_forecast_make(&f, &shape, &request));
    out->fork = f.fork_peak;
    out->after += f.decode_peak;
    if (o->prompt)
        out->prompt = rotations + f.prefill_peak + lh_forward_prompt_bytes(parts->config, o->prompt + f.probe_tokens);
    return LH_OK;
}
