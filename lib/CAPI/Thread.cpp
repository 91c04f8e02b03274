//===- Thread.cpp - C API: types of the thread dialect --------------------===//

#include "mirage-c/Thread.h"

#include "mirage/Dialect/Thread/IR/Thread.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"

using namespace mirage::thread;

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Thread, thread, mirage::thread::ThreadDialect)

static auto errorAt(mlir::Location location) {
  return [location] { return mlir::emitError(location); };
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

static LinearLayout::Basis basis(intptr_t size, const int32_t *vectors) {
  LinearLayout::Basis result;
  for (intptr_t i = 0; i < size; ++i)
    result.push_back({vectors[2 * i], vectors[2 * i + 1]});
  return result;
}

static const LinearLayout &layout(MlirAttribute attr) {
  return mlir::cast<LayoutAttr>(unwrap(attr)).getValue();
}

static llvm::ArrayRef<Coord> vectors(MlirAttribute attr, MirageLayoutPart part) {
  switch (part) {
  case MirageLayoutPartRegister:
    return layout(attr).getReg();
  case MirageLayoutPartLane:
    return layout(attr).getLane();
  case MirageLayoutPartWarp:
    return layout(attr).getWarp();
  }
  llvm_unreachable("all parts are handled above");
}

bool mirageAttributeIsAThreadLayout(MlirAttribute attr) {
  return mlir::isa<LayoutAttr>(unwrap(attr));
}
MlirTypeID mirageThreadLayoutAttrGetTypeID(void) { return wrap(LayoutAttr::getTypeID()); }
MlirAttribute mirageThreadLayoutAttrGetChecked(MlirLocation location, intptr_t numRegister,
                                               const int32_t *reg, intptr_t numLane,
                                               const int32_t *lane, intptr_t numWarp,
                                               const int32_t *warp, const int32_t repeat[2]) {
  mlir::Location loc = unwrap(location);
  LinearLayout value(basis(numRegister, reg), basis(numLane, lane), basis(numWarp, warp),
                     {repeat[0], repeat[1]});
  return wrap(mlir::Attribute(LayoutAttr::getChecked(errorAt(loc), loc.getContext(), value)));
}
intptr_t mirageThreadLayoutAttrGetNumVectors(MlirAttribute attr, MirageLayoutPart part) {
  return vectors(attr, part).size();
}
void mirageThreadLayoutAttrGetVector(MlirAttribute attr, MirageLayoutPart part, intptr_t index,
                                     int32_t vector[2]) {
  Coord coord = vectors(attr, part)[index];
  vector[0] = coord.row;
  vector[1] = coord.col;
}
void mirageThreadLayoutAttrGetRepeat(MlirAttribute attr, int32_t repeat[2]) {
  repeat[0] = layout(attr).getRepeat()[0];
  repeat[1] = layout(attr).getRepeat()[1];
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

static FragmentType fragment(MlirType type) { return mlir::cast<FragmentType>(unwrap(type)); }

bool mirageTypeIsAThreadFragment(MlirType type) { return mlir::isa<FragmentType>(unwrap(type)); }
MlirTypeID mirageThreadFragmentTypeGetTypeID(void) { return wrap(FragmentType::getTypeID()); }
MlirType mirageThreadFragmentTypeGetChecked(MlirLocation location, int64_t rows, int64_t cols,
                                            MlirType elementType, MlirAttribute layout,
                                            bool partial) {
  mlir::Location loc = unwrap(location);
  return wrap(mlir::Type(FragmentType::getChecked(
      errorAt(loc), loc.getContext(), llvm::ArrayRef<int64_t>{rows, cols}, unwrap(elementType),
      mlir::cast<LayoutAttr>(unwrap(layout)), partial)));
}
int64_t mirageThreadFragmentTypeGetRows(MlirType type) { return fragment(type).getRows(); }
int64_t mirageThreadFragmentTypeGetCols(MlirType type) { return fragment(type).getCols(); }
MlirType mirageThreadFragmentTypeGetElementType(MlirType type) {
  return wrap(fragment(type).getElementType());
}
MlirAttribute mirageThreadFragmentTypeGetLayout(MlirType type) {
  return wrap(mlir::Attribute(fragment(type).getLayout()));
}
bool mirageThreadFragmentTypeIsPartial(MlirType type) { return fragment(type).getPartial(); }

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

static SharedType shared(MlirType type) { return mlir::cast<SharedType>(unwrap(type)); }

bool mirageTypeIsAThreadShared(MlirType type) { return mlir::isa<SharedType>(unwrap(type)); }
MlirTypeID mirageThreadSharedTypeGetTypeID(void) { return wrap(SharedType::getTypeID()); }
MlirType mirageThreadSharedTypeGetChecked(MlirLocation location, intptr_t rank,
                                          const int64_t *shape, MlirType elementType,
                                          int64_t swizzle, int64_t pad) {
  mlir::Location loc = unwrap(location);
  return wrap(mlir::Type(SharedType::getChecked(errorAt(loc), loc.getContext(),
                                                llvm::ArrayRef<int64_t>(shape, rank),
                                                unwrap(elementType), swizzle, pad)));
}
intptr_t mirageThreadSharedTypeGetRank(MlirType type) { return shared(type).getShape().size(); }
int64_t mirageThreadSharedTypeGetDim(MlirType type, intptr_t dim) {
  return shared(type).getShape()[dim];
}
MlirType mirageThreadSharedTypeGetElementType(MlirType type) {
  return wrap(shared(type).getElementType());
}
int64_t mirageThreadSharedTypeGetSwizzle(MlirType type) { return shared(type).getSwizzle(); }
int64_t mirageThreadSharedTypeGetPad(MlirType type) { return shared(type).getPad(); }
int64_t mirageThreadSharedTypeGetTotalBytes(MlirType type) { return shared(type).getTotalBytes(); }

//===----------------------------------------------------------------------===//
// Barriers and tensor maps
//===----------------------------------------------------------------------===//

bool mirageTypeIsAThreadMbarrier(MlirType type) { return mlir::isa<MbarrierType>(unwrap(type)); }
MlirTypeID mirageThreadMbarrierTypeGetTypeID(void) { return wrap(MbarrierType::getTypeID()); }
MlirType mirageThreadMbarrierTypeGetChecked(MlirLocation location, int64_t count) {
  mlir::Location loc = unwrap(location);
  return wrap(mlir::Type(MbarrierType::getChecked(errorAt(loc), loc.getContext(), count)));
}
int64_t mirageThreadMbarrierTypeGetCount(MlirType type) {
  return mlir::cast<MbarrierType>(unwrap(type)).getCount();
}

static TensorMapType tensorMap(MlirType type) { return mlir::cast<TensorMapType>(unwrap(type)); }

bool mirageTypeIsAThreadTensorMap(MlirType type) { return mlir::isa<TensorMapType>(unwrap(type)); }
MlirTypeID mirageThreadTensorMapTypeGetTypeID(void) { return wrap(TensorMapType::getTypeID()); }
MlirType mirageThreadTensorMapTypeGetChecked(MlirLocation location, intptr_t rank,
                                             const int64_t *box, MlirType elementType,
                                             int64_t swizzle) {
  mlir::Location loc = unwrap(location);
  return wrap(mlir::Type(TensorMapType::getChecked(errorAt(loc), loc.getContext(),
                                                   llvm::ArrayRef<int64_t>(box, rank),
                                                   unwrap(elementType), swizzle)));
}
intptr_t mirageThreadTensorMapTypeGetRank(MlirType type) { return tensorMap(type).getBox().size(); }
int64_t mirageThreadTensorMapTypeGetDim(MlirType type, intptr_t dim) {
  return tensorMap(type).getBox()[dim];
}
MlirType mirageThreadTensorMapTypeGetElementType(MlirType type) {
  return wrap(tensorMap(type).getElementType());
}
int64_t mirageThreadTensorMapTypeGetSwizzle(MlirType type) { return tensorMap(type).getSwizzle(); }
