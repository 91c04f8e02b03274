//===- MirageExtension.cpp - Python bindings of our own parts -------------===//

#include "mirage-c/Mirage.h"

#include "mlir/Bindings/Python/IRCore.h"
#include "mlir/Bindings/Python/IRTypes.h"
#include "mlir/Bindings/Python/Nanobind.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

#include <string>

namespace nb = nanobind;

NB_MODULE(_mirage, module) {
  module.doc() = "registration, types and attributes of the mirage dialects";
  module.def(
      "register_dialects",
      [](MlirDialectRegistry registry) { mirageRegisterAllDialects(registry); },
      nb::arg("registry"));
  module.def("register_passes", [] { mirageRegisterAllPasses(); });
  module.def(
      "set_python_interpreter",
      [](const std::string &path) { mirageSetPythonInterpreter({path.data(), path.size()}); },
      nb::arg("path"));

  module.def_submodule("kernel", "types and attributes of the kernel dialect");
  module.def_submodule("block", "types and attributes of the block dialect");
  module.def_submodule("thread", "types and attributes of the thread dialect");
}
