"""What Python computes for each line that `examples/reference` prints, by name."""
