"""Report pages and plots, which load nothing from other hosts."""
