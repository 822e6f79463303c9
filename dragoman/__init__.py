"""What the installed programs run first; it makes sure that ``core`` and ``adapters`` are ours.

A wheel has both in ``dragoman/lib``, where no other distribution writes. In a checkout they are
beside this folder, and path equals import.
"""
