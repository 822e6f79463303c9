"""What a container gets of this node's cards: devices, environment, mounts."""
