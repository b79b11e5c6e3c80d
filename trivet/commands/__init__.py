"""Commands of the command line, one function each; heavy modules are imported when needed."""
