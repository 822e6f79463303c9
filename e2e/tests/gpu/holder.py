"""A process with memory on a card: ``holder.py UUID BYTES``; prints the bytes, ends with its input.

It uses the driver alone (libcuda), so that no CUDA toolkit is needed.
"""

import ctypes
import os
import sys


def main() -> None:
    """Allocate, report, and wait."""
    uuid, size = sys.argv[1], int(sys.argv[2])
    os.environ["CUDA_VISIBLE_DEVICES"] = uuid
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, place = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    steps = (
        ("cuInit", 0),
        ("cuDeviceGet", ctypes.byref(device), 0),
        ("cuDevicePrimaryCtxRetain", ctypes.byref(context), device),
        ("cuCtxSetCurrent", context),
        ("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total)),
        ("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size)),
    )
    for name, *words in steps:
        status = getattr(cuda, name)(*words)
        if status:
            raise SystemExit(f"{name}: {status}")
    print(total.value, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
