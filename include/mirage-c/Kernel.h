//===- Kernel.h - C API: attributes of the kernel dialect -------*- C++ -*-===//

#ifndef MIRAGE_C_KERNEL_H
#define MIRAGE_C_KERNEL_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Kernel, kernel);

// #kernel.form. The value is that of the enum Form.
MLIR_CAPI_EXPORTED bool mirageAttributeIsAKernelForm(MlirAttribute attr);
MLIR_CAPI_EXPORTED MlirTypeID mirageKernelFormAttrGetTypeID(void);
MLIR_CAPI_EXPORTED MlirAttribute mirageKernelFormAttrGet(MlirContext context, uint32_t value);
MLIR_CAPI_EXPORTED uint32_t mirageKernelFormAttrGetValue(MlirAttribute attr);

// #kernel.verdict. The kind is that of the enum VerdictKind; evidence may be
// the null attribute.
MLIR_CAPI_EXPORTED bool mirageAttributeIsAKernelVerdict(MlirAttribute attr);
MLIR_CAPI_EXPORTED MlirTypeID mirageKernelVerdictAttrGetTypeID(void);
MLIR_CAPI_EXPORTED MlirAttribute mirageKernelVerdictAttrGet(MlirContext context, uint32_t kind,
                                                            int64_t boundLog2,
                                                            MlirAttribute evidence);
MLIR_CAPI_EXPORTED uint32_t mirageKernelVerdictAttrGetKind(MlirAttribute attr);
MLIR_CAPI_EXPORTED int64_t mirageKernelVerdictAttrGetBoundLog2(MlirAttribute attr);
MLIR_CAPI_EXPORTED MlirAttribute mirageKernelVerdictAttrGetEvidence(MlirAttribute attr);

// #kernel.schedule. Null, with an error at the location, for bad values.
MLIR_CAPI_EXPORTED bool mirageAttributeIsAKernelSchedule(MlirAttribute attr);
MLIR_CAPI_EXPORTED MlirTypeID mirageKernelScheduleAttrGetTypeID(void);
MLIR_CAPI_EXPORTED MlirAttribute mirageKernelScheduleAttrGetChecked(MlirLocation location,
                                                                    int64_t warps, int64_t stages,
                                                                    bool warpgroups,
                                                                    int64_t resident,
                                                                    int64_t cluster);
MLIR_CAPI_EXPORTED int64_t mirageKernelScheduleAttrGetWarps(MlirAttribute attr);
MLIR_CAPI_EXPORTED int64_t mirageKernelScheduleAttrGetStages(MlirAttribute attr);
MLIR_CAPI_EXPORTED bool mirageKernelScheduleAttrUsesWarpgroups(MlirAttribute attr);
MLIR_CAPI_EXPORTED int64_t mirageKernelScheduleAttrGetResident(MlirAttribute attr);
MLIR_CAPI_EXPORTED int64_t mirageKernelScheduleAttrGetCluster(MlirAttribute attr);

#ifdef __cplusplus
}
#endif

#endif // MIRAGE_C_KERNEL_H
