/* ruler_tasks.c - the thirteen tasks of RULER's first version (scripts/synthetic.yaml), and the two basic ones of its
 * second. */
#include "lab/eval/ruler_kinds.h"

static const lh_ruler_needles single_1 = {LH_RULER_NOISE, LH_RULER_WORD, LH_RULER_NUMBER, 1, 1, 1, 7, 1},
                              single_2 = {LH_RULER_ESSAY, LH_RULER_WORD, LH_RULER_NUMBER, 1, 1, 1, 7, 1},
                              single_3 = {LH_RULER_ESSAY, LH_RULER_WORD, LH_RULER_UUID, 1, 1, 1, 0, 1},
                              multikey_1 = {LH_RULER_ESSAY, LH_RULER_WORD, LH_RULER_NUMBER, 4, 1, 1, 7, 1},
                              multikey_2 = {LH_RULER_NEEDLES, LH_RULER_WORD, LH_RULER_NUMBER, 1, 1, 1, 7, 1},
                              multikey_3 = {LH_RULER_NEEDLES, LH_RULER_UUID, LH_RULER_UUID, 1, 1, 1, 0, 1},
                              multivalue = {LH_RULER_ESSAY, LH_RULER_WORD, LH_RULER_NUMBER, 1, 4, 1, 7, 1},
                              multiquery = {LH_RULER_ESSAY, LH_RULER_WORD, LH_RULER_NUMBER, 4, 1, 4, 7, 1},
                              mk_basic = {LH_RULER_NEEDLES, LH_RULER_WORD, LH_RULER_NUMBER, 1, 1, 1, 10, 2},
                              mv_basic = {LH_RULER_NEEDLES, LH_RULER_WORD, LH_RULER_NUMBER, 1, 4, 1, 10, 2};

#define NIAH 128, &lh_ruler_niah
const lh_synthetic_task lh_ruler_tasks[] = {
    {"niah_single_1", "niah_single_1@words", LH_SYNTHETIC_NOTHING, 1, NIAH, &single_1},
    {"niah_single_2", "niah_single_2@text", LH_SYNTHETIC_TEXT, 1, NIAH, &single_2},
    {"niah_single_3", "niah_single_3@text", LH_SYNTHETIC_TEXT, 1, NIAH, &single_3},
    {"niah_multikey_1", "niah_multikey_1@text", LH_SYNTHETIC_TEXT, 1, NIAH, &multikey_1},
    {"niah_multikey_2", "niah_multikey_2@words", LH_SYNTHETIC_NOTHING, 1, NIAH, &multikey_2},
    {"niah_multikey_3", "niah_multikey_3", LH_SYNTHETIC_NOTHING, 1, NIAH, &multikey_3},
    {"niah_multivalue", "niah_multivalue@text", LH_SYNTHETIC_TEXT, 1, NIAH, &multivalue},
    {"niah_multiquery", "niah_multiquery@text", LH_SYNTHETIC_TEXT, 1, NIAH, &multiquery},
    {"vt", "vt", LH_SYNTHETIC_NOTHING, 1, 30, &lh_ruler_tracking, NULL},
    {"cwe", "cwe@words", LH_SYNTHETIC_NOTHING, 1, 120, &lh_ruler_common, NULL},
    {"fwe", "fwe", LH_SYNTHETIC_NOTHING, 1, 50, &lh_ruler_frequent, NULL},
    {"qa_1", "qa_1", LH_SYNTHETIC_SQUAD, 1, 32, &lh_ruler_documents, NULL},
    {"qa_2", "qa_2", LH_SYNTHETIC_HOTPOT, 1, 32, &lh_ruler_documents, NULL},
    {"mk_niah_basic", "mk_niah_basic@words", LH_SYNTHETIC_NOTHING, 0, NIAH, &mk_basic},
    {"mv_niah_basic", "mv_niah_basic@words", LH_SYNTHETIC_NOTHING, 0, NIAH, &mv_basic},
    {0}};
_Static_assert(sizeof lh_ruler_tasks / sizeof *lh_ruler_tasks == LH_RULER_TASKS + 1, "number of tasks");
