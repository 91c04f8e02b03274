"""The factors ``exp(m)`` that values carry: the analysis behind the online maximum."""
