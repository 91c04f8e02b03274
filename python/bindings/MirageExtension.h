//===- MirageExtension.h - parts of the extension module --------*- C++ -*-===//

#ifndef MIRAGE_PYTHON_BINDINGS_MIRAGEEXTENSION_H
#define MIRAGE_PYTHON_BINDINGS_MIRAGEEXTENSION_H

#include "mlir/Bindings/Python/IRCore.h"
#include "mlir/Bindings/Python/IRTypes.h"
#include "mlir/Bindings/Python/Nanobind.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

// What the casters of arguments and results need.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace mirage::python {

namespace nb = nanobind;
namespace mp = mlir::python::MLIR_BINDINGS_PYTHON_DOMAIN;

void bindKernel(nb::module_ &module);
void bindBlock(nb::module_ &module);
void bindThread(nb::module_ &module);

/// Calls `make` and turns its null result into a Python MLIRError with the
/// diagnostics that it emitted.
template <typename Make>
auto checked(mp::DefaultingPyLocation &location, const char *what, Make make) {
  mp::PyMlirContext::ErrorCapture errors(location->getContext());
  auto result = make();
  if (!result.ptr)
    throw mp::MLIRError(what, errors.take());
  return result;
}

/// The shape of a type with C functions for its rank and extents.
inline nb::typed<nb::tuple, int64_t, nb::ellipsis>
shapeOf(MlirType type, intptr_t (*rank)(MlirType), int64_t (*dim)(MlirType, intptr_t)) {
  nb::list shape;
  for (intptr_t i = 0, e = rank(type); i < e; ++i)
    shape.append(dim(type, i));
  return nb::tuple(shape);
}

inline auto elementTypeOf(mp::PyType &type, MlirType (*get)(MlirType)) {
  return mp::PyType(type.getContext(), get(type)).maybeDownCast();
}

} // namespace mirage::python

#endif // MIRAGE_PYTHON_BINDINGS_MIRAGEEXTENSION_H
