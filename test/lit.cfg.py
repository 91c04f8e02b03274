"""lit's configuration; read through lit.site.cfg.py of a build folder."""

import os
import shutil

import lit.formats

# Provided by lit: the two objects that this file configures.
config = globals()["config"]
lit_config = globals()["lit_config"]

config.name = "mirage"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.mirage_build_dir, "test")
# Files that pytest runs, and inputs of tests.
config.excludes = ["python", "gpu", "Inputs"]

path = [config.mirage_tools_dir, config.llvm_tools_dir, os.environ["PATH"]]
config.environment["PATH"] = os.pathsep.join(path)
config.environment["MIRAGE_PYTHON"] = config.python
# The pass that the tests of the worker use.
passes = os.path.join(os.path.dirname(__file__), "PythonPasses", "Inputs")
config.environment["PYTHONPATH"] = os.pathsep.join(
    filter(None, (passes, os.environ.get("PYTHONPATH")))
)
for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

# Compiles, runs in the emulator, compares with float64; see test/execute.py.
execute = os.path.join(config.mirage_source_dir, "test", "execute.py")
config.substitutions.append(("%execute", f"{config.python} {execute}"))
config.substitutions.append(("%python", config.python))
config.substitutions.append(("%source", config.mirage_source_dir))

for tool in ("mirage-opt", "mirage-test-opt", "mirage-test-solvers", "FileCheck"):
    if shutil.which(tool, path=config.environment["PATH"]) is None:
        lit_config.fatal(f"{tool} was not found on {config.environment['PATH']}; run 'make build'")

if shutil.which("ptxas"):
    config.available_features.add("ptxas")
