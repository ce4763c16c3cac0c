/* ruler_tasks.c - the thirteen tasks of RULER's first version (scripts/synthetic.yaml), and the two basic ones of its
 * second. */
#include "eval/ruler_kinds.h"

static const lh_ruler_needles single_1 = {LH_RULER_NOISE, LH_RULER_WORD, LH_RULER_NUMBER, 1, 1, 1, 7},
                              single_2 = {LH_RULER_ESSAY, LH_RULER_WORD, LH_RULER_NUMBER, 1, 1, 1, 7},
                              single_3 = {LH_RULER_ESSAY, LH_RULER_WORD, LH_RULER_UUID, 1, 1, 1, 0},
                              multikey_1 = {LH_RULER_ESSAY, LH_RULER_WORD, LH_RULER_NUMBER, 4, 1, 1, 7},
                              multikey_2 = {LH_RULER_NEEDLES, LH_RULER_WORD, LH_RULER_NUMBER, 1, 1, 1, 7},
                              multikey_3 = {LH_RULER_NEEDLES, LH_RULER_UUID, LH_RULER_UUID, 1, 1, 1, 0},
                              multivalue = {LH_RULER_ESSAY, LH_RULER_WORD, LH_RULER_NUMBER, 1, 4, 1, 7},
                              multiquery = {LH_RULER_ESSAY, LH_RULER_WORD, LH_RULER_NUMBER, 4, 1, 4, 7},
                              mk_basic = {LH_RULER_NEEDLES, LH_RULER_WORD, LH_RULER_NUMBER, 1, 1, 1, 10},
                              mv_basic = {LH_RULER_NEEDLES, LH_RULER_WORD, LH_RULER_NUMBER, 1, 4, 1, 10};

#define NIAH 128, 0, &lh_ruler_niah
const lh_ruler_task lh_ruler_tasks[] = {
    {"niah_single_1", "niah_single_1@words", 1, LH_RULER_NOTHING, NIAH, &single_1},
    {"niah_single_2", "niah_single_2@text", 1, LH_RULER_TEXT, NIAH, &single_2},
    {"niah_single_3", "niah_single_3@text", 1, LH_RULER_TEXT, NIAH, &single_3},
    {"niah_multikey_1", "niah_multikey_1@text", 1, LH_RULER_TEXT, NIAH, &multikey_1},
    {"niah_multikey_2", "niah_multikey_2@words", 1, LH_RULER_NOTHING, NIAH, &multikey_2},
    {"niah_multikey_3", "niah_multikey_3", 1, LH_RULER_NOTHING, NIAH, &multikey_3},
    {"niah_multivalue", "niah_multivalue@text", 1, LH_RULER_TEXT, NIAH, &multivalue},
    {"niah_multiquery", "niah_multiquery@text", 1, LH_RULER_TEXT, NIAH, &multiquery},
    {"vt", "vt", 1, LH_RULER_NOTHING, 30, 0, &lh_ruler_tracking, NULL},
    {"cwe", "cwe@words", 1, LH_RULER_NOTHING, 120, 0, &lh_ruler_common, NULL},
    {"fwe", "fwe", 1, LH_RULER_NOTHING, 50, 0, &lh_ruler_frequent, NULL},
    {"qa_1", "qa_1", 1, LH_RULER_SQUAD, 32, 1, &lh_ruler_documents, NULL},
    {"qa_2", "qa_2", 1, LH_RULER_HOTPOT, 32, 1, &lh_ruler_documents, NULL},
    {"mk_niah_basic", "mk_niah_basic@words", 2, LH_RULER_NOTHING, NIAH, &mk_basic},
    {"mv_niah_basic", "mv_niah_basic@words", 2, LH_RULER_NOTHING, NIAH, &mv_basic},
    {0}};
_Static_assert(sizeof lh_ruler_tasks / sizeof *lh_ruler_tasks == LH_RULER_TASKS + 1, "number of tasks");
