"""``trivet info``: what a bundle is."""

from __future__ import annotations

from trivet.commands.shared import BundleOption


def info(bundle: BundleOption = None) -> None:
    """Show what a bundle is, and how it scored. Checks its files, loads no engine."""
    from trivet.model.bundle import read_bundle
    from trivet.serve import console
    from trivet.serve.loading import DEFAULT_BUNDLE
    from trivet.serve.terminal import render_info

    found = read_bundle(bundle or DEFAULT_BUNDLE)
    console.show(render_info(found.info, str(found.folder)))
