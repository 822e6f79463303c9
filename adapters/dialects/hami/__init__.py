"""HAMi on NVIDIA cards: ``nvidia.com/gpu`` with ``nvidia.com/gpumem``, ``gpucores`` and the like.

Facts come from Project-HAMi/HAMi v2.10 (branch release-v2.10, commit 4707fb02). Paths without a
repository are in it; ``nvidia/`` stands for ``pkg/device/nvidia/``.
"""
