//===- Chip.cpp - what a GPU can do and how much it has -------------------===//

#include "mirage/Dialect/Block/Transforms/Chip.h"

#include "mlir/IR/Diagnostics.h"

using namespace mirage;

// Source: CUDA C++ Programming Guide, "Compute Capabilities", table of
// technical specifications (shared memory of a block, 1 KB of which the system
// keeps).
static const Chip chips[] = {
    // name     shared      threads registers cp.async  TMA   wgmma
    {"sm_80", 163 * 1024, 1024, 255, true, false, false},
    {"sm_86", 99 * 1024, 1024, 255, true, false, false},
    {"sm_89", 99 * 1024, 1024, 255, true, false, false},
    {"sm_90", 227 * 1024, 1024, 255, true, true, false},
    {"sm_90a", 227 * 1024, 1024, 255, true, true, true},
};

const Chip *Chip::find(llvm::StringRef name) {
  for (const Chip &chip : chips)
    if (chip.name == name)
      return &chip;
  return nullptr;
}

llvm::FailureOr<const Chip *> Chip::get(mlir::Location loc, llvm::StringRef name) {
  if (const Chip *chip = find(name))
    return chip;
  mlir::InFlightDiagnostic diag = mlir::emitError(loc) << "expected a known chip (";
  llvm::interleaveComma(chips, diag, [&](const Chip &chip) { diag << chip.name; });
  return diag << "), got '" << name << "'";
}
