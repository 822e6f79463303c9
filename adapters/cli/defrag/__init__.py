"""Which pods to move so that others fit: the plan, and its forms. Nothing is moved."""
