/* word_list.c - a list of our own: everyday words, none of which contains another. */
#include "lab/eval/word_list.h"

static const char *const adjectives[] = {
    "amber",   "ancient",   "autumn",   "bitter",   "blunt",    "brave",   "bright",   "brisk",    "broad",   "broken",
    "calm",    "careful",   "cheerful", "chilly",   "clever",   "cloudy",  "coastal",  "copper",   "crimson", "crooked",
    "curious", "dapper",    "distant",  "dusty",    "eager",    "earnest", "elegant",  "emerald",  "empty",   "endless",
    "faint",   "famous",    "fancy",    "fearless", "fierce",   "flat",    "foggy",    "fragile",  "frozen",  "gentle",
    "giant",   "gloomy",    "golden",   "graceful", "grateful", "hasty",   "heavy",    "hidden",   "hollow",  "honest",
    "humble",  "icy",       "ivory",    "jagged",   "jolly",    "keen",    "lavish",   "lazy",     "lively",  "lonely",
    "loyal",   "lucky",     "lunar",    "marble",   "mellow",   "mighty",  "misty",    "modest",   "narrow",  "nimble",
    "noble",   "northern",  "orange",   "pale",     "patient",  "plain",   "pleasant", "polished", "proud",   "purple",
    "quaint",  "quiet",     "rapid",    "rare",     "restless", "ripe",    "robust",   "rough",    "royal",   "rural",
    "rusty",   "scarlet",   "secret",   "serene",   "shallow",  "sharp",   "shiny",    "silent",   "silver",  "simple",
    "sleepy",  "slender",   "smooth",   "snowy",    "solemn",   "spotted", "steady",   "steep",    "stormy",  "sturdy",
    "sunny",   "swift",     "tall",     "tame",     "tender",   "tidy",    "tiny",     "upright",  "velvet",  "violet",
    "vivid",   "wandering", "warm",     "weary",    "wide",     "wild",    "windy",    "wise",     "wooden",  "yellow",
    "young"};
static const char *const nouns[] = {
    "acorn",   "anchor",  "apron",   "attic",    "bakery",   "balcony", "bamboo",   "banjo",    "barrel",   "basket",
    "beacon",  "blanket", "blossom", "bonfire",  "bottle",   "boulder", "bracelet", "breeze",   "bridge",   "bucket",
    "button",  "cabin",   "cactus",  "camera",   "candle",   "canoe",   "canyon",   "carpet",   "castle",   "cedar",
    "cellar",  "chapel",  "cherry",  "chimney",  "cinema",   "clock",   "clover",   "coffee",   "comet",    "compass",
    "copy",    "corner",  "cottage", "cradle",   "crayon",   "cricket", "crystal",  "curtain",  "dagger",   "dairy",
    "desert",  "diamond", "dragon",  "drawer",   "drum",     "eagle",   "elbow",    "engine",   "envelope", "fabric",
    "falcon",  "farmer",  "feather", "fence",    "ferry",    "fiddle",  "flute",    "forest",   "fountain", "fossil",
    "galaxy",  "garage",  "garden",  "garlic",   "gate",     "glacier", "goblet",   "granite",  "guitar",   "hammer",
    "harbour", "harvest", "hazel",   "helmet",   "honey",    "hotel",   "island",   "jacket",   "jewel",    "journal",
    "jungle",  "kettle",  "kitchen", "kite",     "ladder",   "lagoon",  "lantern",  "leather",  "lemon",    "library",
    "lizard",  "locket",  "lumber",  "magnet",   "mango",    "maple",   "market",   "meadow",   "medal",    "melody",
    "mirror",  "mitten",  "monsoon", "mountain", "museum",   "napkin",  "needle",   "nectar",   "notebook", "oak",
    "oasis",   "ocean",   "office",  "olive",    "onion",    "orchard", "oven",     "oyster",   "paddle",   "palace",
    "parcel",  "parrot",  "pasture", "pebble",   "pencil",   "pepper",  "piano",    "pickle",   "pillow",   "pirate",
    "planet",  "pocket",  "poem",    "pond",     "portrait", "pottery", "prairie",  "pumpkin",  "puzzle",   "quarry",
    "quilt",   "rabbit",  "radio",   "railway",  "raven",    "ribbon",  "river",    "robin",    "rocket",   "saddle",
    "sailor",  "salmon",  "sandal",  "satchel",  "saucer",   "scarf",   "school",   "scissors", "shadow",   "shelter",
    "shovel",  "signal",  "sketch",  "spider",   "spoon",    "statue",  "stove",    "street",   "sugar",    "summit",
    "table",   "teapot",  "temple",  "theatre",  "thicket",  "thunder", "ticket",   "timber",   "tower",    "tractor",
    "trumpet", "tunnel",  "turnip",  "umbrella", "uncle",    "vase",    "village",  "violin",   "volcano",  "wagon",
    "walnut",  "willow",  "window",  "winter",   "wizard",   "zipper"};

enum { ADJECTIVES = sizeof adjectives / sizeof *adjectives, NOUNS = sizeof nouns / sizeof *nouns };
_Static_assert(ADJECTIVES + NOUNS == LH_WORDS, "number of words");
_Static_assert((int)ADJECTIVES *(int)NOUNS == LH_COMPOUNDS, "number of compounds");

lh_status lh_word_put(int64_t i, lh_buf *out)
{
    return lh_buf_puts(out, i < ADJECTIVES ? adjectives[i] : nouns[i - ADJECTIVES]);
}

lh_status lh_compound_put(int64_t i, lh_buf *out)
{
    return lh_buf_printf(out, "%s-%s", adjectives[i / NOUNS], nouns[i % NOUNS]);
}
