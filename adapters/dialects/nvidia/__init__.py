"""NVIDIA's own device plugin: whole cards by ``nvidia.com/gpu``, shared cards and MIG devices.

It reads no description of cards and writes no record of its own: whole cards are those that another
dialect or our agent describes.
"""
