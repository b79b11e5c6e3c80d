"""``trivet info``: what a bundle is."""

from __future__ import annotations

from trivet.commands.shared import BundleOption


def info(bundle: BundleOption = None) -> None:
    """Show what a bundle is, and how it scored. Checks its files, loads no engine."""
    from trivet.backends.loading import EMBEDDED_BUNDLE
    from trivet.bundle.bundle import read_bundle
    from trivet.commands.bundle_summary import render_info
    from trivet.report import terminal

    found = read_bundle(bundle or EMBEDDED_BUNDLE)
    terminal.show(render_info(found.info, str(found.folder)))
