//===- ThreadModule.cpp - Python bindings of the thread dialect -----------===//

#include "MirageExtension.h"

#include "mirage-c/Thread.h"

#include <array>
#include <vector>

using namespace mirage::python;

using Vectors = std::vector<std::array<int32_t, 2>>;

static std::vector<int32_t> flatten(const Vectors &vectors) {
  std::vector<int32_t> flat;
  for (auto [row, col] : vectors) {
    flat.push_back(row);
    flat.push_back(col);
  }
  return flat;
}

static Vectors vectorsOf(MlirAttribute layout, MirageLayoutPart part) {
  Vectors vectors(mirageThreadLayoutAttrGetNumVectors(layout, part));
  for (size_t i = 0; i < vectors.size(); ++i)
    mirageThreadLayoutAttrGetVector(layout, part, i, vectors[i].data());
  return vectors;
}

namespace {
struct PyLayoutAttr : mp::PyConcreteAttribute<PyLayoutAttr> {
  static constexpr IsAFunctionTy isaFunction = mirageAttributeIsAThreadLayout;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = mirageThreadLayoutAttrGetTypeID;
  static constexpr const char *pyClassName = "LayoutAttr";
  using PyConcreteAttribute::PyConcreteAttribute;

  static void bindDerived(ClassTy &c) {
    c.def_static(
        "get",
        [](const Vectors &reg, const Vectors &lane, const Vectors &warp,
           std::array<int32_t, 2> repeat, mp::DefaultingPyLocation loc) {
          std::vector<int32_t> flatReg = flatten(reg), flatLane = flatten(lane),
                               flatWarp = flatten(warp);
          MlirAttribute attr = checked(loc, "invalid layout", [&] {
            return mirageThreadLayoutAttrGetChecked(loc, reg.size(), flatReg.data(), lane.size(),
                                                    flatLane.data(), warp.size(), flatWarp.data(),
                                                    repeat.data());
          });
          return PyLayoutAttr(loc->getContext(), attr);
        },
        nb::arg("reg"), nb::arg("lane"), nb::arg("warp") = Vectors{},
        nb::arg("repeat") = std::array<int32_t, 2>{1, 1}, nb::arg("loc") = nb::none(),
        "A layout from basis vectors `(row, column)`, lowest bit first.");
    c.def_prop_ro("reg",
                  [](PyLayoutAttr &self) { return vectorsOf(self, MirageLayoutPartRegister); });
    c.def_prop_ro("lane", [](PyLayoutAttr &self) { return vectorsOf(self, MirageLayoutPartLane); });
    c.def_prop_ro("warp", [](PyLayoutAttr &self) { return vectorsOf(self, MirageLayoutPartWarp); });
    c.def_prop_ro("repeat", [](PyLayoutAttr &self) {
      std::array<int32_t, 2> repeat;
      mirageThreadLayoutAttrGetRepeat(self, repeat.data());
      return repeat;
    });
  }
};

struct PyFragmentType : mp::PyConcreteType<PyFragmentType> {
  static constexpr IsAFunctionTy isaFunction = mirageTypeIsAThreadFragment;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = mirageThreadFragmentTypeGetTypeID;
  static constexpr const char *pyClassName = "FragmentType";
  using PyConcreteType::PyConcreteType;

  static void bindDerived(ClassTy &c) {
    c.def_static(
        "get",
        [](std::array<int64_t, 2> shape, mp::PyType &elementType, PyLayoutAttr &layout,
           bool partial, mp::DefaultingPyLocation loc) {
          MlirType type = checked(loc, "invalid fragment type", [&] {
            return mirageThreadFragmentTypeGetChecked(loc, shape[0], shape[1], elementType, layout,
                                                      partial);
          });
          return PyFragmentType(elementType.getContext(), type);
        },
        nb::arg("shape"), nb::arg("element_type"), nb::arg("layout"), nb::arg("partial") = false,
        nb::arg("loc") = nb::none());
    c.def_prop_ro("shape", [](PyFragmentType &self) -> nb::typed<nb::tuple, int64_t, int64_t> {
      return nb::make_tuple(mirageThreadFragmentTypeGetRows(self),
                            mirageThreadFragmentTypeGetCols(self));
    });
    c.def_prop_ro("element_type", [](PyFragmentType &self) {
      return elementTypeOf(self, mirageThreadFragmentTypeGetElementType);
    });
    c.def_prop_ro("layout", [](PyFragmentType &self) {
      return PyLayoutAttr(self.getContext(), mirageThreadFragmentTypeGetLayout(self));
    });
    c.def_prop_ro("partial",
                  [](PyFragmentType &self) { return mirageThreadFragmentTypeIsPartial(self); });
  }
};

struct PySharedType : mp::PyConcreteType<PySharedType> {
  static constexpr IsAFunctionTy isaFunction = mirageTypeIsAThreadShared;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = mirageThreadSharedTypeGetTypeID;
  static constexpr const char *pyClassName = "SharedType";
  using PyConcreteType::PyConcreteType;

