"""The metrics of a node, family by family: its cards, the shares on them, slices, and the hook.

Each value has the name and labels of the guides' monitor (HAMi cmd/vGPUmonitor/metrics.go, with its
``--legacy-metrics``), and those of HAMi's present version.
"""
