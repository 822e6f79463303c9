"""The one answer to "why does this pod wait, and where does it fit?", from values. No I/O.

The command, the HTTP and gRPC interfaces and the dashboard all give it; none of them adds a rule.
"""
