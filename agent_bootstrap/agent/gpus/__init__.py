"""The GPUs of a machine: found, chosen, named.

NVIDIA's by NVML, AMD's by the tools of ROCm; `selection` says which of them are offered.
"""
