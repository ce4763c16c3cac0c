#!/bin/sh
# Starts programs/NAME of a bundle, where NAME is the name of this file, with the bundle's libraries; and with the bundle's
# C library where the machine's own is too old for them. Libraries of CUDA in the bundle's folder 'cuda' come first.
folder=${0%/*}
case $folder in
"$0") folder=. ;;
esac
root=$(cd "$folder/.." && pwd)
program=$root/programs/${0##*/}
libraries=$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ -d "$root/cuda" ] && [ -z "${LONGHAUL_CUDA_LIBS:-}" ]; then
    export LONGHAUL_CUDA_LIBS="$root/cuda"
fi
# Open MPI and PMIx look for their plugins where they were installed.
export OPAL_PREFIX="$root" OMPI_MCA_mca_base_component_path="$root/lib/openmpi" PMIX_MCA_mca_base_component_path="$root/lib/pmix"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_plm=isolated # one machine
case $(LD_TRACE_LOADED_OBJECTS=1 LD_LIBRARY_PATH=$libraries "$program" 2>&1) in
*"not found"* | '') exec "$root/glibc/ld-linux-x86-64.so.2" --library-path "$root/glibc:$libraries" "$program" "$@" ;;
esac
LD_LIBRARY_PATH=$libraries exec "$program" "$@"
