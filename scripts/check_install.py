"""Installs the package as a user would, in clean environments, and prints a table.

    python -m scripts.check_install                  # everything; minutes
    python -m scripts.check_install --extras plots   # the core and one extra
    python -m scripts.check_install --out results/install   # keep table and versions

Builds sdist and wheel (the wheel from the sdist), looks for the files that must be in
it, installs it without extras, imports it, runs `nopg demo --fast`, and asks for every
optional feature to see its sentence. Then each extra is added to a copy of that
environment, in which its first uses must work.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from scripts.first_uses import FIRST_USES, TOOLS, FirstUse

ROOT = Path(__file__).resolve().parents[1]
MUST_CONTAIN = (
    "nopg/py.typed",
    "nopg/record/assets/index.html",
    "nopg/record/assets/recorder.js",
    "nopg/record/assets/style.css",
)


@dataclass
class Table:
    """What was tried and how it went, printed line by line."""

    lines: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def line(self, *cells: str) -> None:
        """Print a line, and keep it."""
        self.lines.append("| " + " | ".join(cells) + " |")
        print(self.lines[-1], flush=True)

    def row(self, where: str, what: str, check: Callable[[], str]) -> None:
        """Run one check; its text, or the error, is the last column."""
        began = time.monotonic()
        try:
            said, mark = check(), "ok"
        except Exception as error:  # whatever is wrong belongs into the table
            said, mark = f"{type(error).__name__}: {error}"[-600:], "FAILED"
            self.failures.append(f"{where}: {what}")
        seconds = time.monotonic() - began
        self.line(where, what, mark, f"{seconds:.0f} s", said)


class Environment:
    """A fresh virtual environment, or a copy of one, with the wheel in it."""

    def __init__(self, folder: Path, like: Environment | None = None) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        if like is None:
            venv.create(folder, with_pip=True)
        else:
            # Links, not copies: pip replaces files, it never writes into them.
            shutil.copytree(like.folder, folder, symlinks=True, copy_function=os.link)

    def install(self, wheel: Path, extra: str = "") -> str:
        """Install, and let pip say whether everything fits together."""
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        pip = [self.python, "-m", "pip"]
        run(*pip, "install", "-q", "-c", ROOT / "constraints.txt", wanted)
        run(*pip, "check")
        return f"{len(self.versions().splitlines())} packages, pip check is content"

    def versions(self) -> str:
        """Every package but this one and pip's own, with its exact version."""
        listed = run(self.python, "-m", "pip", "list", "--format=freeze").splitlines()
        ours = ("nopg==", "pip==", "setuptools==")
        return "".join(f"{line}\n" for line in listed if not line.startswith(ours))

    def first_use(self, use: FirstUse) -> str:
        """Run a program of the table; it must end well."""
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "first_use.py"
            program.write_text(use.program)
            run(self.python, program.name, cwd=folder, env=_surroundings(use))
        return "works"

    def sentence(self, use: FirstUse) -> str:
        """Run it where its extra is missing; the error must name the extra."""
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "first_use.py"
            program.write_text(use.program)
            done = subprocess.run(
                [self.python, program.name],
                cwd=folder,
                env=_surroundings(use),
                capture_output=True,
                text=True,
                check=False,
            )
        last = done.stderr.strip().splitlines()[-1] if done.returncode else "works"
        if f'"nopg[{use.extra}]"' not in last:
            raise AssertionError(f"no sentence names the extra: {last}")
        return last.split(": ", 1)[-1]


def _surroundings(use: FirstUse) -> dict[str, str]:
    """Variables of a first use: the experiments are in the clone, not in the wheel."""
    is_in_clone = "reproduction" in use.program
    return dict(os.environ) | ({"PYTHONPATH": str(ROOT)} if is_in_clone else {})


def run(*words: object, cwd: Path | str | None = None, env: dict[str, str] | None = None) -> str:
    """A command's output; its error output is the message if it fails."""
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(" ".join(done.stderr.split()) or f"exit {done.returncode}")
    return done.stdout


def built(folder: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel made from it."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def wheel_contents(wheel: Path) -> str:
    """Every file of the package is in the wheel, and nothing else."""
    names = {n for n in zipfile.ZipFile(wheel).namelist() if n.startswith("nopg/")}
    missing = [name for name in MUST_CONTAIN if name not in names]
    tracked = run("git", "ls-files", "src", cwd=ROOT).splitlines()
    wanted = {name.removeprefix("src/") for name in tracked} | set(MUST_CONTAIN)
    if missing or names != wanted:
        raise AssertionError(f"differs in {sorted(names ^ wanted)[:5]}, lacks {missing}")
    return f"{len(names)} files, {wheel.stat().st_size / 1e3:.0f} kB"


def sdist_contents(sdist: Path) -> str:
    """Source, tests, docs and licence are in the sdist."""
    with tarfile.open(sdist) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
    for wanted in ("LICENSE", "README.md", "tests/test_package.py", "docs/start.md"):
        if wanted not in names:
            raise AssertionError(f"lacks {wanted}")
    return f"{len(names)} files, {sdist.stat().st_size / 1e3:.0f} kB"


def demo(environment: Environment, folder: Path, *options: str) -> str:
    """`nopg demo` in an empty folder; the measured return of its policy."""
    folder.mkdir()
    printed = run(environment.folder / "bin" / "nopg", "demo", *options, cwd=folder)
    score = re.search(r"this policy +(-\d+)", printed)
    assert score is not None
    drawn = re.search(r"No pictures: .*", printed)
    return f"return {score[1]}" + (f"; {drawn[0]}" if drawn else "")


def imported(environment: Environment) -> str:
    """Seconds and version of a bare import."""
    code = "import nopg; print(nopg.__version__)"
    return f"version {run(environment.python, '-c', code).strip()}"


def main() -> int:
    """Check everything, print the table, and say how many checks failed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [name for name in project["optional-dependencies"] if name not in TOOLS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extras", default=",".join(extras), help="only these")
    parser.add_argument("--out", type=Path, help="folder for table and versions")
    options = parser.parse_args()
    chosen = [name for name in options.extras.split(",") if name]
    table = Table()
    table.line("where", "what", "", "time", "")
    table.line(*["---"] * 5)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        sdist, wheel = built(work / "dist")
        table.row("sdist", sdist.name, lambda: sdist_contents(sdist))
        table.row("wheel", wheel.name, lambda: wheel_contents(wheel))
        core = Environment(work / "core")
        table.row("core", "pip install", lambda: core.install(wheel))
        table.row("core", "import nopg", lambda: imported(core))
        table.row("core", "nopg demo --fast", lambda: demo(core, work / "a", "--fast"))
        few = ("--updates", "20")
        table.row("core", "nopg demo", lambda: demo(core, work / "b", *few))
        versions = core.versions()
        for use in FIRST_USES:
            table.row("core", use.feature, lambda use=use: core.sentence(use))  # type: ignore[misc]
        for extra in chosen:
            there = Environment(work / extra, like=core)
            table.row(extra, "pip install", lambda: there.install(wheel, extra))  # noqa: B023
            for use in (use for use in FIRST_USES if use.extra == extra):
                table.row(extra, use.feature, lambda: there.first_use(use))  # noqa: B023
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        text = "# The package in clean environments\n\n" + "\n".join(table.lines)
        (options.out / "check.md").write_text(text + "\n")
        (options.out / "core.txt").write_text(versions)
    print(f"\n{len(table.failures)} failed. " + "; ".join(table.failures))
    return min(len(table.failures), 1)


if __name__ == "__main__":
    sys.exit(main())
