"""QuotaLimits of namespaces: what counts against them, and who may have how much. Pure values."""
