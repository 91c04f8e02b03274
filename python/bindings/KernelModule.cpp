//===- KernelModule.cpp - Python bindings of the kernel dialect -----------===//

#include "MirageExtension.h"

#include "mirage-c/Kernel.h"
#include "mlir-c/BuiltinAttributes.h"

#include <optional>
#include <string>

using namespace mirage::python;

namespace {
struct PyFormAttr : mp::PyConcreteAttribute<PyFormAttr> {
  static constexpr IsAFunctionTy isaFunction = mirageAttributeIsAKernelForm;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = mirageKernelFormAttrGetTypeID;
  static constexpr const char *pyClassName = "FormAttr";
  using PyConcreteAttribute::PyConcreteAttribute;

  static void bindDerived(ClassTy &c) {
    c.def_static(
        "get",
        [](uint32_t value, mp::DefaultingPyMlirContext context) {
          MlirAttribute attr = mirageKernelFormAttrGet(context->get(), value);
          if (!attr.ptr)
            throw nb::value_error("not a value of the enum Form");
          return PyFormAttr(context->getRef(), attr);
        },
        nb::arg("value"), nb::arg("context") = nb::none(), "The attribute of a `Form`.");
    c.def_prop_ro(
        "value", [](PyFormAttr &self) { return mirageKernelFormAttrGetValue(self); },
        "The integer value of the `Form`.");
  }
};

struct PyVerdictAttr : mp::PyConcreteAttribute<PyVerdictAttr> {
  static constexpr IsAFunctionTy isaFunction = mirageAttributeIsAKernelVerdict;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = mirageKernelVerdictAttrGetTypeID;
  static constexpr const char *pyClassName = "VerdictAttr";
  using PyConcreteAttribute::PyConcreteAttribute;

  static void bindDerived(ClassTy &c) {
    c.def_static(
        "get",
        [](uint32_t kind, int64_t boundLog2, std::optional<std::string> evidence,
           mp::DefaultingPyMlirContext context) {
          MlirAttribute text =
              evidence ? mlirStringAttrGet(context->get(),
                                           MlirStringRef{evidence->data(), evidence->size()})
                       : mlirAttributeGetNull();
          MlirAttribute attr = mirageKernelVerdictAttrGet(context->get(), kind, boundLog2, text);
          if (!attr.ptr)
            throw nb::value_error("not a value of the enum VerdictKind");
          return PyVerdictAttr(context->getRef(), attr);
        },
        nb::arg("kind"), nb::arg("bound_log2") = 0, nb::arg("evidence") = nb::none(),
        nb::arg("context") = nb::none(),
        "A verdict: a `VerdictKind`, the base-2 logarithm of the probability that inequivalent "
        "programs pass, and what was run.");
    c.def_prop_ro(
        "kind", [](PyVerdictAttr &self) { return mirageKernelVerdictAttrGetKind(self); },
        "The integer value of the `VerdictKind`.");
    c.def_prop_ro("bound_log2",
                  [](PyVerdictAttr &self) { return mirageKernelVerdictAttrGetBoundLog2(self); });
    c.def_prop_ro("evidence", [](PyVerdictAttr &self) -> std::optional<std::string> {
      MlirAttribute evidence = mirageKernelVerdictAttrGetEvidence(self);
      if (!evidence.ptr)
        return std::nullopt;
      MlirStringRef text = mlirStringAttrGetValue(evidence);
      return std::string(text.data, text.length);
    });
  }
};

struct PyScheduleAttr : mp::PyConcreteAttribute<PyScheduleAttr> {
  static constexpr IsAFunctionTy isaFunction = mirageAttributeIsAKernelSchedule;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = mirageKernelScheduleAttrGetTypeID;
  static constexpr const char *pyClassName = "ScheduleAttr";
  using PyConcreteAttribute::PyConcreteAttribute;

  static void bindDerived(ClassTy &c) {
    c.def_static(
        "get",
        [](int64_t warps, int64_t stages, bool warpgroups, int64_t resident, int64_t cluster,
           mp::DefaultingPyLocation loc) {
          MlirAttribute attr = checked(loc, "invalid schedule", [&] {
            return mirageKernelScheduleAttrGetChecked(loc, warps, stages, warpgroups, resident,
                                                      cluster);
          });
          return PyScheduleAttr(loc->getContext(), attr);
        },
        nb::arg("warps"), nb::arg("stages"), nb::arg("warpgroups") = false, nb::arg("resident") = 0,
        nb::arg("cluster") = 1, nb::arg("loc") = nb::none());
    c.def_prop_ro("warps",
                  [](PyScheduleAttr &self) { return mirageKernelScheduleAttrGetWarps(self); });
    c.def_prop_ro("stages",
                  [](PyScheduleAttr &self) { return mirageKernelScheduleAttrGetStages(self); });
    c.def_prop_ro("warpgroups", [](PyScheduleAttr &self) {
      return mirageKernelScheduleAttrUsesWarpgroups(self);
    });
    c.def_prop_ro("resident",
                  [](PyScheduleAttr &self) { return mirageKernelScheduleAttrGetResident(self); });
    c.def_prop_ro("cluster",
                  [](PyScheduleAttr &self) { return mirageKernelScheduleAttrGetCluster(self); });
  }
};
} // namespace

void mirage::python::bindKernel(nb::module_ &module) {
  PyFormAttr::bind(module);
  PyVerdictAttr::bind(module);
  PyScheduleAttr::bind(module);
}
