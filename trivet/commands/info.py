"""``trivet info``: facts and scores of a bundle."""

from __future__ import annotations

from trivet.commands.options import BundleOption, options


@options
def info(bundle: BundleOption = None) -> None:
    """Check the files of a bundle and show its facts and scores."""
    from trivet.backends.device import describe_devices
    from trivet.bundle.bundle import read_bundle
    from trivet.bundle.hub import EMBEDDED_BUNDLE
    from trivet.report import terminal
    from trivet.report.bundle_facts import render_info

    found = read_bundle(bundle or EMBEDDED_BUNDLE)
    terminal.show(render_info(found.info, str(found.folder), describe_devices(), found.revision))
