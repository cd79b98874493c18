"""Programs around an exported header, compiled as strictly as a user may want."""

from __future__ import annotations

import subprocess
from pathlib import Path

STRICT = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"]


def printed_by(body: str, header: Path, *flags: str) -> list[list[float]]:
    """Lines of numbers that a C program prints; `body` is what `main` does."""
    source, binary = header.with_suffix(".test.c"), header.with_suffix(".bin")
    source.write_text(
        f'#include <stdio.h>\n#include "{header.name}"\nint main(void) {{\n{body}\nreturn 0;\n}}\n'
    )
    command = ["cc", *STRICT, *flags, source.name, "-o", binary.name, "-lm"]
    subprocess.run(command, cwd=header.parent, check=True)
    told = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
    return [[float(word) for word in line.split()] for line in told.splitlines()]
