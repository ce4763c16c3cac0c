/* ops_list.h - every operation, once: LH_OP(name, what it does). Makes the members of lh_ops, the check that a backend
 * lacks none, and the names that `longhaul info` prints. Arguments and formulas: the header beside each list. */
#include "kernels/ops_model_list.h"

#include "kernels/ops_attend_list.h"
#include "kernels/ops_budgets_list.h"
#include "kernels/ops_cache_list.h"
#include "kernels/ops_experts_list.h"
#include "kernels/ops_fit_list.h"
#include "kernels/ops_fused_list.h"
#include "kernels/ops_observe_list.h"
#include "kernels/ops_sample_list.h"
#include "kernels/ops_score_list.h"
#include "kernels/ops_select_list.h"
#include "kernels/ops_shape_list.h"
