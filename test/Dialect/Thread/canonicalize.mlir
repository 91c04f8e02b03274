// RUN: mirage-opt %s --canonicalize | FileCheck %s

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#blocked = #thread.layout<reg = [[0, 1], [0, 2]], lane = [[0, 4], [1, 0], [2, 0], [4, 0], [8, 0]]>

// Conversions to the same layout are removed, and so are unused values.
// CHECK-LABEL: func.func @identities
// CHECK-SAME:    %[[X:.*]]: !thread.fragment
// CHECK-NEXT:    return %[[X]]
func.func @identities(%x: !thread.fragment<16x8xf32, #acc>) -> !thread.fragment<16x8xf32, #acc> {
  %a = thread.cast %x : !thread.fragment<16x8xf32, #acc> -> !thread.fragment<16x8xf32, #acc>
  %b = thread.convert_layout %a {scratch = 0 : i64} : !thread.fragment<16x8xf32, #acc> -> !thread.fragment<16x8xf32, #acc>
  %unused = thread.unary exp %b : !thread.fragment<16x8xf32, #acc>
  return %b : !thread.fragment<16x8xf32, #acc>
}

// Converting back does not undo a rounding, and an exchange through scratch memory stays.
// CHECK-LABEL: func.func @kept
func.func @kept(%x: !thread.fragment<16x8xf32, #acc>) -> (!thread.fragment<16x8xf32, #acc>, !thread.fragment<16x8xf32, #blocked>) {
  // CHECK:      %[[H:.*]] = thread.cast %{{.*}} -> <16x8xf16
  // CHECK-NEXT: %[[R:.*]] = thread.cast %[[H]]
  // CHECK-NEXT: %[[C:.*]] = thread.convert_layout %{{.*}} {scratch = 0 : i64}
  // CHECK-NEXT: return %[[R]], %[[C]]
  %h = thread.cast %x : !thread.fragment<16x8xf32, #acc> -> !thread.fragment<16x8xf16, #acc>
  %r = thread.cast %h : !thread.fragment<16x8xf16, #acc> -> !thread.fragment<16x8xf32, #acc>
  %c = thread.convert_layout %x {scratch = 0 : i64} : !thread.fragment<16x8xf32, #acc> -> !thread.fragment<16x8xf32, #blocked>
  return %r, %c : !thread.fragment<16x8xf32, #acc>, !thread.fragment<16x8xf32, #blocked>
}
