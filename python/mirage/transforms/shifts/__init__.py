"""Which factors ``exp(m)`` values carry: the analysis behind the online maximum."""
