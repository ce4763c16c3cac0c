/* python_score.h - a plug-in in a Python file. A process of Python serves the score that the file defines
 * (python/longhaul/serve.py): each rank starts one, sends it the entries of a head, and waits for their scores. */
#ifndef LH_POLICIES_PYTHON_SCORE_H
#define LH_POLICIES_PYTHON_SCORE_H

#include "base/status.h"

/* True if the name of a plug-in is that of a Python file. */
int lh_python_score_is_file(const char *name);

/* Starts the process, by the python3 on PATH or the program in LONGHAUL_PYTHON. `*table` and the scorer stay to the end
 * of the process. LH_EINPUT, naming the file: Python cannot be started, the package longhaul is missing, the file fails
 * or has no score. */
lh_status lh_python_score_open(const lh_plugin **table, lh_scorer *scorer, const char *path);

#endif
