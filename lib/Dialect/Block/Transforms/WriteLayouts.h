//===- WriteLayouts.h - a choice of layouts in a launch ---------*- C++ -*-===//

#ifndef MIRAGE_LIB_DIALECT_BLOCK_TRANSFORMS_WRITELAYOUTS_H
#define MIRAGE_LIB_DIALECT_BLOCK_TRANSFORMS_WRITELAYOUTS_H

#include "mirage/Dialect/Block/Analysis/LayoutModel.h"

namespace mirage::block {

/// Writes the `choices` of a model into the types of a launch, and returns the number of changes of
/// layout that it needs.
int64_t writeLayouts(kernel::LaunchOp launch, const LayoutModel &model,
                     const PaddingAnalysis &padding, llvm::ArrayRef<size_t> choices,
                     const ValueSet &staged, int64_t numWarps);

} // namespace mirage::block

#endif // MIRAGE_LIB_DIALECT_BLOCK_TRANSFORMS_WRITELAYOUTS_H
