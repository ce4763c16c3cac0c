/* policy_list.h - every preset, once. LH_POLICY(x): the row lh_policy_x in presets/. In the order of `longhaul info`.
 */
LH_POLICY(full)
LH_POLICY(recency)
LH_POLICY(streaming)
LH_POLICY(snapkv)
LH_POLICY(pyramidkv)
LH_POLICY(ada_snapkv)
LH_POLICY(ada_pyramid)