  static void bindDerived(ClassTy &c) {
    c.def_static(
        "get",
        [](std::vector<int64_t> shape, mp::PyType &elementType, int64_t swizzle, int64_t pad,
           mp::DefaultingPyLocation loc) {
          MlirType type = checked(loc, "invalid shared type", [&] {
            return mirageThreadSharedTypeGetChecked(loc, shape.size(), shape.data(), elementType,
                                                    swizzle, pad);
          });
          return PySharedType(elementType.getContext(), type);
        },
        nb::arg("shape"), nb::arg("element_type"), nb::arg("swizzle") = 0, nb::arg("pad") = 0,
        nb::arg("loc") = nb::none(),
        "Shape `(rows, cols)` or `(slots, rows, cols)`, swizzle in bytes, pad in elements.");
    c.def_prop_ro("shape", [](PySharedType &self) {
      return shapeOf(self, mirageThreadSharedTypeGetRank, mirageThreadSharedTypeGetDim);
    });
    c.def_prop_ro("element_type", [](PySharedType &self) {
      return elementTypeOf(self, mirageThreadSharedTypeGetElementType);
    });
    c.def_prop_ro("swizzle",
                  [](PySharedType &self) { return mirageThreadSharedTypeGetSwizzle(self); });
    c.def_prop_ro("pad", [](PySharedType &self) { return mirageThreadSharedTypeGetPad(self); });
    c.def_prop_ro("total_bytes",
                  [](PySharedType &self) { return mirageThreadSharedTypeGetTotalBytes(self); });
  }
};

struct PyMbarrierType : mp::PyConcreteType<PyMbarrierType> {
  static constexpr IsAFunctionTy isaFunction = mirageTypeIsAThreadMbarrier;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = mirageThreadMbarrierTypeGetTypeID;
  static constexpr const char *pyClassName = "MbarrierType";
  using PyConcreteType::PyConcreteType;

  static void bindDerived(ClassTy &c) {
    c.def_static(
        "get",
        [](int64_t count, mp::DefaultingPyLocation loc) {
          MlirType type = checked(loc, "invalid mbarrier type",
                                  [&] { return mirageThreadMbarrierTypeGetChecked(loc, count); });
          return PyMbarrierType(loc->getContext(), type);
        },
        nb::arg("count"), nb::arg("loc") = nb::none());
    c.def_prop_ro("count",
                  [](PyMbarrierType &self) { return mirageThreadMbarrierTypeGetCount(self); });
  }
};

struct PyTensorMapType : mp::PyConcreteType<PyTensorMapType> {
  static constexpr IsAFunctionTy isaFunction = mirageTypeIsAThreadTensorMap;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = mirageThreadTensorMapTypeGetTypeID;
  static constexpr const char *pyClassName = "TensorMapType";
  using PyConcreteType::PyConcreteType;

  static void bindDerived(ClassTy &c) {
    c.def_static(
        "get",
        [](std::vector<int64_t> box, mp::PyType &elementType, int64_t swizzle,
           mp::DefaultingPyLocation loc) {
          MlirType type = checked(loc, "invalid tensor map type", [&] {
            return mirageThreadTensorMapTypeGetChecked(loc, box.size(), box.data(), elementType,
                                                       swizzle);
          });
          return PyTensorMapType(elementType.getContext(), type);
        },
        nb::arg("box"), nb::arg("element_type"), nb::arg("swizzle") = 0,
        nb::arg("loc") = nb::none());
    c.def_prop_ro("box", [](PyTensorMapType &self) {
      return shapeOf(self, mirageThreadTensorMapTypeGetRank, mirageThreadTensorMapTypeGetDim);
    });
    c.def_prop_ro("element_type", [](PyTensorMapType &self) {
      return elementTypeOf(self, mirageThreadTensorMapTypeGetElementType);
    });
    c.def_prop_ro("swizzle",
                  [](PyTensorMapType &self) { return mirageThreadTensorMapTypeGetSwizzle(self); });
  }
};
} // namespace

void mirage::python::bindThread(nb::module_ &module) {
  PyLayoutAttr::bind(module);
  PyFragmentType::bind(module);
  PySharedType::bind(module);
  PyMbarrierType::bind(module);
  PyTensorMapType::bind(module);
}
