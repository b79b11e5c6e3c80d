"""Backends run the graph: `Windows` in, `Outputs` out, arrays only."""
