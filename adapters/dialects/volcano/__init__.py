"""Volcano: ``volcano.sh/vgpu-*`` on NVIDIA cards, shared by HAMi-core or partitioned by MIG.

Facts come from volcano-sh/volcano (master after v1.15) and its vGPU device plugin,
Project-HAMi/volcano-vgpu-device-plugin (v1.12).
"""
