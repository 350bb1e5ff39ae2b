"""What a task does to see its GPUs by itself: by their device nodes, nvidia-smi, the driver, and a kernel that runs.

Prints one JSON object. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

COUNT = 256
PTX = rb"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry count(.param .u64 to)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [to];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}
"""


def main() -> None:
    nodes = [path.name for path in Path("/dev").glob("nvidia[0-9]*")]
    said = {"nodes": sorted(nodes), "smi": smi(), "uuids": [], "kernels": 0}
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        check(cuda, cuda.cuInit(0))
    except OSError as error:
        said["driver"] = str(error)
    else:
        said["uuids"] = uuids(cuda)
        said["kernels"] = sum(runs(cuda, device) for device in range(len(said["uuids"])))
    print("SAID " + json.dumps(said))


def smi() -> list[str]:
    query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else []


def check(cuda: ctypes.CDLL, code: int) -> None:
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(text))
        raise OSError(code, (text.value or b"?").decode())


def uuids(cuda: ctypes.CDLL) -> list[str]:
    count = ctypes.c_int()
    check(cuda, cuda.cuDeviceGetCount(ctypes.byref(count)))
    found = []
    for number in range(count.value):
        raw = (ctypes.c_ubyte * 16)()
        check(cuda, cuda.cuDeviceGetUuid(raw, number))
        text = bytes(raw).hex()
        parts = (text[:8], text[8:12], text[12:16], text[16:20], text[20:])
        found.append("GPU-" + "-".join(parts))
    return found


def runs(cuda: ctypes.CDLL, device: int) -> bool:
    """Whether a kernel of ours computes what it should there."""
    context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    memory = ctypes.c_uint64()
    check(cuda, cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda, cuda.cuCtxSetCurrent(context))
    check(cuda, cuda.cuModuleLoadData(ctypes.byref(module), PTX))
    check(cuda, cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"count"))
    check(cuda, cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4 * COUNT)))
    given = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(memory), ctypes.c_void_p))
    check(cuda, cuda.cuLaunchKernel(kernel, 1, 1, 1, COUNT, 1, 1, 0, None, given, None))
    result = (ctypes.c_uint32 * COUNT)()
    check(cuda, cuda.cuMemcpyDtoH_v2(result, memory, ctypes.c_size_t(4 * COUNT)))
    return list(result) == list(range(COUNT))


if __name__ == "__main__":
    sys.exit(main())
