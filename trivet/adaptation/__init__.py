"""Parts of ``trivet adapt``: the split by document, and the comparison before and after."""
