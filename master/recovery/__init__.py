"""Whether a data folder and its database are whole and belong together; copies of them, and back."""
