"""A local page in which a person accepts or corrects labels: ``trivet review``."""
