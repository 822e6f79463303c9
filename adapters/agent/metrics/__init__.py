"""The vGPU monitor: what ``/metrics`` of the agent says about cards, shares and the hook."""
