"""Programs as expressions over named axes, and their normal forms."""
