"""The dialect of MetaX cards under HAMi: ``metax-tech.com/sgpu`` and ``metax-tech.com/gpu``.

Sources, unless stated otherwise: Project-HAMi/HAMi v2.10.0; MetaX sGPU manual, chapter 7.3.
"""
