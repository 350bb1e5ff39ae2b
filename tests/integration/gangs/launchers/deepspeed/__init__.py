"""As much of DeepSpeed as the launcher imports."""

__version__ = "0.19.8"
