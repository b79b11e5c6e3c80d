"""The inference encoders that export traces."""
