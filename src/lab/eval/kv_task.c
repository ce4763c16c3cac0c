/* kv_task.c - the task `kv`: the values of many keys in a JSON object of UUIDs, which nothing but the pairs themselves
 * can tell (Liu et al., "Lost in the Middle", arXiv 2307.03172, whose prompt asks for one). Other pairs fill the
 * prompt. */
#include "lab/eval/synthetic_kinds.h"

enum { DRAW_PAIRS, DRAW_PLACES };

/* The pair with this number: those that are asked for come first. */
static lh_status put_pair(const lh_synthetic_maker *maker, int64_t number, lh_buf *key, lh_buf *value)
{
    lh_draws draws = lh_synthetic_draws(maker, DRAW_PAIRS);
    draws.at = 4 * (uint32_t)number; /* a pair is the same whatever comes before it */
    key->bytes = value->bytes = 0;
    LH_TRY(lh_draw_uuid(&draws, key));
    return lh_draw_uuid(&draws, value);
}

/* {"key": "value", …} in random order */
static lh_status put_object(const lh_synthetic_maker *maker, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_draws draws = lh_synthetic_draws(maker, DRAW_PLACES);
    lh_buf key = {0}, value = {0};
    int64_t *order = NULL;
    const int64_t pairs = maker->form->asked + maker->units;
    LH_TRY_DONE(lh_draw_order(&draws, &order, pairs));
    for (int64_t i = 0; i < pairs; i++) {
        LH_TRY_DONE(put_pair(maker, order[i], &key, &value));
        LH_TRY_DONE(lh_buf_printf(out, "%s\"%s\": \"%s\"", i ? ",\n " : "{", key.data, value.data));
    }
    LH_TRY_DONE(lh_buf_puts(out, "}"));
done:
    lh_buf_clear(&key);
    lh_buf_clear(&value);
    lh_free(order);
    return st;
}

static lh_status build_kv(const lh_synthetic_maker *maker)
{
    lh_status st = LH_OK;
    lh_synthetic_sample *s = maker->out;
    lh_buf key = {0}, value = {0};
    LH_TRY_DONE(lh_buf_puts(
        &s->text, "Extract the values corresponding to the specified keys in the JSON object below.\n\nJSON data:\n"));
    LH_TRY_DONE(put_object(maker, &s->text));
    LH_TRY_DONE(lh_buf_puts(&s->question, "Keys:"));
    for (int64_t i = 0; i < maker->form->asked; i++) {
        LH_TRY_DONE(put_pair(maker, i, &key, &value));
        LH_TRY_DONE(lh_buf_printf(&s->question, "%s \"%s\"", i ? "," : "", key.data));
        LH_TRY_DONE(lh_buf_printf(&s->expected, "%s \"%s\"", i ? "," : "", value.data));
        LH_TRY_DONE(lh_synthetic_reference(s, value.data));
    }
    LH_TRY_DONE(lh_buf_puts(&s->prefix, maker->form->format ? "Corresponding values:" : "\nCorresponding values:"));
done:
    lh_buf_clear(&key);
    lh_buf_clear(&value);
    return st;
}

static int64_t min_kv(const lh_synthetic_form *form, const lh_synthetic_spec *spec)
{
    (void)form, (void)spec;
    return 1;
}

static const lh_synthetic_kind kind = {build_kv, min_kv, "\n\n", 0, lh_synthetic_match_all};
const lh_synthetic_task lh_kv_task = {.name = "kv", .label = "kv", .kind = &kind};
