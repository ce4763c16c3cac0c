#include "policies/plugin.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The loaded plug-ins, in the order of their loading. They are never unloaded: policies point to them. */
static lh_loaded_plugin *loaded;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void lh_plugin_add(lh_loaded_plugin *p)
{
    pthread_mutex_lock(&mutex);
    lh_loaded_plugin **at = &loaded;
    while (*at) at = &(*at)->next;
    *at = p;
    pthread_mutex_unlock(&mutex);
}

const lh_loaded_plugin *lh_plugin_at(int i)
{
    pthread_mutex_lock(&mutex);
    const lh_loaded_plugin *p = loaded;
    while (p && i-- > 0) p = p->next;
    pthread_mutex_unlock(&mutex);
    return p;
}

const lh_loaded_plugin *lh_plugin_find(const char *name)
{
    const lh_loaded_plugin *p, *found = NULL;
    for (int i = 0; (p = lh_plugin_at(i)); i++)
        if (strcmp(p->preset.name, name) == 0) found = p;
    return found;
}

const lh_loaded_plugin *lh_plugin_of(const lh_policy_preset *preset)
{
    return preset->kind == LH_POLICY_OF_PLUGIN ? (const lh_loaded_plugin *)preset : NULL;
}

/* ---- values of options ---- */

static const lh_plugin_option *option_of(const lh_policy *policy, const lh_part *part)
{
    return &policy->score.plugin->table->options[part - policy->score.plugin->parts];
}

static lh_status fail_value(const lh_plugin_option *o, const char *text)
{
    const char *kind = o->integer ? "an integer" : "a number";
    if (o->min < o->max)
        LH_FAIL(LH_EUSAGE, "option '--%s' got '%s', it must be %s from %g to %g", o->name, text, kind, o->min, o->max);
    LH_FAIL(LH_EUSAGE, "option '--%s' got '%s', it must be %s", o->name, text, kind);
}

lh_status lh_plugin_read_option(lh_policy *policy, const lh_part *part, const char *text)
{
    const lh_plugin_option *o = option_of(policy, part);
    char *end = NULL;
    int word = 0;
    double value = 0;
    if (o->words) {
        LH_TRY(lh_choice_find(&word, o->name, o->words, text));
        value = word;
    } else {
        value = strtod(text, &end);
        const int bounded = o->min < o->max, is_number = end != text && !*end && isfinite(value);
        if (!is_number || (bounded && (value < o->min || value > o->max)) || (o->integer && value != floor(value)))
            return fail_value(o, text);
    }
    value += 0.0; /* -0 is 0: policies are compared byte by byte */
    memcpy((char *)policy + part->at, &value, sizeof value);
    return LH_OK;
}

/* The shortest text of the number. */
void lh_plugin_write_option(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    const lh_plugin_option *o = option_of(policy, part);
    double value;
    memcpy(&value, (const char *)policy + part->at, sizeof value);
    if (o->words) {
        snprintf(out->text, sizeof out->text, "%s", o->words[(int)value]);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out->text, sizeof out->text, "%.*g", digits, value);
        if (strtod(out->text, NULL) == value) return;
    }
}
