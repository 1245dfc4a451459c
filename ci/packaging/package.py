# A recipe of Spack; in a repository of packages: packages/steptune/package.py.  Then
#   spack install steptune +cuda
# Untried: Debian has no Spack.  tests/lint/recipes.sh reads it.
from spack.package import *


class Steptune(CMakePackage, CudaPackage):
    """Makes NCCL choose what gives the shortest training step."""

    git = "file:///path/to/steptune"  # CHANGE: where its repository is
    license("Apache-2.0")
    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("cjson")
    depends_on("expat@2.4:")
    depends_on("zlib-api")
    depends_on("nccl@2.21:", type="run", when="+cuda")
    generator("ninja")

    def cmake_args(self):
        return [
            self.define_from_variant("STEPTUNE_CUDA", "cuda"),
            self.define("STEPTUNE_CPU", False),
            self.define("BUILD_TESTING", False),
        ]

    def setup_run_environment(self, env):
        env.prepend_path("LD_LIBRARY_PATH", self.prefix.lib)
