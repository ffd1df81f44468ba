"""Flow tasks: the catalog of flows, and the driver that executes claimed tasks."""
