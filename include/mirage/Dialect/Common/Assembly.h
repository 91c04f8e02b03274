//===- Assembly.h - custom assembly shared by all dialects ------*- C++ -*-===//
//
// Parsers and printers behind the `custom<…>` directives of the ODS files.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_COMMON_ASSEMBLY_H
#define MIRAGE_DIALECT_COMMON_ASSEMBLY_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

namespace mirage {

/// `[n = 128, s = 4]`: names and extents of axes.
mlir::ParseResult parseAxes(mlir::OpAsmParser &parser, mlir::ArrayAttr &names,
                            mlir::DenseI64ArrayAttr &extents);
void printAxes(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr names,
               mlir::DenseI64ArrayAttr extents);

/// `[k = 64]`: one axis.
mlir::ParseResult parseAxis(mlir::OpAsmParser &parser, mlir::StringAttr &name,
                            mlir::IntegerAttr &extent);
void printAxis(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::StringAttr name,
               mlir::IntegerAttr extent);

/// `[s, k]`: names of axes.
mlir::ParseResult parseAxisNames(mlir::OpAsmParser &parser, mlir::ArrayAttr &names);
void printAxisNames(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr names);

/// `[[], [s, k]]`: for each dimension the axes that split it.
mlir::ParseResult parseMap(mlir::OpAsmParser &parser, mlir::ArrayAttr &map);
void printMap(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr map);

/// A double, printed without a type; `inf`, `-inf` and `nan` are keywords.
mlir::ParseResult parseFloat(mlir::OpAsmParser &parser, mlir::FloatAttr &value);
void printFloat(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::FloatAttr value);

} // namespace mirage

#endif // MIRAGE_DIALECT_COMMON_ASSEMBLY_H
