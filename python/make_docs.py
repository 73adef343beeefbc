"""Writes the documentation of the installed package as HTML: make_docs.py DIRECTORY.

The pages contain the docstrings. The examples in them are tests of the package.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROLE = re.compile(r":(?:attr|class|func|meth):`~?\.?([^`]+)`")


def main(directory: Path) -> int:
    """Writes the pages, and fails if a public name is missing."""
    # Imported here because mypy does not know pdoc.
    import pdoc
    import pdoc.docstrings

    import weirlab

    google = pdoc.docstrings.google

    def convert(docstring: str, *_: Any) -> str:
        # Names in backquotes become links.
        return google(ROLE.sub(r"`\1`", docstring).replace("``", "`"))

    pdoc.docstrings.google = convert
    pdoc.render.configure(
        docformat="google",
        footer_text=f"weirlab {weirlab.__version__}",
        search=True,
        show_source=False,
    )
    pdoc.pdoc("weirlab", "!weirlab._", output_directory=directory)
    page = (directory / "weirlab.html").read_text(encoding="utf-8")
    missing = [
        name
        for name in weirlab.__all__
        if f'id="{name}"' not in page and not (directory / "weirlab" / f"{name}.html").exists()
    ]
    if missing:
        print(f"{directory}: undocumented: {', '.join(missing)}", file=sys.stderr)
        return 1
    print(directory / "weirlab.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
