"""What is told of a node, family by family: its cards, the shares of them, slices, and the hook.

Names and labels as the guides' monitor has them (HAMi cmd/vGPUmonitor/metrics.go, with its
``--legacy-metrics``), and beside them the names of today's version of it.
"""
