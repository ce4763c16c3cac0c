/* analysis_list.h - every analysis, once: X(name) names lh_analysis_<name> of analysis_<name>.c. */
X(mass)
X(hits)
X(perturbation)
X(bounds)
X(budgets)
X(overlap)
X(positions)
X(concentration)
