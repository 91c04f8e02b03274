//===- Needs.h - what an op asks of the chip --------------------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_NEEDS_H
#define MIRAGE_DIALECT_THREAD_IR_NEEDS_H

#include "mirage/Target/Chip.h"

#include "mlir/IR/OpDefinition.h"

#include <optional>

namespace mirage::thread {

/// Trait of ops whose instructions only chips with an ability have
/// (`Thread_Needs` in ODS).
template <Ability ability> struct Needs {
  template <typename ConcreteOp> class Impl : public mlir::OpTrait::TraitBase<ConcreteOp, Impl> {};
};

/// The ability that an op needs, or nullopt if every chip of the table runs it.
std::optional<Ability> getNeed(mlir::Operation *op);

} // namespace mirage::thread

#endif // MIRAGE_DIALECT_THREAD_IR_NEEDS_H
