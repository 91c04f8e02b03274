"""What a kernel computes, and the tensors that it reads: growth, views and copies of them."""
