"""The time of a program without a search: each op is a kernel, or groups of ops between products
are."""

from __future__ import annotations

import pytest
from example_programs.search_programs import graph, tensor
from mirage.cost import H200
from mirage.cost.copy_kernels import unfused_report
from mirage.cost.fused_ops import fused, op_by_op
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, UnaryFn


def test_each_op_is_a_kernel() -> None:
    x, b = tensor("x", 1024, 1024), Builder()
    y = b.unary(UnaryFn.EXP, x)
    z = b.unary(UnaryFn.SIN, y)
    program = graph("two", (x,), b, z)
    found = op_by_op(program, H200)
    one = unfused_report(program.ops[0], H200)
    assert found.launches == 2
    assert found.time == pytest.approx(2 * one.time + H200.combine)


def test_elementwise_ops_are_one_kernel_that_reads_and_writes_once() -> None:
    x, b = tensor("x", 4096, 4096), Builder()
    y = b.unary(UnaryFn.EXP, x)
    z = b.binary(BinaryFn.ADD, b.unary(UnaryFn.SIN, x), y)
    found = fused(graph("three", (x,), b, z), H200)
    assert found.launches == 1
    assert found.bytes_read == x.type.bytes
    assert found.bytes_written == z.type.bytes
    both = fused(graph("kept", (x,), b, z, y), H200)  # a result that is used is written, too
    assert both.bytes_written == 2 * z.type.bytes


def test_products_are_kernels_of_their_own() -> None:
    x, w, b = tensor("x", 16, 64), tensor("w", 64, 64), Builder()
    before = b.unary(UnaryFn.EXP, x)
    product = b.matmul(before, w)
    after = b.unary(UnaryFn.SIN, product)
    both = b.binary(BinaryFn.ADD, after, b.unary(UnaryFn.SIN, before))
    found = fused(graph("product", (x, w), b, both), H200)
    # the ops before the product with their sine, the product, the ops after it
    assert found.launches == 3
    assert op_by_op(graph("product", (x, w), b, both), H200).launches == 5


def test_a_program_of_views_takes_no_time() -> None:
    x, b = tensor("x", 4, 6), Builder()
    program = graph("view", (x,), b, b.reshape(x, (6, 4)))
    assert op_by_op(program, H200).time == fused(program, H200).time == 0.0
