//===- BlockModule.cpp - Python bindings of the block dialect -------------===//

#include "MirageExtension.h"

#include "mirage-c/Block.h"

#include <optional>
#include <vector>

using namespace mirage::python;

namespace {
struct PyTileType : mp::PyConcreteType<PyTileType> {
  static constexpr IsAFunctionTy isaFunction = mirageTypeIsABlockTile;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = mirageBlockTileTypeGetTypeID;
  static constexpr const char *pyClassName = "TileType";
  using PyConcreteType::PyConcreteType;

  static void bindDerived(ClassTy &c) {
    c.def_static(
        "get",
        [](std::vector<int64_t> shape, mp::PyType &elementType,
           std::optional<mp::PyAttribute> layout, mp::DefaultingPyLocation loc) {
          MlirType type = checked(loc, "invalid tile type", [&] {
            return mirageBlockTileTypeGetChecked(loc, shape.size(), shape.data(), elementType,
                                                 layout ? layout->get() : mlirAttributeGetNull());
          });
          return PyTileType(elementType.getContext(), type);
        },
        nb::arg("shape"), nb::arg("element_type"), nb::arg("layout") = nb::none(),
        nb::arg("loc") = nb::none());
    c.def_prop_ro("shape", [](PyTileType &self) {
      return shapeOf(self, mirageBlockTileTypeGetRank, mirageBlockTileTypeGetDim);
    });
    c.def_prop_ro("element_type", [](PyTileType &self) {
      return elementTypeOf(self, mirageBlockTileTypeGetElementType);
    });
    c.def_prop_ro("layout",
                  [](PyTileType &self) -> std::optional<nb::typed<nb::object, mp::PyAttribute>> {
                    MlirAttribute layout = mirageBlockTileTypeGetLayout(self);
                    if (!layout.ptr)
                      return std::nullopt;
                    return mp::PyAttribute(self.getContext(), layout).maybeDownCast();
                  });
    c.def_prop_ro(
        "size_in_bytes", [](PyTileType &self) { return mirageBlockTileTypeGetSizeInBytes(self); },
        "Bytes when stored densely.");
  }
};
} // namespace

void mirage::python::bindBlock(nb::module_ &module) { PyTileType::bind(module); }
