"""The commands of the command line, one thin function each; each loads what it needs."""
