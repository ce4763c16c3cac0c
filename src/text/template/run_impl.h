/* run_impl.h - what run.c and run_expr.c need of each other. */
#ifndef LH_TEXT_TEMPLATE_RUN_IMPL_H
#define LH_TEXT_TEMPLATE_RUN_IMPL_H

#include "text/template/calls.h"
#include "text/template/run.h"

lh_status lh_tpl_call_macro(lh_tpl_run *run, const lh_tpl_macro *macro, const lh_tpl_args *args, lh_tpl_value *out);

#endif
