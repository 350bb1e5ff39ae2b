"""Lists of experiments and runs, as pages show them: filters that people write, columns of their choice."""
