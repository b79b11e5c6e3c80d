"""Rows of a spreadsheet: the first sheet, a header, then one row per record."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from typing import IO

from trivet.data.files.json_lines import Row
from trivet.errors import DataError, install_line


def needs_openpyxl() -> None:
    """Raise ``DataError`` if the package for spreadsheets is missing."""
    try:
        import openpyxl  # noqa: F401
    except ImportError as error:
        raise DataError(f".xlsx needs openpyxl; {install_line('xlsx')}") from error


def read_xlsx(file: IO[bytes]) -> Iterator[Row]:
    """Yield the rows of the first sheet with their numbers in it; empty rows are skipped.

    Formulas have the values that were saved with them.

    Raises:
        DataError: ``openpyxl`` is not installed, or the sheet has merged cells.
        ValueError: The file is damaged, or not .xlsx.
    """
    needs_openpyxl()
    import openpyxl

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about parts of a file that hold no cells
            book = openpyxl.load_workbook(io.BytesIO(file.read()), data_only=True)
    except Exception as error:  # the library raises errors of zip, XML and many of its own
        raise ValueError(f"not a spreadsheet in .xlsx that can be read ({error})") from error
    sheet = book.worksheets[0]
    if merged := [str(each) for each in sheet.merged_cells.ranges]:
        more = f" and {len(merged) - 1} more" if len(merged) > 1 else ""
        raise DataError(
            f"sheet {sheet.title!r} has merged cells ({merged[0]}{more}), which leave rows without "
            "values; unmerge them and fill in every row"
        )
    header: list[str] = []
    for number, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
        if all(cell is None for cell in cells):
            continue
        if not header:
            header = ["" if cell is None else str(cell).strip() for cell in cells]
            continue
        pairs = zip(header, cells, strict=False)
        yield number, [(name, cell) for name, cell in pairs if name or cell is not None]
