"""NVIDIA's own device plugin: whole cards by ``nvidia.com/gpu``, shared cards and MIG devices.

It describes no cards and writes no record: whole cards are those that another dialect describes.
"""
