"""Stand-ins at the edges: recorders, proxies that break connections, captured bodies."""
