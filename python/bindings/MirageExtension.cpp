//===- MirageExtension.cpp - Python bindings of our own parts -------------===//

#include "MirageExtension.h"

#include "mirage-c/Mirage.h"

#include <string>

namespace nb = nanobind;
using namespace mirage::python;

static MlirStringRef view(const std::string &text) { return {text.data(), text.size()}; }

NB_MODULE(_mirage, module) {
  module.doc() = "registration, types and attributes of the mirage dialects";
  module.def(
      "register_dialects",
      [](MlirDialectRegistry registry) { mirageRegisterAllDialects(registry); },
      nb::arg("registry"));
  module.def("register_passes", [] { mirageRegisterAllPasses(); });
  module.def(
      "set_python_interpreter",
      [](const std::string &path) { mirageSetPythonInterpreter(view(path)); }, nb::arg("path"));
  module.def(
      "emit_warning",
      [](mp::PyLocation &location, const std::string &message) {
        mirageEmitWarning(location, view(message));
      },
      nb::arg("location"), nb::arg("message"));
  module.def(
      "emit_remark",
      [](mp::PyLocation &location, const std::string &message) {
        mirageEmitRemark(location, view(message));
      },
      nb::arg("location"), nb::arg("message"));

  nb::module_ kernel = module.def_submodule("kernel", "attributes of the kernel dialect");
  bindKernel(kernel);
  nb::module_ block = module.def_submodule("block", "types of the block dialect");
  bindBlock(block);
  nb::module_ thread = module.def_submodule("thread", "types and attributes of the thread dialect");
  bindThread(thread);
}
