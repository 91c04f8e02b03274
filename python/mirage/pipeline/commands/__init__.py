"""Commands on programs other than optimizing them."""
