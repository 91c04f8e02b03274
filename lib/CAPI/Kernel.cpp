//===- Kernel.cpp - C API: attributes of the kernel dialect ---------------===//

#include "mirage-c/Kernel.h"

#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"

using namespace mirage::kernel;

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Kernel, kernel, mirage::kernel::KernelDialect)

bool mirageAttributeIsAKernelForm(MlirAttribute attr) { return mlir::isa<FormAttr>(unwrap(attr)); }
MlirTypeID mirageKernelFormAttrGetTypeID(void) { return wrap(FormAttr::getTypeID()); }
MlirAttribute mirageKernelFormAttrGet(MlirContext context, uint32_t value) {
  std::optional<Form> form = symbolizeForm(value);
  return form ? wrap(FormAttr::get(unwrap(context), *form)) : MlirAttribute{nullptr};
}
uint32_t mirageKernelFormAttrGetValue(MlirAttribute attr) {
  return static_cast<uint32_t>(mlir::cast<FormAttr>(unwrap(attr)).getValue());
}

bool mirageAttributeIsAKernelVerdict(MlirAttribute attr) {
  return mlir::isa<VerdictAttr>(unwrap(attr));
}
MlirTypeID mirageKernelVerdictAttrGetTypeID(void) { return wrap(VerdictAttr::getTypeID()); }
MlirAttribute mirageKernelVerdictAttrGet(MlirContext context, uint32_t kind, int64_t boundLog2,
                                         MlirAttribute evidence) {
  std::optional<VerdictKind> verdict = symbolizeVerdictKind(kind);
  if (!verdict)
    return MlirAttribute{nullptr};
  return wrap(VerdictAttr::get(unwrap(context), *verdict, boundLog2,
                               mlir::cast_or_null<mlir::StringAttr>(unwrap(evidence))));
}
uint32_t mirageKernelVerdictAttrGetKind(MlirAttribute attr) {
  return static_cast<uint32_t>(mlir::cast<VerdictAttr>(unwrap(attr)).getKind());
}
int64_t mirageKernelVerdictAttrGetBoundLog2(MlirAttribute attr) {
  return mlir::cast<VerdictAttr>(unwrap(attr)).getBoundLog2();
}
MlirAttribute mirageKernelVerdictAttrGetEvidence(MlirAttribute attr) {
  return wrap(mlir::Attribute(mlir::cast<VerdictAttr>(unwrap(attr)).getEvidence()));
}

bool mirageAttributeIsAKernelSchedule(MlirAttribute attr) {
  return mlir::isa<ScheduleAttr>(unwrap(attr));
}
MlirTypeID mirageKernelScheduleAttrGetTypeID(void) { return wrap(ScheduleAttr::getTypeID()); }
MlirAttribute mirageKernelScheduleAttrGetChecked(MlirLocation location, int64_t warps,
                                                 int64_t stages, bool warpgroups, int64_t resident,
                                                 int64_t cluster) {
  mlir::Location loc = unwrap(location);
  return wrap(mlir::Attribute(ScheduleAttr::getChecked(
      [loc] { return mlir::emitError(loc); }, loc.getContext(), warps, stages,
      warpgroups ? Engine::Warpgroup : Engine::Warp, resident, cluster)));
}
int64_t mirageKernelScheduleAttrGetWarps(MlirAttribute attr) {
  return mlir::cast<ScheduleAttr>(unwrap(attr)).getWarps();
}
int64_t mirageKernelScheduleAttrGetStages(MlirAttribute attr) {
  return mlir::cast<ScheduleAttr>(unwrap(attr)).getStages();
}
bool mirageKernelScheduleAttrUsesWarpgroups(MlirAttribute attr) {
  return mlir::cast<ScheduleAttr>(unwrap(attr)).usesWarpgroups();
}
int64_t mirageKernelScheduleAttrGetResident(MlirAttribute attr) {
  return mlir::cast<ScheduleAttr>(unwrap(attr)).getResident();
}
int64_t mirageKernelScheduleAttrGetCluster(MlirAttribute attr) {
  return mlir::cast<ScheduleAttr>(unwrap(attr)).getCluster();
}
