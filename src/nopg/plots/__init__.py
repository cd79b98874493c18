"""Pictures: the only place that imports a plotting library."""
