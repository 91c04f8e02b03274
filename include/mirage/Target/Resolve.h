//===- Resolve.h - chips that options of passes name ------------*- C++ -*-===//

#ifndef MIRAGE_TARGET_RESOLVE_H
#define MIRAGE_TARGET_RESOLVE_H

#include "mirage/Target/Chip.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/LogicalResult.h"

namespace mirage {

/// The chip that an option of a pass names; if there is no such chip, an error at `loc` lists the
/// known ones.
inline llvm::FailureOr<const Chip *> getChip(mlir::Location loc, llvm::StringRef name) {
  if (const Chip *chip = Chip::find(name))
    return chip;
  return mlir::emitError(loc) << "expected " << describeKnownChips() << ", got '" << name << "'";
}

} // namespace mirage

#endif // MIRAGE_TARGET_RESOLVE_H
