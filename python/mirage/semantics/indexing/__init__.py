"""The places of elements: indices, strides, and the source elements of views."""
