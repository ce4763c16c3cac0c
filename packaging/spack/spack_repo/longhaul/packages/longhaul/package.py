# For Spack 1.0 and later: spack repo add packaging/spack/spack_repo/longhaul && spack install longhaul [+cuda]
import os

from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage


class Longhaul(CMakePackage):
    """Runs large language models over very long prompts on MPI ranks, and keeps the part of the key-value cache that
    matters."""

    # The checkout that this recipe is in.
    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 6))
    license("Apache-2.0")
    version("main", branch="main")

    variant(
        "cuda", default=False, description="CUDA backend; NCCL and cuBLAS are loaded at run time"
    )
    variant(
        "onednn", default=True, description="bf16 products with matrix instructions of the CPU"
    )

    generator("ninja")
    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi@3:")
    depends_on("hdf5@1.10.5:+mpi")
    depends_on("jansson@2.10:")
    depends_on("pcre2@10.30:")
    depends_on("utf8proc@2.1:")
    depends_on("xxhash@0.8:")
    depends_on("libedit")
    depends_on("onednn", when="+onednn")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl", when="+cuda")

    def cmake_args(self):
        return [self.define("LH_TESTS", False), self.define_from_variant("LH_CUDA", "cuda")]
